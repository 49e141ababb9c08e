//! Who may use how much of the disk.

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

/// Decides the rates of all gates. State is in the implementor, facts are in the sample: no clock, no I/O.
pub trait BandwidthPolicy: Send {
    /// How often it looks, in nanoseconds.
    fn period(&self) -> Nanos {
        SECOND
    }

    /// The knobs of a partition that is being opened or whose limits were altered: what does not depend on the load.
    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs;

    /// The knobs of the node gate before `device`.
    fn node(&self, device: Limits) -> NodeKnobs {
        NodeKnobs { limits: device, burst: NODE_BURST }
    }

    /// The partitions' knobs. They and `loads` are in the order of the sample.
    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs>;
}

/// What bandwidth policies are configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthSettings {
    /// Device bytes read per byte asked for (FX-11).
    pub read_amplification: u64,
    /// Most background bytes per second of each partition; [`crate::UNLIMITED`] = as much as there is.
    pub background: u64,
}

/// Lets a partition have the foreground bandwidth that serves all its tenant bought (FX-10), for one partition may use
/// it all: the units see to it that they do not so together. When the node is short, each weighs as much as its equal
/// part of it. A partition whose tenant has no limits is not limited in front. What is reserved is not lent, as
/// FlexEngine has it; see [`lent`].
fn front(partition: &PartitionSample, settings: &BandwidthSettings) -> PartitionKnobs {
    let reserved = partition.capacity.foreground_bytes(settings.read_amplification);
    let sold = reserved > 0;
    PartitionKnobs {
        foreground: if sold { Limits::Shared(Rates::bytes(reserved)) } else { Limits::UNLIMITED },
        weight: sold.then_some((reserved / partition.partitions.max(1)).max(1)),
        ..PartitionKnobs::open(partition)
    }
}

/// The same where what is reserved is lent: foreground passes beyond its limit while the node is idle (C-9).
fn lent(partition: &PartitionSample, settings: &BandwidthSettings) -> PartitionKnobs {
    let reserved = front(partition, settings);
    PartitionKnobs { borrows: reserved.weight.is_some(), ..reserved }
}

const SECOND: Nanos = 1_000_000_000;

/// Time's worth of tokens at the node gate, in nanoseconds.
const NODE_BURST: Nanos = GateOptions::NODE.burst;

#[cfg(test)]
mod tests;
