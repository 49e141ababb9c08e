//! No resume storm (U-4): how many partitions may catch up at a time, and with how much bandwidth.

use weir_io::Nanos;

use crate::limits::Limits;
use crate::policy::device::Front;
use crate::policy::meter::Load;

/// Time between two doublings, in nanoseconds.
const EVERY: Nanos = 5_000_000_000;
/// The share of the device that the load and catching up may take together.
const TOGETHER: f64 = 0.75;
/// All that catch up may together use at least this share of the device, whatever others need: their merges hold slots
/// that others are waiting for, and their memtables hold memory that others need.
const FLOOR: f64 = 0.10;
/// Most partitions that may catch up at a time.
const SLOTS_MAX: usize = 1 << 10;

/// Slots for partitions that catch up: 1, 2, 4 … as long as there is bandwidth, and half as many at each sign that
/// there is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    slots: usize,
    since: Nanos,
}

impl Default for Ramp {
    fn default() -> Self {
        Self { slots: 1, since: 0 }
    }
}

impl Ramp {
    /// How many partitions may catch up at `now`. `waiting` = how many would, `busy` = how many do; `short` = the load
    /// needs too much.
    pub fn step(&mut self, now: Nanos, waiting: usize, busy: usize, short: bool) -> usize {
        if short {
            (self.slots, self.since) = ((self.slots / 2).max(1), now);
        } else if waiting + busy == 0 {
            *self = Self { slots: 1, since: now };
        } else if waiting == 0 {
            // A partition that comes later finds as many slots as there were, and no more.
            self.since = now;
        } else if now - self.since >= EVERY {
            (self.slots, self.since) = ((self.slots * 2).min(SLOTS_MAX), now);
        }
        self.slots
    }

    /// Bytes per second for all that catch up, beside `loads`; never next to nothing.
    pub fn budget(device: &Limits, loads: &[Load]) -> f64 {
        let sum = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        let front = Front::of(loads);
        let left = front.background_at(device, TOGETHER) - sum(Load::background_need);
        left.max(front.idle().background_at(device, FLOOR))
    }

    /// What one of `all` partitions that catch up may use of `budget`, beside what its own load needs. `busy` of them
    /// have merges under way. Where there are fewer slots for compactions than partitions, those without a slot can use
    /// nothing: the busy ones share their parts of the budget, and `lent`, which is what the loads of those others need
    /// together. A partition that gets a slot has enough to begin with until the next tick.
    pub fn part(budget: f64, lent: f64, is_busy: bool, busy: usize, all: usize) -> f64 {
        match is_busy {
            true => (budget + lent) / busy.max(1) as f64,
            false => budget / all.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_double_every_five_seconds_and_halve_when_the_node_is_short() {
        let mut ramp = Ramp::default();
        let mut at = |second: u64, short| ramp.step(second * 1_000_000_000, 1, 0, short);
        assert_eq!([1, 4, 5, 9, 10, 15].map(|second| at(second, false)), [1, 1, 2, 2, 4, 8]);
        assert_eq!([at(16, true), at(17, false), at(21, false)], [4, 4, 8]);
        let second = 1_000_000_000;
        assert_eq!(
            [ramp.step(90 * second, 0, 3, false), ramp.step(94 * second, 1, 3, false)],
            [8, 8],
            "slots are kept"
        );
        assert_eq!(ramp.step(95 * second, 0, 0, false), 1, "until all have caught up");
        let load = Load { read: 10.0, ingest: 4.0, amplification: 10.0, ..Load::default() };
        assert_eq!(Ramp::budget(&Limits::bytes(100), &[load]), 25.0);
        let much = Load { ingest: 9.0, ..load };
        assert_eq!(Ramp::budget(&Limits::bytes(100), &[much]), 10.0, "a merge holds a slot");
    }

    #[test]
    fn the_budget_is_divided_among_the_busy() {
        assert_eq!([Ramp::part(24.0, 6.0, true, 2, 8), Ramp::part(24.0, 6.0, false, 2, 8)], [15.0, 3.0]);
        assert_eq!([Ramp::part(24.0, 8.0, false, 0, 8), Ramp::part(24.0, 0.0, true, 8, 8)], [3.0, 3.0]);
    }
}
