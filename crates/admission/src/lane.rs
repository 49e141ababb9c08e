//! One budget with its queues: the core of a gate, without the locking and the waiting.

use std::task::{Poll, Waker};

use weir_io::{Nanos, Owner, PAGE};

use crate::bucket::Bucket;
use crate::drains::Drains;
use crate::fair::FairQueue;
use crate::inflight::{InFlight, LeaseId};
use crate::limits::Rates;
use crate::order::{Order, Precedence, RANKS, Rank};
use crate::reserve::Handful;
use crate::slots::{Alarm, Effects, SlotId, Slots};
use crate::weights::Weights;

/// One I/O that wants to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) rank: Rank,
    pub(crate) bytes: u64,
    /// 1; but 0 for a write into the page cache that the device does along with another.
    pub(crate) ops: u64,
    /// Whether it goes into the page cache, and moves nothing yet.
    pub(crate) buffered: bool,
}

impl Ask {
    /// What the I/O costs in the shares of owners and of ranks, in bytes. An operation is never cheaper than a page.
    fn cost(&self) -> u64 {
        self.bytes.max(PAGE as u64)
    }
}

/// What passed one rank of a gate, and how long it waited. Counted only while the gate is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankStats {
    /// Bytes granted.
    pub bytes: u64,
    /// Operations granted.
    pub ops: u64,
    /// Operations that had to wait.
    pub delayed_ops: u64,
    /// Total time they waited, in nanoseconds.
    pub delayed_ns: u64,
}

#[derive(Debug)]
struct Waiting {
    slot: SlotId,
    ask: Ask,
    since: Nanos,
}

#[derive(Debug)]
pub(crate) struct Lane {
    rates: Rates,
    bytes: Bucket,
    ops: Bucket,
    queues: [FairQueue<Waiting>; RANKS],
    order: Order,
    foreground_strict: bool,
    in_flight: InFlight,
    weights: Weights,
    /// A waiter's answer is the lease of what was granted to it.
    slots: Slots<Option<LeaseId>>,
    alarm: Alarm,
    /// What was put in reserve, for foreground only. It is zero unless nobody waits and foreground is strict.
    handed: Handful,
    stats: [RankStats; RANKS],
    drains: Drains,
}

/// A smaller reserve in bytes is not worth the trouble.
const HANDFUL_MIN: u64 = 2 * PAGE as u64;

/// How much the page cache may take in ahead of the device, in nanoseconds of either rate: writes that wait for the
/// next syncs of logs.
const BUFFERED_DEBT: Nanos = 100_000_000;

impl Lane {
    pub(crate) fn new(rates: Rates, burst: Nanos, in_flight: Nanos, now: Nanos) -> Self {
        Self {
            rates,
            bytes: Bucket::new(rates.bytes, burst, now),
            ops: Bucket::new(rates.ops, burst, now),
            queues: [const { FairQueue::new() }; RANKS],
            order: Order::new(),
            foreground_strict: true,
            in_flight: InFlight::new(in_flight),
            weights: Weights::default(),
            slots: Slots::new(),
            alarm: Alarm::new(),
            handed: Handful::default(),
            stats: [RankStats::default(); RANKS],
            drains: Drains::new(Drains::PERIOD),
        }
    }

    pub(crate) fn set_rates(&mut self, rates: Rates, burst: Nanos, now: Nanos) {
        self.rates = rates;
        self.bytes.set(rates.bytes, burst, now);
        self.ops.set(rates.ops, burst, now);
    }

    pub(crate) fn set_precedence(&mut self, rank: Rank, precedence: Precedence) {
        self.order.set(rank, precedence);
        if rank == Rank::Foreground {
            self.foreground_strict = precedence == Precedence::Strict;
        }
    }

    pub(crate) fn set_weight(&mut self, owner: Owner, weight: Option<u64>) {
        self.weights.set(owner, weight);
        self.reweigh(owner);
    }

    pub(crate) fn set_weight_of_flushes(&mut self, owner: Owner, weight: Option<u64>) {
        self.weights.set_of_flushes(owner, weight);
        self.reweigh(owner);
    }

    fn reweigh(&mut self, owner: Owner) {
        for rank in Rank::ALL {
            self.queues[rank as usize].reweigh(owner, self.weights.of(owner, rank));
        }
    }

    pub(crate) fn stats(&self) -> &[RankStats; RANKS] {
        &self.stats
    }

    pub(crate) fn set_drain_period(&mut self, period: Nanos, now: Nanos) {
        self.drains.set_period(period, now);
    }

