//! From totals to rates: the load that every policy asks about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::sample::{Bytes, Operations, PartitionSample, Sample};

const SECOND: Nanos = 1_000_000_000;
/// Time between two looks at the average ingest (FX-12).
const AVERAGE_OVER: Nanos = 60 * SECOND;
/// A partition that was opened less than this long ago, and has written nothing yet, has no average at all, not an
/// average of zero: what it did before is not known.
const FRESH: Nanos = 300 * SECOND;
/// Time constant of the measured amplification (U-10), in seconds.
const AMPLIFICATION_SECONDS: f64 = 600.0;
/// The amplification before anything is measured: that of the paper's runs (FX-13), in device bytes per byte ingested.
const AMPLIFICATION_FIRST: f64 = 20.0;
/// What was known before weighs at least as much as this many memtables: the first guess, and after a pause what was
/// measured before it.
const KNOWN_MEMTABLES: f64 = 16.0;
/// The part of the first guess that may be wrong: trees of few levels, and those whose level 0 gathers, need only 12.
const DOUBT: f64 = 0.4;
/// The part of its way that a byte above the target of its level has behind it: half, on average.
const ON_ITS_WAY: f64 = 0.5;
/// No tree needs less (U-10): a flush, and one merge whose inputs are read.
const AMPLIFICATION_MIN: f64 = 3.0;

/// Rates of all partitions of one node.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    partitions: BTreeMap<Owner, Meter>,
}

#[derive(Clone, Debug)]
struct Meter {
    opened_at: Nanos,
    at: Nanos,
    bytes: Bytes,
    minute_at: Nanos,
    minute_user: u64,
    peak: f64,
    average: Option<f64>,
    /// Users' bytes that are still to be moved.
    owed: f64,
    /// Bytes that have come to where they stay, and in `background` what was moved for them, of late.
    settled: f64,
    background: f64,
    /// The part of `settled` that is the first guess.
    guessed: f64,
    /// The totals of operations at the last look; in `moved` the operations of the background and the bytes that they
    /// moved, of late.
    ops: Operations,
    moved: [f64; 2],
    load: Load,
}

/// One partition's load, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Written by users, in the last window.
    pub ingest: f64,
    /// Written by users, over the last whole minute (FX-12); `None` in the first minute.
    pub average: Option<f64>,
    /// Written by users, in the busiest window of this minute (U-9: lowered only at the minute).
    pub peak: f64,
    /// Log.
    pub log: f64,
    /// Read for users.
    pub read: f64,
    /// Flushes and merges.
    pub background: f64,
    /// Operations of the log, per second.
    #[serde(default)]
    pub log_ops: f64,
    /// Operations that read for users, per second.
    #[serde(default)]
    pub read_ops: f64,
    /// Operations that a byte of flushes and merges takes; 0 until there were any.
    #[serde(default)]
    pub ops_per_byte: f64,
    /// Background bytes that a byte ingested causes when nothing is put off (LSM-BA).
    pub amplification: f64,
    /// The part of `amplification` that may be wrong, because little has been measured yet.
    pub doubt: f64,
}

impl Load {
    /// Background bytes per second that the present ingest needs when nothing is put off.
    pub fn background_need(&self) -> f64 {
        self.ingest * self.amplification
    }

    /// The part of [`Load::background_need`] that is beyond doubt.
    pub fn certain_need(&self) -> f64 {
        self.ingest * (self.amplification - self.doubt)
    }
}

/// The most background bytes that a byte ingested can cause in a tree whose deepest level is `depth`. Levels 0 and 1
/// are in memory, and the factor between levels is ten (FX-13): 46 for levels 0 to 3.
pub fn amplification_bound(depth: u64) -> f64 {
    let deep = depth.max(1) as f64 - 1.0;
    let written = 1.0 + 2.0 + 11.0 * deep;
    let read = if deep > 0.0 { 11.0 * deep - 1.0 } else { 0.0 };
    written + read
}

