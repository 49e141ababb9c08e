//! The node's queues of requests (XS-27). As long as the node's tenants use fewer units a second than a threshold,
//! every request passes. Above the threshold requests wait in two queues, reads and writes, and pass as units come.
//! [`super::request_order`] decides which queue goes next. Inside a queue tenants are served in turn, by what they got.
//!
//! What a request costs is known only when it has run. It passes with what is known before, and the rest is a debt that
//! the requests behind it wait for. So is what a request needs beyond a full bucket. The debt is [`DEBT_MAX`] at most.
//! A request that has waited for [`WAIT_MAX`] is refused. Never more requests wait than there are connections.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use weir_io::{Clock, Nanos, Owner};

use crate::bucket::{Bucket, UNLIMITED};
use crate::fair::FairQueue;
use crate::slots::{Alarm, Effects, SlotId, Slots};

use super::patience::{Next, Patience, Waiting};
use super::request_order::{Access, RequestOrder, next};

/// The units of this time, in nanoseconds, may be used at once: the time over which the rate is looked at.
const BURST: Nanos = 100_000_000;
/// No request waits longer than this, in nanoseconds.
const WAIT_MAX: Nanos = 1_000_000_000;
/// Requests leave a debt up to the units of this time, in nanoseconds. With all of its units as a debt, a long command
/// would have the requests of all tenants refused until they are paid. If its cost shows afterwards, it has taken its
/// units over a long time, and that is over: the machine would be idle. If its cost is known before, as that of a large
/// transaction, it takes them over a long time to come, and leaves room to others.
const DEBT_MAX: Nanos = WAIT_MAX / 2;

/// The node's units do not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBusy {
    /// Milliseconds from now until the requests that wait now would have passed. At least 1.
    pub retry_in_ms: u64,
}

impl fmt::Display for NodeBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry_in_ms={} reason=node_ru", self.retry_in_ms)
    }
}

impl std::error::Error for NodeBusy {}

/// What became of the requests of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeQueueStats {
    /// Requests that waited, whether or not they passed in the end.
    pub delayed: u64,
    /// How long they waited in all, in nanoseconds.
    pub delayed_ns: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// The owner by which a [`FairQueue`] knows a tenant.
fn flow(tenant: u32) -> Owner {
    Owner { tenant, partition: 0 }
}

struct NodeQueues {
    units: Bucket,
    order: RequestOrder,
    queues: [FairQueue<Waiting>; 2],
    /// Units that each queue got since both began to wait.
    served: [u64; 2],
    /// The deadline of each waiter, with its queue and its tenant.
    patience: Patience<(Access, u32)>,
    slots: Slots<Result<(), NodeBusy>>,
    alarm: Alarm,
    stats: [NodeQueueStats; 2],
}

/// The two queues of a node. The lock is never held while waking or arming a timer, nor together with another lock.
pub struct NodeQueue {
    clock: Arc<dyn Clock>,
    is_on: AtomicBool,
    state: Mutex<NodeQueues>,
    timer: Waker,
}

/// A timer's waker: pumps the queues. Weak, so that a timer does not keep a node.
struct Timer(Weak<NodeQueue>);

impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.0.upgrade() {
            queue.with_state(|_, _| {});
        }
    }
}

