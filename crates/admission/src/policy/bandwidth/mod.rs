//! Bandwidth policies: who may use how much of the disk.

mod autotune;
mod calcspar;
mod fixed;
mod gated;
mod reserved;
mod silk;
mod unlimited;

pub use autotune::{Autotune, AutotuneSettings};
pub use calcspar::Calcspar;
pub use fixed::Fixed;
pub use gated::Gated;
pub use reserved::Reserved;
pub use silk::{SILK_PERIOD, Silk};
pub use unlimited::Unlimited;

use serde::{Deserialize, Serialize};
use weir_io::Nanos;

use super::knobs::{NodeKnobs, PartitionKnobs};
use super::meter::Load;
use super::sample::{PartitionSample, Sample};
use crate::gate::GateOptions;
use crate::limits::{Limits, Rates};

/// Decides the rates of all gates. State is in the implementor and facts are in the sample: no clock, no I/O.
pub trait BandwidthPolicy: Send {
    /// How often the policy is asked, in nanoseconds.
    fn period(&self) -> Nanos {
        SECOND
    }

    /// The knobs of a partition that is being opened or whose limits were altered: those that do not depend on the
    /// load.
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs;

    /// The knobs of the node gate before `device`.
    fn node(&self, device: Limits) -> NodeKnobs {
        NodeKnobs { limits: device, burst: NODE_BURST }
    }

    /// The knobs of all partitions. They and `loads` are in the order of the sample.
    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs>;
}

/// The settings of bandwidth policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthSettings {
    /// Device bytes read per byte asked for (FX-11).
    pub read_amplification: u64,
    /// Most background bytes per second of each partition; [`crate::UNLIMITED`] = as much as the device has.
    pub background: u64,
}

/// Lets a partition have the foreground bandwidth that serves all its tenant bought (FX-10), because one partition may
/// use all of it. The tenant's units see to it that its partitions together do not use more. When the node is short,
/// each partition weighs as much as its equal part of that bandwidth. A partition whose tenant has no limits is not
/// limited in front. A reservation is not lent, as FlexEngine has it; see [`lent`].
fn front(partition: &PartitionSample, settings: &BandwidthSettings) -> PartitionKnobs {
    let reserved = partition.capacity.foreground_bytes(settings.read_amplification);
    let sold = reserved > 0;
    PartitionKnobs {
        foreground: if sold { Limits::Shared(Rates::bytes(reserved)) } else { Limits::UNLIMITED },
        weight: sold.then_some((reserved / partition.partitions.max(1)).max(1)),
        ..PartitionKnobs::open(partition)
    }
}

/// The same where reservations are lent: foreground passes beyond its limit while the node is idle (C-9).
fn lent(partition: &PartitionSample, settings: &BandwidthSettings) -> PartitionKnobs {
    let reserved = front(partition, settings);
    PartitionKnobs { borrows: reserved.weight.is_some(), ..reserved }
}

const SECOND: Nanos = 1_000_000_000;

/// The burst of the node gate: it keeps the tokens of at most this much time, in nanoseconds.
const NODE_BURST: Nanos = GateOptions::NODE.burst;

#[cfg(test)]
mod tests;
