//! The units of one kind and the requests that wait for them, without the locking and the waiting.

use std::task::{Poll, Waker};

use weir_io::{Nanos, Owner};

use super::patience::{Next, Patience, Waiting};
use super::{OnLimit, UnitLimits, UnitStats};
use crate::bucket::{Bucket, UNLIMITED};
use crate::fair::FairQueue;
use crate::reserve::Handful;
use crate::slots::{Alarm, Effects, SlotId, Slots};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// The units of this time, in nanoseconds, are always kept, however small the burst is.
const BURST_MIN: Nanos = 100 * MS;

/// [`Budget::weight`] counts in fractions of a unit: this many make one.
const FRACTION: u64 = 256;

pub(super) enum Admitted {
    Now,
    Later(SlotId),
    Never { retry_in_ms: u64 },
}

/// The answer that a waiter gets.
pub(super) enum Answer {
    Admitted,
    Refused { retry_in_ms: u64 },
}

pub(super) struct Budget {
    units: Bucket,
    /// `None` refuses at once.
    delay_max: Option<Nanos>,
    /// One flow per partition, all of the same weight.
    queue: FairQueue<Waiting>,
    /// The deadline of each waiter, with its partition and its units.
    patience: Patience<(u32, u64)>,
    slots: Slots<Answer>,
    alarm: Alarm,
    /// What a request that was charged one unit costs once it is settled, on average, in 1/[`FRACTION`] units. It says
    /// how fast the queue moves.
    weight: u64,
    /// What was put in reserve. It is zero while anybody waits.
    handed: Handful,
    stats: UnitStats,
}

/// A smaller reserve is not worth the trouble, in units.
const HANDFUL_MIN: u64 = 4;

/// The owner by which a [`FairQueue`] knows a partition.
fn flow(partition: u32) -> Owner {
    Owner { tenant: 0, partition }
}

fn bucket_rate(rate: u64) -> u64 {
    if rate == 0 { UNLIMITED } else { rate }
}

fn burst(limits: &UnitLimits) -> Nanos {
    (Nanos::from(limits.burst_seconds) * SECOND).max(BURST_MIN)
}

fn delay_max(limits: &UnitLimits) -> Option<Nanos> {
    match limits.on_limit {
        OnLimit::Delay { max_ms } => Some(Nanos::from(max_ms) * MS),
        OnLimit::Refuse => None,
    }
}

impl Budget {
    pub(super) fn new(rate: u64, limits: &UnitLimits, now: Nanos) -> Self {
        let rate = bucket_rate(rate);
        let mut units = Bucket::new(rate, BURST_MIN, now);
        units.set(rate, burst(limits), now);
        Self {
            units,
            delay_max: delay_max(limits),
            queue: FairQueue::new(),
            patience: Patience::new(),
            slots: Slots::new(),
            alarm: Alarm::new(),
            weight: FRACTION,
            handed: Handful::default(),
            stats: UnitStats::default(),
        }
    }

    /// Turns the knobs. Pump afterwards. Requests that wait already keep their deadlines.
    pub(super) fn set(&mut self, rate: u64, limits: &UnitLimits, now: Nanos) {
        let rate = bucket_rate(rate);
        if self.units.rate() == UNLIMITED {
            // Nothing is saved up while nothing is limited.
            self.units.set(rate, BURST_MIN, now);
        }
        self.units.set(rate, burst(limits), now);
        self.delay_max = delay_max(limits);
    }