impl NodeQueue {
    /// Queues that let every request pass.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = NodeQueues {
            units: Bucket::new(UNLIMITED, BURST, clock.now()),
            order: RequestOrder::default(),
            queues: [const { FairQueue::new() }; 2],
            served: [0; 2],
            patience: Patience::new(),
            slots: Slots::new(),
            alarm: Alarm::new(),
            stats: [NodeQueueStats::default(); 2],
        };
        Arc::new_cyclic(|queue| Self {
            clock,
            is_on: AtomicBool::new(false),
            state: Mutex::new(state),
            timer: Waker::from(Arc::new(Timer(queue.clone()))),
        })
    }

    /// Turns the knobs. Above `threshold` thousandths of units a second requests wait; `None` lets every request pass.
    pub fn set(&self, threshold: Option<u64>, order: RequestOrder) {
        // A rate of 0 would never let anybody pass.
        let rate = threshold.map_or(UNLIMITED, |threshold| threshold.clamp(1, UNLIMITED - 1));
        self.with_state(|state, now| {
            state.units.set(rate, BURST, now);
            (state.order, state.served) = (order, [0; 2]);
        });
        self.is_on.store(threshold.is_some(), Ordering::Relaxed);
    }

    /// Whether a request may have to wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Asks for `milli_units` for a request of `tenant`. The place in the queue is taken now. Dropping the answer gives
    /// back the place, or what was charged.
    ///
    /// # Errors
    /// The answer is [`NodeBusy`] when the units do not come in time.
    pub fn enter(self: &Arc<Self>, access: Access, tenant: u32, milli_units: u64) -> NodeAdmission {
        let slot = self.with_state(|state, now| state.enter(access, tenant, milli_units, now));
        NodeAdmission { queue: Arc::clone(self), slot, access, tenant, milli_units }
    }

    /// Settles a request that passed with `charged` and has cost `actual`. The difference is given back, or is a debt,
    /// of half a second's units at most.
    pub fn settle(&self, charged: u64, actual: u64) {
        if !self.is_on() || charged == actual {
            return;
        }
        if actual < charged {
            self.with_state(|state, _| {
                // What is beyond that was never taken. Given back, it would pay for what others owe.
                let most = state.units.most_into_debt(DEBT_MAX);
                state.units.refund(charged.min(most) - actual.min(most));
            });
        } else {
            // This takes units away: nobody can go because of it.
            let now = self.clock.now();
            self.state.lock().units.take_into_debt(actual - charged, DEBT_MAX, now);
        }
    }

    /// What became of the requests of each queue, in the order of [`Access::ALL`].
    pub fn stats(&self) -> [NodeQueueStats; 2] {
        self.state.lock().stats
    }

    /// How many requests wait in each queue.
    pub fn waiting(&self) -> [usize; 2] {
        let state = self.state.lock();
        [state.queues[0].len(), state.queues[1].len()]
    }

    /// Changes something, and lets all requests go that now can.
    fn with_state<R>(&self, change: impl FnOnce(&mut NodeQueues, Nanos) -> R) -> R {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let result = change(&mut state, now);
        let effects = state.pump(now);
        drop(state);
        effects.carry_out(&*self.clock, &self.timer);
        result
    }
}

impl fmt::Debug for NodeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeQueue").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

impl NodeQueues {
    fn is_empty(&self) -> bool {
        self.queues.iter().all(FairQueue::is_empty)
    }

    /// The slot in which the request waits; `None` = it has passed.
    fn enter(&mut self, access: Access, tenant: u32, milli_units: u64, now: Nanos) -> Option<SlotId> {
        if self.is_empty() && self.units.is_ready(milli_units, now) {
            self.units.take_into_debt(milli_units, DEBT_MAX, now);
            return None;
        }
        let (slot, ticket) = self.slots.open();
        self.queues[access as usize].push(flow(tenant), 1, milli_units, Waiting { slot, since: now });
        let waiting = self.queues.iter().map(FairQueue::len).sum();
        self.patience.ends(now.saturating_add(WAIT_MAX), (slot, ticket), (access, tenant), waiting, &self.slots);
        Some(slot)
    }

