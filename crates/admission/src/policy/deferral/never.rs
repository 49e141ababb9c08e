//! Nothing is put off. When writes will stall is still worked out.

use weir_io::Owner;

use super::{DeferralPolicy, time_to_stall};
use crate::policy::forecast::tokens;
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// Puts nothing off.
pub struct Never;

impl DeferralPolicy for Never {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        let tokens = tokens(sample, loads);
        for (index, (partition, load)) in sample.partitions.iter().zip(loads).enumerate() {
            let knob = &mut knobs.partitions[index];
            knob.time_to_stall = time_to_stall(partition, load, tokens[index], knob);
        }
    }

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}
