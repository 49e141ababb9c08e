//! Waiting for a write to be as durable as its sync mode promises.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_io::Result;
use weir_log::{SyncMode, Waiter};
use weir_model::LogIndex;
use weir_model::engine::Seq;

use super::Partition;
use crate::metrics::Counters;

/// Done when the write may be acknowledged. Dropping it takes nothing back: the write happens all the same.
#[must_use = "the write may not be acknowledged before this is done"]
pub struct Commit {
    partition: Arc<Partition>,
    index: LogIndex,
    seq: Seq,
    waiter: Waiter,
    /// The log holds a waker of it.
    is_awaited: bool,
}

impl Commit {
    pub(super) fn new(partition: &Arc<Partition>, index: LogIndex, seq: Seq) -> Self {
        Self { partition: Arc::clone(partition), index, seq, waiter: Waiter::default(), is_awaited: false }
    }

    /// A second commit of the same write.
    #[must_use = "a write may be acknowledged only when its commit is done"]
    pub fn another(&self) -> Self {
        Self::new(&self.partition, self.index, self.seq)
    }
}

impl Future for Commit {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if let Some(toll) = &this.partition.toll
            && toll.poll(this.index, cx).is_pending()
        {
            return Poll::Pending;
        }
        // A commit of the same write, or of a later one, may have been polled to its end already. (In mode `none` a
        // write is published before it is safe, so that would prove nothing.)
        if !this.is_awaited && this.partition.sync != SyncMode::None && this.partition.engine.published() >= this.seq {
            return Poll::Ready(Ok(()));
        }
        let outcome = this.partition.log.poll_commit(this.index, &mut this.waiter, cx);
        match &outcome {
            // The log commits in order, so whatever is older is durable too.
            Poll::Ready(Ok(())) => this.partition.engine.publish(this.seq),
            Poll::Ready(Err(_)) => {
                Counters::add(&this.partition.counters.write_errors, 1);
                this.partition.kick_repair();
            }
            Poll::Pending => this.is_awaited = true,
        }
        outcome
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.partition.log.forget(&mut self.waiter);
    }
}
