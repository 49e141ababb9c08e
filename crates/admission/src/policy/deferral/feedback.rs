//! CruiseDB's feedback law: the next rate of writes from the last one and from how full the write buffers are (CR-2 to
//! CR-4, U-13). Every policy that shapes writes by it, in whichever profile, takes it from here.

use std::ops::RangeInclusive;

/// Gain of the error, and of its change since the step before (CR-3).
const K1: f64 = 0.5;
const K2: f64 = 0.4;
/// A step changes the rate by a factor within these bounds (U-13).
const STEP: RangeInclusive<f64> = 0.5..=1.5;
/// From this watermark on, the rate that can be kept up replaces the law (CR-4) …
pub const HIGH: f64 = 0.8;
/// … until the watermark is below this one (U-13).
pub const LOW: f64 = 0.7;
/// Writes have at least this share of what can be kept up: a throttled client still gets somewhere (U-13).
const LEAST: f64 = 0.25;
/// Writes never have less than this, in bytes per second: what can be kept up may be known badly.
const BYTES_LEAST: f64 = 1024.0;

/// The factor that a rate is multiplied by where the watermark is `error` above its aim, and was `before` above it.
pub fn factor(error: f64, before: f64) -> f64 {
    (1.0 - K1 * error - K2 * (error - before)).clamp(*STEP.start(), *STEP.end())
}

/// `rate`, or the least that writes have where `sustainable` can be kept up; all in bytes per second.
pub fn at_least(rate: f64, sustainable: f64) -> f64 {
    rate.max(sustainable * LEAST).max(BYTES_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_are_those_of_the_paper() {
        // CR-3, with the aim at a half: empty, nearly too full after having been right, right, and on the way to it.
        let of = |watermark: f64, before: f64| (factor(watermark - 0.5, before - 0.5) * 1000.0).round();
        assert_eq!([of(0.0, 0.0), of(0.79, 0.5), of(0.5, 0.5)], [1250.0, 739.0, 1000.0]);
        assert_eq!([of(0.6, 0.7), of(0.4, 0.3)], [990.0, 1010.0]);
    }

    #[test]
    fn a_step_is_bounded() {
        assert_eq!([factor(0.75, -0.25), factor(-0.5, 0.5)], [0.5, 1.5]);
    }

    #[test]
    fn who_is_throttled_has_a_quarter_of_what_can_be_kept_up() {
        assert_eq!([at_least(1e6, 2e6), at_least(0.0, 2e6), at_least(0.0, 0.0)], [1e6, 5e5, 1024.0]);
    }
}
