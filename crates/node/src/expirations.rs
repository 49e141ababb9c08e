//! What becomes of the rows of a tenant that have expired, whichever partition has them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_io::Nanos;

/// See the module.
#[derive(Debug, Default)]
pub struct Expirations {
    /// Nothing is deleted before, by the node's clock; 0 = nobody holds it.
    held_until: AtomicU64,
    /// Only what somebody asks for is deleted.
    wait_to_be_asked: AtomicBool,
    deleted: AtomicU64,
}

impl Expirations {
    /// Nothing that has expired is deleted before `until`, by the node's clock: it is gone for who asks, and that is
    /// all. With 0 it is no longer held.
    pub fn hold_until(&self, until: Nanos) {
        self.held_until.store(until, Ordering::Relaxed);
    }

    /// Whether it is held at the moment that `now` gives.
    #[inline]
    pub(crate) fn are_held(&self, now: impl FnOnce() -> Nanos) -> bool {
        let until = self.held_until.load(Ordering::Relaxed);
        until != 0 && now() < until
    }

    /// Whether what has expired is deleted and told only when somebody asks for it.
    pub fn wait_to_be_asked(&self, wait: bool) {
        self.wait_to_be_asked.store(wait, Ordering::Relaxed);
    }

    /// Whether nothing is deleted that nobody asks for.
    pub(crate) fn are_waiting_to_be_asked(&self) -> bool {
        self.wait_to_be_asked.load(Ordering::Relaxed)
    }

    /// So many rows were deleted, as they had expired.
    pub(crate) fn count(&self, rows: usize) {
        self.deleted.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// How many rows were deleted, as they had expired: when somebody asked for them, in time where somebody is told
    /// of them, or on the way of a job. What a merge drops unseen is not among them.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Lets [`Expirations::deleted`] begin at zero.
    pub fn forget_deleted(&self) {
        self.deleted.store(0, Ordering::Relaxed);
    }
}
