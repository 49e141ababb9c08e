//! A log that keeps its records in memory and takes a while for each write. It uses only what the crate makes public.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};
use weir_io::{BoxFuture, Clock, Error, ErrorKind, Nanos, Result, sleep_until};
use weir_log::{LogIndex, LogStats, OutsideSync, Waiter, WriteAheadLog};

/// How long a write takes.
const WRITE: Nanos = 50_000;

/// A log in memory. Clones are the same log.
#[derive(Clone)]
pub struct MemoryLog {
    clock: Arc<dyn Clock>,
    /// Lock order: before `wakers`.
    state: Arc<Mutex<StoredRecords>>,
    wakers: Arc<Wakers>,
}

#[derive(Default)]
struct StoredRecords {
    /// The last of these is record `last`.
    records: VecDeque<Vec<u8>>,
    last: LogIndex,
    committed: LogIndex,
    durable: LogIndex,
    /// The write in flight, and the last index in it.
    write: Option<(LogIndex, BoxFuture<()>)>,
    /// Whether the next write to end fails.
    fails_next: bool,
    /// The failure, and the first index that is not committed any more.
    fence: Option<(Error, LogIndex)>,
    syncing_outside: bool,
    stats: LogStats,
}

impl MemoryLog {
    /// An empty log.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Arc::default(), wakers: Arc::default() }
    }

    /// Makes the next write fail.
    pub fn fail_next(&self) {
        self.state.lock().fails_next = true;
    }

    /// How many records the log keeps.
    pub fn kept(&self) -> usize {
        self.state.lock().records.len()
    }

    /// Handles a write that is done and begins the next one, until neither can be done.
    fn drive(&self) -> MutexGuard<'_, StoredRecords> {
        let mut state = self.state.lock();
        let waker = Waker::from(Arc::clone(&self.wakers));
        loop {
            if let Some((upto, write)) = &mut state.write {
                let upto = *upto;
                if write.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    return state;
                }
                state.write = None;
                if std::mem::take(&mut state.fails_next) {
                    let from = state.committed + 1;
                    state.fence(Error::new(ErrorKind::Device, "write to", "the log", "planned"), from);
                } else if state.fence.as_ref().is_none_or(|(_, from)| upto < *from) {
                    state.committed = upto;
                }
                self.wakers.wake_all();
            }
            if state.last == state.committed || state.fence.is_some() {
                return state;
            }
            let done = sleep_until(&self.clock, self.clock.now() + WRITE);
            state.write = Some((state.last, Box::pin(done)));
            state.stats.groups += 1;
        }
    }

    async fn settle(&self, done: impl Fn(&StoredRecords) -> bool) {
        let mut waiter = Waiter::default();
        poll_fn(|cx| {
            self.wakers.register(LogIndex::MAX, &mut waiter, cx.waker());
            if done(&self.drive()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.wakers.deregister(&mut waiter);
    }
}

impl StoredRecords {
    fn fence(&mut self, error: Error, from: LogIndex) {
        self.stats.failures += 1;
        self.fence = Some((error, from));
    }

    fn outcome(&self, index: LogIndex) -> Option<Result<()>> {
        match &self.fence {
            _ if index <= self.committed => Some(Ok(())),
            Some((error, from)) if index >= *from => Some(Err(error.clone())),
            _ => None,
        }
    }
}

impl WriteAheadLog for MemoryLog {
    fn append(&self, payload: &[u8]) -> Result<LogIndex> {
        let mut state = self.state.lock();
        if let Some((error, _)) = &state.fence {
            return Err(error.clone());
        }
        state.records.push_back(payload.to_vec());
        state.last += 1;
        state.stats.records += 1;
        state.stats.payload_bytes += payload.len() as u64;
        Ok(state.last)
    }

    fn poll_commit(&self, index: LogIndex, waiter: &mut Waiter, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.wakers.register(index, waiter, cx.waker());
        let outcome = self.drive().outcome(index);
        match outcome {
            Some(outcome) => {
                self.wakers.deregister(waiter);
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }

    fn forget(&self, waiter: &mut Waiter) {
        // This waiter may have been the only one that would have begun the next write.
        self.wakers.deregister(waiter);
        self.wakers.wake_all();
    }

    fn sync(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            let target = log.last();
            log.settle(|state| state.outcome(target).is_some()).await;
            let mut state = log.state.lock();
            state.durable = state.durable.max(state.committed.min(target));
            state.outcome(target).unwrap_or(Ok(()))
        })
    }

    fn begin_outside_sync(&self) -> Option<Box<dyn OutsideSync>> {
        let mut state = self.state.lock();
        if state.syncing_outside || state.fence.is_some() || state.durable >= state.committed {
            return None;
        }
        state.syncing_outside = true;
        Some(Box::new(Part { log: self.clone(), upto: state.committed, synced: false }))
    }

    fn is_durable(&self) -> bool {
        let state = self.state.lock();
        state.durable >= state.last
    }

    fn wants_maintenance(&self) -> bool {
        let state = self.state.lock();
        state.fence.is_none() && state.last > state.committed
    }

    fn maintain(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            log.settle(|state| state.fence.is_some() || state.last == state.committed).await;
            Ok(())
        })
    }

    fn would_truncate(&self, persisted: LogIndex) -> bool {
        let state = self.state.lock();
        let first = state.last + 1 - state.records.len() as u64;
        first <= persisted.min(state.committed)
    }

    fn truncate(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        while self.would_truncate(persisted) {
            self.state.lock().records.pop_front();
        }
        Box::pin(async { Ok(()) })
    }

    fn refuse(&self, error: Error) {
        let mut state = self.state.lock();
        let from = state.last + 1;
        state.fence(error, from);
    }

    fn replace(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            log.settle(|state| state.write.is_none()).await;
            let mut state = log.state.lock();
            if state.fence.is_none() {
                return Ok(());
            }
            if persisted < state.last {
                return Err(Error::new(ErrorKind::Invalid, "replace", "the log", "not everything is persisted"));
            }
            (state.committed, state.durable) = (state.last, state.last);
            state.records.clear();
            state.fence = None;
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            log.sync().await?;
            let from = log.last() + 1;
            let closed = Error::new(ErrorKind::Invalid, "append to", "the log", "the log is closed");
            log.state.lock().fence = Some((closed, from));
            Ok(())
        })
    }

    fn remove(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let mut state = self.state.lock();
        if state.fence.is_none() || persisted < state.last {
            let error = Error::new(ErrorKind::Invalid, "remove", "the log", "it is still needed");
            return Box::pin(async move { Err(error) });
        }
        state.records.clear();
        Box::pin(async { Ok(()) })
    }

    fn failure(&self) -> Option<Error> {
        self.state.lock().fence.as_ref().map(|(error, _)| error.clone())
    }

    fn last(&self) -> LogIndex {
        self.state.lock().last
    }

    fn stats(&self) -> LogStats {
        let state = self.state.lock();
        let live_bytes = state.records.iter().map(|record| record.len() as u64).sum();
        let (last, committed, durable) = (state.last, state.committed, state.durable);
        LogStats { last, committed, durable, live_bytes, ..state.stats }
    }
}

struct Part {
    log: MemoryLog,
    upto: LogIndex,
    synced: bool,
}

impl OutsideSync for Part {
    fn succeeded(mut self: Box<Self>) {
        self.synced = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        state.syncing_outside = false;
        if self.synced {
            state.durable = state.durable.max(self.upto);
        }
    }
}

/// The waiters, and the waker of the write, which wakes all of them at its end.
#[derive(Default)]
struct Wakers {
    registered: Mutex<BTreeMap<(LogIndex, u64), Waker>>,
    next_number: AtomicU64,
}

impl Wakers {
    fn register(&self, index: LogIndex, waiter: &mut Waiter, waker: &Waker) {
        let number = || self.next_number.fetch_add(1, Ordering::Relaxed);
        let registration = *waiter.registration.get_or_insert_with(|| (index, number()));
        self.registered.lock().insert(registration, waker.clone());
    }

    fn deregister(&self, waiter: &mut Waiter) {
        if let Some(registration) = waiter.registration.take() {
            self.registered.lock().remove(&registration);
        }
    }

    fn wake_all(&self) {
        let woken = std::mem::take(&mut *self.registered.lock());
        woken.into_values().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}
