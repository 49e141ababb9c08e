//! RocksDB's auto-tuned rate limiter, one bucket for all I/O of a partition (FX-17, FX-18). It follows the load slowly,
//! by 5 % a step, and that is what FlexEngine replaces.
//!
//! As in RocksDB, a drain is a refill that somebody had to wait for. A step looks at the share of refills that were
//! drains. A limit lies between a twentieth of the largest and the largest. A step is made when I/O is asked for, a
//! hundred refills or more after the last one. So a pause counts as one step: a limiter that was never drained in it
//! falls to the floor, and one that was busy when the pause began may come out of it a step lower.
//!
//! RocksDB refills every 100 ms by default, which makes 620 s from the floor to the whole; the paper's 62 s imply 10 ms
//! and a step of one second, the default here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::{BandwidthPolicy, BandwidthSettings, NODE_BURST, front};
use crate::bucket::UNLIMITED;
use crate::limits::{Direction, Limits};
use crate::policy::knobs::{NodeKnobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{Bytes, Operations, PartitionSample, Sample};

/// A limit never falls below this share of the largest.
const FLOOR: f64 = 0.05;
/// The factor of a step.
const FACTOR: f64 = 1.05;
/// Refills in a step.
const REFILLS: Nanos = 100;

/// The settings of [`Autotune`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutotuneSettings {
    /// The first limit, as a share of the largest: RocksDB starts at one half (FX-18).
    pub start: f64,
    /// Time between two steps, in nanoseconds: that of a hundred refills.
    pub step: Nanos,
}

impl Default for AutotuneSettings {
    fn default() -> Self {
        Self { start: 0.5, step: 1_000_000_000 }
    }
}

impl AutotuneSettings {
    /// Time between two refills, in nanoseconds.
    pub fn refill(&self) -> Nanos {
        (self.step / REFILLS).max(1)
    }
}

/// RocksDB's limiter for every partition.
pub struct Autotune {
    settings: BandwidthSettings,
    tuning: AutotuneSettings,
    /// What the device can do, in bytes a second, as the last sample said.
    device: u64,
    partitions: BTreeMap<Owner, Tuned>,
}

/// One partition's limiter.
struct Tuned {
    /// Its limit after the last step that was made, as a share of the largest.
    share: f64,
    /// What was seen at that step.
    since: Seen,
    /// The last sample, and in `next` what the limit is if anything is asked for from then on.
    last: Seen,
    next: f64,
}

/// What is seen of a limiter at one moment.
#[derive(Clone, Copy, PartialEq)]
struct Seen {
    at: Nanos,
    drains: u64,
    moved: (Bytes, Operations),
}

impl Seen {
    fn of(partition: &PartitionSample, at: Nanos) -> Self {
        Self { at, drains: partition.drains, moved: (partition.bytes, partition.ops) }
    }

    /// Whether nothing was asked for between `earlier` and this moment.
    fn is_idle_since(&self, earlier: &Seen) -> bool {
        (self.drains, self.moved) == (earlier.drains, earlier.moved)
    }
}

impl Tuned {
    fn new(share: f64, seen: Seen) -> Self {
        Self { share, since: seen, last: seen, next: share }
    }

    /// Takes in what is `seen`, and gives the limit from now on.
    fn observe(&mut self, seen: Seen, tuning: &AutotuneSettings) -> f64 {
        // Something was asked for, so what would have been the limit was the limit: that was the moment of a step.
        if !seen.is_idle_since(&self.last) && self.last.at - self.since.at >= tuning.step {
            (self.share, self.since) = (self.next, self.last);
        }
        let elapsed = seen.at - self.since.at;
        if elapsed >= tuning.step {
            let drains = seen.drains.saturating_sub(self.since.drains);
            self.next = tune(self.share, drains * 100 / elapsed.div_ceil(tuning.refill()));
        }
        self.last = seen;
        self.next
    }
}

impl Autotune {
    /// Every partition begins at `tuning.start`.
    pub fn new(settings: BandwidthSettings, tuning: AutotuneSettings) -> Self {
        Self { settings, tuning, device: UNLIMITED, partitions: BTreeMap::new() }
    }

    /// The knobs at `share` of the largest rate. That rate is what the partition needs in front and behind, as far as
    /// the device has it.
    fn at(&self, partition: &PartitionSample, share: f64) -> PartitionKnobs {
        let knobs = front(partition, &self.settings);
        let foreground = knobs.foreground.rates(Direction::Read).bytes;
        let foreground = match foreground.saturating_add(self.settings.background).min(self.device) {
            UNLIMITED => Limits::UNLIMITED,
            largest => Limits::bytes(((largest as f64 * share) as u64).max(1)),
        };
        PartitionKnobs { foreground, one_bucket: Some(self.tuning.refill()), ..knobs }
    }
}

