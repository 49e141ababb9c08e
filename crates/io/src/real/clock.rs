//! The monotonic clock of the machine, with one timer thread.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

use super::precedence::be_prompt;
use crate::{Clock, Nanos};

/// CLOCK_MONOTONIC, and a timer thread.
pub struct RealClock {
    timers: Arc<Timers>,
    /// Taken when joined.
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Timers {
    state: Mutex<ArmedTimers>,
    /// Signalled when the earliest timer has changed, or at the end.
    changed: Condvar,
}

#[derive(Default)]
struct ArmedTimers {
    /// By time, then by order of arming.
    armed: BTreeMap<(Nanos, u64), Waker>,
    armed_count: u64,
    closing: bool,
}

impl RealClock {
    /// The machine's clock.
    ///
    /// # Panics
    /// If the system cannot start the timer thread: without it, nothing that waits would ever go on.
    pub fn new() -> Arc<Self> {
        let timers = Arc::<Timers>::default();
        let body = {
            let timers = Arc::clone(&timers);
            move || {
                be_prompt();
                timers.run();
            }
        };
        // Started here and not with the first timer: that may come from a niced thread, and niceness is inherited.
        let thread = std::thread::Builder::new()
            .name("weir-timer".into())
            .spawn(body)
            .unwrap_or_else(|error| panic!("cannot start the timer thread: {error}"));
        Arc::new(Self { timers, thread: Some(thread) })
    }
}

fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        monotonic()
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        if monotonic() >= at {
            return waker.wake();
        }
        let mut state = self.timers.state.lock();
        let id = state.armed_count;
        state.armed_count += 1;
        let first = state.armed.first_key_value().is_none_or(|(&(earliest, _), _)| at < earliest);
        state.armed.insert((at, id), waker);
        if first {
            self.timers.changed.notify_one();
        }
    }

    fn forget(&self, at: Nanos, waker: &Waker) {
        let forgotten = {
            let mut state = self.timers.state.lock();
            let mut same_time = state.armed.range((at, 0)..=(at, u64::MAX));
            let key = same_time.find(|(_, armed)| armed.will_wake(waker)).map(|(key, _)| *key);
            key.and_then(|key| state.armed.remove(&key))
        };
        // Dropped outside the lock: a waker may own anything.
        drop(forgotten);
    }

    fn unix_ms(&self) -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        // A time before 1970 means that the machine's clock is not set.
        u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
    }

    /// Costs a system call.
    fn processor_time(&self) -> Nanos {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

impl Timers {
    fn run(&self) {
        // The kernel's default slack of 50 us would blur sub-millisecond grants. This is only a refinement, so a
        // failure is ignored.
        let _ = rustix::thread::set_current_timer_slack(1_u64.try_into().ok());
        let mut state = self.state.lock();
        while !state.closing {
            let now = monotonic();
            let Some(entry) = state.armed.first_entry() else {
                self.changed.wait(&mut state);
                continue;
            };
            let at = entry.key().0;
            if at <= now {
                let waker = entry.remove();
                MutexGuard::unlocked(&mut state, || {
                    // Only the waker can panic here. The panic has been reported; the other timers must go on.
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                });
            } else {
                self.changed.wait_for(&mut state, Duration::from_nanos(at - now));
            }
        }
    }
}

impl Drop for RealClock {
    fn drop(&mut self) {
        let armed = {
            let mut state = self.timers.state.lock();
            state.closing = true;
            std::mem::take(&mut state.armed)
        };
        // Dropped outside the lock: a waker may own anything.
        drop(armed);
        self.timers.changed.notify_one();
        // The last owner may be a waker that the timer thread runs: a thread cannot join itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // Panics are caught in the thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("planted: a waker that panics must not stop the other timers");
        }
    }

    /// Ends the thread of its timers.
    struct Ends(Arc<Timers>);

    impl Wake for Ends {
        fn wake(self: Arc<Self>) {
            self.0.state.lock().closing = true;
        }
    }

    #[test]
    fn a_waker_that_panics_stops_no_other_timer() {
        let timers = Arc::<Timers>::default();
        let wakers = [Waker::from(Arc::new(Panics)), Waker::from(Arc::new(Ends(Arc::clone(&timers))))];
        timers.state.lock().armed.extend((0..).map(|id| (0, id)).zip(wakers));
        // On this thread, instead of one of its own.
        timers.run();
        assert!(timers.state.lock().armed.is_empty());
    }
}
