//! What a partition did of late. A second is too short to judge a load by, and a load that has stopped should be
//! forgotten.

use weir_io::Nanos;

use crate::policy::meter::Load;

/// Time constant, in seconds.
const SECONDS: f64 = 10.0;

/// Rates of one partition, each a mean in which older values count for less.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    at: Option<Nanos>,
    /// The seconds that are in the sums, as far as they still count.
    weight: f64,
    sums: [f64; RATES],
}

/// How many rates are averaged.
const RATES: usize = 5;

fn rates(load: &Load) -> [f64; RATES] {
    [load.ingest, load.log, load.read, load.log_ops, load.read_ops]
}

impl Recent {
    /// Takes in a look at `now`. Gives the seconds since the last look, 0 at the first.
    pub fn step(&mut self, now: Nanos, load: &Load) -> f64 {
        let seconds = now.saturating_sub(self.at.replace(now).unwrap_or(now)) as f64 / 1e9;
        let keep = (-seconds / SECONDS).exp();
        self.weight = self.weight * keep + seconds;
        for (sum, rate) in self.sums.iter_mut().zip(rates(load)) {
            *sum = *sum * keep + rate * seconds;
        }
        seconds
    }

    /// The load `now`, with the averaged rates.
    pub fn load(&self, now: &Load) -> Load {
        let [ingest, log, read, log_ops, read_ops] = self.sums.map(|sum| sum / self.weight.max(f64::MIN_POSITIVE));
        Load { ingest, log, read, log_ops, read_ops, ..*now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn the_mean_is_right_from_the_first_second_on_and_forgets() {
        let mut recent = Recent::default();
        let mut look = |second: u64, ingest: f64| {
            let load = Load { ingest, ..Load::default() };
            let seconds = recent.step(second * SECOND, &load);
            (seconds, recent.load(&load).ingest.round())
        };
        assert_eq!(look(5, 0.0), (0.0, 0.0));
        assert_eq!(look(6, 3e6), (1.0, 3e6));
        for second in 7..30 {
            assert_eq!(look(second, 3e6), (1.0, 3e6));
        }
        let last = (30..130).map(|second| look(second, 0.0).1).last();
        assert!(last.is_some_and(|mean| mean < 300.0), "{last:?}");
    }
}
