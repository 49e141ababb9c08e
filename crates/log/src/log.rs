//! The log in segments: its methods, and the loop that drives it.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use parking_lot::{Mutex, MutexGuard};
use weir_io::{BoxFuture, Class, Error, ErrorKind, Fs, Op, Result, Tag};
use weir_model::LogIndex;

use crate::options::LogOptions;
use crate::record;
use crate::recover::{self, Recovery};
use crate::state::{LogState, Searched, Step, Want};
use crate::stats::LogStats;
use crate::waiters::{OBSERVER, Waiters};
use crate::write_ahead_log::{OutsideSync, Waiter, WriteAheadLog};

/// A write-ahead log in the segments of a directory. Clones are the same log.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: LogOptions,
    waiters: Arc<Waiters>,
    /// Whether a caller maintains the log now.
    is_maintained: AtomicBool,
    /// Lock order: before `waiters`. Never held while a write or a sync is handed over: that call may do it inline.
    state: Mutex<LogState>,
}

impl Log {
    /// Opens the log in `dir`, passing every record after `persisted` to `replay`, in order. If `replay` has to wait
    /// (for room in memory), so does the recovery.
    ///
    /// The directory and the first segment are made by the first write: a log that is only read takes no space, and a
    /// full disk is no error here.
    ///
    /// # Errors
    /// `Corruption` for a damaged or missing record that had been durable, as the log itself or [`LogOptions::anchor`]
    /// knows, naming file and offset; errors of `replay`; I/O. Nothing is removed then.
    pub async fn open(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: LogOptions,
        persisted: LogIndex,
        replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<(Log, Recovery)> {
        let found = recover::recover(&fs, dir, options.owner, options.anchor, persisted, replay).await?;
        let waiters = Arc::new(Waiters::default());
        let recovery = found.recovery.clone();
        let state = LogState::new(Arc::clone(&fs), dir.to_path_buf(), options, Arc::clone(&waiters), found);
        let (dir, is_maintained) = (dir.to_path_buf(), AtomicBool::new(false));
        let shared = Shared { fs, dir, options, waiters, is_maintained, state: Mutex::new(state) };
        let log = Log(Arc::new(shared));
        Ok((log, recovery))
    }

    /// Appends a record whose payload is `tag` followed by `payload`.
    ///
    /// # Errors
    /// The failure that fenced the log. The caller must respect the largest payload.
    pub(crate) fn append_tagged(&self, tag: &[u8], payload: &[u8]) -> Result<LogIndex> {
        self.0.state.lock().append(tag, payload)
    }

    /// How far the log has come.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.0.state.lock();
        Progress { last: state.last(), committed: state.committed(), durable: state.durable() }
    }

    /// The last index in the oldest segment, unless that is the active one.
    pub(crate) fn oldest(&self) -> Option<LogIndex> {
        self.0.state.lock().older.front().map(|older| older.last)
    }

    /// The last index of all segments that are full and entirely on the device.
    pub(crate) fn sealed(&self) -> Option<LogIndex> {
        self.0.state.lock().sealed()
    }

    /// Waits until nothing is in flight. If the log has failed by then, it commits no more records afterwards.
    pub(crate) async fn quiet(&self) {
        self.0.settle(Want::default(), LogState::is_quiet).await;
    }

    /// The segments that may contain records `first..=last`, in order.
    pub(crate) fn segments_with(&self, first: LogIndex, last: LogIndex) -> Vec<Searched> {
        self.0.state.lock().segments_with(first, last)
    }
}

/// How far a log has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The last index appended.
    pub last: LogIndex,
    /// The last index acknowledged.
    pub committed: LogIndex,
    /// The last index known to be on the device.
    pub durable: LogIndex,
}

