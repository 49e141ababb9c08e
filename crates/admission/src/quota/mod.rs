//! Capacity units and request units of a tenant (FX-1, FX-2, XS-21): what the tenant bought, over all its partitions.
//!
//! - A unit is charged to the partition whose data it moves, and paid from the tenant's one bucket: a partition may use
//!   all that the others leave. When several partitions ask for more than there is, they are served in turn, by what
//!   they got ([`crate::fair`]), so that each has its share from the moment it asks, whatever the others queued.
//! - Writes are charged what they cost. What a read costs is known only when the value is there: the read is charged
//!   one unit and settled afterwards, in full, as a debt that the next requests wait for (U-16). The same holds for a
//!   write whose size depends on what was there before.
//! - Above the limit a request waits, up to a bound. Beyond the bound, or at once where the tenant wants that (C-15),
//!   it is refused, and told when to come again.

mod budget;
mod node_queue;
mod node_units;
mod patience;
mod request_order;
mod savings;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};
use weir_io::{Clock, Nanos};

use crate::request_units::MILLI;
use crate::reserve::Reserve;
use crate::slots::SlotId;
use budget::{Admitted, Answer, Budget};
pub use node_queue::{NodeAdmission, NodeBusy, NodeQueue, NodeQueueStats};
pub use node_units::NodeUnits;
pub use request_order::{Access, RequestOrder};
use savings::Savings;

/// The kinds of units that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Unit {
    /// Read capacity units.
    Read = 0,
    /// Write capacity units.
    Write = 1,
    /// Thousandths of request units ([`crate::request_units`]).
    Request = 2,
}

/// How many kinds of units there are.
const UNITS: usize = Unit::ALL.len();

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 3] = [Unit::Read, Unit::Write, Unit::Request];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The name of the limit that refuses a request, as clients are told.
    pub const fn reason(self) -> &'static str {
        match self {
            Unit::Read => "tenant_rcu",
            Unit::Write => "tenant_wcu",
            Unit::Request => "tenant_ru",
        }
    }
}

/// What happens above a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    /// The request waits. It is refused when it would wait, or has waited, for longer than `max_ms` milliseconds.
    Delay {
        /// The longest wait, in milliseconds; [`DELAY_MAX_MS`] unless the tenant wants otherwise.
        max_ms: u32,
    },
    /// The request is refused at once.
    Refuse,
}

/// How long a request waits for units unless the tenant wants otherwise, in milliseconds (C-15).
pub const DELAY_MAX_MS: u32 = 1000;

impl Default for OnLimit {
    fn default() -> Self {
        OnLimit::Delay { max_ms: DELAY_MAX_MS }
    }
}

/// For how many seconds unused request units are kept at most (XS-25).
const SAVING_SECONDS_MAX: u32 = 60;

/// What a tenant bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitLimits {
    /// Read capacity units per second; 0 = unlimited.
    pub rcu: u64,
    /// Write capacity units per second; 0 = unlimited.
    pub wcu: u64,
    /// Request units per second; 0 = unlimited.
    pub ru: u64,
    /// Whether the tenant may use more request units, as long as the node has some left (XS-26).
    pub spare: bool,
    /// Unused units stay for this many seconds, and may be used in a burst. 0, the default, keeps those of 100 ms, so
    /// that requests need not come evenly; in ten seconds nobody gets more than 1 % above his limit. Unused request
    /// units are kept for queries, and for what is paid afterwards (XS-25).
    pub burst_seconds: u32,
    /// What happens above the limits.
    pub on_limit: OnLimit,
}

impl UnitLimits {
    /// The limit of `unit`, per second, as it is counted; 0 = unlimited.
    pub fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.rcu,
            Unit::Write => self.wcu,
            Unit::Request => self.ru.saturating_mul(MILLI),
        }
    }

    /// The limits as the budget of `unit` has them: unused request units are kept elsewhere.
    fn kept_by(&self, unit: Unit) -> Self {
        if unit == Unit::Request { Self { burst_seconds: 0, ..*self } } else { *self }
    }

    /// For how many seconds unused request units are kept.
    fn saving_seconds(&self) -> u32 {
        self.burst_seconds.min(SAVING_SECONDS_MAX)
    }

    fn limited(&self) -> u8 {
        let limited = Unit::ALL.into_iter().filter(|&unit| self.of(unit) != 0);
        limited.fold(0, |bits, unit| bits | unit.bit())
    }
}

