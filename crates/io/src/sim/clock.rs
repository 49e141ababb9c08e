//! The virtual clock: nanoseconds that pass only when somebody advances them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::Mutex;

use crate::{Clock, Nanos};

/// What the wall clock shows when virtual time is 0, in milliseconds since 1970 (2026-01-01T00:00:00Z).
const UNIX_MS_AT_ZERO: i64 = 1_767_225_600_000;

/// A clock with an event heap of its own. [`super::Sim`] drives one; a test without an executor may drive it by hand.
pub struct SimClock {
    now: AtomicU64,
    /// Wall clock minus virtual milliseconds.
    unix_offset_ms: AtomicI64,
    timers: Mutex<Timers>,
}

#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// Breaks ties, so that timers of one instant fire in the order they were set.
    next_sequence: u64,
}

struct Timer {
    at: Nanos,
    sequence: u64,
    waker: Waker,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

impl SimClock {
    /// A clock at 0 ns without timers.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            now: AtomicU64::new(0),
            unix_offset_ms: AtomicI64::new(UNIX_MS_AT_ZERO),
            timers: Mutex::default(),
        })
    }

    /// Makes the wall clock show `unix_ms` now; it runs on from there. May jump either way.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        let virtual_ms = self.now() / 1_000_000;
        self.unix_offset_ms.store(unix_ms as i64 - virtual_ms as i64, Relaxed);
    }

    /// When the next timer is due, if there is one.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.lock().heap.peek().map(|Reverse(timer)| timer.at)
    }

    /// Moves time forward to `at` and wakes, in order, every timer that is due by then. Time never goes back.
    pub fn advance_to(&self, at: Nanos) {
        self.now.fetch_max(at, Relaxed);
        loop {
            // The waker runs without the lock: it may set the next timer.
            let mut timers = self.timers.lock();
            let due = timers.heap.peek().is_some_and(|Reverse(timer)| timer.at <= at);
            let Some(Reverse(timer)) = due.then(|| timers.heap.pop()).flatten() else { return };
            drop(timers);
            timer.waker.wake();
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.now.load(Relaxed)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        if at <= self.now() {
            return waker.wake();
        }
        let mut timers = self.timers.lock();
        let sequence = timers.next_sequence;
        timers.next_sequence += 1;
        timers.heap.push(Reverse(Timer { at, sequence, waker }));
    }

    fn unix_ms(&self) -> u64 {
        (self.now() / 1_000_000).saturating_add_signed(self.unix_offset_ms.load(Relaxed))
    }
}
