//! The gate: I/O that passes it waits its turn for tokens, without holding a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};
use weir_io::{Clock, Nanos, Owner};

use crate::inflight::LeaseId;
use crate::lane::{Ask, Lane, RankStats};
use crate::limits::{Direction, Limits, Rates};
use crate::order::{Precedence, RANKS, Rank};
use crate::reserve::Reserve;
use crate::slots::SlotId;

/// What a gate starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Bytes and operations per second.
    pub limits: Limits,
    /// The burst: the tokens of at most this much time are kept, in nanoseconds.
    pub burst: Nanos,
    /// Background I/O in flight is less than this much device time plus one grant, in nanoseconds.
    pub background_in_flight: Nanos,
}

impl GateOptions {
    /// The gate before the device: a burst of 10 ms (U-8), of which background leaves half to foreground. Half a
    /// millisecond of background may be in flight, which with one grant more is a millisecond (house rule 6): that is
    /// how long a read waits behind it.
    pub const NODE: GateOptions =
        GateOptions { limits: Limits::UNLIMITED, burst: 10_000_000, background_in_flight: 500_000 };
    /// The foreground gate of a partition: a burst of 100 ms (U-8).
    pub const FOREGROUND: GateOptions =
        GateOptions { limits: Limits::UNLIMITED, burst: 100_000_000, background_in_flight: Nanos::MAX };
    /// The background gate of a partition: a burst of 20 ms (U-8). What is in flight is limited by the node's gate
    /// alone.
    pub const BACKGROUND: GateOptions =
        GateOptions { limits: Limits::UNLIMITED, burst: 20_000_000, background_in_flight: Nanos::MAX };
}

/// How the lanes are used: one atomic, so that an unlimited gate costs one load.
const FREE: u8 = 0;
const SHARED: u8 = 1;
const SPLIT: u8 = 2;

/// Queues before a budget of bytes and operations: ranks in order ([`Rank`], FX-9, FX-14), owners of one rank in
/// proportion to their weight (C-8), first in first out inside an owner.
///
/// A gate has no thread. Every caller that asks, gives up or finishes pumps the queues, and a timer of the handed-in
/// clock pumps when the next tokens are due. Foreground far below the limit passes with tokens out of a reserve and
/// takes no lock. Lock order: a lane's lock is never held while waking, arming a timer or taking the other lane's lock.
pub struct Gate {
    clock: Arc<dyn Clock>,
    mode: AtomicU8,
    /// Per direction: see [`Rates::grant_bytes`].
    grant_bytes: [AtomicU64; 2],
    /// Per direction: what a full bucket holds, in bytes.
    burst_bytes: [AtomicU64; 2],
    burst: AtomicU64,
    /// The lane of reads (and, unless split, of writes), then the lane of writes.
    lanes: [Mutex<Lane>; 2],
    /// The reserve of each lane, for foreground.
    reserves: [Reserve; 2],
    timers: [Waker; 2],
}

/// A timer's waker: pumps one lane. Weak, so that a timer far in the future does not keep a gate.
struct Timer {
    gate: Weak<Gate>,
    lane: usize,
}

impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        if let Some(gate) = self.gate.upgrade() {
            gate.with_lane(self.lane, |_, _| {});
        }
    }
}

impl Gate {
    /// A gate on `clock`.
    pub fn new(clock: Arc<dyn Clock>, options: GateOptions) -> Arc<Self> {
        let now = clock.now();
        let lane = |direction| {
            let rates = options.limits.rates(direction);
            Mutex::new(Lane::new(rates, options.burst, options.background_in_flight, now))
        };
        let lanes = [lane(Direction::Read), lane(Direction::Write)];
        Arc::new_cyclic(|gate| Self {
            clock,
            mode: AtomicU8::new(mode_of(&options.limits)),
            grant_bytes: [Direction::Read, Direction::Write]
                .map(|direction| AtomicU64::new(options.limits.rates(direction).grant_bytes())),
            burst_bytes: [Direction::Read, Direction::Write]
                .map(|direction| AtomicU64::new(options.limits.rates(direction).burst_bytes(options.burst))),
            burst: AtomicU64::new(options.burst),
            lanes,
            reserves: Default::default(),
            timers: [0, 1].map(|lane| Waker::from(Arc::new(Timer { gate: gate.clone(), lane }))),
        })
    }

