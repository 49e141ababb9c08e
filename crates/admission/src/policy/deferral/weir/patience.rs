//! The number of runs from which on level 0 is merged within itself.
//!
//! Merged early, level 0 has few runs, but each of its bytes is written many times: by four runs, and by four again.
//! Merged late, each byte is written once. So level 0 is merged early as long as the device is not full, and ever later
//! when it is: then the bandwidth goes to the partitions whose level 0 is long. A partition whose level 0 is among the
//! longest never waits: where all are alike, all have to be merged before writes are slowed, and late is too late.

/// Runs from which on level 0 is merged while there is bandwidth for it: as many as a merge takes at least.
const EARLY: f64 = crate::policy::INTRA_L0_FAN_IN as f64;
/// Runs from which on it is merged at the latest: with eight more, writes are slowed.
const LATE: f64 = 12.0;
/// A level 0 with at most this many runs fewer than the longest one is merged at any time.
const WITHIN: u64 = 4;
/// Above this share in use the device is full …
const FULL: f64 = 0.85;
/// … and below this share it has bandwidth to spare.
const SPARE: f64 = 0.75;
/// Time constant of the used share, in seconds: merges come in lumps.
const OVER: f64 = 10.0;
/// Runs by which merging becomes later or earlier in a second.
const STEP: f64 = 0.25;

/// From how many runs on level 0 is merged just now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    used: f64,
    runs: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { used: 0.0, runs: EARLY }
    }
}

impl Patience {
    /// Takes in the share of the device that was used in the last second.
    pub fn step(&mut self, used: f64) {
        self.used += (used.min(1.0) - self.used) / OVER;
        if self.used > FULL {
            self.runs = (self.runs + STEP).min(LATE);
        } else if self.used < SPARE {
            self.runs = (self.runs - STEP).max(EARLY);
        }
    }

    /// Whether the device has bandwidth to spare.
    pub fn has_spare(&self) -> bool {
        self.used < SPARE
    }

    /// Runs from which on level 0 is merged within itself, where the longest level 0 of the node has `longest` runs.
    pub fn runs(&self, longest: u64) -> u64 {
        (self.runs as u64).min(longest.saturating_sub(WITHIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_makes_it_late_and_one_with_something_to_spare_early() {
        let mut patience = Patience::default();
        let mut after = |seconds: u32, used: f64| {
            (0..seconds).for_each(|_| patience.step(used));
            patience.runs(20)
        };
        assert_eq!([after(20, 1.0), after(20, 1.0), after(100, 1.0)], [4, 9, 12]);
        assert_eq!(after(100, 0.8), 12, "between the two it stays");
        assert_eq!([after(10, 0.5), after(100, 0.5)], [9, 4]);
    }

    #[test]
    fn the_longest_never_wait() {
        let mut patience = Patience::default();
        (0..100).for_each(|_| patience.step(1.0));
        assert_eq!([0, 3, 8, 15, 16, 30].map(|longest| patience.runs(longest)), [0, 0, 4, 11, 12, 12]);
    }
}
