//! Hysteresis: whether the node is short of bandwidth, judged by what the load needs, with patience in both directions
//! (U-1, U-3).

use weir_io::Nanos;

use crate::policy::deferral::ENTER;

/// Windows in a row at [`ENTER`] or above before anything is put off.
const WINDOWS: u32 = 3;
/// A load that needs less than this share of the device fits, if only just …
const FITS: f64 = 0.95;
/// … when it has done so for this long, in nanoseconds. It no longer fits after [`WINDOWS`] windows above 1.
const FITS_AFTER: Nanos = 10_000_000_000;
/// Shortage is over when the load has needed less than this share of the device …
const LEAVE: f64 = 0.60;
/// … for this long, in nanoseconds.
const LEAVE_AFTER: Nanos = 30_000_000_000;

/// Whether the node is short, and whether all that is needed fits nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hysteresis {
    high: u32,
    low_since: Option<Nanos>,
    short_since: Option<Nanos>,
    over: u32,
    fits_since: Option<Nanos>,
}

impl Hysteresis {
    /// Takes in what the load needs, as a share of the device. `pressed` = some level 0 is long already: then the
    /// shortage begins at once if the demand is above 1.
    pub fn step(&mut self, now: Nanos, demand: f64, pressed: bool) {
        self.high = if demand >= ENTER { self.high.saturating_add(1) } else { 0 };
        self.low_since = if demand < LEAVE { Some(self.low_since.unwrap_or(now)) } else { None };
        self.over = if demand > 1.0 { self.over.saturating_add(1) } else { 0 };
        if demand < FITS {
            self.fits_since = Some(self.fits_since.unwrap_or(now));
        } else if self.over >= WINDOWS || self.fits_since.is_some_and(|since| now - since < FITS_AFTER) {
            self.fits_since = None;
        }
        let is_over = self.low_since.is_some_and(|since| now - since >= LEAVE_AFTER);
        if self.high >= WINDOWS || (pressed && demand > 1.0) {
            self.short_since = Some(self.short_since.unwrap_or(now));
        } else if is_over {
            self.short_since = None;
        }
    }

    /// Whether all that is needed fits nevertheless: more than [`ENTER`], but less than all of the device. Then what is
    /// put off runs in what others leave, for a device that is idle while work waits helps nobody. This does not hold
    /// while the shortage is about to end, because catching up begins then. It stops holding after a while
    /// below [`LEAVE`], and not at once: a load that wavers there would have merges parked every second.
    pub fn fits(&self, now: Nanos) -> bool {
        let is_low = self.low_since.is_some_and(|since| now - since >= FITS_AFTER);
        !is_low && self.fits_since.is_some_and(|since| now - since >= FITS_AFTER)
    }

    /// Since when the node has been short.
    pub fn short_since(&self) -> Option<Nanos> {
        self.short_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn three_windows_enter_and_thirty_seconds_of_calm_leave() {
        let mut hysteresis = Hysteresis::default();
        let mut at = |second: u64, demand: f64, pressed: bool| {
            hysteresis.step(second * SECOND, demand, pressed);
            hysteresis.short_since().map(|since| since / SECOND)
        };
        assert_eq!([at(1, 0.81, false), at(2, 0.79, false), at(3, 0.81, false), at(4, 0.81, false)], [None; 4]);
        assert_eq!(at(5, 0.81, false), Some(5));
        for second in 6..100 {
            assert_eq!(at(second, if second % 2 == 0 { 0.79 } else { 0.61 }, false), Some(5));
        }
        assert_eq!([at(100, 0.59, false), at(129, 0.59, false), at(130, 0.59, false)], [Some(5), Some(5), None]);
        assert_eq!([at(131, 1.0, true), at(132, 1.1, true)], [None, Some(132)]);
    }

    #[test]
    fn what_is_short_may_fit_all_the_same() {
        let mut hysteresis = Hysteresis::default();
        let mut at = |second: u64, demand: f64| {
            hysteresis.step(second * SECOND, demand, false);
            hysteresis.fits(second * SECOND)
        };
        assert!((1..20).all(|second| !at(second, 0.97)));
        assert_eq!([at(20, 0.9), at(29, 0.9), at(30, 0.9)], [false, false, true]);
        assert_eq!([at(31, 0.99), at(32, 1.1), at(33, 1.1), at(34, 1.1)], [true, true, true, false]);
        assert_eq!([at(35, 0.9), at(36, 0.96), at(45, 0.9), at(46, 0.9)], [false; 4], "it begins anew");
        assert_eq!([at(55, 0.9), at(56, 0.5), at(65, 0.5)], [true; 3], "a moment below 60 % is none");
        assert_eq!([at(66, 0.5), at(67, 0.7)], [false, true], "it ends");
    }
}
