//! The paper's controller (CR-2 to CR-7, U-13). There is no limit until write buffers or level 0 are half full for the
//! first time. Then the limit is what was written until then, steered by the [law](super::super::feedback). While
//! writes are near a stop the limit is at once what can be kept up.

use super::super::feedback::{HIGH, LOW, at_least, factor};
use super::Seen;

/// How full write buffers and level 0 should be (CR-2).
const SET_POINT: f64 = 0.5;
/// The rate is steered each time this share of all write buffers has been written, by the mean watermark meanwhile. The
/// paper's 400,000 operations, half of them writes of 1 KB, are a quarter of its twelve times 64 MB (CR-7). But
/// memtables are emptied one by one, and level 0 all at once: a shorter look sees the watermark rise or fall, and
/// swings with it …
const WRITTEN: f64 = 1.0;
/// … and after this many seconds at the latest.
const SECONDS: f64 = 120.0;
/// A partition that writes less than this share of its rate is not held back by it: then the rate does not rise (U-13).
const USED: f64 = 0.9;

/// The limiter of one partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive {
    /// Bytes per second; `None` until there is a limit.
    rate: Option<f64>,
    /// Whether the rate is what can be kept up: writes came near a stop, and are not yet far enough from it.
    is_high: bool,
    /// How far the watermark was above its aim at the last step.
    error: f64,
    window: Window,
}

/// What was seen since the last step.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    seconds: f64,
    /// Bytes written.
    written: f64,
    /// The watermark, summed over the seconds of the window.
    watermark: f64,
}

impl Window {
    fn add(&mut self, seen: &Seen) {
        self.seconds += seen.seconds;
        self.written += seen.ingest * seen.seconds;
        self.watermark += seen.watermark * seen.seconds;
    }

    fn is_over(&self, buffers: f64) -> bool {
        self.seconds >= SECONDS || self.seconds > 0.0 && self.written >= buffers * WRITTEN
    }

    /// How far the mean watermark is above its aim, and what was written, in bytes per second.
    fn means(&self) -> (f64, f64) {
        (self.watermark / self.seconds - SET_POINT, self.written / self.seconds)
    }
}

impl Adaptive {
    /// Bytes per second that users may write from now on; `None` = as they like.
    pub fn step(&mut self, seen: &Seen) -> Option<f64> {
        self.window.add(seen);
        self.is_high = seen.brink >= HIGH || self.is_high && seen.brink >= LOW;
        let rate = match self.rate {
            None if seen.watermark < SET_POINT || seen.ingest <= 0.0 => return None,
            _ if self.is_high => {
                self.begin(seen);
                seen.sustainable
            }
            None => {
                self.begin(seen);
                seen.mean.max(seen.ingest)
            }
            Some(rate) if !self.window.is_over(seen.buffers) => rate,
            Some(rate) => {
                let (error, throughput) = self.window.means();
                let factor = factor(error, self.error);
                (self.error, self.window) = (error, Window::default());
                if throughput < USED * rate { rate * factor.min(1.0) } else { rate * factor }
            }
        };
        let rate = at_least(rate, seen.sustainable.max(seen.fair)).min(seen.quota);
        // Where nothing is known of the device there is no limit.
        self.rate = Some(rate).filter(|rate| rate.is_finite());
        self.rate
    }

    /// Begins a new window, which counts the change of the watermark from here.
    fn begin(&mut self, seen: &Seen) {
        (self.error, self.window) = (seen.watermark - SET_POINT, Window::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second in which 10 MB were written into buffers of 10 MB: each is a step.
    fn at(watermark: f64) -> Seen {
        Seen {
            seconds: 1.0,
            watermark,
            brink: watermark,
            ingest: 10e6,
            mean: 12e6,
            sustainable: 8e6,
            fair: 8e6,
            buffers: 10e6,
            quota: f64::INFINITY,
            ..Seen::default()
        }
    }

    fn steps(all: &[Seen]) -> Vec<Option<f64>> {
        let mut limiter = Adaptive::default();
        all.iter().map(|seen| limiter.step(seen).map(f64::round)).collect()
    }

    #[test]
    fn the_first_rate_is_what_was_written_without_one() {
        // CR-6, then CR-3.
        let seen = [at(0.1), at(0.49), at(0.5), at(0.5), at(0.6)];
        assert_eq!(steps(&seen), [None, None, Some(12e6), Some(12e6), Some(10.92e6)]);
    }

    #[test]
    fn from_80_percent_to_70_it_is_what_can_be_kept_up() {
        // CR-4: also where it jumps there.
        let seen = [at(0.3), at(0.81), at(0.9), at(0.71), at(0.69)];
        let rates = steps(&seen);
        assert_eq!(rates[..4], [None, Some(8e6), Some(8e6), Some(8e6)]);
        // From there the law steers it: 1 - 0.5 x 0.19 + 0.4 x 0.02.
        assert_eq!(rates[4], Some(8e6 * 0.913));
    }

    #[test]
    fn between_two_steps_it_stays() {
        // CR-7: a step is made after all buffers were written once, or after two minutes, by the mean of what was seen
        // meanwhile.
        let every = |ingest: f64| {
            let seen = Seen { ingest, mean: ingest, sustainable: 0.1e6, fair: 0.0, ..at(0.6) };
            let rates = steps(&[seen; 400]);
            (1..400).filter(|&second| rates[second] != rates[second - 1]).take(3).collect::<Vec<_>>()
        };
        assert_eq!([every(4e6), every(3e6), every(10e6)], [[3, 6, 9], [4, 8, 12], [1, 2, 3]]);
        assert_eq!(every(0.05e6), [120, 240, 360]);
        let saw = [at(0.5), Seen { ingest: 6e6, ..at(0.9 - 0.2) }, Seen { ingest: 6e6, ..at(0.3) }];
        assert_eq!(steps(&saw), [Some(12e6); 3], "up and down");
    }

    #[test]
    fn a_watermark_that_is_high_and_far_from_a_stop_is_steered() {
        let long = Seen { brink: 0.79, ..at(0.9) };
        assert_eq!(steps(&[at(0.5), long])[1], Some(12e6 * 0.64));
    }

    #[test]
    fn it_does_not_rise_while_less_is_written() {
        // U-13.
        let slack = Seen { ingest: 10e6, ..at(0.2) };
        assert_eq!(steps(&[at(0.5), slack, slack])[1..], [Some(12e6), Some(12e6)]);
        let full = Seen { ingest: 11e6, ..at(0.5) };
        assert_eq!(steps(&[at(0.5), Seen { watermark: 0.4, ..full }])[1], Some(13.08e6));
    }

    #[test]
    fn it_stays_between_a_quarter_of_what_can_be_kept_up_and_what_was_bought() {
        let full = Seen { watermark: 0.79, ..at(0.5) };
        assert!(steps(&[full; 50]).iter().all(|&rate| rate >= Some(2e6)));
        assert_eq!(steps(&[full; 50]).last(), Some(&Some(2e6)));
        let empty = Seen { ingest: 20e6, quota: 15e6, ..at(0.1) };
        let mut seen = vec![at(0.5)];
        seen.resize(20, empty);
        assert_eq!(steps(&seen).last(), Some(&Some(15e6)));
    }
}
