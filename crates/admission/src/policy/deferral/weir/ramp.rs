//! How many partitions may compact everything while the device rests.

use weir_io::Nanos;

/// Time between two doublings, in nanoseconds.
const EVERY: Nanos = 5_000_000_000;
/// Most partitions that may do so at a time.
const SLOTS_MAX: usize = 1 << 10;

/// Slots for such partitions: 1, 2, 4 … as long as bandwidth is left over, and half as many at each sign that there is
/// none.
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
    /// How many partitions may compact everything at `now`. `waiting` = how many would, `busy` = how many do; `full` =
    /// nothing is left over.
    pub fn step(&mut self, now: Nanos, waiting: usize, busy: usize, full: bool) -> usize {
        if full {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_double_every_five_seconds_and_halve_when_the_device_is_full() {
        let mut ramp = Ramp::default();
        let mut at = |second: u64, full| ramp.step(second * 1_000_000_000, 1, 0, full);
        assert_eq!([1, 4, 5, 9, 10, 15].map(|second| at(second, false)), [1, 1, 2, 2, 4, 8]);
        assert_eq!([at(16, true), at(17, false), at(21, false)], [4, 4, 8]);
        let second = 1_000_000_000;
        assert_eq!(
            [ramp.step(90 * second, 0, 3, false), ramp.step(94 * second, 1, 3, false)],
            [8, 8],
            "slots are kept"
        );
        assert_eq!(ramp.step(95 * second, 0, 0, false), 1, "until nobody is left");
    }
}
