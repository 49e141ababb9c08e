//! Group sync: one sync of the whole file system for many logs.
//!
//! Each fdatasync of a log costs a journal commit and a flush of the device. For hundreds of partitions that are
//! written to in the same tenth of a second, one syncfs costs less than all of their own syncs. It reports every
//! write-back that failed since the volume was opened, but not whose. After a failure each log syncs by itself, and
//! only the logs that lost something fail.
//!
//! Logs are synced one by one where syncfs cannot be trusted to report ([`weir_io::Fs::volume`]), or takes long because
//! others have much to write on the same file system. They are also synced one by one where the device would need long
//! for what they have all written ([`BURST_MAX`]), as long as they are few enough to take turns: reads would wait
//! behind a sync of all.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{Class, Clock, Nanos, Owner, Tag, Volume};

use crate::tended::Visit;

/// At least this many partitions must be due within an interval. A sync of everything costs about as much as a few
/// syncs of single files.
const DUE_MIN: usize = 8;
/// After a sync of everything that took longer than the interval and longer than single syncs would have, this many
/// intervals pass until the next attempt.
const REST_INTERVALS: u64 = 64;
/// Where there are many files, the sync of a single one takes about as long as this: a device that is slow for
/// everything is no reason to rest.
const SINGLE: Nanos = 1_000_000;
/// No more device time at once than this, in nanoseconds: twice what background may have under way (house rule 6). With
/// several times as much, the 99th percentile of reads is the time of a sync of all logs.
const BURST_MAX: Nanos = 2_000_000;
const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Log);

/// From a time in nanoseconds to the device time, in nanoseconds, of what is written to logs within it.
pub(crate) type LogTime = Box<dyn Fn(Nanos) -> Nanos + Send + Sync>;

/// Decides when many logs are synced by one sync of their file system, and does it.
pub(crate) struct GroupSync {
    /// `None` where syncfs cannot be trusted.
    volume: Option<Arc<dyn Volume>>,
    interval: Nanos,
    /// The device time of what is written to logs within a time, both in nanoseconds.
    log_time: LogTime,
    state: Mutex<SyncTimes>,
}

#[derive(Default)]
struct SyncTimes {
    /// When the last sync of everything began.
    begun: Option<Nanos>,
    under_way: bool,
    /// There is none before this time.
    rests_until: Nanos,
}

impl GroupSync {
    /// Syncs `volume`, at most once in every `interval`.
    pub fn new(volume: Option<Arc<dyn Volume>>, interval: Nanos, log_time: LogTime) -> Self {
        Self { volume, interval, log_time, state: Mutex::default() }
    }

    /// When the next sync of everything is to begin, if they follow one another at the moment.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let next = self.state.lock().begun? + self.interval;
        (next > now).then_some(next)
    }

    /// Whether `due` partitions are worth a sync of everything, and nothing speaks against it.
    pub fn is_worth_it(&self, now: Nanos, due: usize) -> bool {
        let singly = due as u64 * SINGLE <= self.interval;
        if self.volume.is_none() || due < DUE_MIN || (singly && (self.log_time)(self.interval) > BURST_MAX) {
            return false;
        }
        let state = self.state.lock();
        !state.under_way && now >= state.rests_until
    }

    /// A sync of everything begins: its partitions are taken from the list.
    pub fn begin(&self, now: Nanos) {
        let mut state = self.state.lock();
        (state.begun, state.under_way) = (Some(now), true);
    }

    /// Syncs the logs of `due`, and looks after their partitions. Gives the partitions whose logs have to sync by
    /// themselves.
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
            tracing::warn!(%error, "syncing the whole file system failed: now each log is synced by itself");
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

/// Marks the end of a sync, however it ends: also if the task is dropped.
struct Ends<'a>(&'a GroupSync);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.state.lock().under_way = false;
    }
}
