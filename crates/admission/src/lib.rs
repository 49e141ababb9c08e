//! Buckets, gates, pools and the ledger, and the policies that turn their knobs.
//!
//! Mechanisms are plain and fast, and have knobs. Policies are pure functions from a sample to knob positions, one file
//! per idea. No policy runs on the request path.
//!
//! - [`Bucket`]: tokens at a rate;
//! - [`Gate`]: queues before a budget of bytes and operations; [`PartitionGate`]: the two gates of a partition;
//! - [`GatedFs`]: the file system whose every byte passes the partition's gate, then the node's gate, then the
//!   [`Ledger`];
//! - [`ReadMemoryFs`]: the file system that limits the memory of long reads;
//! - [`Pool`]: units in reserved shares and a common rest, with a fair queue for tenants that wait;
//! - [`Quota`]: the capacity units of a tenant;
//! - [`request_units`]: what a request takes of a machine, in one number;
//! - [`waits`]: what one request has waited for.

mod bucket;
pub mod cost;
mod dirty;
mod door;
mod drains;
mod fair;
mod gate;
mod gated;
mod inflight;
mod lane;
mod ledger;
mod limits;
mod order;
mod partition;
pub mod policy;
mod pool;
mod quota;
mod read_memory;
pub mod request_units;
mod reserve;
mod slots;
mod spawned;
pub mod waits;
mod weights;

pub use bucket::{Bucket, UNLIMITED};
pub use door::OwnGate;
pub use gate::{Gate, GateOptions, Grant, Request, Waiter};
pub use gated::{GatedFs, Parts, Sharers};
pub use lane::RankStats;
pub use ledger::{Account, Amount, Booked, Books, Ledger, ReadQueue, Wait};
pub use limits::{Direction, Limits, Rates};
pub use order::{Precedence, RANKS, Rank};
pub use partition::PartitionGate;
pub use pool::{Acquire, Part, Permit, Pool, PoolStats, Share, Shares};
pub use quota::{
    Access, Admission, DELAY_MAX_MS, NodeAdmission, NodeBusy, NodeQueue, NodeQueueStats, NodeUnits, OnLimit, Quota,
    QuotaWaiter, Refused, RequestOrder, Unit, UnitLimits, UnitStats,
};
pub use read_memory::ReadMemoryFs;
