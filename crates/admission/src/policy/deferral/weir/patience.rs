//! From how many runs on level 0 is merged within itself.
//!
//! Merged early it has few runs, and each of its bytes is written many times: by four, and by four again. Merged late
//! it is written once. So as long as the device is not full, early; when it is, ever later, and what there is goes to
//! those whose level 0 is long. Nobody whose level 0 is among the longest waits: where all are alike, all have to be
//! merged before writes are slowed, and late is too late.

/// Runs from which on it is merged while there is bandwidth for it: as many as a merge takes at least.
const EARLY: f64 = crate::policy::INTRA_L0_FAN_IN as f64;
/// And at the latest: with eight more writes are slowed.
const LATE: f64 = 12.0;
/// So many runs fewer than the longest level 0 has are merged at any time.
const WITHIN: u64 = 4;
/// Above this share of the device it is full …
const FULL: f64 = 0.85;
/// … and below this one it is not.
const SPARE: f64 = 0.75;
/// Time constant of what is used, in seconds: merges come in lumps.
const OVER: f64 = 10.0;
/// Runs by which it becomes later or earlier in a second.
const STEP: f64 = 0.25;

/// See the module.
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

    /// Whether something of the device is over.
    pub fn has_spare(&self) -> bool {
        self.used < SPARE
    }

    /// Runs from which on level 0 is merged within itself, where the `longest` has so many.
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
