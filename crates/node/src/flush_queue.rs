//! The queue in which flushes wait for a slot, on nodes that bound how many flushes run at a time. Without a bound
//! there is no queue: a flush may always run, one per partition (C-14).
//!
//! How many slots are reserved [follows](reserved_slots) from how long flushes take: the longest of the last [`TIMES`],
//! leaving out one in twenty (U-14), and those that failed, which may fail at once and again and again. Before any
//! flush has succeeded nobody knows, and everything that may be asked for is reserved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::policy::share::{Claimant, Delay, ShareMode, reserved_slots, worsened_slots};
use weir_io::{Clock, Event, Nanos};

use crate::flush_slots::{FlushSlots, Sharer};
use crate::tenant::TermsBook;

/// Flushes whose times are remembered.
const TIMES: usize = 64;
/// Waits of this many tenants are remembered, whoever they are. Beyond that, the waits of tenants that are asleep are
/// forgotten.
const REMEMBERED_MAX: usize = 1024;

/// How many flushes run at a time, and how they are shared between tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushShares {
    /// The number of slots, at least one.
    pub slots: u64,
    /// The mode of sharing. A `quarter` counts as `fair`, because slots are few.
    pub mode: ShareMode,
}

/// How flushes were served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushWaits {
    /// How many may run, and how they are shared.
    pub shares: FlushShares,
    /// Slots that are reserved.
    pub reserved: u64,
    /// Whether more than half of the slots would have to be reserved.
    pub is_broken: bool,
    /// How long a flush takes, leaving out one in twenty, in nanoseconds; `None` before one has succeeded.
    pub time: Option<Nanos>,
    /// Flushes under way.
    pub running: u64,
    /// Flushes that wait for a slot.
    pub waiting: usize,
    /// The longest wait of each tenant, in nanoseconds, since the node was opened.
    pub longest: BTreeMap<u32, Nanos>,
}

/// The queue, with the slots and the times that the reserve is calculated from.
pub(crate) struct FlushQueue {
    shares: FlushShares,
    terms: Arc<TermsBook>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    news: Event,
}

struct State {
    slots: FlushSlots,
    reserved: u64,
    /// The promise is not kept, and the log has said so.
    is_broken: bool,
    /// Tickets of flushes that have got a slot.
    granted: BTreeSet<u64>,
    /// The times of the last flushes, the oldest first.
    times: VecDeque<Nanos>,
    longest: BTreeMap<u32, Nanos>,
}

impl State {
    /// How long a flush takes, leaving out one in twenty.
    fn time(&self) -> Option<Nanos> {
        let mut times: Vec<Nanos> = self.times.iter().copied().collect();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get(last - last / 20).copied()
    }
}

impl FlushQueue {
    /// A queue with all slots free, for tenants with these terms.
    pub fn new(shares: FlushShares, terms: Arc<TermsBook>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let slots = FlushSlots::new(shares.slots.max(1));
        let (granted, times, longest) = (BTreeSet::new(), VecDeque::new(), BTreeMap::new());
        let state = State { slots, reserved: 0, is_broken: false, granted, times, longest };
        Arc::new(Self { shares, terms, clock, state: Mutex::new(state), news: Event::default() })
    }

    /// Turns the knobs for the tenants that are awake, in the order of their numbers.
    pub fn turn(&self, tenants: &[u32]) {
        let (FlushShares { slots, mode }, claimants) = (self.shares, self.terms.claimants(tenants));
        let has_delays = mode.promise().is_some();
        let sharer = |&Claimant { tenant, terms }: &Claimant| {
            let is_patient = has_delays && terms.delay == Delay::Endless;
            (tenant, Sharer { weight: terms.weight.into(), is_patient })
        };
        self.change(|state| {
            let reserved = reserved_slots(mode, slots, state.time(), &claimants);
            // Before a flush has succeeded, flushes are taken to last for ever, which breaks no promise.
            let broken = reserved.broken.filter(|_| state.time().is_some());
            if let Some(broken) = &broken
                && !state.is_broken
            {
                tracing::warn!("the flush slots, shared as \"{mode}\", cannot keep their promise: {broken}");
            }
            (state.reserved, state.is_broken) = (reserved.reserved, broken.is_some());
            state.slots.set(state.reserved, claimants.iter().map(sharer).collect());
            if state.longest.len() > REMEMBERED_MAX {
                state.longest.retain(|tenant, _| tenants.binary_search(tenant).is_ok());
            }
        });
    }

    /// Why `claimants`, all tenants of the node, cannot be promised their shares, in words. `None` if they can, if it
    /// is not known yet, or if it was as bad with the claimants that were there `before`.
    pub fn worsened(&self, before: &[Claimant], claimants: &[Claimant]) -> Option<String> {
        let (FlushShares { slots, mode }, time) = (self.shares, self.state.lock().time());
        let broken = worsened_slots(mode, slots, time, (before, claimants))?;
        Some(format!("the flush slots, shared as \"{mode}\", could not keep their promise: {broken}"))
    }