/// The next limit after a step in which `drained` percent of the refills were drains (FX-17), as a share of the
/// largest.
fn tune(share: f64, drained: u64) -> f64 {
    let next = match drained {
        0 => FLOOR,
        1..50 => share / FACTOR,
        50..=90 => share,
        _ => share * FACTOR,
    };
    next.clamp(FLOOR, 1.0)
}

impl BandwidthPolicy for Autotune {
    fn node(&self, _: Limits) -> NodeKnobs {
        NodeKnobs { limits: Limits::UNLIMITED, burst: NODE_BURST }
    }

    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        let share = self.partitions.get(&partition.owner).map_or(self.tuning.start, |tuned| tuned.next);
        self.at(partition, share)
    }

    fn decide(&mut self, sample: &Sample, _: &[Load]) -> Vec<PartitionKnobs> {
        self.device = sample.device.rates(Direction::Write).bytes;
        let awake = &sample.partitions;
        self.partitions.retain(|owner, _| awake.binary_search_by_key(owner, |partition| partition.owner).is_ok());
        let mut partitions = Vec::with_capacity(awake.len());
        for partition in awake {
            let seen = Seen::of(partition, sample.now);
            let new = || Tuned::new(self.tuning.start, seen);
            let share = self.partitions.entry(partition.owner).or_insert_with(new).observe(seen, &self.tuning);
            partitions.push(self.at(partition, share));
        }
        partitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn from_the_floor_to_the_whole_are_62_steps() {
        // FX-17.
        let steps = std::iter::successors(Some(FLOOR), |share| Some(tune(*share, 100)));
        assert_eq!(steps.take_while(|&share| share < 1.0).count(), 62);
        let steps = std::iter::successors(Some(0.5), |share| Some(tune(*share, 100)));
        assert_eq!(steps.take_while(|&share| share < 1.0).count(), 15, "FX-18");
        assert_eq!([tune(0.8, 0), tune(0.8, 50), tune(0.8, 90)], [FLOOR, 0.8, 0.8]);
        assert!((tune(0.105, 49) - 0.1).abs() < 1e-9);
        assert_eq!([tune(0.05, 49), tune(0.99, 91)], [FLOOR, 1.0]);
    }

    /// The limits after each second. `drains` has the number of drains in each; `None` = nothing was asked for.
    fn limits(step: Nanos, drains: &[Option<u64>]) -> Vec<f64> {
        let tuning = AutotuneSettings { start: 0.5, step };
        let mut sample = PartitionSample::default();
        let mut tuned = Tuned::new(tuning.start, Seen::of(&sample, 0));
        let mut at = 0;
        let second = |asked: &Option<u64>| {
            at += SECOND;
            if let Some(drains) = asked {
                sample.drains += drains;
                sample.ops.read += 1;
            }
            tuned.observe(Seen::of(&sample, at), &tuning)
        };
        drains.iter().map(second).collect()
    }

    fn assert_close(found: &[f64], wanted: &[f64]) {
        let same = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9);
        assert!(same && found.len() == wanted.len(), "{found:?}, not {wanted:?}");
    }

    #[test]
    fn a_step_a_second_looks_at_the_drains_of_that_second() {
        let found = limits(SECOND, &[Some(100), Some(91), Some(90), Some(49), Some(1), Some(0), Some(100)]);
        let up = 0.5 * FACTOR * FACTOR;
        assert_close(&found, &[0.525, up, up, 0.525, 0.5, FLOOR, FLOOR * FACTOR]);
    }

    #[test]
    fn a_step_of_ten_seconds_waits_for_them() {
        // FX-18: at RocksDB's default refill.
        let found = limits(10 * SECOND, &[Some(10); 25]);
        let step = |second: usize| 0.5 * FACTOR.powi((second / 10) as i32);
        assert_close(&found, &(1..=25).map(step).collect::<Vec<_>>());
    }

    #[test]
    fn a_pause_is_one_step() {
        // A limiter that was never drained falls to the floor with the next request.
        let mut seconds = vec![Some(0)];
        seconds.extend([None; 10]);
        seconds.push(Some(100));
        let found = limits(SECOND, &seconds);
        assert_eq!((found[0], found[10]), (FLOOR, FLOOR));
        assert_close(&found[11..], &[FLOOR * FACTOR]);
        // A limiter that was busy when the pause began: its drains count for the whole pause, and are forgotten after a
        // hundred times as long.
        let mut seconds = vec![Some(100), Some(100)];
        seconds.extend([None; 120]);
        let found = limits(SECOND, &seconds);
        assert_close(&found[..4], &[0.525, 0.525 * FACTOR, 0.525, 0.5]);
        assert_close(&[found[50], found[121]], &[0.5, FLOOR]);
        seconds.truncate(12);
        seconds.push(Some(100));
        assert_close(&limits(SECOND, &seconds)[12..], &[0.5 * FACTOR]);
    }
}
