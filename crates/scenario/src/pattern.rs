//! How a load moves in time: rates that stay for a while and change.

use std::sync::Arc;

use weir_io::{Nanos, Rng};

use crate::mix::{Kind, Mix};
use crate::trace::Trace;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;
/// Operations a second from a moment on: a list of steps, each of which lasts until the next. The first begins at 0.
/// Moments are in nanoseconds since the load began.
pub type Rates = Arc<[(Nanos, f64)]>;

/// How the clients' load moves, relative to what they were sold.
#[derive(Clone, Debug, Default)]
pub enum Pattern {
    /// The same load all the time.
    #[default]
    Steady,
    /// Nothing for some seconds, then everything.
    Surge {
        /// Seconds of silence.
        idle: u64,
        /// Whether writes surge; else only reads do.
        writes: bool,
    },
    /// As many writes as need one of two shares of the device, by turns.
    Waves {
        /// The lower share.
        low: f64,
        /// The higher share.
        high: f64,
        /// Seconds from one rise to the next.
        period: u64,
    },
    /// The load of a trace, as shares of what was sold.
    Trace(Arc<Trace>),
    /// Operations of several kinds in given shares.
    Mix(Mix),
}

impl Pattern {
    /// The rates of the reads or writes of `partition` for `seconds`; `rate` is what it sends when it sends everything.
    pub fn rates(&self, partition: usize, rate: f64, reads: bool, seconds: u64) -> Rates {
        match self {
            Pattern::Steady => [(0, rate)].into(),
            Pattern::Surge { writes, .. } if !writes && !reads => [(0, 0.0)].into(),
            Pattern::Surge { idle, .. } => [(0, 0.0), (idle * SECOND, rate)].into(),
            Pattern::Waves { .. } if reads => [(0, rate)].into(),
            Pattern::Waves { low, high, period } => {
                let half = (period * SECOND / 2).max(1);
                let turns = seconds * SECOND / half + 1;
                (0..turns).map(|turn| (turn * half, rate * if turn % 2 == 0 { low } else { high })).collect()
            }
            Pattern::Trace(trace) => {
                let steps = trace.steps(partition, reads).enumerate();
                steps.map(|(step, share)| (step as u64 * trace.step * SECOND, rate * share)).collect()
            }
            Pattern::Mix(mix) => [(0, mix.per_sec(if reads { Kind::Get } else { Kind::Insert }))].into(),
        }
    }
}

/// Times of operations, each somewhere in its own interval of the rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    from: Nanos,
    until: Nanos,
    rates: Rates,
    /// The step under way.
    step: usize,
    /// Operations before that step.
    before: f64,
    next: u64,
    rng: Rng,
}

impl Schedule {
    /// `rates` from `from` on, until `until`.
    pub fn of(from: Nanos, until: Nanos, rates: Rates, rng: Rng) -> Self {
        Self { from, until, rates, step: 0, before: 0.0, next: 0, rng }
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let wanted = self.next as f64 + self.rng.unit();
        self.next += 1;
        loop {
            let &(begin, rate) = self.rates.get(self.step)?;
            let end = self.rates.get(self.step + 1).map_or(self.until - self.from, |(end, _)| *end);
            let during = rate * end.saturating_sub(begin) as f64 / SECOND as f64;
            if wanted < self.before + during {
                let at = self.from + begin + ((wanted - self.before) / rate * SECOND as f64) as Nanos;
                return (at < self.until).then_some(at);
            }
            self.before += during;
            self.step += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rates: &[(Nanos, f64)], seconds: u64) -> Vec<Nanos> {
        Schedule::of(7, 7 + seconds * SECOND, rates.into(), Rng::new(1)).collect()
    }

    #[test]
    fn every_second_has_its_rate() {
        let times = times(&[(0, 0.0), (10 * SECOND, 100.0), (20 * SECOND, 3.0)], 30);
        let within =
            |from: u64, to: u64| times.iter().filter(|&&at| (from * SECOND..to * SECOND).contains(&(at - 7))).count();
        assert_eq!(within(0, 10), 0);
        assert!((99..=101).contains(&within(10, 11)) && (999..=1001).contains(&within(10, 20)));
        assert!((29..=31).contains(&within(20, 30)));
        assert!(times.is_sorted());
    }

    #[test]
    fn waves_rise_and_fall() {
        let waves = Pattern::Waves { low: 0.5, high: 1.0, period: 20 };
        assert_eq!(waves.rates(0, 10.0, false, 25)[..3], [(0, 5.0), (10 * SECOND, 10.0), (20 * SECOND, 5.0)]);
        assert_eq!(waves.rates(0, 10.0, true, 25)[..], [(0, 10.0)]);
    }
}
