//! One gate for the node, as fast as the device, and no limits of partitions (FX-14): the upper of the two levels of
//! admission alone.

use super::BandwidthPolicy;
use crate::policy::knobs::PartitionKnobs;
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// One gate for the node.
pub struct Gated;

impl BandwidthPolicy for Gated {
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        PartitionKnobs::open(partition)
    }

    fn decide(&mut self, sample: &Sample, _: &[Load]) -> Vec<PartitionKnobs> {
        sample.partitions.iter().map(PartitionKnobs::open).collect()
    }
}
