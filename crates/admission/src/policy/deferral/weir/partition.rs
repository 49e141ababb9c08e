//! What the policy remembers of one partition.

use weir_io::Nanos;

use super::in_time::Paces;
use crate::policy::deferral::{Guard, STAGE_TWO_PERCENT};
use crate::policy::knobs::{Reason, Stage};
use crate::policy::sample::PartitionSample;

/// The state of one partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionState {
    /// How far its compactions are put off.
    pub stage: Stage,
    /// Why it is in this stage.
    pub why: Reason,
    /// Its last valve.
    pub guard: Guard,
    /// How fast its flushes and merges are.
    pub paces: Paces,
    /// When the stage began; `None` for the first stage.
    since: Option<Nanos>,
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
        Self { stage, why, guard, paces, since }
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
