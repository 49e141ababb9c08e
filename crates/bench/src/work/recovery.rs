//! How long opening takes after a kill.

use weir_io::Rng;

use super::{Progress, Size, fill};
use crate::contestant::Contestant;
use crate::data::{self, Values};
use crate::meter::{Account, Stopwatch};
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::{Failure, Result};

/// Settings under which nothing is flushed while the log is written: the whole log must be replayed.
pub(super) fn roomy(settings: &Settings, size: &Size) -> Settings {
    Settings { write_buffer_bytes: size.recovery_bytes * 4, ..settings.clone() }
}

/// Items whose records fill the log.
fn items(size: &Size) -> u32 {
    (size.recovery_bytes / (size.value_bytes + data::KEY_BYTES) as u64).clamp(1, u64::from(u32::MAX)) as u32
}

/// Writes the log in random order and leaves the store open; the caller ends the process without closing it.
pub(super) fn leave_log(store: Box<dyn Contestant>, size: &Size, progress: Progress<'_>) -> Result<()> {
    let values = Values::new(size.value_bytes);
    let mut value = Vec::new();
    let order = data::permutation(items(size), &mut Rng::new(1));
    for (done, item) in order.iter().enumerate() {
        values.fill(u64::from(*item), &mut value);
        store.put(&data::key(u64::from(*item)), &value)?;
        if done.is_multiple_of(4096) {
            progress(done as f64 / order.len() as f64);
        }
    }
    // Leaked on purpose: its destructor would close the store in good order, and a closed store has nothing to recover.
    std::mem::forget(store);
    Ok(())
}

/// Opens with the ordinary settings until the first and the last item are served, then checks one of every thousand.
pub(super) fn measure(
    open: &dyn Fn() -> Result<Box<dyn Contestant>>,
    size: &Size,
    outcome: &mut Outcome,
) -> Result<()> {
    let values = Values::new(size.value_bytes);
    let items = u64::from(items(size));
    let before = Account::now()?;
    let watch = Stopwatch::start();
    let store = open()?;
    let check = |item: u64| -> Result<()> {
        let mut right = false;
        store.get(&data::key(item), &mut |value| right = values.is_of(item, value))?;
        if right { Ok(()) } else { Err(Failure::from(format!("item {item} did not survive the kill"))) }
    };
    check(0)?;
    check(items - 1)?;
    outcome.seconds = watch.seconds();
    outcome.ops = items;
    outcome.ops_per_sec = items as f64 / outcome.seconds;
    Account::now()?.report_since(&before, outcome);
    (0..items).step_by(1000).try_for_each(check)?;
    fill::finish(store, outcome)
}