impl Meters {
    /// Takes in a sample and gives the loads, in its order. `deferred` names the partitions whose amplification is not
    /// the usual one just now; theirs is frozen (U-10).
    pub fn observe(&mut self, sample: &Sample, deferred: impl Fn(Owner) -> bool) -> Vec<Load> {
        let awake: Vec<Owner> = sample.partitions.iter().map(|partition| partition.owner).collect();
        self.partitions.retain(|owner, _| awake.binary_search(owner).is_ok());
        let load = |partition: &PartitionSample| {
            let meter = self.partitions.entry(partition.owner).or_insert_with(|| Meter::new(sample.now, partition));
            meter.observe(sample.now, partition, deferred(partition.owner));
            meter.load
        };
        sample.partitions.iter().map(load).collect()
    }
}

impl Meter {
    fn new(now: Nanos, partition: &PartitionSample) -> Self {
        let settled = known(partition);
        let background = settled * AMPLIFICATION_FIRST;
        Self {
            opened_at: now,
            at: now,
            bytes: partition.bytes,
            minute_at: now,
            minute_user: partition.bytes.user,
            peak: 0.0,
            average: None,
            owed: owed(partition),
            settled,
            background,
            guessed: settled,
            ops: partition.ops,
            moved: [0.0; 2],
            load: load_of(settled, background, settled, partition),
        }
    }

    fn observe(&mut self, now: Nanos, partition: &PartitionSample, deferred: bool) {
        let nanos = now.saturating_sub(self.at);
        if nanos == 0 {
            return;
        }
        let seconds = nanos as f64 / SECOND as f64;
        let since = partition.bytes.since(&self.bytes);
        let rate = |bytes: u64| bytes as f64 / seconds;
        let owed = owed(partition);
        if !deferred {
            // While nothing settles, the ratio stays: the passing of time alone says nothing about it.
            let keep =
                (-seconds / AMPLIFICATION_SECONDS).exp().max((known(partition) / self.settled.max(1.0)).min(1.0));
            self.settled = self.settled * keep + since.user as f64 + self.owed - owed;
            self.background = self.background * keep + since.background() as f64;
            self.guessed *= keep;
        }
        self.owed = owed;
        if self.average.is_none() && partition.bytes.user == self.minute_user && now - self.opened_at < FRESH {
            self.minute_at = now;
        }
        if now - self.minute_at >= AVERAGE_OVER {
            let minute = (now - self.minute_at) as f64 / SECOND as f64;
            self.average = Some(partition.bytes.user.saturating_sub(self.minute_user) as f64 / minute);
            (self.minute_at, self.minute_user, self.peak) = (now, partition.bytes.user, 0.0);
        }
        self.peak = self.peak.max(rate(since.user));
        let ops = |of: fn(&Operations) -> u64| of(&partition.ops).saturating_sub(of(&self.ops));
        let lately = (-seconds / AMPLIFICATION_SECONDS).exp();
        let moved = [ops(|ops| ops.background) as f64, since.background() as f64];
        self.moved = std::array::from_fn(|of| self.moved[of] * lately + moved[of]);
        self.load = Load {
            ingest: rate(since.user),
            average: self.average,
            peak: self.peak,
            log: rate(since.log),
            read: rate(since.read),
            background: rate(since.background()),
            log_ops: rate(ops(|ops| ops.log)),
            read_ops: rate(ops(|ops| ops.read)),
            ops_per_byte: self.moved[0] / self.moved[1].max(1.0),
            ..load_of(self.settled, self.background, self.guessed, partition)
        };
        (self.at, self.bytes, self.ops) = (now, partition.bytes, partition.ops);
    }
}

fn known(partition: &PartitionSample) -> f64 {
    KNOWN_MEMTABLES * partition.tree.memtable_bytes.max(1) as f64
}