    /// Turns the rates. Waiters that the new rates let pass, pass at once. Stored tokens above a smaller burst are lost
    /// (U-8).
    pub fn set_limits(&self, limits: Limits) {
        let burst = self.burst.load(Ordering::Relaxed);
        for (index, direction) in [Direction::Read, Direction::Write].into_iter().enumerate() {
            let rates = limits.rates(direction);
            self.grant_bytes[index].store(rates.grant_bytes(), Ordering::Relaxed);
            self.burst_bytes[index].store(rates.burst_bytes(burst), Ordering::Relaxed);
            self.with_lane(index, |lane, now| lane.set_rates(rates, burst, now));
        }
        // After the lanes: a caller that still sees the old mode finds a lane that is right, or passes one last time.
        self.mode.store(mode_of(&limits), Ordering::Release);
    }

    /// Changes the burst, in nanoseconds. It takes effect with the next [`Gate::set_limits`].
    pub fn set_burst(&self, burst: Nanos) {
        self.burst.store(burst, Ordering::Relaxed);
    }

    /// Sets what the ranks below `rank` get while `rank` waits.
    pub fn set_precedence(&self, rank: Rank, precedence: Precedence) {
        self.each_lane(|lane| lane.set_precedence(rank, precedence));
    }

    /// Sets an owner's share inside its rank: its reserved bandwidth in bytes per second (C-8). `None` forgets it. It
    /// takes effect at once.
    pub fn set_weight(&self, owner: Owner, bytes_per_sec: Option<u64>) {
        self.each_lane(|lane| lane.set_weight(owner, bytes_per_sec));
    }

    /// Sets an owner's share among flushes; `None` = as it has in other ranks. It takes effect at once.
    pub fn set_weight_of_flushes(&self, owner: Owner, weight: Option<u64>) {
        self.each_lane(|lane| lane.set_weight_of_flushes(owner, weight));
    }

