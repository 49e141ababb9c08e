//! What the policy remembers of one partition.

use weir_io::Nanos;

use super::in_time::Paces;
use crate::policy::deferral::{Guard, STAGE_TWO_PERCENT};
use crate::policy::knobs::{Reason, Stage};
use crate::policy::sample::PartitionSample;

/// A partition whose reads are this many times slower than they were leaves stage two (U-23) …
const READS_SLOWER: u64 = 3;
/// … for this long, in nanoseconds.
const SLOW_READS_LAST: Nanos = 60_000_000_000;

/// The state of one partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionState {
    /// How far its compactions are put off.
    pub stage: Stage,
    /// Why it is in this stage.
    pub why: Reason,
    /// Whether nothing is put off until the shortage is over.
    pub ended: bool,
    /// Its last valve.
    pub guard: Guard,
    /// How fast its flushes and merges are.
    pub paces: Paces,
    /// When the stage began; `None` for the first stage.
    since: Option<Nanos>,
    /// The average P99 of its reads while nothing was put off, in nanoseconds.
    usual_p99: Option<Nanos>,
    slow_until: Nanos,
}

impl PartitionState {
    /// The state of a partition that was just opened. Where the device has a limit, and level 0 is long enough for
    /// stage two, the partition begins in drain (U-19). A level 0 above its trigger is not reason enough: trees gather
    /// more runs than that where it saves rewriting level 1.
    pub fn opened(now: Nanos, partition: &PartitionSample, limited: bool) -> Self {
        let tree = &partition.tree;
        let is_long = limited && tree.l0_runs * 100 >= tree.l0_slow * STAGE_TWO_PERCENT;
        let (stage, why) = if is_long { (Stage::Drain, Reason::Opened) } else { (Stage::Normal, Reason::Enough) };
        let since = is_long.then_some(now);
        let (guard, paces) = (Guard::default(), Paces::default());
        Self { stage, why, ended: false, guard, paces, since, usual_p99: None, slow_until: 0 }
    }

    /// Takes in how fast the partition's reads are.
    #[must_use]
    pub fn seen(mut self, now: Nanos, partition: &PartitionSample) -> Self {
        let Some(p99) = partition.read_p99 else { return self };
        match (self.stage, self.usual_p99) {
            (Stage::Normal, usual) => self.usual_p99 = Some(usual.map_or(p99, |usual| usual - usual / 8 + p99 / 8)),
            (Stage::Two, Some(usual)) if p99 > READS_SLOWER * usual => self.slow_until = now + SLOW_READS_LAST,
            _ => {}
        }
        self
    }

    /// Whether stage two costs its readers too much.
    pub fn reads_are_slow(&self, now: Nanos) -> bool {
        now < self.slow_until
    }

    /// Whether the stage has lasted for `dwell`.
    pub fn dwelt(&self, now: Nanos, dwell: Nanos) -> bool {
        self.since.is_none_or(|since| now - since >= dwell)
    }

    /// Begins another stage.
    pub fn enter(&mut self, now: Nanos, stage: Stage, why: Reason) {
        (self.stage, self.why, self.since) = (stage, why, Some(now));
    }
}
