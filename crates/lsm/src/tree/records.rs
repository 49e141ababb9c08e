//! Writing: applies records of a log to the memtable.

use std::sync::atomic::Ordering;

use weir_model::engine::{Applied, Entry, Kind, Records, Seq};
use weir_model::parts::cover_value;
use weir_model::{BatchRef, Change, LogIndex};

use super::Tree;
use crate::memtable::{Memtable, PREFETCHED_MAX, Place, Places};
use crate::table::filter::hash;

/// Hashes and places of up to [`PREFETCHED_MAX`] changes that are about to be inserted. The processor was told to fetch
/// those places.
struct Ahead {
    hashes: [u64; PREFETCHED_MAX],
    places: Places,
}

impl Ahead {
    /// Has the processor fetch the memory that the inserts of these changes will touch, if there are `several`.
    fn of<'a>(memtable: &Memtable, changes: impl Iterator<Item = Change<'a>>, several: bool) -> Self {
        let (mut keys, mut hashes, mut count) = ([&[][..]; PREFETCHED_MAX], [0; PREFETCHED_MAX], 0);
        for (change, (key, hashed)) in changes.zip(keys.iter_mut().zip(&mut hashes)) {
            (*key, *hashed, count) = (change.key(), hash(change.key()), count + 1);
        }
        let places = match several {
            true => memtable.prefetch_inserts(&keys[..count], &hashes[..count]),
            false => [Place::UNKNOWN; PREFETCHED_MAX],
        };
        Self { hashes, places }
    }
}

impl Records for Tree {
    /// Seals a full memtable first, if the number of write buffers allows it. Otherwise the memtable grows beyond its
    /// size; callers that respect the tree's stall prevent that.
    fn apply(&self, index: LogIndex, batch: BatchRef<'_>) -> Applied {
        let mut state = self.state.lock();
        let mut view = self.view.load();
        let mut sealed = false;
        if view.memtable.bytes() >= self.options.write_buffer_bytes
            && view.sealed.len() + 1 < self.knobs.write_buffers()
        {
            self.seal_locked(&mut state);
            view = self.view.load();
            sealed = true;
        }
        let mut to_come = batch.iter();
        let mut ahead = Ahead { hashes: [0; PREFETCHED_MAX], places: [Place::UNKNOWN; PREFETCHED_MAX] };
        for (number, change) in batch.iter().enumerate() {
            let at = number % PREFETCHED_MAX;
            if at == 0 {
                ahead = Ahead::of(&view.memtable, to_come.by_ref().take(PREFETCHED_MAX), batch.len() > 1);
            }
            // A row's version is never larger than the sequence number of its head or cover, and the next version is
            // made from the newest sequence number. After a restart, the versions that were given out last are not
            // known any more.
            state.last_seq = state.last_seq.max(change.newest_version()) + 1;
            let seq = state.last_seq;
            let value;
            let entry = match change {
                Change::Delete { key } => Entry { key, seq, kind: Kind::Delete, expire_at_ms: 0, value: &[] },
                Change::Put { key, value, expire_at_ms } => {
                    Entry { key, seq, kind: Kind::Put, expire_at_ms: expire_at_ms.unwrap_or(0), value }
                }
                Change::Head { key, head, expire_at_ms } => {
                    Entry { key, seq, kind: Kind::Head, expire_at_ms: expire_at_ms.unwrap_or(0), value: head }
                }
                Change::Cover { key, bytes } => {
                    value = cover_value(bytes);
                    Entry { key, seq, kind: Kind::Cover, expire_at_ms: 0, value: &value }
                }
            };
            view.memtable.insert_at(entry, ahead.hashes[at], ahead.places[at]);
        }
        state.applied = index;
        self.applied.store(state.last_seq, Ordering::Release);
        Applied { last_seq: state.last_seq, is_job_due: sealed }
    }

    fn publish(&self, seq: Seq) {
        self.published.fetch_max(seq, Ordering::Release);
    }

    fn published(&self) -> Seq {
        self.published.load(Ordering::Acquire)
    }

    fn applied_seq(&self) -> Seq {
        self.applied.load(Ordering::Acquire)
    }

    fn persisted(&self) -> LogIndex {
        self.state.lock().persisted
    }

    /// Seals the active memtable, if it is not empty. From then on no sealed memtable waits for others to be flushed
    /// with. The number of write buffers may be exceeded by one, for closing and log replacement must not wait for
    /// room.
    fn seal(&self) {
        let mut state = self.state.lock();
        self.seal_locked(&mut state);
        state.flush_before = state.next_epoch;
    }
}