    pub(super) fn stats(&self) -> UnitStats {
        self.stats
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn units(&mut self, now: Nanos) -> i64 {
        self.units.tokens(now)
    }

    /// Whether it will take more than a second until nothing is owed.
    pub(super) fn owes_a_second(&mut self, now: Nanos) -> bool {
        let rate = self.units.rate();
        rate != UNLIMITED && self.units.tokens(now) < 0_i64.saturating_sub_unsigned(rate)
    }

    pub(super) fn try_admit(&mut self, units: u64, now: Nanos) -> bool {
        let admitted = self.queue.is_empty() && self.units.try_take(units, now);
        if admitted {
            self.count(units);
        }
        admitted
    }

    /// Takes units out of the bucket, with which requests can be admitted without looking in here. Takes none if there
    /// are too few to spare, or somebody waits.
    pub(super) fn hand_out(&mut self, now: Nanos) -> Handful {
        let tokens = self.units.spare(now).min(Handful::MOST.tokens);
        if tokens < HANDFUL_MIN || !self.queue.is_empty() {
            return Handful::default();
        }
        self.units.lend(tokens);
        self.handed = Handful { tokens, ops: Handful::MOST.ops };
        self.handed
    }

    /// Takes back what is left of the units that were handed out. To be called before anything else is asked of the
    /// budget.
    pub(super) fn take_back(&mut self, left: Handful, now: Nanos) {
        let handed = std::mem::take(&mut self.handed);
        if handed != Handful::default() {
            self.units.take_back(left.tokens, now);
            self.stats.units += handed.tokens - left.tokens;
            self.stats.admitted += handed.ops - left.ops;
        }
    }

    fn count(&mut self, units: u64) {
        self.stats.units += units;
        self.stats.admitted += 1;
    }

    /// Asks for `units` for `partition`. Pump afterwards.
    pub(super) fn admit(&mut self, partition: u32, units: u64, now: Nanos) -> Admitted {
        if self.try_admit(units, now) {
            return Admitted::Now;
        }
        // First an upper bound of the wait: the exact wait needs a look at all partitions, and few requests need it.
        let patience = self.delay_max.filter(|&delay_max| {
            self.ready_after(self.queue.cost(), units, now) <= now.saturating_add(delay_max)
                || self.ready_at(partition, units, now) <= now.saturating_add(delay_max)
        });
        let Some(delay_max) = patience else {
            self.stats.refused += 1;
            return Admitted::Never { retry_in_ms: self.retry_in_ms(partition, units, now) };
        };
        let (slot, ticket) = self.slots.open();
        self.queue.push(flow(partition), 1, units, Waiting { slot, since: now });
        let at = now.saturating_add(delay_max);
        self.patience.ends(at, (slot, ticket), (partition, units), self.queue.len(), &self.slots);
        Admitted::Later(slot)
    }

    /// When a request of `partition` would be admitted if it came now and nobody else came later.
    fn ready_at(&mut self, partition: u32, units: u64, now: Nanos) -> Nanos {
        let ahead = self.queue.cost_ahead(flow(partition), units);
        self.ready_after(ahead, units, now)
    }

    fn ready_after(&mut self, ahead: u64, units: u64, now: Nanos) -> Nanos {
        let ahead = u128::from(ahead) * u128::from(self.weight) / u128::from(FRACTION);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        self.units.ready_after(ahead, units, now).unwrap_or(Nanos::MAX)
    }

    fn retry_in_ms(&mut self, partition: u32, units: u64, now: Nanos) -> u64 {
        self.ready_at(partition, units, now).saturating_sub(now).div_ceil(MS).max(1)
    }

    /// Admits all requests that can go now, and refuses those whose patience has ended.
    pub(super) fn pump(&mut self, now: Nanos) -> Effects {
        let mut effects = Effects::default();
        self.alarm.pumped(now);
        while let Some((units, _)) = self.queue.head() {
            // Never `None`: there is no rate of 0.
            let ready_at = self.units.next_ready_at(units, now).unwrap_or(Nanos::MAX);
            if ready_at > now {
                if self.refuse_overdue(now, &mut effects) {
                    // Perhaps the head was refused, and the next request needs less.
                    continue;
                }
                self.alarm.set(ready_at, now, &mut effects);
                break;
            }
            let Some((units, waiting)) = self.queue.pop() else { break };
            self.units.take(units, now);
            self.count(units);
            self.delayed(waiting.since, now);
            self.slots.answer(waiting.slot, Answer::Admitted, &mut effects);
        }
        effects
    }

    /// Counts a wait. A thread that pumps has read the clock before it got the lock: `now` may be earlier than `since`
    /// of a request that came meanwhile.
    fn delayed(&mut self, since: Nanos, now: Nanos) {
        self.stats.delayed += 1;
        self.stats.delayed_ns += now.saturating_sub(since);
    }

    /// Refuses requests that were allowed to wait because their turn was to come in time, but before which newcomers of
    /// other partitions, or reads larger than usual, went. True if there was such a request.
    fn refuse_overdue(&mut self, now: Nanos, effects: &mut Effects) -> bool {
        let mut any = false;
        loop {
            let (slot, partition, units) = match self.patience.next(now, &self.slots) {
                Next::Nobody => return any,
                Next::At(at) => {
                    self.alarm.set(at, now, effects);
                    return any;
                }
                Next::Overdue(slot, (partition, units)) => (slot, partition, units),
            };
            let waiting = self.queue.remove(flow(partition), |waiting| waiting.slot == slot);
            debug_assert!(waiting.is_some(), "a waiting slot is in its queue");
            self.delayed(waiting.map_or(now, |waiting| waiting.since), now);
            self.stats.refused += 1;
            let retry_in_ms = self.retry_in_ms(partition, units, now);
            self.slots.answer(slot, Answer::Refused { retry_in_ms }, effects);
            any = true;
        }
    }

    /// See [`Slots::look`].
    pub(super) fn look(&mut self, slot: SlotId, waker: Option<&Waker>) -> Poll<Answer> {
        self.slots.look(slot, waker)
    }

    /// A waiter has given up: its place, or what it was given and never used, goes to the others. Pump afterwards.
    pub(super) fn cancel(&mut self, slot: SlotId, partition: u32, units: u64) {
        match self.look(slot, None) {
            Poll::Pending => {
                let was_there = self.queue.remove(flow(partition), |waiting| waiting.slot == slot);
                debug_assert!(was_there.is_some(), "a waiting slot is in its queue");
                self.slots.close(slot);
            }
            Poll::Ready(Answer::Admitted) => {
                self.refund(units);
                self.stats.admitted = self.stats.admitted.saturating_sub(1);
            }
            Poll::Ready(Answer::Refused { .. }) => {}
        }
    }

    /// Gives back units that were charged and are not needed. Pump afterwards.
    pub(super) fn refund(&mut self, units: u64) {
        self.units.refund(units);
        // Saturating: the charge may be from before there was a limit, when nothing was counted.
        self.stats.units = self.stats.units.saturating_sub(units);
    }

    /// Settles a request that was charged `charged` and costs `more` beyond that.
    pub(super) fn settle(&mut self, partition: u32, charged: u64, more: u64, now: Nanos) {
        let weight = charged.saturating_add(more).saturating_mul(FRACTION) / charged.max(1);
        self.weight = self.weight - self.weight / 16 + weight / 16;
        if more > 0 {
            // The debt is taken in full, also for reads (U-16 has them owe a second's units at most). What is forgiven
            // would be served beyond the limit: with values of a thousand seconds' units a tenant would be served a
            // thousand times what it bought (FX-2).
            self.units.take(more, now);
            self.stats.units = self.stats.units.saturating_add(more);
            self.queue.charge(flow(partition), more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    #[test]
    fn a_clock_that_was_read_before_the_lock_was_had_is_nobodys_end() {
        let limits = UnitLimits { wcu: 10, ..UnitLimits::default() };
        let mut budget = Budget::new(limits.of(Unit::Write), &limits, 0);
        assert!(budget.try_admit(1, 100 * MS));
        // The request at 105 ms had the lock first; the thread that turns the knob had read the clock at 100 ms.
        let Admitted::Later(slot) = budget.admit(0, 1, 105 * MS) else { panic!("there was one unit") };
        budget.set(0, &limits, 100 * MS);
        drop(budget.pump(100 * MS));
        assert!(matches!(budget.look(slot, None), Poll::Ready(Answer::Admitted)));
        assert_eq!((budget.stats().delayed, budget.stats().delayed_ns), (1, 0));
    }
}