impl Shared {
    /// Handles completed work and starts new work, until there is neither. A caller that waits for the record `own`
    /// stops when the record has been handed to a write. It leaves syncs and spare segments to the callers that asked
    /// for them: on a thread that may block, an I/O completes only when that thread has done it, and the caller should
    /// not do it for others.
    fn drive(&self, want: Want, own: Option<LogIndex>) -> MutexGuard<'_, LogState> {
        let mut state = self.state.lock();
        loop {
            state.reap(own.is_none());
            if own.is_some_and(|own| state.is_submitted(own)) {
                return state;
            }
            let Some(step) = state.next_step(want) else { return state };
            drop(state);
            let tag = Tag::new(self.options.owner, Class::Log);
            match step {
                Step::Write { segment, offset, mut buf, number, pad } => {
                    record::seal(&mut buf, segment.seed);
                    if pad {
                        buf.pad_to_page();
                    }
                    let op = segment.file.write_at(offset, buf, tag);
                    state = self.state.lock();
                    state.install_write(number, op);
                }
                Step::Sync { segment } => {
                    let op: Op<()> = segment.file.sync(tag);
                    state = self.state.lock();
                    state.install_sync(op);
                }
            }
        }
    }

    /// Drives the log until `done`, asking for `want` all the while.
    async fn settle(&self, want: Want, mut done: impl FnMut(&LogState) -> bool) {
        let mut registered = Registered { waiters: &self.waiters, waiter: Waiter::default() };
        poll_fn(|cx| {
            registered.waiters.register(OBSERVER, &mut registered.waiter, cx.waker());
            let mut state = self.drive(want, None);
            let (done, committed) = (done(&state), state.committed());
            if !done {
                state.observe();
            }
            drop(state);
            self.waiters.wake_through(committed);
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn sync(&self) -> Result<()> {
        let target = self.state.lock().last();
        let want = Want { flush: true, durable: target, spare: false };
        self.settle(want, |state| state.durable() >= target || state.is_fenced()).await;
        let state = self.state.lock();
        match state.failure() {
            Some(error) if state.durable() < target => Err(error),
            _ => Ok(()),
        }
    }

    async fn maintain(&self) -> Result<()> {
        let Some(_maintainer) = Maintainer::first(&self.is_maintained) else {
            // The other caller waits for the next segment, and may do so for long.
            let due = self.state.lock().due();
            self.settle(Want::default(), |state| state.committed() >= due || state.is_fenced()).await;
            return Ok(());
        };
        self.state.lock().forget_spare_failure();
        let want = Want { spare: true, ..Want::default() };
        self.settle(want, |state| !state.is_spare_in_flight()).await;
        self.state.lock().spare_failure().cloned().map_or(Ok(()), Err)
    }

    async fn truncate(&self, persisted: LogIndex) -> Result<()> {
        let tag = Tag::new(self.options.owner, Class::Log);
        let mut leaving = {
            let mut state = self.state.lock();
            let mut unneeded = state.truncate(persisted);
            if let Some(recycled) = state.choose_recycled(&mut unneeded) {
                state.start_spare(Some(recycled.path), Class::Log);
            }
            let mut paths = std::mem::take(&mut state.unremoved);
            paths.extend(unneeded.into_iter().map(|older| older.path));
            Leaving { log: self, paths }
        };
        // The oldest is removed last: the files that a failure leaves behind are then at the front, where the next
        // opening expects them.
        while let Some(path) = leaving.paths.last() {
            match self.fs.remove(path, tag).await {
                // An attempt that has failed, or was dropped, may have removed it all the same.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
            leaving.paths.pop();
        }
        // Nobody else may come to make the spare. But zeros that fill a new one are not waited for: they may have no
        // turn for long.
        self.settle(Want::default(), |state| !state.is_recycling()).await;
        Ok(())
    }

    async fn replace(&self, persisted: LogIndex) -> Result<()> {
        self.settle(Want::default(), LogState::is_quiet).await;
        {
            let mut state = self.state.lock();
            if !state.is_fenced() {
                return Ok(());
            }
            if persisted < state.last() {
                let message =
                    format!("record {} is not persisted yet (only records up to {persisted} are)", state.last());
                return Err(Error::new(ErrorKind::Invalid, "replace", &self.dir, message));
            }
            if !state.has_spare() {
                state.start_spare(None, Class::Log);
            }
        }
        self.settle(Want::default(), LogState::is_quiet).await;
        let mut state = self.state.lock();
        // While the log is fenced nothing is appended, so `persisted` still covers everything. If it serves again,
        // restarting it would lose records.
        if !state.is_fenced() {
            return Ok(());
        }
        if !state.has_spare() {
            let vanished = || Error::new(ErrorKind::Invalid, "replace", &self.dir, "another task is replacing it");
            return Err(state.spare_failure().cloned().unwrap_or_else(vanished));
        }
        state.restart();
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.state.lock().expect_no_more();
        let synced = self.sync().await;
        // Also after a failure: the directory may be opened again when this returns.
        self.settle(Want::default(), LogState::is_quiet).await;
        synced?;
        let (had_failed, spare) = {
            let mut state = self.state.lock();
            let had_failed = state.is_fenced();
            if !had_failed {
                state.push_close();
            }
            (had_failed, state.take_spare())
        };
        let want = Want { flush: true, ..Want::default() };
        self.settle(want, |state| state.is_quiet() && (state.is_fenced() || !state.has_unwritten())).await;
        if let Some(spare) = spare {
            // Remove it, so that the closing mark stands in the last segment and the next opening reads nothing behind
            // it.
            self.fs.remove(&spare.path, Tag::new(self.options.owner, Class::Log)).await?;
        }
        let mut state = self.state.lock();
        match state.failure() {
            // Only the closing mark is missing, which would have needed a new segment: the next opening checks more of
            // the log.
            Some(error) if !had_failed && error.kind() == ErrorKind::NoSpace => Ok(()),
            Some(error) => Err(error),
            None => {
                let from = state.last() + 1;
                state.fence(Error::new(ErrorKind::Invalid, "append to", &self.dir, "the log is closed"), from);
                Ok(())
            }
        }
    }
}

/// The files of segments that nobody needs any more, the oldest first. The next truncation removes those that are left
/// when this is dropped.
struct Leaving<'a> {
    log: &'a Shared,
    paths: Vec<PathBuf>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.paths.is_empty() {
            self.log.state.lock().leave_behind(&mut self.paths);
        }
    }
}

/// Removes the files in `dir`, the newest first: the next opening expects the remaining files to be the oldest ones.
pub(crate) async fn remove_files(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<()> {
    let mut names = match fs.list(dir, tag).await {
        // Nothing was ever written to it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    if names.is_empty() {
        return Ok(());
    }
    while let Some(entry) = names.pop() {
        fs.remove(&dir.join(entry.name), tag).await?;
    }
    fs.sync_dir(dir, tag).await
}

/// The part of a log in a sync of the whole file system. When dropped, it counts as failed unless it was told
/// otherwise.
struct Part {
    log: Arc<Shared>,
    synced: bool,
}

impl OutsideSync for Part {
    fn succeeded(mut self: Box<Self>) {
        self.synced = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.log.state.lock().end_outside_sync(self.synced);
    }
}

/// An observer that deregisters when its future is dropped.
struct Registered<'a> {
    waiters: &'a Waiters,
    waiter: Waiter,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if !self.waiters.deregister(&mut self.waiter) {
            self.waiters.wake_all();
        }
    }
}

