//! Syncs of a log: one at a time, of the oldest segment that needs it or of the whole file system.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_io::Op;
use weir_model::LogIndex;

use super::{LogState, Slot, Step};
use crate::segment::Segment;

/// A sync in flight.
pub(super) struct Syncing {
    /// Records up to this one are durable when the sync is done.
    pub upto: LogIndex,
    pub slot: Slot<()>,
}

impl LogState {
    pub(super) fn reap_sync(&mut self) {
        let Some(Syncing { upto, slot: Slot::Flying(op) }) = &mut self.syncing else { return };
        let upto = *upto;
        let Poll::Ready(result) = Pin::new(op).poll(&mut Context::from_waker(&self.everybody)) else { return };
        self.syncing = None;
        match result {
            Ok(()) if self.fence.is_none() => self.book_sync(upto),
            // Another call has failed meanwhile. This sync may be of another file, but its result no longer matters.
            Ok(()) => {}
            // Never retried (the pages may be marked clean): records that were not acknowledged so far no longer can
            // be.
            Err(error) => self.fence(error, self.committed + 1),
        }
        self.waiters.wake_all();
    }

    /// Starts a sync of the oldest segment that needs one, as far as its writes are done.
    pub(super) fn take_sync(&mut self) -> Option<Step> {
        if self.durable >= self.committed {
            return None;
        }
        let (segment, upto) = match self.older.iter().find(|older| older.last > self.durable) {
            Some(older) => (older.segment.clone()?, older.last.min(self.committed)),
            None => (Arc::clone(&self.active.as_ref()?.segment), self.committed),
        };
        self.syncing = Some(Syncing { upto, slot: Slot::Submitting });
        Some(Step::Sync { segment })
    }

    /// The sync has been handed over.
    pub fn install_sync(&mut self, op: Op<()>) {
        if let Some(syncing) = &mut self.syncing {
            syncing.slot = Slot::Flying(op);
        }
    }

    /// A sync of the whole file system is about to begin: books it as a sync of everything committed. Returns the
    /// segments that it covers. There are none if there is nothing to sync, or if a sync is in flight.
    pub fn begin_outside_sync(&mut self) -> Vec<Arc<Segment>> {
        if self.fence.is_some() || self.syncing.is_some() || self.durable >= self.committed {
            return Vec::new();
        }
        let durable = self.durable;
        let mut segments: Vec<_> =
            self.older.iter().filter(|older| older.last > durable).filter_map(|older| older.segment.clone()).collect();
        segments.extend(self.active.as_ref().map(|active| Arc::clone(&active.segment)));
        self.syncing = Some(Syncing { upto: self.committed, slot: Slot::Outside });
        segments
    }

    /// That sync is over. Its failure says nothing about this log: the next sync of its own does.
    pub fn end_outside_sync(&mut self, synced: bool) {
        let outside = matches!(self.syncing, Some(Syncing { slot: Slot::Outside, .. }));
        let Some(Syncing { upto, .. }) = self.syncing.take_if(|_| outside) else { return };
        if synced && self.fence.is_none() {
            self.book_sync(upto);
        }
        self.waiters.wake_all();
    }

    pub(super) fn book_sync(&mut self, upto: LogIndex) {
        self.durable = self.durable.max(upto);
        self.stats.syncs += 1;
        for older in self.older.iter_mut().take_while(|older| older.last <= self.durable) {
            older.segment = None;
        }
    }
}