/// The units do not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of unit of which there is too little.
    pub unit: Unit,
    /// Milliseconds from now until there would be enough, if nobody else asked meanwhile. At least 1.
    pub retry_in_ms: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry_in_ms={} reason={}", self.retry_in_ms, self.unit.reason())
    }
}

impl std::error::Error for Refused {}

/// What became of requests since the tenant was opened. It is counted only while there is a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitStats {
    /// Units that were charged, including settlements, without those that were given back; of request units in
    /// thousandths.
    pub units: u64,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests that waited, whether they were admitted in the end or not.
    pub delayed: u64,
    /// How long they waited in all, in nanoseconds.
    pub delayed_ns: u64,
    /// Requests refused.
    pub refused: u64,
}

/// The units of one tenant. Lock order: a budget's lock is never held while waking or arming a timer; the lock of the
/// node's units is taken after that of a budget.
pub struct Quota {
    clock: Arc<dyn Clock>,
    /// One bit for each limited [`Unit`]: a request without limits looks no further than this.
    limited: AtomicU8,
    budgets: [Mutex<Budget>; UNITS],
    /// The reserve of each budget: a tenant far below its limit takes no lock.
    reserves: [Reserve; UNITS],
    timers: [Waker; UNITS],
    /// Unused request units, and in `saves` whether any are kept. This lock is never held together with a budget's.
    savings: Mutex<Savings>,
    saves: AtomicBool,
    /// What was paid from the savings.
    saved: AtomicU64,
    /// The node's units, and in `spares` whether they may be used beyond the limit.
    node: Option<Arc<NodeUnits>>,
    /// The tenant's number in the node's queues, and how long its requests have waited there, in nanoseconds.
    number: u32,
    queued: AtomicU64,
    spares: AtomicBool,
    /// What was taken from the node's units beyond the limit, and in `reported` how much of the budget's use the node
    /// was told of.
    extra: AtomicU64,
    reported: AtomicU64,
    /// The most units of each kind that [`Quota::units_total`] has given.
    told: [AtomicU64; UNITS],
}

/// A timer's waker: pumps one budget. Weak, so that a timer does not keep a dropped tenant.
struct Timer {
    quota: Weak<Quota>,
    unit: Unit,
}

impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        if let Some(quota) = self.quota.upgrade() {
            quota.with_budget(self.unit, |_, _| {});
        }
    }
}

impl Quota {
    /// The units of one tenant under `limits`. Nothing is saved up for a burst yet.
    pub fn new(clock: Arc<dyn Clock>, limits: &UnitLimits) -> Arc<Self> {
        Self::made(clock, limits, None)
    }

    /// The same on a node that has `node` units for all tenants.
    pub fn on_node(clock: Arc<dyn Clock>, limits: &UnitLimits, node: Arc<NodeUnits>) -> Arc<Self> {
        Self::made(clock, limits, Some(node))
    }

    fn made(clock: Arc<dyn Clock>, limits: &UnitLimits, node: Option<Arc<NodeUnits>>) -> Arc<Self> {
        let now = clock.now();
        Arc::new_cyclic(|quota| Self {
            clock,
            limited: AtomicU8::new(limits.limited()),
            budgets: Unit::ALL.map(|unit| Mutex::new(Budget::new(limits.of(unit), &limits.kept_by(unit), now))),
            reserves: Default::default(),
            timers: Unit::ALL.map(|unit| Waker::from(Arc::new(Timer { quota: quota.clone(), unit }))),
            savings: Mutex::new(Savings::new(limits.of(Unit::Request), limits.saving_seconds(), now, 0)),
            saves: AtomicBool::new(limits.saving_seconds() > 0),
            saved: AtomicU64::new(0),
            number: node.as_ref().map_or(0, |node| node.new_number()),
            queued: AtomicU64::new(0),
            node,
            spares: AtomicBool::new(limits.spare),
            extra: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            told: Default::default(),
        })
    }