/// The one caller that maintains the log, until it has done that or is dropped.
struct Maintainer<'a>(&'a AtomicBool);

impl<'a> Maintainer<'a> {
    /// `None` if another caller maintains the log already.
    fn first(is_maintained: &'a AtomicBool) -> Option<Self> {
        (!is_maintained.swap(true, Ordering::Relaxed)).then(|| Self(is_maintained))
    }
}

impl Drop for Maintainer<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl WriteAheadLog for Log {
    fn append(&self, payload: &[u8]) -> Result<LogIndex> {
        if payload.len() > record::PAYLOAD_BYTES_MAX {
            let message = format!(
                "the record has {} bytes, and at most {} are possible",
                payload.len(),
                record::PAYLOAD_BYTES_MAX
            );
            return Err(Error::new(ErrorKind::Invalid, "append to", &self.0.dir, message));
        }
        self.0.state.lock().append(&[], payload)
    }

    fn poll_commit(&self, index: LogIndex, waiter: &mut Waiter, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let shared = &*self.0;
        let settle = |waiter: &mut Waiter| {
            let state = shared.drive(Want::default(), Some(index));
            let (outcome, committed, baton) = (state.outcome(index), state.committed(), state.can_write());
            drop(state);
            shared.waiters.wake_through(committed);
            if baton {
                shared.waiters.wake_unsubmitted();
            }
            if outcome.is_some() {
                shared.waiters.deregister(waiter);
            }
            outcome
        };
        // The waiter is registered only if the record is not done at once. After that the log is checked again, so that
        // no wake-up in between is lost.
        if let Some(outcome) = settle(waiter) {
            return Poll::Ready(outcome);
        }
        shared.waiters.register(index, waiter, cx.waker());
        settle(waiter).map_or(Poll::Pending, Poll::Ready)
    }

    fn forget(&self, waiter: &mut Waiter) {
        // The waiter was woken and will not drive: somebody else must.
        if !self.0.waiters.deregister(waiter) {
            self.0.waiters.wake_all();
        }
    }

    fn begin_outside_sync(&self) -> Option<Box<dyn OutsideSync>> {
        let segments = self.0.state.lock().begin_outside_sync();
        segments.iter().for_each(|segment| segment.file.sync_begins());
        let part = || Box::new(Part { log: Arc::clone(&self.0), synced: false }) as Box<dyn OutsideSync>;
        (!segments.is_empty()).then(part)
    }

    fn sync(&self) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.sync().await })
    }

    fn is_durable(&self) -> bool {
        let state = self.0.state.lock();
        state.durable() >= state.last()
    }

    fn wants_maintenance(&self) -> bool {
        let is_maintained = self.0.is_maintained.load(Ordering::Relaxed);
        self.0.state.lock().wants_maintenance(is_maintained)
    }

    fn maintain(&self) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.maintain().await })
    }

    fn would_truncate(&self, persisted: LogIndex) -> bool {
        self.0.state.lock().would_truncate(persisted)
    }

    fn truncate(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.truncate(persisted).await })
    }

    fn refuse(&self, error: Error) {
        let mut state = self.0.state.lock();
        let from = state.last() + 1;
        state.fence(error, from);
    }

    fn replace(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.replace(persisted).await })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.close().await })
    }

    fn remove(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (takes_records, last) = {
                let state = shared.state.lock();
                (!state.is_fenced(), state.last())
            };
            if takes_records || persisted < last {
                let message = format!(
                    "it still takes records, or record {last} is not persisted yet (only records up to {persisted} are)"
                );
                return Err(Error::new(ErrorKind::Invalid, "remove", &shared.dir, message));
            }
            remove_files(&shared.fs, &shared.dir, Tag::new(shared.options.owner, Class::Log)).await
        })
    }

    fn failure(&self) -> Option<Error> {
        self.0.state.lock().failure()
    }

    fn last(&self) -> LogIndex {
        self.0.state.lock().last()
    }

    fn stats(&self) -> LogStats {
        self.0.state.lock().stats()
    }
}
