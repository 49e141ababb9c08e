//! No limits: the gates only count. RocksDB as it comes.

use super::{BandwidthPolicy, NODE_BURST};
use crate::limits::Limits;
use crate::policy::knobs::{NodeKnobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Opens every gate.
pub struct Unlimited;

impl BandwidthPolicy for Unlimited {
    fn node(&self, _: Limits) -> NodeKnobs {
        NodeKnobs { limits: Limits::UNLIMITED, burst: NODE_BURST }
    }

    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        PartitionKnobs::open(partition)
    }

    fn decide(&mut self, sample: &Sample, _: &[Load]) -> Vec<PartitionKnobs> {
        sample.partitions.iter().map(PartitionKnobs::open).collect()
    }
}
