//! Giving up the executor now and then, so that a job never holds a core for long (house rule 2: 200 us).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets everything else that is ready run first.
pub fn yield_now() -> impl Future<Output = ()> + Send {
    Yield::PLAIN.now()
}

/// How a long computation gives up its thread for a moment. The way is handed in, because a plain wake-up goes to the
/// end of the executor's queue, and some executors check the network only when that queue is empty.
#[derive(Clone, Copy, Debug)]
pub struct Yield {
    /// Arranges that the task is woken after others have run.
    wake_later: fn(&mut Context<'_>),
}

impl Yield {
    /// Goes to the end of the executor's queue.
    pub const PLAIN: Self = Self::new(|cx| cx.waker().wake_by_ref());

    /// A way in which `wake_later` arranges that the task is woken after others have run.
    pub const fn new(wake_later: fn(&mut Context<'_>)) -> Self {
        Self { wake_later }
    }

    /// Lets others run first.
    pub fn now(self) -> impl Future<Output = ()> + Send {
        YieldNow { how: self, has_yielded: false }
    }
}

struct YieldNow {
    how: Yield,
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        (self.how.wake_later)(cx);
        Poll::Pending
    }
}

/// Counts work in bytes and says when a turn is over. It counts bytes, not nanoseconds: reading the clock costs more
/// than the work between two readings, and a count repeats exactly in simulation.
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
