//! The controller of CruiseDB's published code, which is not the paper's (CR-11). It looks at the scores of levels, and
//! starts from what passed in the last interval, not from what was allowed.

use super::Seen;

/// The score of level 0 that the controller aims at: six runs.
const AIM: f64 = 1.5;
/// With a score above this, level 0 is full: more than twelve runs.
const FULL: f64 = 3.0;
/// A rise of the worst score by more than this is a jump.
const JUMP: f64 = 2.0;
/// The gain for the distance of level 0's score from its aim, and the gain for the rise of the worst score.
const K1: f64 = 0.5 / 3.0;
const K2: f64 = 0.4 / 5.0;
/// Outside of these bounds the ratio is not believed.
const LOW: f64 = 0.5;
const HIGH: f64 = 1.5;
/// The rate is set each time this share of all write buffers has been written: 300,000 operations, half of them writes
/// of 1 KB.
const WRITTEN: f64 = 0.19;

/// The limiter of one partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Published {
    /// Bytes per second; `None` until there is a limit.
    rate: Option<f64>,
    /// The worst score when the rate was set.
    worst: f64,
    /// Seconds since then.
    seconds: f64,
    written: f64,
}

impl Published {
    /// Bytes per second that users may write from now on; `None` = as they like.
    pub fn step(&mut self, seen: &Seen) -> Option<f64> {
        self.seconds += seen.seconds;
        self.written += seen.ingest * seen.seconds;
        let is_over = self.seconds > 0.0 && self.written >= seen.buffers * WRITTEN;
        let rate = match self.rate {
            None if seen.l0_score < AIM => return None,
            None => seen.mean,
            Some(_) if is_over => self.next(seen),
            stays => return stays,
        };
        (self.seconds, self.written, self.worst) = (0.0, 0.0, seen.worst_score);
        self.rate = Some(rate.max(1.0));
        self.rate
    }

    fn next(&self, seen: &Seen) -> f64 {
        let rise = seen.worst_score - self.worst;
        let ratio = 1.0 - K1 * (seen.l0_score - AIM) - K2 * rise;
        if seen.l0_score > FULL || rise > JUMP || ratio < LOW {
            seen.sustainable
        } else if ratio > HIGH {
            seen.mean
        } else {
            self.written / self.seconds * ratio
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second in which 10 MB were written into buffers of 40 MB: each is an interval.
    fn at(l0_score: f64, worst_score: f64) -> Seen {
        let (ingest, mean, sustainable) = (10e6, 12e6, 8e6);
        Seen { seconds: 1.0, ingest, mean, sustainable, buffers: 40e6, l0_score, worst_score, ..Seen::default() }
    }

    /// The rate after `seen`, where the scores were at their aim before.
    fn then(seen: Seen) -> f64 {
        let mut limiter = Published::default();
        assert_eq!(limiter.step(&at(1.0, 1.0)), None);
        assert_eq!(limiter.step(&at(1.5, 4.0)), Some(12e6));
        limiter.step(&seen).expect("a rate").round()
    }

    #[test]
    fn the_rate_is_what_passed_times_the_ratio() {
        // CR-11: of 10 MB and not of 12.
        assert_eq!([then(at(1.5, 4.0)), then(at(3.0, 4.0)), then(at(0.0, 4.0))], [10e6, 7.5e6, 12.5e6]);
        assert_eq!([then(at(1.5, 5.0)), then(at(1.5, 3.0))], [9.2e6, 10.8e6]);
        let slack = Seen { ingest: 1e6, seconds: 10.0, ..at(0.5, 4.0) };
        assert_eq!(then(slack), 1_166_667.0, "who writes little is allowed little");
    }

    #[test]
    fn it_keeps_to_what_can_be_kept_up_where_it_is_not_believed() {
        assert_eq!(then(at(3.1, 4.0)), 8e6, "more than twelve runs");
        assert_eq!(then(at(1.5, 6.1)), 8e6, "a jump");
        assert_eq!(then(at(0.0, 0.0)), 12e6, "too much of a rise");
    }

    #[test]
    fn it_is_set_by_the_bytes_written() {
        let mut limiter = Published::default();
        let seen = Seen { ingest: 2e6, ..at(3.0, 3.0) };
        let rates: Vec<_> = (0..9).filter_map(|_| limiter.step(&seen)).collect();
        assert_eq!(rates[..4], [12e6; 4]);
        assert_eq!(rates[4..8], [1.5e6; 4]);
    }
}
