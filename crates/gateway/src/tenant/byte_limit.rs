//! Bytes of one kind that a tenant's connections may hold together. A connection that wants more than there is room for
//! is refused at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_command::ResultLimit;

/// A limit on bytes.
pub(crate) struct ByteLimit {
    held: AtomicU64,
    max: u64,
}

impl ByteLimit {
    /// A limit of `max` bytes.
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { held: AtomicU64::new(0), max })
    }

    /// Books `bytes`, unless that would go beyond the limit.
    pub(crate) fn try_hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        self.book(bytes, |_| false).then(|| Held { limit: Arc::clone(self), bytes })
    }

    /// Books `bytes`; `false` if that would go beyond the limit, unless what is held `may_go_beyond` it.
    fn book(&self, bytes: u64, may_go_beyond: impl Fn(u64) -> bool) -> bool {
        let more = |now: u64| now.checked_add(bytes).filter(|&sum| sum <= self.max || may_go_beyond(now));
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Books `bytes` even beyond the limit, for a caller who sees to it that there is room again.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Held { limit: Arc::clone(self), bytes }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl ResultLimit for ByteLimit {
    fn try_take(&self, bytes: usize, held: usize) -> bool {
        self.book(bytes as u64, |now| now == held as u64)
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes that are booked; given back when dropped.
pub(crate) struct Held {
    limit: Arc<ByteLimit>,
    bytes: u64,
}

impl Held {
    /// Takes up to `bytes` out of this booking into one of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { limit: Arc::clone(&self.limit), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.limit.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_much_until_some_is_given_back() {
        let limit = ByteLimit::new(100);
        let mut most = limit.try_hold(90).expect("room");
        assert!(limit.try_hold(11).is_none() && limit.try_hold(u64::MAX).is_none());
        let part = most.split(40);
        drop(most);
        assert_eq!(limit.bytes(), 40);
        let beyond = limit.hold(100);
        assert!(limit.try_hold(1).is_none());
        drop((part, beyond));
        assert_eq!(limit.bytes(), 0);
    }

    #[test]
    fn a_command_that_is_alone_goes_beyond_the_limit_of_results() {
        let limit = ByteLimit::new(100);
        assert!(limit.try_take(90, 0) && limit.try_take(90, 90));
        assert!(!limit.try_take(1, 0), "another one");
        limit.give_back(100);
        assert!(limit.try_take(20, 0) && !limit.try_take(1, 80), "now there are two");
    }
}
