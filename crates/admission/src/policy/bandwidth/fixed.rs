//! Fixed rates: foreground as sold, background as configured, the node gate as fast as the device (FX-14).

use super::{BandwidthPolicy, BandwidthSettings, front};
use crate::limits::Limits;
use crate::policy::knobs::PartitionKnobs;
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Fixed rates, as configured.
pub struct Fixed(pub BandwidthSettings);

impl BandwidthPolicy for Fixed {
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        PartitionKnobs { background: Limits::bytes(self.0.background), ..front(partition, &self.0) }
    }

    fn decide(&mut self, sample: &Sample, _: &[Load]) -> Vec<PartitionKnobs> {
        sample.partitions.iter().map(|partition| self.opening(partition)).collect()
    }
}
