//! FlexEngine's partition gates: foreground is reserved as sold (FX-10), and background has what the ingest of the last
//! minute needs (FX-12).
//!
//! As the paper has it, the background rate is the average of the last minute: after a pause it is next to nothing
//! while memtables fill, and no reservation is lent. `lends` closes that hole (U-9): the rate is raised at once and
//! lowered only at the minute, and it is never below what flushes the next memtable in time. What the node has left
//! over, because others do not need it or do not use it, is lent to the background of all partitions.

use super::{BandwidthPolicy, BandwidthSettings, front, lent};
use crate::bucket::UNLIMITED;
use crate::limits::{Limits, Rates};
use crate::policy::device::Front;
use crate::policy::knobs::PartitionKnobs;
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// The background rate is never below this share of the largest (U-9).
const FLOOR: f64 = 0.05;
/// Background bytes for a byte ingested, at least (U-9): a flush and a merge, read and written, so that a memtable is
/// in a table before the next is full.
const FLOOR_AMPLIFICATION: f64 = 4.0;

/// FlexEngine's bandwidth policy, with or without loans.
pub struct Reserved {
    /// The configured rates.
    pub settings: BandwidthSettings,
    /// Whether the hole after idle is closed (U-9), and bandwidth that nobody needs or uses is lent, in front (C-9) and
    /// behind.
    pub lends: bool,
}

impl Reserved {
    /// The background rate that is a partition's own; `None` while there is nothing to go by. `largest` is what a
    /// partition can have at most.
    fn own(&self, load: &Load, largest: f64) -> Option<f64> {
        let paper = load.average.map(|average| average * load.amplification);
        if !self.lends {
            return paper;
        }
        let now = load.peak * load.amplification.max(FLOOR_AMPLIFICATION);
        Some(paper.unwrap_or(largest).max(now).max(largest * FLOOR))
    }

    fn knobs(&self, partition: &PartitionSample, background: Option<f64>) -> PartitionKnobs {
        // At least a page a second, so that nothing waits for ever.
        let rate = background.map_or(self.settings.background, |rate| (rate as u64).max(4096));
        let background = Limits::Shared(Rates::bytes(rate));
        let front = if self.lends { lent } else { front };
        PartitionKnobs { background, ..front(partition, &self.settings) }
    }
}

impl BandwidthPolicy for Reserved {
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        self.knobs(partition, None)
    }

    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs> {
        let sum = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        let front = Front::of(loads);
        let left = front.background_at(&sample.device, 1.0);
        let configured =
            if self.settings.background == UNLIMITED { f64::INFINITY } else { self.settings.background as f64 };
        // Where the configured rate is no limit, the largest rate is what the device gives.
        let largest = front.idle().background_at(&sample.device, 1.0).min(configured);
        if !left.is_finite() {
            // Where the device has no limit, nothing is over-subscribed: what is configured holds.
            return sample.partitions.iter().map(|partition| self.knobs(partition, None)).collect();
        }
        let own: Vec<Option<f64>> =
            loads.iter().map(|load| self.own(load, largest).map(|own| own.min(configured))).collect();
        // Bandwidth that is needed but not used is left over, and so is what was lent: otherwise a loan would end
        // because it is used, and return a second later.
        let used = loads.iter().zip(&own).map(|(load, own)| load.background.min(own.unwrap_or(configured)));
        let spare = (left - used.sum::<f64>().min(sum(Load::background_need))).max(0.0);
        let spare = if self.lends { spare } else { 0.0 };
        let of =
            |(partition, own): (&PartitionSample, &Option<f64>)| self.knobs(partition, own.map(|own| own.max(spare)));
        sample.partitions.iter().zip(&own).map(of).collect()
    }
}
