//! Waiting for a commit: the waiters of all writes in flight.
//!
//! Nobody in particular drives the log: any waiter that is woken does. So a completed write wakes the waiters of its
//! own records *and* the first waiter whose record is not in a write yet. A waiter that is dropped passes this duty on.
//! If nobody waits for the write's own records any more, it wakes the first waiter behind them: a write of later
//! records may be done already, and these are committed only now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;
use weir_model::LogIndex;

use crate::write_ahead_log::Waiter;

/// The index under which observers wait, who want to hear of everything (sync, replacement, closing).
pub(crate) const OBSERVER: LogIndex = LogIndex::MAX;

/// The wakers of all who wait for records, by record. Each is woken when its own record is done: if everybody were
/// woken for each record, many waiters would keep a processor busy.
///
/// Lock order: after the log's state, or alone. Wakers are called without the lock.
#[derive(Default)]
pub struct Waiters {
    registered: Mutex<BTreeMap<(LogIndex, u64), Waker>>,
    /// The size of `registered`, so that nobody takes the lock when nobody waits.
    count: AtomicUsize,
    next_id: AtomicU64,
    /// The last index that was handed to a write.
    pub(crate) submitted: AtomicU64,
}

impl Waiters {
    /// Keeps `waker` under `waiter`, which waits for record `index`.
    pub fn register(&self, index: LogIndex, waiter: &mut Waiter, waker: &Waker) {
        let key = *waiter.registration.get_or_insert_with(|| (index, self.next_id.fetch_add(1, Ordering::Relaxed)));
        let mut registered = self.registered.lock();
        registered.insert(key, waker.clone());
        self.count.store(registered.len(), Ordering::SeqCst);
    }

    /// True if the waiter was still registered, that is, has not been woken.
    pub fn deregister(&self, waiter: &mut Waiter) -> bool {
        let Some(key) = waiter.registration.take() else { return true };
        let mut registered = self.registered.lock();
        let removed = registered.remove(&key).is_some();
        self.count.store(registered.len(), Ordering::SeqCst);
        removed
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Wakes the first waiter.
    pub fn wake_first(&self) {
        self.wake(|registered| BTreeMap::from_iter(registered.pop_first()));
    }

    /// Wakes everybody who waits for an index up to `committed`.
    pub fn wake_through(&self, committed: LogIndex) {
        self.wake(|registered| {
            let rest = registered.split_off(&(committed.saturating_add(1), 0));
            std::mem::replace(registered, rest)
        });
    }

    pub(crate) fn wake_observers(&self) {
        self.wake(|registered| take_range(registered, OBSERVER, OBSERVER));
    }

    pub(crate) fn wake_all(&self) {
        self.wake(std::mem::take);
    }

    /// Wakes the first waiter whose record no write contains yet, to drive the log.
    pub(crate) fn wake_unsubmitted(&self) {
        self.wake(|registered| BTreeMap::from_iter(self.take_unsubmitted(registered)));
    }

    fn take_unsubmitted(&self, registered: &mut BTreeMap<(LogIndex, u64), Waker>) -> Option<((LogIndex, u64), Waker)> {
        take_behind(registered, self.submitted.load(Ordering::SeqCst))
    }

    /// A write of the records `first..=last` has ended: wakes the waiters of these records, or the first one behind
    /// them if there are none; one waiter that may start the next write; and the observers.
    fn wake_group(&self, first: LogIndex, last: LogIndex) {
        self.wake(|registered| {
            let mut woken = take_range(registered, first, last);
            if woken.is_empty() {
                woken.extend(take_behind(registered, last));
            }
            woken.extend(self.take_unsubmitted(registered));
            woken.extend(take_range(registered, OBSERVER, OBSERVER));
            woken
        });
    }

    fn wake(&self, take: impl FnOnce(&mut BTreeMap<(LogIndex, u64), Waker>) -> BTreeMap<(LogIndex, u64), Waker>) {
        if self.is_empty() {
            return;
        }
        let woken = {
            let mut registered = self.registered.lock();
            let woken = take(&mut registered);
            self.count.store(registered.len(), Ordering::SeqCst);
            woken
        };
        woken.into_values().for_each(Waker::wake);
    }
}

fn take_range(
    registered: &mut BTreeMap<(LogIndex, u64), Waker>,
    first: LogIndex,
    last: LogIndex,
) -> BTreeMap<(LogIndex, u64), Waker> {
    let mut taken = BTreeMap::new();
    // A closing mark has no records: its range is empty, and `BTreeMap` does not accept empty ranges.
    while first <= last
        && let Some((&key, _)) = registered.range((first, 0)..=(last, u64::MAX)).next()
    {
        taken.extend(registered.remove(&key).map(|waker| (key, waker)));
    }
    taken
}

/// Takes the first waiter for a record behind `index`.
fn take_behind(registered: &mut BTreeMap<(LogIndex, u64), Waker>, index: LogIndex) -> Option<((LogIndex, u64), Waker)> {
    let (&key, _) = registered.range((index + 1, 0)..).next()?;
    registered.remove(&key).map(|waker| (key, waker))
}

/// The waker given to the write of `first..=last`.
pub(crate) struct GroupWaker {
    pub waiters: Arc<Waiters>,
    pub first: LogIndex,
    pub last: LogIndex,
}

impl Wake for GroupWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.waiters.wake_group(self.first, self.last);
    }
}

/// The waker given to operations that concern everybody: a sync, the making of a segment.
pub(crate) struct EverybodyWaker(pub Arc<Waiters>);

impl Wake for EverybodyWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_all();
    }
}