    /// Lets all requests pass that can go now, and refuses those whose patience has ended.
    fn pump(&mut self, now: Nanos) -> Effects {
        let mut effects = Effects::default();
        self.alarm.pumped(now);
        self.refuse_overdue(now, &mut effects);
        loop {
            let heads = [0, 1].map(|queue: usize| self.queues[queue].head().map(|(units, _)| units));
            if heads.contains(&None) {
                self.served = [0; 2];
            }
            let Some(access) = next(self.order, heads, self.served) else { break };
            let units = heads[access as usize].unwrap_or_default();
            // Never `None`: there is no rate of 0.
            let ready_at = self.units.next_ready_at(units, now).unwrap_or(Nanos::MAX);
            if ready_at > now {
                self.alarm.set(ready_at, now, &mut effects);
                break;
            }
            let Some((_, waiting)) = self.queues[access as usize].pop() else { break };
            self.units.take_into_debt(units, DEBT_MAX, now);
            let served = &mut self.served[access as usize];
            *served = served.saturating_add(units);
            self.waited(access, waiting.since, now);
            self.slots.answer(waiting.slot, Ok(()), &mut effects);
        }
        effects
    }

    fn waited(&mut self, access: Access, since: Nanos, now: Nanos) {
        let stats = &mut self.stats[access as usize];
        stats.delayed += 1;
        stats.delayed_ns += now.saturating_sub(since);
    }

    fn refuse_overdue(&mut self, now: Nanos, effects: &mut Effects) {
        loop {
            let (slot, access, tenant) = match self.patience.next(now, &self.slots) {
                Next::Nobody => return,
                Next::At(at) => return self.alarm.set(at, now, effects),
                Next::Overdue(slot, (access, tenant)) => (slot, access, tenant),
            };
            let waiting = self.queues[access as usize].remove(flow(tenant), |waiting| waiting.slot == slot);
            debug_assert!(waiting.is_some(), "a waiting slot is in its queue");
            self.waited(access, waiting.map_or(now, |waiting| waiting.since), now);
            self.stats[access as usize].refused += 1;
            let ahead = self.queues.iter().map(FairQueue::cost).fold(0, u64::saturating_add);
            let ready_at = self.units.ready_after(ahead, 1, now).unwrap_or(Nanos::MAX);
            let retry_in_ms = ready_at.saturating_sub(now).div_ceil(1_000_000).max(1);
            self.slots.answer(slot, Err(NodeBusy { retry_in_ms }), effects);
        }
    }

    /// A waiter has given up: its place, or what it was given and never used, goes to the others. Pump afterwards.
    fn cancel(&mut self, slot: SlotId, access: Access, tenant: u32, milli_units: u64) {
        match self.slots.look(slot, None) {
            Poll::Pending => {
                let was_there = self.queues[access as usize].remove(flow(tenant), |waiting| waiting.slot == slot);
                debug_assert!(was_there.is_some(), "a waiting slot is in its queue");
                self.slots.close(slot);
            }
            Poll::Ready(Ok(())) => self.units.refund(milli_units),
            Poll::Ready(Err(_)) => {}
        }
    }
}

/// A request on its way through the queues. Dropping it gives its place back.
#[must_use = "nothing passes before this says so"]
pub struct NodeAdmission {
    queue: Arc<NodeQueue>,
    /// The slot in which it waits; `None` once it has its answer.
    slot: Option<SlotId>,
    access: Access,
    tenant: u32,
    milli_units: u64,
}

impl NodeAdmission {
    /// Whether the request has to wait: it has not passed at once.
    pub fn waits(&self) -> bool {
        self.slot.is_some()
    }
}

impl Future for NodeAdmission {
    type Output = Result<(), NodeBusy>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = self.slot else { return Poll::Ready(Ok(())) };
        let answer = self.queue.state.lock().slots.look(slot, Some(cx.waker()));
        if answer.is_ready() {
            self.slot = None;
        }
        answer
    }
}

impl Drop for NodeAdmission {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let (access, tenant, milli_units) = (self.access, self.tenant, self.milli_units);
            self.queue.with_state(|state, _| state.cancel(slot, access, tenant, milli_units));
        }
    }
}

impl fmt::Debug for NodeAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeAdmission({:?}, tenant {}, {} thousandths)", self.access, self.tenant, self.milli_units)
    }
}
