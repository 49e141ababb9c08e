//! Tenants' partitions on one machine.
//!
//! A [`Node`] owns a directory, the gates, the cache and the workers; a [`Partition`] is a log and a tree behind both gates. One
//! partition for now.

mod check;
mod config;
mod control;
mod event;
mod layout;
mod metrics;
mod node;
mod partition;
mod slowdown;
mod workers;

pub use check::{NodeCheck, check};
pub use config::{Bandwidth, Machine, NodeConfig};
pub use metrics::{PartitionMetrics, StallTimes};
pub use node::Node;
pub use partition::{Commit, Page, Partition, Record};

// Words of the rooms below that appear in this one's interface: a gateway imports the node alone.
pub use weir_admission::{
    Admission, Amount, Booked, Direction, Ledger, OnLimit, Quota, Refused, Unit, UnitLimits, UnitStats, cost,
};
pub use weir_lsm::{StallCause, Value};