    /// Turns the knobs. Requests that wait and can go now, go. What was saved up beyond a smaller burst is lost.
    pub fn set_limits(&self, limits: &UnitLimits) {
        for unit in Unit::ALL {
            self.with_budget(unit, |budget, now| budget.set(limits.of(unit), &limits.kept_by(unit), now));
        }
        let (now, used) = (self.clock.now(), self.charged(Unit::Request));
        self.savings.lock().set(limits.of(Unit::Request), limits.saving_seconds(), now, used);
        self.saves.store(limits.saving_seconds() > 0, Ordering::Relaxed);
        self.spares.store(limits.spare, Ordering::Relaxed);
        // After the budgets: a request that still sees the old value finds budgets that are right, or passes one last
        // time.
        self.limited.store(limits.limited(), Ordering::Relaxed);
    }

    /// True if nobody ever waits for `unit`.
    #[inline]
    pub fn is_unlimited(&self, unit: Unit) -> bool {
        self.limited.load(Ordering::Relaxed) & unit.bit() == 0
    }

    /// True if nobody ever waits.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.limited.load(Ordering::Relaxed) == 0 && self.node_queue().is_none()
    }

    /// True if request units matter: those of the tenant, or those of the node.
    #[inline]
    pub fn counts_request_units(&self) -> bool {
        !self.is_unlimited(Unit::Request) || self.node_queue().is_some()
    }

    /// The node's queues, while a request may have to wait there.
    #[inline]
    fn node_queue(&self) -> Option<&Arc<NodeQueue>> {
        self.node.as_ref().map(|node| node.queue()).filter(|queue| queue.is_on())
    }

    /// Asks the node to let a request pass that costs `milli_units`, as far as is known; `None` if the node has no
    /// queues now.
    pub fn enter_node(&self, access: Access, milli_units: u64) -> Option<NodeAdmission> {
        self.node_queue().map(|queue| queue.enter(access, self.number, milli_units))
    }

    /// A request of the tenant has waited in the node's queues for `nanos` nanoseconds.
    pub fn has_queued(&self, nanos: Nanos) {
        self.queued.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How long requests of the tenant have waited in the node's queues in all, in nanoseconds.
    pub fn queued_ns(&self) -> Nanos {
        self.queued.load(Ordering::Relaxed)
    }

    /// Whether more of `unit` is owed than comes in a second (U-16): then a command that may wait should do so.
    pub fn owes_a_second(&self, unit: Unit) -> bool {
        if self.is_unlimited(unit) || self.reserves[unit as usize].is_filled() {
            return false;
        }
        let now = self.clock.now();
        self.lock(unit, now).owes_a_second(now)
    }

    /// Charges `units` if they are there and nobody waits for them. Otherwise nothing is charged: see [`Quota::admit`].
    #[inline]
    pub fn try_admit(&self, unit: Unit, units: u64) -> bool {
        self.is_unlimited(unit)
            || self.reserves[unit as usize].try_take(units, 1)
            || self.try_admit_limited(unit, units)
    }

    fn try_admit_limited(&self, unit: Unit, units: u64) -> bool {
        let now = self.clock.now();
        let mut budget = self.lock(unit, now);
        let admitted = budget.try_admit(units, now);
        self.reserves[unit as usize].fill(budget.hand_out(now));
        drop(budget);
        admitted || unit == Unit::Request && self.try_take_spare(units)
    }

    /// Charges `units` to what the node has left, if the tenant may.
    fn try_take_spare(&self, units: u64) -> bool {
        let is_there =
            self.spares.load(Ordering::Relaxed) && self.node.as_ref().is_some_and(|node| node.try_take(units));
        if is_there {
            self.extra.fetch_add(units, Ordering::Relaxed);
        }
        is_there
    }

    /// Tells the node how much was used within the limit since it was last told.
    fn report(&self, charged: u64) {
        if let Some(node) = &self.node {
            let before = self.reported.swap(charged, Ordering::Relaxed);
            match charged.checked_sub(before) {
                Some(more) => node.used(more),
                None => node.given_back(before - charged),
            }
        }
    }

    /// Locks a budget, and puts all its units back into its bucket.
    fn lock(&self, unit: Unit, now: Nanos) -> MutexGuard<'_, Budget> {
        let mut budget = self.budgets[unit as usize].lock();
        budget.take_back(self.reserves[unit as usize].reclaim(), now);
        if unit == Unit::Request {
            self.report(budget.stats().units);
        }
        budget
    }

    /// Asks for `units` to be charged to `partition`. The place in the queue is taken now, not when the answer is first
    /// polled. Dropping the answer gives place and units back.
    ///
    /// # Errors
    /// The answer is [`Refused`] when the units do not come in time.
    pub fn admit(self: &Arc<Self>, unit: Unit, partition: u32, units: u64) -> Admission {
        if self.is_unlimited(unit) {
            return Admission::Ready(Some(Ok(())));
        }
        match self.with_budget(unit, |budget, now| budget.admit(partition, units, now)) {
            Admitted::Now => Admission::Ready(Some(Ok(()))),
            Admitted::Never { retry_in_ms } => Admission::Ready(Some(Err(Refused { unit, retry_in_ms }))),
            Admitted::Later(slot) => {
                Admission::Waiting(QuotaWaiter { quota: Arc::clone(self), unit, slot, partition, units, done: false })
            }
        }
    }

    /// Charges a query `units` if that many request units were saved up: what comes in this second stays for others
    /// (XS-25). Otherwise nothing is charged, and the query pays as everybody does.
    pub fn try_admit_query(&self, units: u64) -> bool {
        if !self.saves.load(Ordering::Relaxed) || self.is_unlimited(Unit::Request) {
            return false;
        }
        let (now, used) = (self.clock.now(), self.charged(Unit::Request));
        let mut savings = self.savings.lock();
        let is_enough = savings.available(now, used) >= units;
        if is_enough {
            self.saved.fetch_add(savings.take(units, now, used), Ordering::Relaxed);
        }
        is_enough
    }

    /// Puts back the `units` that [`Quota::try_admit_query`] has charged for a query that is not run.
    pub fn refund_query(&self, units: u64) {
        if units > 0 {
            let (now, used) = (self.clock.now(), self.charged(Unit::Request));
            self.savings.lock().put_back(units, now, used);
            self.saved.fetch_sub(units, Ordering::Relaxed);
        }
    }

    /// Pays up to `units` from what was saved up, and gives how many units that paid.
    fn pay_from_savings(&self, unit: Unit, units: u64) -> u64 {
        if unit != Unit::Request || !self.saves.load(Ordering::Relaxed) {
            return 0;
        }
        let (now, used) = (self.clock.now(), self.charged(unit));
        let paid = self.savings.lock().take(units, now, used);
        self.saved.fetch_add(paid, Ordering::Relaxed);
        paid
    }

    /// How much was charged to the budget of `unit` so far.
    fn charged(&self, unit: Unit) -> u64 {
        self.lock(unit, self.clock.now()).stats().units
    }

    /// Gives back `units` that were charged for a request that is not run, and that has not passed the node's queues.
    pub fn refund(&self, unit: Unit, units: u64) {
        if !self.is_unlimited(unit) {
            self.with_budget(unit, |budget, _| budget.refund(units));
        }
    }

    /// Settles a request that was charged `charged` units and has cost `actual`: the difference is paid, or given back.
    #[inline]
    pub fn settle(&self, unit: Unit, partition: u32, charged: u64, actual: u64) {
        self.settle_beside(0, unit, partition, charged, actual);
    }

    /// The same for one of several requests that have entered the node's queues as one. The `others` of them cost that
    /// many units there: what they were charged, or what they have cost if they are settled already.
    #[inline]
    pub fn settle_beside(&self, others: u64, unit: Unit, partition: u32, charged: u64, actual: u64) {
        // A request that costs what it was charged matters only for the average cost of requests that wait. So there is
        // no write to memory that other threads use.
        if unit == Unit::Request
            && let Some(queue) = self.node_queue()
        {
            queue.settle(others.saturating_add(charged), others.saturating_add(actual));
        }
        let is_settled = actual == charged && self.reserves[unit as usize].is_filled();
        if !is_settled && !self.is_unlimited(unit) {
            self.settle_limited(unit, partition, charged, actual);
        }
    }

    /// The same for a query whose request units [`Quota::try_admit_query`] has charged: what is given back is saved up
    /// again. It never left the budget, and would be there twice if it were put there.
    pub fn settle_query(&self, others: u64, partition: u32, charged: u64, actual: u64) {
        if actual >= charged {
            return self.settle_beside(others, Unit::Request, partition, charged, actual);
        }
        if let Some(queue) = self.node_queue() {
            queue.settle(others.saturating_add(charged), others.saturating_add(actual));
        }
        self.refund_query(charged - actual);
    }

    fn settle_limited(&self, unit: Unit, partition: u32, charged: u64, actual: u64) {
        let actual = actual - self.pay_from_savings(unit, actual.saturating_sub(charged));
        if actual < charged {
            self.with_budget(unit, |budget, _| budget.refund(charged - actual));
            return;
        }
        let more = actual - charged;
        if !self.reserves[unit as usize].try_take(more, 0) && !self.pays_from_spare(unit, more) {
            // This takes units away: nobody can go because of it, and no pump is needed.
            let now = self.clock.now();
            self.lock(unit, now).settle(partition, charged, more, now);
        }
    }

    /// Whether the node pays `more`, because the budget has less than that: a request that was begun with what the node
    /// has left is also paid from there. Otherwise the debt would grow as long as the node has something left, and once
    /// it has nothing, the tenant would have to wait for ever for what it bought.
    fn pays_from_spare(&self, unit: Unit, more: u64) -> bool {
        if unit != Unit::Request || !self.spares.load(Ordering::Relaxed) {
            return false;
        }
        let now = self.clock.now();
        let there = self.lock(unit, now).units(now);
        there < i64::try_from(more).unwrap_or(i64::MAX) && self.try_take_spare(more)
    }

    /// The statistics of requests so far.
    pub fn stats(&self, unit: Unit) -> UnitStats {
        let mut stats = self.lock(unit, self.clock.now()).stats();
        if unit == Unit::Request {
            stats.units += self.saved.load(Ordering::Relaxed) + self.extra.load(Ordering::Relaxed);
        }
        stats
    }

    /// [`UnitStats::units`] as a counter, which never falls: units that are given back after they were counted are
    /// deducted from those that are charged next.
    pub fn units_total(&self, unit: Unit) -> u64 {
        let units = self.stats(unit).units;
        self.told[unit as usize].fetch_max(units, Ordering::Relaxed).max(units)
    }

    /// How many requests wait for `unit`.
    pub fn waiting(&self, unit: Unit) -> usize {
        self.budgets[unit as usize].lock().waiting()
    }

    /// Units that are there now; negative while in debt, `i64::MAX` if unlimited.
    pub fn units(&self, unit: Unit) -> i64 {
        let now = self.clock.now();
        self.lock(unit, now).units(now)
    }

    /// Changes a budget, and lets all requests go that now can.
    fn with_budget<R>(&self, unit: Unit, change: impl FnOnce(&mut Budget, Nanos) -> R) -> R {
        let now = self.clock.now();
        let mut budget = self.lock(unit, now);
        let result = change(&mut budget, now);
        let effects = budget.pump(now);
        drop(budget);
        effects.carry_out(&*self.clock, &self.timers[unit as usize]);
        result
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota").field("limited", &self.limited).finish_non_exhaustive()
    }
}