    /// True if nothing ever waits here.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.mode.load(Ordering::Acquire) == FREE
    }

    /// The largest background I/O to ask for at once, in bytes; `u64::MAX` if unlimited (house rule 6).
    #[inline]
    pub fn grant_bytes(&self, direction: Direction) -> u64 {
        self.grant_bytes[direction as usize].load(Ordering::Relaxed)
    }

    /// What a full bucket holds, in bytes; `u64::MAX` if unlimited.
    #[inline]
    pub fn burst_bytes(&self, direction: Direction) -> u64 {
        self.burst_bytes[direction as usize].load(Ordering::Relaxed)
    }

    /// How many I/Os of `rank` wait.
    pub fn waiting(&self, rank: Rank) -> usize {
        self.lanes.iter().map(|lane| lane.lock().waiting(rank)).sum()
    }

    /// Counts drains by periods as long as this, in nanoseconds, from now on.
    pub fn set_drain_period(&self, period: Nanos) {
        for lane in 0..self.lanes.len() {
            self.with_lane(lane, |lane, now| lane.set_drain_period(period, now));
        }
    }

    /// How many periods there were in which somebody waited for tokens or for its turn.
    pub fn drains(&self) -> u64 {
        let now = self.clock.now();
        (0..self.lanes.len()).map(|lane| self.lock(lane, now).drains(now)).sum()
    }

    /// The time on the gate's clock.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Whether any I/O waits, of whatever rank.
    pub fn anybody_waits(&self) -> bool {
        !self.is_unlimited() && self.lanes.iter().any(|lane| lane.lock().anybody_waits())
    }

    /// Whole bytes in the bucket of `direction`; negative while in debt, `i64::MAX` if unlimited.
    pub fn tokens(&self, direction: Direction) -> i64 {
        let now = self.clock.now();
        self.lock(self.lane_of(direction), now).tokens(now)
    }

    /// What passed so far, by rank. Nothing is counted here while the gate is unlimited; the ledger always counts.
    pub fn stats(&self) -> [RankStats; RANKS] {
        let mut sum = [RankStats::default(); RANKS];
        let now = self.clock.now();
        for lane in 0..self.lanes.len() {
            for (sum, stats) in sum.iter_mut().zip(self.lock(lane, now).stats()) {
                sum.bytes += stats.bytes;
                sum.ops += stats.ops;
                sum.delayed_ops += stats.delayed_ops;
                sum.delayed_ns += stats.delayed_ns;
            }
        }
        sum
    }

    /// Asks for one operation of `bytes`. The place in the queue is taken now, not when the request is first polled.
    /// Dropping the request gives place and tokens back.
    #[inline]
    pub fn request(self: &Arc<Self>, owner: Owner, rank: Rank, direction: Direction, bytes: u64) -> Request {
        self.request_for(Ask { owner, rank, bytes, ops: 1, buffered: false }, direction)
    }

    #[inline]
    fn request_for(self: &Arc<Self>, ask: Ask, direction: Direction) -> Request {
        match self.try_pass_for(ask, direction) {
            Some(grant) => Request::Ready(Some(grant)),
            None => self.enqueue(ask, self.lane_of(direction)),
        }
    }

    /// Asks for `bytes` in `ops` operations that pass at once or not at all.
    #[inline]
    pub(crate) fn try_pass(
        self: &Arc<Self>,
        owner: Owner,
        rank: Rank,
        direction: Direction,
        bytes: u64,
        ops: u64,
    ) -> Option<Grant> {
        self.try_pass_for(Ask { owner, rank, bytes, ops, buffered: false }, direction)
    }

    #[inline]
    fn try_pass_for(self: &Arc<Self>, ask: Ask, direction: Direction) -> Option<Grant> {
        if self.is_unlimited() {
            return Some(Grant::FREE);
        }
        let lane = self.lane_of(direction);
        if ask.rank == Rank::Foreground && self.reserves[lane].try_take(ask.bytes, ask.ops) {
            return Some(Grant::FREE);
        }
        self.try_pass_limited(ask, lane)
    }

    /// Asks for one foreground write into the page cache. It moves nothing yet, so it passes at once and is paid for by
    /// what comes after it, up to a tenth of a second of the rates. Beyond that, or when others have waited as long, it
    /// waits in the queue. `bytes` and `ops` are what the device will get because of it; a write that costs nothing
    /// always passes.
    pub(crate) fn request_buffered(
        self: &Arc<Self>,
        owner: Owner,
        direction: Direction,
        bytes: u64,
        ops: u64,
    ) -> Request {
        let (lane, now) = (self.lane_of(direction), self.clock.now());
        let ask = Ask { owner, rank: Rank::Foreground, bytes, ops, buffered: true };
        if let Some(grant) = self.try_pass_for(ask, direction) {
            return Request::Ready(Some(grant));
        }
        if self.lock(lane, now).try_buffered(&ask, now) {
            return Request::Ready(Some(Grant::FREE));
        }
        self.request_for(ask, direction)
    }

    fn try_pass_limited(self: &Arc<Self>, ask: Ask, lane: usize) -> Option<Grant> {
        let now = self.clock.now();
        let mut locked = self.lock(lane, now);
        let lease = locked.try_now(&ask, now)?;
        if ask.rank == Rank::Foreground {
            self.reserves[lane].fill(locked.hand_out(now));
        }
        drop(locked);
        Some(self.granted(lane, lease))
    }

    /// True if nobody waits and at least half a burst is there: what passes now costs nobody else anything.
    pub fn is_idle(&self, direction: Direction) -> bool {
        let now = self.clock.now();
        self.is_unlimited() || self.lock(self.lane_of(direction), now).is_idle(now)
    }

    /// Locks a lane, and puts all its tokens back into its buckets.
    fn lock(&self, lane: usize, now: Nanos) -> MutexGuard<'_, Lane> {
        let mut locked = self.lanes[lane].lock();
        locked.take_back(self.reserves[lane].reclaim(), now);
        locked
    }

    fn enqueue(self: &Arc<Self>, ask: Ask, lane: usize) -> Request {
        let now = self.clock.now();
        let mut locked = self.lock(lane, now);
        let slot = locked.enqueue(ask, now);
        let effects = locked.pump(now);
        // It may have been granted already, before others that wait.
        let look = locked.look(slot, None);
        drop(locked);
        effects.carry_out(&*self.clock, &self.timers[lane]);
        match look {
            Poll::Ready(lease) => Request::Ready(Some(self.granted(lane, lease))),
            Poll::Pending => Request::Waiting(Waiter { gate: Arc::clone(self), lane, slot, ask, done: false }),
        }
    }

    fn granted(self: &Arc<Self>, lane: usize, lease: Option<LeaseId>) -> Grant {
        Grant(lease.map(|lease| Lease { gate: Arc::clone(self), lane, lease }))
    }

    /// Gives back the tokens of a grant whose I/O was never issued.
    pub(crate) fn refund(&self, owner: Owner, rank: Rank, direction: Direction, bytes: u64, ops: u64) {
        if !self.is_unlimited() {
            self.with_lane(self.lane_of(direction), |lane, _| {
                lane.refund(&Ask { owner, rank, bytes, ops, buffered: false })
            });
        }
    }

    fn lane_of(&self, direction: Direction) -> usize {
        if self.mode.load(Ordering::Acquire) == SPLIT { direction as usize } else { 0 }
    }

    fn each_lane(&self, change: impl Fn(&mut Lane)) {
        for lane in 0..self.lanes.len() {
            self.with_lane(lane, |lane, _| change(lane));
        }
    }

    /// Changes a lane, and lets every request pass that now can.
    fn with_lane<R>(&self, lane: usize, change: impl FnOnce(&mut Lane, Nanos) -> R) -> R {
        let now = self.clock.now();
        let mut locked = self.lock(lane, now);
        let result = change(&mut locked, now);
        let effects = locked.pump(now);
        drop(locked);
        effects.carry_out(&*self.clock, &self.timers[lane]);
        result
    }
}

