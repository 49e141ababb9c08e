//! FlexEngine's partition gates: foreground reserved as sold (FX-10), background what the ingest of the last minute needs (FX-12).
//!
//! As the paper has it, background is an average of a minute ago: after a pause it is next to nothing while memtables fill. `floor`
//! closes that hole (U-9): the rate is raised at once and lowered only at the minute, is never below what flushes the next memtable in
//! time, and what the node has left over, because others do not need it or do not use it, is lent to everybody who is behind.

use super::{BandwidthPolicy, BandwidthSettings, front};
use crate::bucket::UNLIMITED;
use crate::limits::{Limits, Rates};
use crate::policy::knobs::PartitionKnobs;
use crate::policy::meter::{Load, background_at};
use crate::policy::sample::{PartitionSample, Sample};

/// The rate is never below this share of the largest (U-9).
const FLOOR: f64 = 0.05;
/// Background bytes for a byte ingested, at least (U-9): flush and a merge, read and written, so that a memtable is in a table before the
/// next is full.
const FLOOR_AMPLIFICATION: f64 = 4.0;

/// See the module.
pub struct Reserved {
    /// Rates as configured.
    pub settings: BandwidthSettings,
    /// Whether the hole after idle is closed (U-9).
    pub floor: bool,
}

impl Reserved {
    /// The background rate of a partition. `largest` is what one can have at most, `spare` what nobody on the node needs; `None` while there is
    /// nothing to go by.
    fn background(&self, load: &Load, largest: f64, spare: f64) -> Option<f64> {
        let paper = load.average.map(|average| average * load.amplification);
        if !self.floor {
            return paper;
        }
        let now = load.peak * load.amplification.max(FLOOR_AMPLIFICATION);
        Some(paper.unwrap_or(largest).max(now).max(largest * FLOOR).max(spare))
    }

    fn knobs(&self, partition: &PartitionSample, background: Option<f64>) -> PartitionKnobs {
        let rate = match background {
            None => self.settings.background,
            // A page a second, so that nothing waits for ever.
            Some(rate) => (rate as u64).clamp(4096, self.settings.background.max(4096)),
        };
        let background = Limits::Shared(Rates::bytes(rate));
        PartitionKnobs { background, l0_first: self.floor, ..front(partition, &self.settings) }
    }
}

impl BandwidthPolicy for Reserved {
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        self.knobs(partition, None)
    }

    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs> {
        let sum = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        let (read, log) = (sum(|load| load.read), sum(|load| load.log));
        let left = background_at(&sample.device, read, log, 1.0);
        // What is put off is needed and not used.
        let spare = (left - sum(Load::background_need).min(sum(|load| load.background))).max(0.0);
        let configured =
            if self.settings.background == UNLIMITED { f64::INFINITY } else { self.settings.background as f64 };
        // Where as much is configured as there is, that is what the device gives.
        let largest = background_at(&sample.device, 0.0, 0.0, 1.0).min(configured);
        let of = |(partition, load): (&PartitionSample, &Load)| match spare.is_finite() {
            // Where the device has no limit, nothing is over-subscribed: what is configured holds.
            false => self.knobs(partition, None),
            true => self.knobs(partition, self.background(load, largest, spare)),
        };
        sample.partitions.iter().zip(loads).map(of).collect()
    }
}
