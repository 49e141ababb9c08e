//! Tenants' partitions on one machine.
//!
//! A [`Node`] owns a directory, the catalogue of its [`Tenant`]s, the gates, the cache and the workers. A tenant has a
//! [`PartitionSlot`] for each of its partitions, asleep or awake; a [`Partition`] that is awake is a log and an
//! engine behind both gates.

pub mod backup;
mod bandwidth;
mod bill;
mod cache_shares;
mod carried;
mod cascade;
pub mod catalogue;
mod check;
mod config;
mod control;
mod engines;
mod expirations;
mod expiry_queue;
mod flush_queue;
mod flush_slots;
mod format;
mod group_sync;
mod hibernate;
mod layout;
mod log_kind;
mod log_toll;
mod memory;
mod metrics;
mod mover;
mod node;
mod partition;
mod partition_slot;
mod removal;
pub mod repair;
mod reserve;
mod shared;
mod shared_log;
mod sold;
mod stall;
mod strangers;
mod swap;
mod tenant;
mod tenant_clock;
mod tended;
mod tick;
mod watched_rows;
mod witnessed;
mod worker_slots;
mod workers;
mod write_shares;

pub use backup::BackupReport;
pub use bill::{BillBook, BillEdit, BillLine, Usage};
pub use cache_shares::CacheShares;
pub use check::{NodeCheck, PartitionCheck, check};
pub use config::{Bandwidth, Machine, NodeConfig};
pub use engines::{BlockCache, StoreOptions, TreeOptions};
pub use expirations::Expirations;
pub use flush_queue::{FlushShares, FlushWaits};
pub use log_kind::{LogKind, UnknownLog};
pub use metrics::{PartitionMetrics, StallTimes};
pub use mover::Mover;
pub use node::Node;
pub use partition::anchor::{AnchorClaim, AnchorSlot};
pub use partition::{Commit, Partition};
pub use partition_slot::{PartitionSlot, SlotState};
pub use sold::Sold;
pub use stall::StallCause;
pub use tenant::{
    DiskUse, PARTITIONS_MAX, SECRET_BYTES_MAX, StoredSecret, StoredUser, Tenant, TenantSettings, TenantSpec,
    USERS_BYTES_MAX, USERS_MAX,
};
pub use watched_rows::{RowWatch, WatchedRows};
pub use write_shares::{MemoryShares, ShareWaits};

// Words of the rooms below that appear in this one's interface: a gateway imports the node alone.
pub use weir_admission::policy::share::{CacheMode, Delay, Promise, ShareMode, ShareTerms};
pub use weir_admission::policy::{Behaviour, Facts, Move, Profile, Stage, Tick, Violation, Window, felt};
pub use weir_admission::{
    Access, Admission, Amount, Booked, Direction, Ledger, NodeAdmission, NodeBusy, NodeQueueStats, NodeUnits, OnLimit,
    Part, Pool, PoolStats, Quota, Refused, RequestOrder, Unit, UnitLimits, UnitStats, Wait, cost, request_units, waits,
};
pub use weir_log::SharedStats;
pub use weir_model::engine::{EngineKind, JobKind, Scope, TreeKnobs, UnknownEngine};
pub use weir_model::{TenantId, TenantName};
