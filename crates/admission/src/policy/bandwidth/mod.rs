//! Who may use how much of the disk.

mod fixed;
mod unlimited;

pub use fixed::{Fixed, fixed};
pub use unlimited::unlimited;

use weir_io::Owner;

use crate::cost::Capacity;
use crate::limits::Limits;

/// The facts a bandwidth policy sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What the device can do.
    pub device: Limits,
    /// The partitions on the node, by owner.
    pub partitions: Vec<PartitionSample>,
}

/// The facts about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionSample {
    /// Who.
    pub owner: Owner,
    /// What its tenant bought; zero = it has no limits.
    pub capacity: Capacity,
    /// Partitions that its tenant bought it for; at least 1.
    pub partitions: u64,
}

/// Where the knobs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// The node gate.
    pub node: Limits,
    /// One per partition of the sample, in its order.
    pub partitions: Vec<PartitionKnobs>,
}

/// Where the knobs of one partition go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionKnobs {
    /// Who.
    pub owner: Owner,
    /// Its foreground gate.
    pub foreground: Limits,
    /// Its background gate.
    pub background: Limits,
    /// Whether its foreground may pass beyond its limit while the node is idle (C-9).
    pub borrows: bool,
    /// Its share inside a class at the node, in bytes per second (C-8); `None` for an equal share.
    pub weight: Option<u64>,
}