    /// A slot for `tenant`, when it is its turn.
    pub async fn slot(self: &Arc<Self>, tenant: u32) -> FlushSlot {
        let asked = self.clock.now();
        let ticket = self.change(|state| state.slots.ask(tenant));
        let mut slot = FlushSlot { queue: Arc::clone(self), tenant, ticket, since: None };
        self.news.wait(|| self.state.lock().granted.contains(&ticket).then_some(())).await;
        let now = self.clock.now();
        slot.since = Some(now);
        let mut state = self.state.lock();
        let longest = state.longest.entry(tenant).or_default();
        *longest = (*longest).max(now - asked);
        drop(state);
        slot
    }

    /// How flushes were served.
    pub fn waits(&self) -> FlushWaits {
        let state = self.state.lock();
        FlushWaits {
            shares: self.shares,
            reserved: state.reserved,
            is_broken: state.is_broken,
            time: state.time(),
            running: state.slots.running(),
            waiting: state.slots.waiting(),
            longest: state.longest.clone(),
        }
    }

    /// Changes the state, and gives slots to the tenants whose turn it is then.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = change(&mut state);
        while let Some((_, ticket)) = state.slots.next() {
            state.granted.insert(ticket);
        }
        drop(state);
        self.news.notify();
        outcome
    }
}

/// A flush slot, or a place in the queue for one; dropping it gives it back.
pub(crate) struct FlushSlot {
    queue: Arc<FlushQueue>,
    tenant: u32,
    ticket: u64,
    /// Since when it is a slot; `None` as long as the waiting flush has not been told, and if the flush has failed.
    since: Option<Nanos>,
}

impl FlushSlot {
    /// The flush has failed or was given up: the time that it took says nothing.
    pub fn failed(&mut self) {
        self.since = None;
    }
}

impl Drop for FlushSlot {
    fn drop(&mut self) {
        let Self { queue, tenant, ticket, since } = self;
        queue.change(|state| {
            if !state.granted.remove(ticket) {
                state.slots.leave(*tenant, *ticket);
                return;
            }
            state.slots.give_back(*tenant);
            if let Some(since) = since {
                if state.times.len() == TIMES {
                    state.times.pop_front();
                }
                state.times.push_back(queue.clock.now().saturating_sub(*since));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::task::Poll;

    use weir_admission::policy::share::Promise;
    use weir_io::sim::Sim;
    use weir_io::sleep_until;

    use super::*;

    const MS: Nanos = 1_000_000;

    /// When the flush of tenant 2 begins, in milliseconds after it was asked for. In front of it are fourteen flushes
    /// of tenant 1 that take 600 ms each, on two slots.
    fn waits(mode: ShareMode) -> u64 {
        let sim = Sim::new(1);
        let clock = sim.clock();
        let queue = FlushQueue::new(FlushShares { slots: 2, mode }, Arc::default(), sim.clock());
        queue.turn(&Vec::from_iter(0..16));
        for _ in 0..14 {
            let (queue, clock) = (Arc::clone(&queue), sim.clock());
            sim.spawn(async move {
                let _slot = queue.slot(1).await;
                sleep_until(&clock, clock.now() + 600 * MS).await;
            });
        }
        sim.block_on(async {
            sleep_until(&clock, clock.now() + 100 * MS).await;
            let asked = clock.now();
            // A flush that gives up leaves no gap.
            let mut gives_up = Box::pin(queue.slot(3));
            poll_fn(|cx| Poll::Ready(gives_up.as_mut().poll(cx).is_ready())).await;
            drop(gives_up);
            let _slot = queue.slot(2).await;
            let FlushWaits { running, waiting, .. } = queue.waits();
            assert!(running == 2 && waiting >= 10, "{running} {waiting}");
            (clock.now() - asked) / MS
        })
    }

    #[test]
    fn a_reserved_slot_is_there_at_once_and_without_one_a_flush_has_to_end() {
        // DF-E7: a flush that runs is not taken off its slot.
        assert_eq!(waits(ShareMode::Fair), 500);
        assert_eq!(waits(ShareMode::Quota), 0);
        let delta = |ms| ShareMode::Delta(Promise { delta: ms * MS, k: 1 });
        assert_eq!([0, 500, 9_999].map(|ms| waits(delta(ms))), [0; 3], "nobody knows yet how long a flush takes");
    }

    #[test]
    fn the_reserve_follows_the_time_that_flushes_take() {
        let sim = Sim::new(1);
        let clock = sim.clock();
        let mode = ShareMode::Delta(Promise { delta: 350 * MS, k: 1 });
        let queue = FlushQueue::new(FlushShares { slots: 2, mode }, Arc::default(), sim.clock());
        sim.block_on(async {
            for _ in 0..20 {
                let _slot = queue.slot(1).await;
                sleep_until(&clock, clock.now() + 20 * MS).await;
            }
        });
        assert_eq!(queue.waits().time, Some(20 * MS));
        queue.turn(&Vec::from_iter(0..16));
        let both = sim.block_on(async { (queue.slot(1).await, queue.slot(1).await) });
        let waits = queue.waits();
        assert_eq!((waits.running, waits.waiting, waits.reserved), (2, 0, 0), "short flushes need no reserve");
        drop(both);
        assert_eq!((queue.waits().running, queue.waits().longest), (0, BTreeMap::from([(1, 0)])));
    }
}
