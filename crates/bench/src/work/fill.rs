//! Works that write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use weir_io::Rng;

use super::{Progress, Size};
use crate::Result;
use crate::contestant::Contestant;
use crate::data::{self, Values};
use crate::meter::{Account, Latencies, Stopwatch};
use crate::outcome::Outcome;

/// Writers of `fillsync`.
const SYNC_WRITERS: usize = 8;

/// Operations between two progress reports.
const REPORT_EVERY: u64 = 4096;

pub(super) fn sequential(
    store: Box<dyn Contestant>,
    size: &Size,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    one_writer(store, 0..size.items, size, outcome, progress)
}

pub(super) fn random(
    store: Box<dyn Contestant>,
    size: &Size,
    seed: u64,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    let order = data::permutation(size.items, &mut Rng::new(seed));
    one_writer(store, order.into_iter(), size, outcome, progress)
}

/// Puts every item of `order`, then waits until the tree has settled; the drain counts in the time.
fn one_writer(
    store: Box<dyn Contestant>,
    order: impl Iterator<Item = u32>,
    size: &Size,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    let values = Values::new(size.value_bytes);
    let mut value = Vec::new();
    let mut latencies = Latencies::default();
    let before = Account::now()?;
    let watch = Stopwatch::start();
    let mut last = watch.nanos();
    for (done, item) in (0_u64..).zip(order) {
        values.fill(u64::from(item), &mut value);
        store.put(&data::key(u64::from(item)), &value)?;
        let now = watch.nanos();
        latencies.record(now - last);
        last = now;
        if done.is_multiple_of(REPORT_EVERY) {
            // The drain is about a tenth of the work.
            progress(0.9 * done as f64 / f64::from(size.items));
        }
    }
    let load_seconds = watch.seconds();
    store.settle()?;
    outcome.ops = u64::from(size.items);
    outcome.seconds = watch.seconds();
    outcome.ops_per_sec = outcome.ops as f64 / outcome.seconds;
    outcome.load_ops_per_sec = Some(outcome.ops as f64 / load_seconds);
    Account::now()?.report_since(&before, outcome);
    latencies.report(outcome);
    finish(store, outcome)
}

/// Eight writers share the random order; every put returns when it is on the device.
pub(super) fn synced(
    store: Box<dyn Contestant>,
    size: &Size,
    seed: u64,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    let values = Values::new(size.value_bytes);
    let order = data::permutation(size.sync_items, &mut Rng::new(seed));
    let done = AtomicU64::new(0);
    let before = Account::now()?;
    let watch = Stopwatch::start();
    let writer = |mine: &[u32]| -> Result<Latencies> {
        let mut value = Vec::new();
        let mut latencies = Latencies::default();
        for item in mine {
            values.fill(u64::from(*item), &mut value);
            let start = watch.nanos();
            store.put(&data::key(u64::from(*item)), &value)?;
            latencies.record(watch.nanos() - start);
            let done = done.fetch_add(1, Ordering::Relaxed);
            if done.is_multiple_of(REPORT_EVERY) {
                progress(done as f64 / f64::from(size.sync_items));
            }
        }
        Ok(latencies)
    };
    let shares = order.chunks(order.len().div_ceil(SYNC_WRITERS).max(1));
    let latencies = thread::scope(|scope| {
        let writers: Vec<_> = shares.map(|share| scope.spawn(move || writer(share))).collect();
        let mut all = Latencies::default();
        for writer in writers {
            all.merge(&writer.join().map_err(|_| "a writer panicked")??);
        }
        Ok::<_, crate::Failure>(all)
    })?;
    outcome.ops = u64::from(size.sync_items);
    outcome.seconds = watch.seconds();
    outcome.ops_per_sec = outcome.ops as f64 / outcome.seconds;
    Account::now()?.report_since(&before, outcome);
    latencies.report(outcome);
    finish(store, outcome)
}

/// Notes what the store says about itself and closes it.
pub(super) fn finish(store: Box<dyn Contestant>, outcome: &mut Outcome) -> Result<()> {
    outcome.version = store.version();
    outcome.remarks = store.remarks();
    outcome.shape = store.shape();
    store.close()
}
