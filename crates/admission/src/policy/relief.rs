//! Which partitions should leave a node that has sold more than its disk gives (FX-4, FX-5). This module only names
//! them, by the same figures by which compactions are put off. Moving them is for somebody else.

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::deferral::{ENTER, demand};
use super::device::Front;
use super::knobs::PartitionKnobs;
use super::meter::Load;
use super::owner::OwnerDef;
use super::sample::Sample;

/// Partitions are named until the rest needs no more than this share of the device (U-2). A violation ends below it,
/// too.
const RELIEVED: f64 = 0.70;
/// A violation begins and ends after this many samples in a row (U-1).
const WINDOWS: u32 = 3;
/// How fast a partition moves, in bytes a second: FlexEngine's partitions of 10 GB take 200 s (FX-28). Its replicas are
/// read for that, not the node that is short.
const MOVED_PER_SECOND: u64 = 50_000_000;

/// A node needs more of its device than it should.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// When it began, by the clock of the samples.
    pub since: Nanos,
    /// What the load would need if nothing were put off, as a share of the device.
    pub demand: f64,
    /// The partitions that should leave. The one that frees most for each byte moved comes first. Empty where nobody's
    /// leaving would help.
    pub moves: Vec<Move>,
}

/// A partition that should leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The partition.
    #[serde(with = "OwnerDef")]
    pub owner: Owner,
    /// How many bytes are to be copied.
    pub bytes: u64,
    /// How long the copy takes, in nanoseconds.
    pub takes: Nanos,
    /// What the move frees beyond doubt, as a share of the device: a first guess of amplification counts no more than
    /// it does in the demand.
    pub frees: f64,
    /// Nanoseconds until one of its writes would stall; `None` = never, as things are. Less than `takes` means that the
    /// move comes too late.
    pub time_to_stall: Option<Nanos>,
}

/// Watches for violations, sample by sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Relief {
    /// Samples in a row that speak for a change.
    contrary: u32,
    since: Option<Nanos>,
}

impl Relief {
    /// Takes in a sample. `loads` and `knobs` are those of the partitions, in the order of the sample.
    pub(super) fn observe(&mut self, sample: &Sample, loads: &[Load], knobs: &[PartitionKnobs]) -> Option<Violation> {
        let demand = demand(sample, loads);
        let speaks_for_change = if self.since.is_some() { demand < RELIEVED } else { demand >= ENTER };
        self.contrary = if speaks_for_change { self.contrary + 1 } else { 0 };
        if self.contrary == WINDOWS {
            self.contrary = 0;
            self.since = if self.since.is_some() { None } else { Some(sample.now) };
        }
        let since = self.since?;
        Some(Violation { since, demand, moves: moves(sample, loads, knobs, demand) })
    }
}

/// The moves, chosen greedily until the rest fits.
fn moves(sample: &Sample, loads: &[Load], knobs: &[PartitionKnobs], demand: f64) -> Vec<Move> {
    let partitions = sample.partitions.iter().zip(loads).zip(knobs);
    let candidates = partitions.map(|((partition, load), knobs)| {
        let bytes = partition.tree.bytes + partition.tree.unflushed;
        Move {
            owner: partition.owner,
            bytes,
            takes: bytes.saturating_mul(1_000_000_000 / MOVED_PER_SECOND),
            frees: Front::of(&[*load]).share(&sample.device, load.certain_need()),
            time_to_stall: knobs.time_to_stall,
        }
    });
    let mut candidates: Vec<Move> = candidates.filter(|candidate| candidate.frees > 0.0).collect();
    let relief = |candidate: &Move| candidate.frees / candidate.bytes.max(1) as f64;
    candidates.sort_by(|a, b| relief(b).total_cmp(&relief(a)).then(a.owner.cmp(&b.owner)));
    let mut left = demand;
    let enough = candidates.iter().take_while(|candidate| {
        let wanted = left > RELIEVED;
        left -= candidate.frees;
        wanted
    });
    let count = enough.count();
    candidates.truncate(count);
    candidates
}

#[cfg(test)]
mod tests {
    use super::super::sample::{MemoryFacts, PartitionSample, TreeFacts};
    use super::*;
    use crate::limits::{Limits, Rates};

    /// A node whose partitions have (gigabytes, percent of the device that they use).
    fn node(second: u64, partitions: &[(u64, u64)]) -> (Sample, Vec<Load>, Vec<PartitionKnobs>) {
        let samples = partitions.iter().enumerate().map(|(number, &(gigabytes, _))| PartitionSample {
            owner: Owner { tenant: number as u32 + 1, partition: 1 },
            tree: TreeFacts { bytes: gigabytes * 1_000_000_000, ..TreeFacts::default() },
            ..PartitionSample::default()
        });
        let samples: Vec<PartitionSample> = samples.collect();
        let loads =
            partitions.iter().map(|&(_, percent)| Load { read: percent as f64 * 1e6, ..Load::default() }).collect();
        let knobs = samples.iter().map(PartitionKnobs::open).collect();
        let device = Limits::Shared(Rates::bytes(100_000_000));
        let sample =
            Sample { now: second * 1_000_000_000, device, memory: MemoryFacts::default(), partitions: samples };
        (sample, loads, knobs)
    }

    fn watch(relief: &mut Relief, second: u64, partitions: &[(u64, u64)]) -> Option<Violation> {
        let (sample, loads, knobs) = node(second, partitions);
        relief.observe(&sample, &loads, &knobs)
    }

    #[test]
    fn violations_begin_at_80_percent_and_end_below_70_three_samples_in_a_row() {
        let mut relief = Relief::default();
        let seen = [79, 80, 80, 79, 80, 81, 82, 79, 71, 69, 69, 70, 69, 69, 69, 79];
        let violated: Vec<bool> =
            (0..).zip(seen).map(|(at, percent)| watch(&mut relief, at, &[(1, percent)]).is_some()).collect();
        let from = violated.iter().position(|&violated| violated);
        assert_eq!((from, violated.iter().filter(|&&violated| violated).count()), (Some(6), 8), "{violated:?}");
    }

    #[test]
    fn who_frees_most_for_each_byte_leaves_first_until_the_rest_fits() {
        let mut relief = Relief::default();
        // 110 % in all: 40 must go. First the small busy partition (10 % for 1 GB), then 30 % for 10 GB; not 30 % for
        // 20 GB, nor the partition that does nothing.
        let partitions = [(20, 30), (1, 10), (10, 30), (1, 0), (50, 40)];
        let violation = (0..3).filter_map(|second| watch(&mut relief, second, &partitions)).last().expect("110 %");
        assert_eq!(violation.since, 2_000_000_000);
        let moves: Vec<(u32, u64)> =
            violation.moves.iter().map(|it| (it.owner.tenant, it.takes / 1_000_000_000)).collect();
        assert_eq!(moves, [(2, 20), (3, 200)]);
    }

    #[test]
    fn a_device_without_a_limit_is_never_short() {
        let (sample, loads, knobs) = node(0, &[(1, 900)]);
        let sample = Sample { device: Limits::UNLIMITED, ..sample };
        let mut relief = Relief::default();
        assert!((0..9).all(|_| relief.observe(&sample, &loads, &knobs).is_none()));
    }
}
