//! Time: handed in, in nanoseconds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Nanoseconds on the monotonic clock. The zero point is the clock's own.
pub type Nanos = u64;

/// A clock with timers. Controllers, gates and TTLs take it as an argument (U-28).
pub trait Clock: Send + Sync + 'static {
    /// Monotonic nanoseconds.
    fn now(&self) -> Nanos;
    /// Wakes `waker` once, at or after `at`. A timer that nobody waits for any more is harmless.
    fn wake_at(&self, at: Nanos, waker: Waker);
    /// Forgets a timer that was armed for `waker` at `at`, because nobody waits for it any more. A clock that keeps it
    /// wakes `waker` in vain, and keeps its memory until then.
    fn forget(&self, _at: Nanos, _waker: &Waker) {}
    /// The wall clock, in milliseconds since 1970. For TTL and display; it may jump.
    fn unix_ms(&self) -> u64;
    /// How long the calling thread has had a processor, in nanoseconds. A clock that knows nothing of processors
    /// answers: all the time.
    fn processor_time(&self) -> Nanos {
        self.now()
    }
}

/// Completes at or after `at`.
pub fn sleep_until(clock: &Arc<dyn Clock>, at: Nanos) -> Sleep {
    Sleep { clock: Arc::clone(clock), at, armed: None }
}

/// The future that [`sleep_until`] returns.
pub struct Sleep {
    clock: Arc<dyn Clock>,
    at: Nanos,
    armed: Option<Waker>,
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some(waker) = self.armed.take() {
            self.clock.forget(self.at, &waker);
        }
    }
}

/// A client chooses how long its command may wait, and may be answered at once: the timer must not stay until then.
impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.at {
            self.armed = None;
            return Poll::Ready(());
        }
        let armed = self.armed.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !armed {
            self.disarm();
            self.clock.wake_at(self.at, cx.waker().clone());
            self.armed = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
