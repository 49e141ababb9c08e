//! A partition's background tasks, counted: its directory may only be given to somebody else when they have ended.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::select;
use weir_io::{Nanos, sleep_until};

use super::Partition;

/// The right to run in the background of a partition, until dropped.
pub(crate) struct Background(Arc<Partition>);

impl Background {
    /// The partition of this task.
    pub fn partition(&self) -> &Arc<Partition> {
        &self.0
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::SeqCst);
        self.0.ending.notify();
    }
}

impl Partition {
    /// The right to do something in the background; `None` once the partition is being closed.
    pub(crate) fn background(self: &Arc<Self>) -> Option<Background> {
        // Counted before looking, while closing sets its mark before it looks at the count: one of the two sees the
        // other.
        self.tasks.fetch_add(1, Ordering::SeqCst);
        let background = Background(Arc::clone(self));
        (!self.is_closing()).then_some(background)
    }

    /// Whether writes are refused, because it sleeps, is dropped, or the node is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until the partition is being closed.
    pub(crate) fn closing_begun(&self) -> impl Future<Output = ()> + Send {
        self.ending.wait(|| self.is_closing().then_some(()))
    }

    /// Waits for `future`, but not longer than until the partition is being closed.
    pub(super) async fn unless_closing(&self, future: impl Future + Unpin) {
        select(future, pin!(self.closing_begun())).await;
    }

    /// Sleeps, but not longer than until the partition is being closed.
    pub(super) async fn pause(&self, nanos: Nanos) {
        self.unless_closing(sleep_until(&self.clock, self.clock.now() + nanos)).await;
    }

    /// Refuses writes from now on, and ends background work at its next step.
    pub(crate) fn begin_closing(&self) {
        // Under the order lock: a writer that holds it still writes.
        {
            let _order = self.order.lock();
            self.closing.store(true, Ordering::SeqCst);
        }
        self.adjust_throttle();
        self.workers.leave(self.owner);
        self.memory.leave(self.owner);
        self.progress.notify();
        self.ending.notify();
    }

    /// Takes back [`Partition::begin_closing`], after all background tasks have ended.
    pub(super) fn reopen(&self) {
        // The tasks that would have kicked the tree at the end of a pause have ended.
        self.retries.end_pauses();
        let _order = self.order.lock();
        self.closing.store(false, Ordering::SeqCst);
    }

    /// Waits until nothing of this partition runs in the background. Only after [`Partition::begin_closing`].
    pub(crate) async fn background_ended(&self) {
        self.ending.wait(|| (self.tasks.load(Ordering::SeqCst) == 0).then_some(())).await;
    }
}
