//! Waiting for a write to be as durable as its sync mode promises.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_admission::waits::{self, Cause};
use weir_io::plant::{Plant, is_planted};
use weir_io::{Nanos, Result};
use weir_log::{SyncMode, Waiter};
use weir_model::LogIndex;
use weir_model::engine::Seq;

use super::Partition;
use crate::metrics::Counters;

/// A future that is done when the write may be acknowledged. Dropping it takes nothing back: the write happens all the
/// same.
#[must_use = "the write may not be acknowledged before this is done"]
pub struct Commit {
    partition: Arc<Partition>,
    index: LogIndex,
    seq: Seq,
    waiter: Waiter,
    toll_waiter: Waiter,
    /// The log holds a waker of this commit.
    is_awaited: bool,
    /// The log has committed the write, and only the gate may still be waited for.
    is_committed: bool,
    /// Since when the gate is waited for.
    at_gate_since: Option<Nanos>,
}

impl Commit {
    pub(super) fn new(partition: &Arc<Partition>, index: LogIndex, seq: Seq) -> Self {
        Self {
            partition: Arc::clone(partition),
            index,
            seq,
            waiter: Waiter::default(),
            toll_waiter: Waiter::default(),
            is_awaited: false,
            is_committed: false,
            at_gate_since: None,
        }
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
        // The log first: a commit that waits at the gate must drive the log all the same.
        if !this.is_committed {
            match this.poll_log(cx) {
                Poll::Ready(Ok(())) => this.is_committed = true,
                outcome => return outcome,
            }
        }
        this.poll_toll(cx).map(Ok)
    }
}

impl Commit {
    fn poll_log(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // Another commit of this write, or of a later one, may have been polled to its end already. (In mode `none` a
        // write is published before it is safe, so that would prove nothing.)
        if !self.is_awaited && self.partition.sync != SyncMode::None && self.partition.engine.published() >= self.seq {
            return Poll::Ready(Ok(()));
        }
        let outcome = self.partition.log.poll_commit(self.index, &mut self.waiter, cx);
        match &outcome {
            // The log commits in order, so everything older is durable, too.
            Poll::Ready(Ok(())) => self.partition.engine.publish(self.seq),
            Poll::Ready(Err(_)) => {
                Counters::add(&self.partition.counters.write_errors, 1);
                self.partition.kick_repair();
                if is_planted(Plant::FailedCommitHidden) {
                    return Poll::Ready(Ok(()));
                }
            }
            Poll::Pending => self.is_awaited = true,
        }
        outcome
    }

    /// Waits at the gate. The wait is booked here, on the request that waits: its record may pass on any thread.
    fn poll_toll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(toll) = &self.partition.toll else { return Poll::Ready(()) };
        let polled = toll.poll(self.index, &mut self.toll_waiter, cx);
        match (polled, self.at_gate_since) {
            (Poll::Pending, None) => self.at_gate_since = Some(self.partition.clock.now()),
            (Poll::Ready(()), Some(since)) => {
                waits::book(Cause::Partition, self.partition.clock.now().saturating_sub(since));
            }
            (Poll::Pending, Some(_)) | (Poll::Ready(()), None) => {}
        }
        polled
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.partition.log.forget(&mut self.waiter);
        if let Some(toll) = &self.partition.toll {
            toll.forget(&mut self.toll_waiter);
        }
    }
}
