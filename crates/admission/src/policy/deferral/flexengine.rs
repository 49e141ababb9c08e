//! FlexEngine's deferral in two stages, as its paper has it (FX-19 to FX-27).
//!
//! While the load needs 80 % of the device or more, every partition that needs more background than an equal share of
//! the bandwidth does no compaction but level 0 into level 1. From 12 of 20 runs on it only merges inside level 0, and
//! does so until there is bandwidth again. Then everything runs at once, with all the bandwidth that foreground leaves
//! (FX-25).
//!
//! Our decisions, where the paper is silent: "usage" is what the load *needs* (U-1: behind a limiter, usage cannot pass
//! the limit, and catching up would look like load). Deferral applies to the hungry partitions (FX-27).

use std::collections::{BTreeMap, BTreeSet};

use weir_io::Owner;

use super::{DeferralPolicy, ENTER, STAGE_TWO_PERCENT, demand, time_to_stall};
use crate::limits::{Limits, Rates};
use crate::policy::device::Front;
use crate::policy::forecast::tokens;
use crate::policy::knobs::{Knobs, PartitionKnobs, Reason, Stage};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// The deferral policy of the profiles `flexengine` and `node+stage1`.
pub struct FlexEngine {
    /// The last stage that is used: stage one for the paper's ablation.
    pub last: Stage,
    /// The background limit of a partition that catches up: its load of the last minute says nothing of what it owes
    /// (FX-25), and foreground goes first.
    catching_up: Limits,
    stages: BTreeMap<Owner, Stage>,
    /// The partitions whose trees owe compactions that were put off.
    owing: BTreeSet<Owner>,
}

impl FlexEngine {
    /// The policy with stages up to `last`. A partition that catches up may have `background` bytes per second of
    /// background.
    pub fn new(last: Stage, background: u64) -> Self {
        let catching_up = Limits::Shared(Rates::bytes(background));
        Self { last, catching_up, stages: BTreeMap::new(), owing: BTreeSet::new() }
    }

    fn next(&self, now: Stage, short: bool, hungry: bool, partition: &PartitionSample) -> Stage {
        let is_long = partition.tree.l0_runs * 100 >= partition.tree.l0_slow * STAGE_TWO_PERCENT;
        match now {
            _ if !short => Stage::Normal,
            Stage::Normal if !hungry => Stage::Normal,
            Stage::Normal | Stage::One if is_long && self.last == Stage::Two => Stage::Two,
            Stage::Normal => Stage::One,
            stays => stays,
        }
    }
}

impl DeferralPolicy for FlexEngine {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        let demand = demand(sample, loads);
        let left = Front::of(loads).background_at(&sample.device, 1.0).max(0.0);
        let share = ENTER * left / loads.len().max(1) as f64;
        let tokens = tokens(sample, loads);
        let mut stages = BTreeMap::new();
        for (index, (partition, load)) in sample.partitions.iter().zip(loads).enumerate() {
            let before = self.stages.get(&partition.owner).copied().unwrap_or_default();
            let hungry = load.ingest > 0.0 && load.background_need() >= share;
            let stage = self.next(before, demand >= ENTER, hungry, partition);
            stages.insert(partition.owner, stage);
            if stage.is_deferred() {
                self.owing.insert(partition.owner);
            } else if partition.tree.debt() == 0 {
                self.owing.remove(&partition.owner);
            }
            let knob = &mut knobs.partitions[index];
            let why = match stage {
                Stage::Normal => Reason::Enough,
                Stage::Two => Reason::Runs(partition.tree.l0_runs),
                _ => Reason::Demand((demand * 100.0) as u64),
            };
            *knob = PartitionKnobs { stage, scope: stage.scope(), why, ..*knob };
            if stage == Stage::Normal && self.owing.contains(&partition.owner) {
                knob.background = self.catching_up;
            }
            knob.time_to_stall = time_to_stall(partition, load, tokens[index], knob);
        }
        self.stages = stages;
        self.owing.retain(|owner| self.stages.contains_key(owner));
    }

    fn is_atypical(&self, owner: Owner) -> bool {
        self.owing.contains(&owner)
    }
}