fn mode_of(limits: &Limits) -> u8 {
    match limits {
        limits if limits.is_unlimited() => FREE,
        Limits::Shared(_) => SHARED,
        Limits::Split { .. } => SPLIT,
    }
}

/// Permission for one I/O. Keep it until the I/O is over: the grants that are held bound the background I/O in flight.
#[derive(Debug)]
#[must_use = "hold it until the I/O is over"]
pub struct Grant(Option<Lease>);

impl Grant {
    /// The grant of an unlimited gate.
    pub const FREE: Grant = Grant(None);

    /// True if nobody counts how long the grant is held: it may be dropped before the I/O is over.
    pub fn is_free(&self) -> bool {
        self.0.is_none()
    }
}

struct Lease {
    gate: Arc<Gate>,
    lane: usize,
    lease: LeaseId,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lease.fmt(f)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.gate.with_lane(self.lane, |lane, _| lane.release(self.lease));
    }
}

/// A request under way. It completes with the [`Grant`].
#[derive(Debug)]
pub enum Request {
    /// Granted at once; `None` once taken.
    Ready(Option<Grant>),
    /// In the queue.
    Waiting(Waiter),
}

impl Future for Request {
    type Output = Grant;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Grant> {
        match self.get_mut() {
            Request::Ready(grant) => Poll::Ready(grant.take().expect("Request polled after it was done")),
            Request::Waiting(waiter) => waiter.poll(cx),
        }
    }
}

/// A place in a gate's queue.
pub struct Waiter {
    gate: Arc<Gate>,
    lane: usize,
    slot: SlotId,
    ask: Ask,
    /// Whether the slot is no longer ours.
    done: bool,
}

impl Waiter {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Grant> {
        debug_assert!(!self.done, "Request polled after it was done");
        let look = self.gate.lanes[self.lane].lock().look(self.slot, Some(cx.waker()));
        look.map(|lease| {
            self.done = true;
            self.gate.granted(self.lane, lease)
        })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.done {
            self.gate.with_lane(self.lane, |lane, _| lane.cancel(self.slot, &self.ask));
        }
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiter({:?})", self.ask)
    }
}

impl GateOptions {
    /// The same options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The rates that `direction` starts under.
    pub fn rates(&self, direction: Direction) -> Rates {
        self.limits.rates(direction)
    }
}