/// A request for units under way.
#[derive(Debug)]
#[must_use = "nothing is admitted before this says so"]
pub enum Admission {
    /// Answered at once; `None` once taken.
    Ready(Option<Result<(), Refused>>),
    /// In the queue.
    Waiting(QuotaWaiter),
}

impl Future for Admission {
    type Output = Result<(), Refused>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Admission::Ready(answer) => Poll::Ready(answer.take().expect("Admission polled after it was done")),
            Admission::Waiting(waiter) => waiter.poll(cx),
        }
    }
}

/// A request in a quota's queue. Dropping it gives its place back.
pub struct QuotaWaiter {
    quota: Arc<Quota>,
    unit: Unit,
    slot: SlotId,
    partition: u32,
    units: u64,
    /// Whether the slot is no longer ours.
    done: bool,
}

impl QuotaWaiter {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<(), Refused>> {
        debug_assert!(!self.done, "Admission polled after it was done");
        let unit = self.unit;
        let look = self.quota.budgets[unit as usize].lock().look(self.slot, Some(cx.waker()));
        look.map(|answer| {
            self.done = true;
            match answer {
                Answer::Admitted => Ok(()),
                Answer::Refused { retry_in_ms } => Err(Refused { unit, retry_in_ms }),
            }
        })
    }
}

impl Drop for QuotaWaiter {
    fn drop(&mut self) {
        if !self.done {
            self.quota.with_budget(self.unit, |budget, _| budget.cancel(self.slot, self.partition, self.units));
        }
    }
}

impl fmt::Debug for QuotaWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuotaWaiter({:?}, partition {}, {} units)", self.unit, self.partition, self.units)
    }
}
