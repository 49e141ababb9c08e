//! RocksDB's auto-tuned rate limiter, one for all I/O of a partition (FX-17, FX-18): it follows the load slowly, by 5 %
//! a step, and that is what FlexEngine replaces.
//!
//! RocksDB counts the refills that found the bucket empty. Ours: how much of what the last step allowed was used, in
//! percent; with a load that always waits the two are the same. RocksDB tunes every 100 refills (10 s at its default
//! refill), which makes 620 s from 5 % to the whole; the paper's 62 s imply a step of one second, the default here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::{BandwidthPolicy, BandwidthSettings, NODE_BURST, front};
use crate::bucket::UNLIMITED;
use crate::limits::{Direction, Limits};
use crate::policy::knobs::{NodeKnobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// A limit never falls below this share of the largest.
const FLOOR: f64 = 0.05;
/// A step.
const FACTOR: f64 = 1.05;

/// What [`Autotune`] is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutotuneSettings {
    /// The first limit, as a share of the largest: RocksDB starts at one half (FX-18).
    pub start: f64,
    /// Time between two steps, in nanoseconds.
    pub step: Nanos,
}

impl Default for AutotuneSettings {
    fn default() -> Self {
        Self { start: 0.5, step: 1_000_000_000 }
    }
}

/// See the module.
pub struct Autotune {
    settings: BandwidthSettings,
    tuning: AutotuneSettings,
    partitions: BTreeMap<Owner, Tuned>,
}

struct Tuned {
    share: f64,
    since: Nanos,
    used: f64,
    allowed: f64,
    seen: Nanos,
}

impl Autotune {
    /// Every partition begins at `tuning.start`.
    pub fn new(settings: BandwidthSettings, tuning: AutotuneSettings) -> Self {
        Self { settings, tuning, partitions: BTreeMap::new() }
    }

    /// The knobs at `share` of the largest rates: foreground and background together are one limiter's.
    fn at(&self, partition: &PartitionSample, share: f64) -> PartitionKnobs {
        let knobs = front(partition, &self.settings);
        let part = |rate: u64| if rate == UNLIMITED { rate } else { ((rate as f64 * share) as u64).max(1) };
        PartitionKnobs {
            foreground: Limits::bytes(part(knobs.foreground.rates(Direction::Read).bytes)),
            background: Limits::bytes(part(self.settings.background)),
            ..knobs
        }
    }
}

/// The next limit after a step in which `drained` percent of the limit were used (FX-17), as a share of the largest.
fn tune(share: f64, drained: f64) -> f64 {
    let next = match drained {
        drained if drained <= 0.0 => FLOOR,
        drained if drained < 50.0 => share / FACTOR,
        drained if drained <= 90.0 => share,
        _ => share * FACTOR,
    };
    next.clamp(FLOOR, 1.0)
}

impl BandwidthPolicy for Autotune {
    fn node(&self, _: Limits) -> NodeKnobs {
        NodeKnobs { limits: Limits::UNLIMITED, burst: NODE_BURST }
    }

    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        let share = self.partitions.get(&partition.owner).map_or(self.tuning.start, |tuned| tuned.share);
        self.at(partition, share)
    }

    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs> {
        let mut partitions = Vec::with_capacity(sample.partitions.len());
        for (partition, load) in sample.partitions.iter().zip(loads) {
            let largest = self.at(partition, 1.0);
            let tuned = self.partitions.entry(partition.owner).or_insert(Tuned {
                share: self.tuning.start,
                since: sample.now,
                used: 0.0,
                allowed: 0.0,
                seen: sample.now,
            });
            let seconds = (sample.now - tuned.seen) as f64 / 1e9;
            let limited = |limits: &Limits| match limits.rates(Direction::Read).bytes {
                UNLIMITED => 0.0,
                rate => rate as f64,
            };
            // What has no limit is none of the limiter's: it is in neither of the two.
            for (limits, used) in [(&largest.foreground, load.read + load.log), (&largest.background, load.background)]
            {
                let rate = limited(limits);
                tuned.allowed += rate * tuned.share * seconds;
                tuned.used += if rate > 0.0 { used * seconds } else { 0.0 };
            }
            tuned.seen = sample.now;
            if sample.now - tuned.since >= self.tuning.step && tuned.allowed > 0.0 {
                tuned.share = tune(tuned.share, tuned.used * 100.0 / tuned.allowed);
                (tuned.since, tuned.used, tuned.allowed) = (sample.now, 0.0, 0.0);
            }
            let share = tuned.share;
            partitions.push(self.at(partition, share));
        }
        let awake = &sample.partitions;
        self.partitions.retain(|owner, _| awake.binary_search_by_key(owner, |partition| partition.owner).is_ok());
        partitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_floor_to_the_whole_are_62_steps() {
        // FX-17.
        let steps = std::iter::successors(Some(FLOOR), |share| Some(tune(*share, 100.0)));
        assert_eq!(steps.take_while(|&share| share < 1.0).count(), 62);
        let steps = std::iter::successors(Some(0.5), |share| Some(tune(*share, 100.0)));
        assert_eq!(steps.take_while(|&share| share < 1.0).count(), 15, "FX-18");
        assert_eq!([tune(0.8, 0.0), tune(0.8, 50.0), tune(0.8, 90.0)], [FLOOR, 0.8, 0.8]);
        assert!((tune(0.105, 49.0) - 0.1).abs() < 1e-9);
        assert_eq!([tune(0.05, 49.0), tune(0.99, 91.0)], [FLOOR, 1.0]);
    }
}
