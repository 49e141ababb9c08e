//! Which keys a large memtable has. Most reads look for a key in the memtables that is further down: a search there
//! waits for memory some five times to find nothing, a filter once.
//!
//! Of a fixed size, as many bits as a full memtable will want, and therefore made only for one that is on its way to
//! being full: a thousand small ones would need more for their filters than for their entries. What is there already is
//! added bit by bit, a leaf with each insert, so that nobody waits for it; readers see the filter when it is complete.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::filter::{lane_of, mask};
use weir_model::prefetch::prefetch;

/// A memtable that will have `full_bytes` has a filter of this part of it: ten bits for each entry of 80 bytes.
const SHARE: usize = 64;
/// It is made when the memtable has come so far: before, it would be a large part of it.
const BEGIN_SHARE: usize = 16;
/// A smaller memtable is in the processor's cache, and has no filter.
const BEGIN_BYTES_MIN: usize = 1 << 20;
/// One with fewer entries is searched in two or three steps.
const BEGIN_ENTRIES_MIN: usize = 2048;

#[repr(align(64))]
struct Lane([AtomicU64; 8]);

/// A filter as [tables have it](crate::table::filter), that grows while it is asked. One thread at a time adds.
pub(super) struct Filter {
    /// Not empty.
    lanes: Box<[Lane]>,
}

impl Filter {
    /// Whether a memtable that has come so far is to have one, where a full one has `full_bytes`.
    #[inline]
    pub(super) fn is_due(bytes: usize, entries: usize, full_bytes: usize) -> bool {
        bytes >= BEGIN_BYTES_MIN.max(full_bytes / BEGIN_SHARE) && entries >= BEGIN_ENTRIES_MIN
    }

    /// An empty one for a memtable that will have `full_bytes`.
    pub(super) fn new(full_bytes: usize) -> Self {
        let lanes = (full_bytes / SHARE / size_of::<Lane>()).max(1);
        // From the system, whose pages are zero already and come one by one as keys are added: to write a megabyte of
        // zeros here would hold up whoever inserts.
        let lanes = Box::new_zeroed_slice(lanes);
        // SAFETY: atomic integers, of which zero is one.
        Self { lanes: unsafe { lanes.assume_init() } }
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lanes)
    }

    /// Adds a key with this [`hash`](crate::table::filter::hash). Who learns of the key through anything that
    /// synchronizes finds it.
    #[inline]
    pub(super) fn add(&self, hash: u64) {
        for (word, bit) in self.lane(hash).0.iter().zip(mask(hash)) {
            // Not an atomic read-modify-write: nobody else stores.
            word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        }
    }

    /// False means that no key with this hash was added.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let lane = &self.lane(hash).0;
        lane.iter().zip(mask(hash)).fold(0, |missing, (word, bit)| missing | (bit & !word.load(Ordering::Relaxed))) == 0
    }

    /// Asks the processor to fetch what [`Filter::may_contain`] looks at.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.lane(hash));
    }

    #[inline]
    fn lane(&self, hash: u64) -> &Lane {
        &self.lanes[lane_of(hash, self.lanes.len())]
    }
}
