//! Group sync: one sync of the whole file system for many logs.
//!
//! Each fdatasync of a log costs a journal commit and a flush of the device: for hundreds of partitions that are
//! written to in the same tenth of a second, one syncfs costs less than all of theirs. It reports every write-back that
//! failed since the volume was opened, but not whose: then each log syncs by itself, and only those fail that lost
//! something. Where it cannot be trusted to report ([`weir_io::Fs::volume`]), or takes long because others have much to
//! write on the same file system, logs are synced one by one; and so they are where the device would need long for what
//! they have all written, and they are few enough to take turns: reads would wait behind it ([`BURST_MAX`]).

use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{Class, Clock, Nanos, Owner, Tag, Volume};

use crate::tended::Visit;

/// So many partitions must be due within an interval. A sync of everything costs about as much as a few of single
/// files.
const DUE_MIN: usize = 8;
/// After a sync of everything that took longer than the interval and longer than single ones would have, so many
/// intervals pass until the next attempt.
const REST_INTERVALS: u64 = 64;
/// Syncs of single files take about as long, each, where there are many: a device that is slow for everything is no
/// reason to rest.
const SINGLE: Nanos = 1_000_000;
/// No more device time at once than this, in nanoseconds: twice what background may have under way (house rule 6). With
/// several times as much, the 99th percentile of reads is the time of a sync of all logs.
const BURST_MAX: Nanos = 2_000_000;
const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Log);

/// From nanoseconds to the device time, in nanoseconds, of what is written to logs in so long.
pub(crate) type LogTime = Box<dyn Fn(Nanos) -> Nanos + Send + Sync>;

/// See the module.
pub(crate) struct GroupSync {
    /// `None` where it cannot be trusted.
    volume: Option<Arc<dyn Volume>>,
    interval: Nanos,
    /// The device time of what is written to logs in so many nanoseconds.
    log_time: LogTime,
    state: Mutex<SyncTimes>,
}

#[derive(Default)]
struct SyncTimes {
    /// When the last one began.
    begun: Option<Nanos>,
    under_way: bool,
    /// Not before.
    rests_until: Nanos,
}

impl GroupSync {
    /// On `volume`, every `interval` at most.
    pub fn new(volume: Option<Arc<dyn Volume>>, interval: Nanos, log_time: LogTime) -> Self {
        Self { volume, interval, log_time, state: Mutex::default() }
    }

    /// When the next one is to begin, if they follow one another at the moment.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let next = self.state.lock().begun? + self.interval;
        (next > now).then_some(next)
    }

    /// Whether `due` partitions are worth it, and nothing speaks against it.
    pub fn is_worth_it(&self, now: Nanos, due: usize) -> bool {
        let singly = due as u64 * SINGLE <= self.interval;
        if self.volume.is_none() || due < DUE_MIN || (singly && (self.log_time)(self.interval) > BURST_MAX) {
            return false;
        }
        let state = self.state.lock();
        !state.under_way && now >= state.rests_until
    }

    /// One begins: its partitions are taken from the list.
    pub fn begin(&self, now: Nanos) {
        let mut state = self.state.lock();
        (state.begun, state.under_way) = (Some(now), true);
    }

    /// Syncs the logs of `due`, and looks after their partitions. Gives those that have to sync by themselves.
    pub async fn sync(&self, due: Vec<Box<dyn Visit>>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Visit>> {
        let _ends = Ends(self);
        let Some(volume) = &self.volume else { return due };
        let begin = clock.now();
        let patience = self.interval.max(due.len() as u64 * SINGLE);
        let mut parts = Vec::with_capacity(due.len());
        let mut rest = Vec::new();
        for visit in due {
            match visit.log().begin_outside_sync() {
                Some(part) => parts.push((visit, part)),
                None => rest.push(visit),
            }
        }
        let outcome = volume.sync(TAG).await;
        let took = clock.now() - begin;
        if took > patience {
            self.state.lock().rests_until = clock.now() + REST_INTERVALS * self.interval;
        }
        if let Err(error) = &outcome {
            tracing::warn!(%error, "a sync of the whole file system failed: every log syncs by itself");
        }
        for (visit, part) in parts {
            if outcome.is_ok() {
                part.succeeded();
                visit.look_after();
            } else {
                drop(part);
                rest.push(visit);
            }
        }
        rest
    }
}

/// However it ends: also if the task is dropped.
struct Ends<'a>(&'a GroupSync);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.state.lock().under_way = false;
    }
}
