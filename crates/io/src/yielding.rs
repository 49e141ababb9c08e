//! Giving up the executor now and then, so that a job never holds a core for long (house rule 2: 200 us).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets everything else that is ready run first.
pub fn yield_now() -> impl Future<Output = ()> + Send {
    YieldNow(false)
}

struct YieldNow(bool);

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts work in bytes and says when a turn is over. Bytes and not nanoseconds: reading the clock costs more than
/// the work between two looks at it, and a count repeats exactly in simulation.
#[derive(Debug)]
pub struct Turn {
    done_bytes: usize,
    turn_bytes: usize,
}

impl Turn {
    /// About 200 us of merging at 640 MB/s.
    pub const BYTES: usize = 128 * 1024;

    /// A turn of [`Turn::BYTES`].
    pub fn new() -> Self {
        Self { done_bytes: 0, turn_bytes: Self::BYTES }
    }

    /// Books `bytes` of work; true if it is time to [`yield_now`].
    pub fn spend(&mut self, bytes: usize) -> bool {
        self.done_bytes += bytes;
        if self.done_bytes < self.turn_bytes {
            return false;
        }
        self.done_bytes = 0;
        true
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}
