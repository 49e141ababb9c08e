//! Nothing is put off.

use weir_io::Owner;

use super::DeferralPolicy;
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// See the module.
pub struct Never;

impl DeferralPolicy for Never {
    fn decide(&mut self, _: &Sample, _: &[Load], _: &mut Knobs) {}

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}
