//! Calcspar's order under a per-second contract: what the device sold for a second may be used at any moment of that
//! second, foreground first. Flushes and compactions get what is left of it.
//!
//! The paper on FlexEngine says of Calcspar that it submits no more I/O than the device's maximum, in the order of
//! importance, over the whole node, and that it has nothing against stalls. Calcspar itself spreads the classes over
//! the second by offsets that it learns from the load. Our copy has a node gate that keeps a whole second's tokens, so
//! that foreground can use in one moment what background left over in the others, and it has no limit on a partition's
//! background.

use weir_io::Nanos;

use super::{BandwidthPolicy, BandwidthSettings, lent};
use crate::limits::Limits;
use crate::policy::knobs::{NodeKnobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Cloud disks are sold by the second.
const CONTRACT: Nanos = 1_000_000_000;

/// One gate for the node, with a second's worth of tokens.
pub struct Calcspar(pub BandwidthSettings);

impl BandwidthPolicy for Calcspar {
    fn node(&self, device: Limits) -> NodeKnobs {
        NodeKnobs { limits: device, burst: CONTRACT }
    }

    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        lent(partition, &self.0)
    }

    fn decide(&mut self, sample: &Sample, _: &[Load]) -> Vec<PartitionKnobs> {
        sample.partitions.iter().map(|partition| self.opening(partition)).collect()
    }
}
