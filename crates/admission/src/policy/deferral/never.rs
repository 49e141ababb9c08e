//! Nothing is put off; when writes will stall is said all the same.

use weir_io::Owner;

use super::{DeferralPolicy, nanos};
use crate::policy::forecast::{Course, seconds_to_stall, tokens};
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// See the module.
pub struct Never;

impl DeferralPolicy for Never {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        let tokens = tokens(sample, loads);
        for (index, (partition, load)) in sample.partitions.iter().zip(loads).enumerate() {
            let knob = &mut knobs.partitions[index];
            let stall = seconds_to_stall(&partition.tree, load.ingest, tokens[index], Course::of(knob));
            knob.time_to_stall = stall.map(nanos);
        }
    }

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}
