//! The log as a partition uses it, whatever the implementation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use weir_io::{BoxFuture, Error, Result};
use weir_model::LogIndex;

use crate::stats::LogStats;

/// The log of a partition: this crate's [`Log`](crate::Log), or another implementation. How to open one is up to the
/// implementation; this trait is all that a partition calls afterwards.
///
/// A log commits in order: once a record is committed, so is every record before it. After a failure it is *fenced*:
/// committed records stay committed, the others fail, and appends are refused until the log is
/// [replaced](Self::replace).
pub trait WriteAheadLog: Send + Sync + 'static {
    /// Gives `payload` the index after [`last`](Self::last). Callers append in the order in which they apply. Cheap: it
    /// only copies into memory.
    ///
    /// # Errors
    /// The failure that fenced the log; `Invalid` for a payload above
    /// [`record::PAYLOAD_BYTES_MAX`](crate::record::PAYLOAD_BYTES_MAX).
    fn append(&self, payload: &[u8]) -> Result<LogIndex>;
    /// Ready when `index` has what the sync mode promises, or can no longer get it. While it is pending, the log keeps
    /// the waker of `cx` under `waiter`. A caller that polls drives the writes of all: a log need not have a thread.
    fn poll_commit(&self, index: LogIndex, waiter: &mut Waiter, cx: &mut Context<'_>) -> Poll<Result<()>>;
    /// Gives back a waiter, whether its `poll_commit` became ready or not. If this waiter was woken to drive, the log
    /// wakes another one.
    fn forget(&self, waiter: &mut Waiter);
    /// Done when `index` has what the sync mode promises; often at once. Callers with a `dyn WriteAheadLog` use
    /// [`Commit::new`].
    fn commit(&self, index: LogIndex) -> Commit<'_>
    where
        Self: Sized,
    {
        Commit::new(self, index)
    }
    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// The failure that fenced the log before everything was durable.
    fn sync(&self) -> BoxFuture<Result<()>>;
    /// Makes this log part of a sync of the whole file system ([`weir_io::Volume::sync`]) that is about to begin;
    /// `None` if the log has nothing to sync, or is just syncing by itself.
    fn begin_outside_sync(&self) -> Option<Box<dyn OutsideSync>>;
    /// Whether everything appended is known to be on the device.
    fn is_durable(&self) -> bool;
    /// Whether [`maintain`](Self::maintain) has anything to do that nobody is doing.
    fn wants_maintenance(&self) -> bool;
    /// Work that can be done ahead of time: finishing writes that nobody polls, making a spare segment. For a control
    /// loop's tick. One caller at a time waits for the segment; others wait only until the records are written that
    /// should be.
    ///
    /// # Errors
    /// I/O. Nothing is lost: the next maintenance tries again.
    fn maintain(&self) -> BoxFuture<Result<()>>;
    /// Whether [`truncate`](Self::truncate) would remove or recycle anything.
    fn would_truncate(&self, persisted: LogIndex) -> bool;
    /// The engine holds everything up to `persisted`: removes or recycles the segments that are no longer needed.
    ///
    /// # Errors
    /// I/O. Nothing that is needed is lost, and the next truncation removes the segments that are left.
    fn truncate(&self, persisted: LogIndex) -> BoxFuture<Result<()>>;
    /// Refuses appends with `error` from now on, until the log is [replaced](Self::replace). For an owner that knows
    /// that records written now might not last.
    fn refuse(&self, error: Error);
    /// Goes on after a failure, once the engine holds everything appended (`persisted` is at least the last index).
    /// Does nothing if the log has not failed.
    ///
    /// # Errors
    /// `Invalid` if `persisted` is less than the last index; I/O. The log stays fenced, and replacing it may be tried
    /// again.
    fn replace(&self, persisted: LogIndex) -> BoxFuture<Result<()>>;
    /// Makes everything durable and refuses appends from now on.
    ///
    /// # Errors
    /// The failure that fenced the log.
    fn close(&self) -> BoxFuture<Result<()>>;
    /// Removes everything that the log keeps on disk, once it was [closed](Self::close) and the engine holds everything
    /// (`persisted` is at least the last index).
    ///
    /// # Errors
    /// `Invalid` if the log still takes records, or not everything is persisted; I/O: the files that are left can still
    /// be opened as a log.
    fn remove(&self, persisted: LogIndex) -> BoxFuture<Result<()>>;
    /// The failure that fenced the log, until it is replaced.
    fn failure(&self) -> Option<Error>;
    /// The last index appended.
    fn last(&self) -> LogIndex;
    /// Counters.
    fn stats(&self) -> LogStats;
}

/// A log's part in a sync of the whole file system. If it is dropped, the sync counts as failed. That says nothing
/// about this log: it has to sync by itself, and learns then whether its own bytes are durable.
pub trait OutsideSync: Send {
    /// The sync has succeeded: every record that was committed when it began is durable.
    fn succeeded(self: Box<Self>);
}

/// The state of one wait for a record. It belongs to the task that waits, and is new for each wait. A wait for a commit
/// that is given up gives it back to the log with [`WriteAheadLog::forget`].
#[derive(Debug, Default)]
pub struct Waiter {
    /// For whoever keeps the wakers: the key of the waker. It is the index waited for, and a number that distinguishes
    /// waiters for the same index; `None` if no waker is registered.
    pub registration: Option<(LogIndex, u64)>,
}

/// Done when a record has what its log's sync mode promises. Dropping it does not undo the record.
#[must_use = "the record is not acknowledged before this is done"]
pub struct Commit<'a> {
    log: &'a dyn WriteAheadLog,
    index: LogIndex,
    waiter: Waiter,
}

impl<'a> Commit<'a> {
    /// Waits for record `index` of `log`.
    pub fn new(log: &'a dyn WriteAheadLog, index: LogIndex) -> Self {
        Self { log, index, waiter: Waiter::default() }
    }
}

impl Future for Commit<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.log.poll_commit(this.index, &mut this.waiter, cx)
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.log.forget(&mut self.waiter);
    }
}
