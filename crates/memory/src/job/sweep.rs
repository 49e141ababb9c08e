//! A sweep frees what no reader needs any more and the parts that covers say are dead, and walks over all rows to find
//! those that have expired. It does not delete expired rows: it reports their keys, and the caller that runs it deletes
//! them by a record of the log.

use std::ops::Bound;
use std::sync::Arc;

use weir_io::yield_now;
use weir_model::engine::{EXPIRED_KEYS_MAX, JobControl, JobReport, Jobs};

use crate::index::{Entry, row_bytes};
use crate::store::Store;

/// Rows that are looked at under the writer's lock at once: tens of microseconds.
const STEP_ROWS: usize = 128;
/// Older versions of fewer bytes than these are left to the next writes.
const SWEEP_BYTES_MIN: u64 = 64 << 10;

impl Store {
    pub(super) fn is_sweep_due(&self) -> bool {
        let clock = &self.env.clock;
        let horizons = self.horizons();
        let writer = self.writer.lock();
        (self.booked.older() >= SWEEP_BYTES_MIN && writer.stale.is_due(&horizons))
            || writer.covers.is_due(&horizons)
            || writer.mortal.is_walk_due(self.booked.newest(), self.urgency(), clock.now(), clock.unix_ms())
    }
}

pub(super) async fn run(store: &Arc<Store>, control: &JobControl) -> JobReport {
    let mut report = JobReport::default();
    while step(store, &mut report) {
        control.set_entries_done(report.entries_in);
        yield_now().await;
    }
    report
}

/// Does one step, and returns whether there is another.
fn step(store: &Store, report: &mut JobReport) -> bool {
    let horizons = store.horizons();
    let (now, now_ms) = (store.env.clock.now(), store.env.clock.unix_ms());
    let mut writer = store.writer.lock();
    let writer = &mut *writer;
    writer.stale.clean(&store.index, &store.booked, &horizons, STEP_ROWS);
    store.drop_covered(writer, &horizons, STEP_ROWS);
    if writer.stale.is_due(&horizons) || writer.covers.is_due(&horizons) {
        return true;
    }
    if !writer.mortal.is_walk_due(store.booked.newest(), store.urgency(), now, now_ms) {
        return false;
    }
    let from = writer.mortal.walk_from(now_ms);
    let from = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut rows = 0;
    let is_last = store.index.walk(from, Bound::Unbounded, false, |Entry { key, .. }, newest| {
        rows += 1;
        if writer.mortal.walk_to(key, newest, row_bytes(key.len()), now_ms) {
            report.expired_keys.push(key.to_vec());
        }
        rows < STEP_ROWS && report.expired_keys.len() < EXPIRED_KEYS_MAX
    });
    report.entries_in += rows as u64;
    if is_last {
        writer.mortal.end_walk(now);
    }
    !is_last && report.expired_keys.len() < EXPIRED_KEYS_MAX
}
