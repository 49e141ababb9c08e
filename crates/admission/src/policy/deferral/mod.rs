//! Whose compactions are put off, and how far.

mod never;

pub use never::Never;

use weir_io::Owner;

use super::knobs::Knobs;
use super::meter::Load;
use super::sample::Sample;

/// Decides stages and what goes with them. State is in the implementor, facts are in the sample: no clock, no I/O.
pub trait DeferralPolicy: Send {
    /// Changes `knobs`, which the bandwidth policy has set. `loads` are the partitions', in the order of the sample.
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs);

    /// Whether the compactions of `owner` are put off just now.
    fn is_deferred(&self, owner: Owner) -> bool;
}
