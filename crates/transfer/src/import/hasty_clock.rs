//! A clock for tests over sockets, on which every pause is over at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use weir_io::{Clock, Nanos};

use crate::within::SECOND;

/// Longer waits are limits on how long something may take: they are never reached.
const PAUSE_MAX: Nanos = 9 * SECOND;

/// Time passes only by pauses, in no real time.
pub(super) struct HastyClock(AtomicU64);

impl HastyClock {
    /// A clock at 0.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0)))
    }
}

impl Clock for HastyClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        if at.saturating_sub(self.now()) <= PAUSE_MAX {
            self.0.fetch_max(at, Ordering::Relaxed);
            waker.wake();
        }
    }

    fn unix_ms(&self) -> u64 {
        self.now() / 1_000_000
    }
}
