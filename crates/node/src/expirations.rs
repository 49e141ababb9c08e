//! When a tenant's rows expire, and how those that have expired are deleted, whichever partition has them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_io::Nanos;

/// By which moment a tenant's rows expire, whether expired rows are deleted, and how many were.
#[derive(Debug, Default)]
pub struct Expirations {
    /// Nothing is deleted before this time, by the node's clock; 0 = deletion is not held back.
    held_until: AtomicU64,
    /// Only rows that somebody asks for are deleted.
    wait_to_be_asked: AtomicBool,
    deleted: AtomicU64,
    /// Before this time, by the node's clock, rows expire by no later moment than `paused_at_ms`; 0 = by the wall
    /// clock.
    paused_until: AtomicU64,
    paused_at_ms: AtomicU64,
}

impl Expirations {
    /// No expired row is deleted before `until`, by the node's clock. Until then such a row is only gone for whoever
    /// asks for it. With 0, deletion is no longer held back.
    pub fn hold_until(&self, until: Nanos) {
        self.held_until.store(until, Ordering::Relaxed);
    }

    /// Whether deletion is held back at the moment that `now` gives.
    #[inline]
    pub(crate) fn are_held(&self, now: impl FnOnce() -> Nanos) -> bool {
        let until = self.held_until.load(Ordering::Relaxed);
        until != 0 && now() < until
    }

    /// Before `until`, by the node's clock, nothing expires that had not expired at `at_ms`, in milliseconds since
    /// 1970. With an `until` of 0, rows expire by the wall clock again. Whoever wants a long pause asks for it again
    /// and again: if that caller is gone, the pause ends.
    pub fn pause_at(&self, at_ms: u64, until: Nanos) {
        // With the moment of a call that ends the pause, readers that find the pause still there would go back to it.
        if until != 0 {
            self.paused_at_ms.store(at_ms, Ordering::Relaxed);
        }
        self.paused_until.store(until, Ordering::Release);
    }

    /// The moment by which rows expire, in milliseconds since 1970, while the wall clock shows `wall_ms`, and the
    /// node's clock what `now` gives.
    #[inline]
    pub fn judged_ms(&self, wall_ms: u64, now: impl FnOnce() -> Nanos) -> u64 {
        let until = self.paused_until.load(Ordering::Acquire);
        if until == 0 {
            return wall_ms;
        }
        if now() >= until {
            // From now on nobody has to look at the clock. A pause that has just begun stays.
            self.paused_until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
            return wall_ms;
        }
        wall_ms.min(self.paused_at_ms.load(Ordering::Relaxed))
    }

    /// Sets whether expired rows are deleted and told only when somebody asks for them.
    pub fn wait_to_be_asked(&self, wait: bool) {
        self.wait_to_be_asked.store(wait, Ordering::Relaxed);
    }

    /// Whether rows that nobody asks for are not deleted.
    pub(crate) fn are_waiting_to_be_asked(&self) -> bool {
        self.wait_to_be_asked.load(Ordering::Relaxed)
    }

    /// `rows` rows were deleted because they had expired.
    pub(crate) fn count(&self, rows: usize) {
        self.deleted.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// How many rows were deleted because they had expired: when somebody asked for them, in time if somebody is told
    /// of them, or by the way of a job. Rows that a merge drops unseen are not among them.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Lets [`Expirations::deleted`] begin at zero again.
    pub fn forget_deleted(&self) {
        self.deleted.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_finds_a_pause_which_is_just_being_ended_does_not_go_back() {
        let expirations = Expirations::default();
        expirations.pause_at(900, 10);
        let now = || {
            expirations.pause_at(0, 0);
            5
        };
        assert_eq!(expirations.judged_ms(1_000, now), 900);
        assert_eq!(expirations.judged_ms(1_000, || 5), 1_000);
    }

    #[test]
    fn after_a_pause_nobody_looks_at_the_clock() {
        let expirations = Expirations::default();
        expirations.pause_at(900, 10);
        assert_eq!(expirations.judged_ms(1_000, || 9), 900);
        assert_eq!(expirations.judged_ms(1_000, || 10), 1_000);
        assert_eq!(expirations.judged_ms(1_000, || unreachable!("the pause is over")), 1_000);
    }
}
