//! What it costs to delete a row of many parts.
//!
//! A row is loaded, and everything is merged. Then the row is deleted, while its log and a reader are watched, and
//! everything is merged once more. Then other rows come, whose parts lie on both sides of the deleted ones, until
//! everything is merged again. Another run does the same and leaves the row alone: there the merges of the other rows
//! carry the row's parts along, which shows what the deletion has saved, or cost.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use weir_io::Rng;

use super::fill::finish;
use super::{Progress, Size};
use crate::contestant::{Contestant, Rows};
use crate::data::{self, Values};
use crate::meter::{Account, Stopwatch};
use crate::outcome::{Deletion, Outcome};
use crate::{Failure, Result};

/// The row; the names of other rows sort before and after it.
const ROW: &[u8] = b"m";

/// Parts of one write.
const PARTS_PER_WRITE: usize = 100;

/// The row has this many times as many parts as all others together.
const PARTS_PER_OTHER: u32 = 4;

pub(super) fn measure(
    store: Box<dyn Contestant>,
    size: &Size,
    seed: u64,
    deletes: bool,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    let rows = store.rows().ok_or("it has no rows of many parts")?;
    load(rows, size, seed, progress)?;
    store.settle()?;
    let before = Account::now()?;
    if deletes {
        let mut deletion = delete(rows)?;
        store.settle()?;
        deletion.bytes_alone = Account::now()?.written - before.written;
        outcome.deletion = Some(deletion);
        outcome.ops = 1;
        outcome.seconds = deletion.durable_ns.max(deletion.seen_ns) as f64 / 1e9;
        outcome.ops_per_sec = 1.0 / outcome.seconds;
    }
    load_others(rows, size, seed, progress)?;
    store.settle()?;
    Account::now()?.report_since(&before, outcome);
    check(rows, !deletes)?;
    finish(store, outcome)
}

/// Checks that the row is there, or not, as it should be.
fn check(rows: &dyn Rows, should_be_there: bool) -> Result<()> {
    match rows.has(ROW)? {
        true if !should_be_there => Err("the row was deleted and is there".into()),
        false if should_be_there => Err("the row is lost".into()),
        _ => Ok(()),
    }
}

/// Deletes the row while another thread looks for it.
fn delete(rows: &dyn Rows) -> Result<Deletion> {
    check(rows, true)?;
    let before = rows.logged();
    let (ready, is_over, watch) = (Barrier::new(2), AtomicBool::new(false), Stopwatch::start());
    let (durable_ns, seen_ns) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            ready.wait();
            while rows.has(ROW)? && !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok::<_, Failure>(watch.nanos())
        });
        ready.wait();
        let begin = watch.nanos();
        let deleted = rows.delete(ROW);
        let durable = watch.nanos();
        let deleted = deleted.and_then(|()| check(rows, false));
        is_over.store(deleted.is_err(), Ordering::Relaxed);
        let seen = reader.join().map_err(|_| "the reader panicked")??;
        deleted?;
        Ok::<_, Failure>((durable - begin, seen.saturating_sub(begin)))
    })?;
    let after = rows.logged();
    Ok(Deletion {
        durable_ns,
        seen_ns,
        log_records: after.records - before.records,
        log_bytes: after.bytes - before.bytes,
        ..Deletion::default()
    })
}

/// Loads the row, its parts in random order.
fn load(rows: &dyn Rows, size: &Size, seed: u64, progress: Progress<'_>) -> Result<()> {
    let order = data::permutation(size.parts, &mut Rng::new(seed));
    let values = Values::new(size.value_bytes);
    for (write, items) in order.chunks(PARTS_PER_WRITE).enumerate() {
        put(rows, ROW, items.iter().map(|item| u64::from(*item)), &values)?;
        progress(0.7 * (write * PARTS_PER_WRITE) as f64 / order.len() as f64);
    }
    Ok(())
}

/// Loads the other rows, which have as many parts as one write, in random order.
fn load_others(rows: &dyn Rows, size: &Size, seed: u64, progress: Progress<'_>) -> Result<()> {
    let others = size.parts / PARTS_PER_OTHER / PARTS_PER_WRITE as u32;
    let values = Values::new(size.value_bytes);
    for (done, other) in data::permutation(others, &mut Rng::new(!seed)).into_iter().enumerate() {
        let side = if other.is_multiple_of(2) { "a" } else { "z" };
        put(rows, format!("{side}{other}").as_bytes(), 0..PARTS_PER_WRITE as u64, &values)?;
        progress(0.7 + 0.3 * done as f64 / f64::from(others));
    }
    Ok(())
}

fn put(rows: &dyn Rows, name: &[u8], items: impl Iterator<Item = u64>, values: &Values) -> Result<()> {
    let pair = |item| {
        let mut value = Vec::new();
        values.fill(item, &mut value);
        (data::key(item), value)
    };
    let parts: Vec<_> = items.map(pair).collect();
    let parts: Vec<_> = parts.iter().map(|(subkey, value)| (&subkey[..], &value[..])).collect();
    rows.put_parts(name, &parts)
}
