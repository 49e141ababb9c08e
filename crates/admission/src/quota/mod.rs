//! Capacity units of a tenant (FX-1, FX-2): what it bought, over all its partitions.
//!
//! - A unit is charged to the partition whose data it moves, and paid from the tenant's one bucket: a partition may use
//!   all that the others leave. When several ask for more than there is, they are served in turn by what they got
//!   ([`crate::fair`]), so that each has its share from the moment it asks, whatever the others queued.
//! - Writes are charged what they cost. What a read costs shows when the value is there: it is charged one unit, and
//!   settled afterwards, in full, as a debt that the next requests wait for (U-16). So is a write whose size depends on
//!   what was there before.
//! - Above the limit a request waits, up to a bound; beyond it, or at once where the tenant wants that (C-15), it is
//!   refused, and told when to come again.

mod budget;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};
use weir_io::{Clock, Nanos};

use crate::reserve::Reserve;
use crate::slots::SlotId;
use budget::{Admitted, Answer, Budget};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Unit {
    /// Read capacity units.
    Read = 0,
    /// Write capacity units.
    Write = 1,
}

impl Unit {
    /// Both.
    pub const ALL: [Unit; 2] = [Unit::Read, Unit::Write];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The limit by which it is refused, as clients are told.
    pub const fn reason(self) -> &'static str {
        match self {
            Unit::Read => "tenant_rcu",
            Unit::Write => "tenant_wcu",
        }
    }
}

/// What happens above a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    /// The request waits. It is refused when it would wait, or has waited, longer than `max_ms` milliseconds.
    Delay {
        /// At most this long; [`DELAY_MAX_MS`] unless asked otherwise.
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

/// What a tenant bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitLimits {
    /// Read capacity units per second; 0 = unlimited.
    pub rcu: u64,
    /// Write capacity units per second; 0 = unlimited.
    pub wcu: u64,
    /// Units that were not used stay for this many seconds, and may be used in a burst. 0, the default, keeps those of
    /// 100 ms, so that requests need not come evenly; in ten seconds nobody gets more than 1 % above his limit.
    pub burst_seconds: u32,
    /// What happens above the limits.
    pub on_limit: OnLimit,
}

impl UnitLimits {
    /// Units per second; 0 = unlimited.
    pub fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.rcu,
            Unit::Write => self.wcu,
        }
    }

    fn limited(&self) -> u8 {
        let limited = Unit::ALL.into_iter().filter(|&unit| self.of(unit) != 0);
        limited.fold(0, |bits, unit| bits | unit.bit())
    }
}

/// No units in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Of what there is too little.
    pub unit: Unit,
    /// Milliseconds from now when there would be enough, if nobody else asked meanwhile. At least 1.
    pub retry_in_ms: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry_in_ms={} reason={}", self.retry_in_ms, self.unit.reason())
    }
}

impl std::error::Error for Refused {}

/// What became of requests, since the tenant was opened. Counted only while there is a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitStats {
    /// Units charged, settled ones included.
    pub units: u64,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests that waited, whether admitted in the end or not.
    pub delayed: u64,
    /// How long they waited in all, in nanoseconds.
    pub delayed_ns: u64,
    /// Requests refused.
    pub refused: u64,
}

/// See the module. Lock order: a budget's lock is never held while waking or arming a timer.
pub struct Quota {
    clock: Arc<dyn Clock>,
    /// One bit for each limited [`Unit`]: no unlimited request goes further than this.
    limited: AtomicU8,
    budgets: [Mutex<Budget>; 2],
    /// Of each budget: who is far below his limit sees no lock.
    reserves: [Reserve; 2],
    timers: [Waker; 2],
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
    /// The units of one tenant, under `limits`. Nothing is saved up for a burst yet.
    pub fn new(clock: Arc<dyn Clock>, limits: &UnitLimits) -> Arc<Self> {
        let now = clock.now();
        Arc::new_cyclic(|quota| Self {
            clock,
            limited: AtomicU8::new(limits.limited()),
            budgets: Unit::ALL.map(|unit| Mutex::new(Budget::new(limits.of(unit), limits, now))),
            reserves: Default::default(),
            timers: Unit::ALL.map(|unit| Waker::from(Arc::new(Timer { quota: quota.clone(), unit }))),
        })
    }

    /// Turns the knobs; whoever waits and now can go, goes. What was saved up beyond a smaller burst is lost.
    pub fn set_limits(&self, limits: &UnitLimits) {
        for unit in Unit::ALL {
            self.with_budget(unit, |budget, now| budget.set(limits.of(unit), limits, now));
        }
        // After the budgets: whoever still sees the old value finds budgets that are right, or passes one last time.
        self.limited.store(limits.limited(), Ordering::Relaxed);
    }

    /// True if nobody ever waits for `unit`.
    #[inline]
    pub fn is_unlimited(&self, unit: Unit) -> bool {
        self.limited.load(Ordering::Relaxed) & unit.bit() == 0
    }

    /// True if nobody ever waits: one load.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.limited.load(Ordering::Relaxed) == 0
    }

    /// Charges `units` if they are there and nobody waits for them. Otherwise nothing is charged: [`Quota::admit`].
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
        admitted
    }

    /// Locks a budget, with all its units in its bucket.
    fn lock(&self, unit: Unit, now: Nanos) -> MutexGuard<'_, Budget> {
        let mut budget = self.budgets[unit as usize].lock();
        budget.take_back(self.reserves[unit as usize].reclaim(), now);
        budget
    }

    /// Asks for `units` to be charged to `partition`. The place in the queue is taken now, not when the answer is first
    /// polled; dropping it gives place and units back.
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

    /// What was charged `charged` units has cost `actual`: the difference is paid, or given back.
    #[inline]
    pub fn settle(&self, unit: Unit, partition: u32, charged: u64, actual: u64) {
        // What costs what was charged is of interest only to who weighs those that wait: no write to memory that other
        // threads have.
        let is_settled = actual == charged && self.reserves[unit as usize].is_filled();
        if !is_settled && !self.is_unlimited(unit) {
            self.settle_limited(unit, partition, charged, actual);
        }
    }

    fn settle_limited(&self, unit: Unit, partition: u32, charged: u64, actual: u64) {
        if actual < charged {
            self.with_budget(unit, |budget, _| budget.refund(charged - actual));
        } else if !self.reserves[unit as usize].try_take(actual - charged, 0) {
            // Takes units away: nobody can go because of it, and no pump is needed.
            let now = self.clock.now();
            self.lock(unit, now).settle(partition, charged, actual - charged, now);
        }
    }

    /// What became of requests so far.
    pub fn stats(&self, unit: Unit) -> UnitStats {
        self.lock(unit, self.clock.now()).stats()
    }

    /// How many wait for `unit`.
    pub fn waiting(&self, unit: Unit) -> usize {
        self.budgets[unit as usize].lock().waiting()
    }

    /// Units there now; negative while in debt, `i64::MAX` if unlimited.
    pub fn units(&self, unit: Unit) -> i64 {
        let now = self.clock.now();
        self.lock(unit, now).units(now)
    }

    /// Changes a budget and lets go whoever now can.
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
    /// The slot is no longer ours.
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