    /// Periods in which somebody waited.
    pub(crate) fn drains(&mut self, now: Nanos) -> u64 {
        self.drains.count(now)
    }

    pub(crate) fn waiting(&self, rank: Rank) -> usize {
        self.queues[rank as usize].len()
    }

    /// Whole bytes in the bucket; negative while in debt.
    pub(crate) fn tokens(&mut self, now: Nanos) -> i64 {
        self.bytes.tokens(now)
    }

    /// Whether nobody waits, and both buckets are at least half full.
    pub(crate) fn is_idle(&mut self, now: Nanos) -> bool {
        !self.anybody_waits() && self.bytes.is_half_full(now) && self.ops.is_half_full(now)
    }

    pub(crate) fn anybody_waits(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Takes tokens out of the buckets, with which foreground can pass without looking in here. Takes nothing if there
    /// are too few to spare, or somebody waits.
    pub(crate) fn hand_out(&mut self, now: Nanos) -> Handful {
        if !self.foreground_strict || self.anybody_waits() {
            return Handful::default();
        }
        let tokens = self.bytes.spare(now).min(Handful::MOST.tokens);
        let ops = self.ops.spare(now).min(Handful::MOST.ops);
        if tokens < HANDFUL_MIN || ops < 2 {
            return Handful::default();
        }
        self.bytes.lend(tokens);
        self.ops.lend(ops);
        self.handed = Handful { tokens, ops };
        self.handed
    }

    /// Takes back what is left of the tokens that were handed out. To be called before anything else is asked of the
    /// lane, except a release.
    pub(crate) fn take_back(&mut self, left: Handful, now: Nanos) {
        let handed = std::mem::take(&mut self.handed);
        if handed != Handful::default() {
            self.bytes.take_back(left.tokens, now);
            self.ops.take_back(left.ops, now);
            let stats = &mut self.stats[Rank::Foreground as usize];
            stats.bytes += handed.tokens - left.tokens;
            stats.ops += handed.ops - left.ops;
        }
    }

    /// Grants at once if nobody that goes first is waiting and the tokens are there. `Some(lease)` if granted.
    pub(crate) fn try_now(&mut self, ask: &Ask, now: Nanos) -> Option<Option<LeaseId>> {
        // Strict foreground need not look at what waits below it. Everybody else queues up and lets `Order` decide.
        let may_overtake =
            ask.rank == Rank::Foreground && self.foreground_strict && self.queues[Rank::Foreground as usize].is_empty();
        if self.anybody_waits() && !may_overtake {
            return None;
        }
        if ask.rank.is_background() && self.in_flight.admit(now).is_err() {
            return None;
        }
        if self.ready_at(ask, now).is_none_or(|at| at > now) {
            return None;
        }
        Some(self.grant(ask, now))
    }

    /// The first instant when the tokens for `ask` are there; `None` if never. Before the device, background leaves
    /// half of a burst to foreground: a read that waited for tokens as well as for the transfers under way would wait
    /// twice.
    fn ready_at(&mut self, ask: &Ask, now: Nanos) -> Option<Nanos> {
        let (bytes, ops) = if ask.rank.is_background() && self.in_flight.is_limited() {
            (self.bytes.next_ready_beside(ask.bytes, now), self.ops.next_ready_beside(ask.ops, now))
        } else {
            (self.bytes.next_ready_at(ask.bytes, now), self.ops.next_ready_at(ask.ops, now))
        };
        bytes.zip(ops).map(|(bytes, ops)| bytes.max(ops))
    }

    /// Lets foreground that moves nothing yet pass, if that leaves a debt of no more than [`BUFFERED_DEBT`]. It passes
    /// before others that wait, but not before one that has waited for as long as that already. Otherwise a stream of
    /// such writes would keep everybody else waiting for ever.
    pub(crate) fn try_buffered(&mut self, ask: &Ask, now: Nanos) -> bool {
        if (ask.bytes, ask.ops) == (0, 0) {
            self.grant(ask, now);
            return true;
        }
        let next = self.queues[Rank::Foreground as usize].head();
        if next.is_some_and(|(_, next)| now.saturating_sub(next.since) >= BUFFERED_DEBT) {
            return false;
        }
        let passes = self.bytes.is_ready_in_debt(ask.bytes, BUFFERED_DEBT, now)
            && self.ops.is_ready_in_debt(ask.ops, BUFFERED_DEBT, now);
        if passes {
            self.grant(ask, now);
        }
        passes
    }

    /// Takes the tokens, and lends the device time.
    fn grant(&mut self, ask: &Ask, now: Nanos) -> Option<LeaseId> {
        self.bytes.take(ask.bytes, now);
        self.ops.take(ask.ops, now);
        let stats = &mut self.stats[ask.rank as usize];
        stats.bytes += ask.bytes;
        stats.ops += ask.ops;
        if !ask.rank.is_background() {
            return if ask.buffered { None } else { self.in_flight.foreground() };
        }
        self.in_flight.lend(self.rates.device_time(ask.bytes, ask.ops), now)
    }

    /// Queues `ask`. Pump afterwards.
    pub(crate) fn enqueue(&mut self, ask: Ask, now: Nanos) -> SlotId {
        let (id, _) = self.slots.open();
        let weight = self.weights.of(ask.owner, ask.rank);
        self.queues[ask.rank as usize].push(ask.owner, weight, ask.cost(), Waiting { slot: id, ask, since: now });
        id
    }

    /// Grants everything that can go now.
    pub(crate) fn pump(&mut self, now: Nanos) -> Effects {
        let mut effects = Effects::default();
        self.alarm.pumped(now);
        while self.anybody_waits() {
            let background = self.in_flight.admit(now);
            let Some(rank) = self.next_rank(background.is_ok()) else {
                // Only background waits, for device time. A release pumps; this timer is for a lease that nobody looks
                // at.
                if let Err(overdue_at) = background {
                    self.alarm.set(overdue_at, now, &mut effects);
                }
                break;
            };
            let (_, head) = self.queues[rank as usize].head().expect("picked ranks have a head");
            let ask = head.ask;
            match self.ready_at(&ask, now) {
                Some(at) if at <= now => {}
                Some(at) => {
                    self.alarm.set(at, now, &mut effects);
                    break;
                }
                // A rate of 0: it waits until somebody turns the knob.
                None => break,
            }
            let waiting = Rank::ALL.map(|rank| !self.queues[rank as usize].is_empty());
            let (cost, head) = self.queues[rank as usize].pop().expect("picked ranks have a head");
            self.order.granted(rank, cost, &waiting);
            let lease = self.grant(&head.ask, now);
            if now > head.since {
                let stats = &mut self.stats[rank as usize];
                stats.delayed_ops += 1;
                stats.delayed_ns += now - head.since;
            }
            self.slots.answer(head.slot, lease, &mut effects);
        }
        self.drains.observe(self.anybody_waits(), now);
        effects
    }

    /// The rank whose turn it is. `admits` says whether background may have one more I/O in flight. What foreground
    /// owes to background by its share goes in any case: between two such I/Os foreground has had its part, so that no
    /// read waits behind more of background than the share says. The obvious way, one at a time, breaks the share where
    /// the device has a queue of its own: each would take as long as that queue, and background would have one I/O in
    /// that time.
    fn next_rank(&self, admits: bool) -> Option<Rank> {
        let heads = Rank::ALL.map(|rank| self.queues[rank as usize].head().map(|(cost, _)| cost));
        if admits || heads[Rank::Foreground as usize].is_some() {
            return self.order.pick(&heads);
        }
        None
    }

    /// See [`Slots::look`].
    pub(crate) fn look(&mut self, id: SlotId, waker: Option<&Waker>) -> Poll<Option<LeaseId>> {
        self.slots.look(id, waker)
    }

    /// A waiter has given up: its place, or what it was granted and never used, goes to the others. Pump afterwards.
    pub(crate) fn cancel(&mut self, id: SlotId, ask: &Ask) {
        match self.look(id, None) {
            Poll::Pending => {
                let was_there = self.queues[ask.rank as usize].remove(ask.owner, |waiting| waiting.slot == id);
                debug_assert!(was_there.is_some(), "a waiting slot is in its queue");
                self.slots.close(id);
            }
            Poll::Ready(lease) => {
                self.refund(ask);
                if let Some(lease) = lease {
                    self.in_flight.release(lease);
                }
            }
        }
    }

    /// Gives back the tokens of a grant whose I/O was never issued. Pump afterwards.
    pub(crate) fn refund(&mut self, ask: &Ask) {
        self.bytes.refund(ask.bytes);
        self.ops.refund(ask.ops);
        let stats = &mut self.stats[ask.rank as usize];
        // Saturating: the grant may be from before the gate was limited, when nothing was counted.
        stats.bytes = stats.bytes.saturating_sub(ask.bytes);
        stats.ops = stats.ops.saturating_sub(ask.ops);
    }

    /// The I/O of a lease is over. Pump afterwards.
    pub(crate) fn release(&mut self, lease: LeaseId) {
        self.in_flight.release(lease);
    }
}