/// Bytes that background has still to move. Merges come in lumps, many at a time where trees fill alike: if
/// amplification were counted by what users wrote, it would rise and fall with them.
fn owed(partition: &PartitionSample) -> f64 {
    let tree = &partition.tree;
    (tree.unflushed + tree.l0_bytes) as f64 + tree.deep_debt as f64 * ON_ITS_WAY
}

/// The amplification that was measured, between its bounds (U-10), and how much of it is doubtful because it was
/// `guessed`.
fn load_of(settled: f64, background: f64, guessed: f64, partition: &PartitionSample) -> Load {
    let settled = settled.max(known(partition));
    let bound = amplification_bound(partition.tree.depth).max(AMPLIFICATION_MIN);
    let amplification = (background / settled).clamp(AMPLIFICATION_MIN, bound);
    let doubt = DOUBT * amplification * (guessed / settled).min(1.0);
    Load { amplification, doubt, ..Load::default() }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{MemoryFacts, TreeFacts};
    use super::*;
    use crate::limits::Limits;

    fn at(second: u64, bytes: Bytes, depth: u64) -> Sample {
        let tree = TreeFacts { memtable_bytes: 1_000_000, depth, ..TreeFacts::default() };
        let partition = PartitionSample { bytes, tree, ..PartitionSample::default() };
        let memory = MemoryFacts::default();
        Sample { now: second * SECOND, device: Limits::UNLIMITED, memory, partitions: vec![partition] }
    }

    #[test]
    fn the_bound_is_46_with_four_levels() {
        // FX-13.
        assert_eq!([1, 2, 3, 4].map(amplification_bound), [3.0, 24.0, 46.0, 68.0]);
    }

    #[test]
    fn the_average_is_taken_every_minute() {
        // FX-12: 120 MB in a minute make 2 MB/s.
        let mut meters = Meters::default();
        let mut last = Load::default();
        for second in 0..=119 {
            let user = 2_000_000 * second.min(60);
            last = meters.observe(&at(second, Bytes { user, ..Bytes::default() }, 3), |_| false)[0];
            if second == 59 {
                assert_eq!((last.average, last.ingest), (None, 2e6));
            }
        }
        assert_eq!((last.average, last.ingest), (Some(2e6), 0.0));
        let last = meters.observe(&at(120, Bytes { user: 120_000_000, ..Bytes::default() }, 3), |_| false)[0];
        assert_eq!(last.average, Some(0.0));
    }

    #[test]
    fn the_first_minute_begins_with_the_first_write_after_opening() {
        let average_at = |second: u64, first_write: u64| {
            let mut meters = Meters::default();
            let user = |second: u64| 2_000_000 * second.saturating_sub(first_write);
            let looks = (0..=second)
                .map(|now| meters.observe(&at(now, Bytes { user: user(now), ..Bytes::default() }, 3), |_| false)[0]);
            looks.last().expect("looked").average
        };
        assert_eq!([average_at(100, 90), average_at(149, 90), average_at(150, 90)], [None, None, Some(2e6)]);
        assert_eq!(average_at(590, 580), Some(0.0), "U-9");
    }

    #[test]
    fn amplification_is_measured_bounded_and_frozen() {
        let run = |per_byte: u64, depth: u64, deferred: bool| {
            let mut meters = Meters::default();
            let bytes = |second: u64| {
                let user = second * 3_000_000;
                Bytes { user, flush: user, deep_written: user * (per_byte - 1), ..Bytes::default() }
            };
            let each = (0..600).map(|second| meters.observe(&at(second, bytes(second), depth), |_| deferred)[0]);
            each.last().expect("ten minutes").amplification
        };
        assert!((run(9, 3, false) - 9.0).abs() < 0.2, "{}", run(9, 3, false));
        assert_eq!([run(1, 3, false), run(99, 3, false)], [3.0, 46.0]);
        assert_eq!(run(9, 3, true), 20.0);
        assert_eq!(run(9, 1, false), 3.0);
    }
}
