//! No limits: the gates only count.

use super::{Knobs, PartitionKnobs, Sample};
use crate::limits::Limits;

/// Opens every gate.
pub fn unlimited(sample: &Sample) -> Knobs {
    let open = |partition: &super::PartitionSample| PartitionKnobs {
        owner: partition.owner,
        foreground: Limits::UNLIMITED,
        background: Limits::UNLIMITED,
        borrows: false,
        weight: None,
    };
    Knobs { node: Limits::UNLIMITED, partitions: sample.partitions.iter().map(open).collect() }
}
