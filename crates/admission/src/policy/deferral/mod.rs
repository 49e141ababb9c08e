//! Deferral policies: whose compactions are put off, and how far.

mod cruise;
mod feedback;
mod flexengine;
mod guard;
mod merging;
mod never;
mod silk;
mod weir;

pub use cruise::{Cruise, Law};
pub use flexengine::FlexEngine;
pub use guard::{Guard, Pressure};
pub use merging::Merging;
pub use never::Never;
pub use silk::Pauses;
pub use weir::Weir;

use weir_io::{Nanos, Owner};

use super::device::Front;
use super::forecast::{Course, Tokens, seconds_to_stall};
use super::knobs::{Knobs, PartitionKnobs};
use super::meter::Load;
use super::sample::{PartitionSample, Sample};

/// The node is in violation from this share of the device on (FX-5).
pub const ENTER: f64 = 0.80;
/// Stage two begins at this share of the runs at which writes are slowed, in percent (FX-20: 12 of 20).
const STAGE_TWO_PERCENT: u64 = 60;

/// Decides stages and what goes with them. State is in the implementor and facts are in the sample: no clock, no I/O.
pub trait DeferralPolicy: Send {
    /// How often the policy is asked, in nanoseconds.
    fn period(&self) -> Nanos {
        1_000_000_000
    }

    /// Changes `knobs`, which the bandwidth policy has set. `loads` are those of the partitions, in the order of the
    /// sample.
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs);

    /// Whether compactions of `owner` are put off just now, or caught up on. Either way the bytes that it moves say
    /// nothing of what a byte costs (U-1, U-10).
    fn is_atypical(&self, owner: Owner) -> bool;
}

/// What the load needs while nothing is put off, as a share of the device (U-1). Catching up is not in it, nor is what
/// is only guessed.
pub fn demand(sample: &Sample, loads: &[Load]) -> f64 {
    Front::of(loads).share(&sample.device, loads.iter().map(Load::certain_need).sum())
}

/// Nanoseconds until a write of `partition` will stall if the tree runs as `knobs` say; `None` = never.
fn time_to_stall(partition: &PartitionSample, load: &Load, tokens: Tokens, knobs: &PartitionKnobs) -> Option<Nanos> {
    seconds_to_stall(&partition.tree, load.ingest, tokens, Course::of(knobs)).map(nanos)
}

fn nanos(seconds: f64) -> Nanos {
    // Saturates.
    (seconds * 1e9) as Nanos
}
