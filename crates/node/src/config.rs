//! The settings of a node, and its outside world.

use std::path::PathBuf;
use std::sync::Arc;

use weir_admission::Limits;
use weir_admission::cost::Capacity;
use weir_admission::policy::share::{CacheMode, ShareMode};
use weir_admission::policy::{DeviceMap, Profile};
use weir_io::{Clock, Fs, Nanos, Spawn};
use weir_log::SyncMode;
use weir_model::engine::EngineKind;

use crate::engines::{StoreOptions, TreeOptions};
use crate::flush_queue::FlushShares;
use crate::log_kind::LogKind;

/// The outside world of a node: production's, or a simulation's.
#[derive(Clone)]
pub struct Machine {
    /// The disk, ungated.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where background work runs.
    pub spawn: Arc<dyn Spawn>,
    /// Chance that differs at every start, for what must not repeat (log salts). In simulation the seed's.
    pub salt: u64,
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its directory; made if missing.
    pub dir: PathBuf,
    /// The engine of the built-in tenant, if that tenant is created.
    pub engine: EngineKind,
    /// Where that tenant writes its log.
    pub log: LogKind,
    /// The shape of its trees.
    pub tree: TreeOptions,
    /// When engines that keep their rows in memory write snapshots.
    pub store: StoreOptions,
    /// Block cache of all trees together, in bytes.
    pub cache_bytes: usize,
    /// How that cache is shared between tenants.
    pub cache_shares: CacheMode,
    /// Memory for the memtables of all trees together, in bytes. When it runs short, some memtables are flushed before
    /// they are full.
    pub write_memory_bytes: u64,
    /// How that memory is shared between tenants.
    pub write_memory_shares: ShareMode,
    /// How durable a write is when it is acknowledged.
    pub sync: SyncMode,
    /// Size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// Size at which the partitions that keep the shared log long flush, in bytes (DF-12).
    pub shared_log_bytes: u64,
    /// Time between two syncs of the log in [`SyncMode::Interval`], in nanoseconds: what the loss of the machine may
    /// cost.
    pub sync_interval: Nanos,
    /// A partition that has not been asked anything for this long goes to sleep, in nanoseconds; 0 = never.
    pub hibernate_after: Nanos,
    /// How many flushes may run at the same time, and how they are shared; `None` = one for each partition (C-14).
    /// Flushes of partitions that fall asleep, or whose log is replayed, need no slot, because requests wait for all of
    /// that.
    pub flush_slots: Option<FlushShares>,
    /// Compactions that may run at the same time. (They and flushes do not stand in each other's way.)
    pub compaction_slots: usize,
    /// The policies that turn gates and trees.
    pub profile: Profile,
    /// Limits of the gates; `None` = unlimited.
    pub bandwidth: Option<Bandwidth>,
    /// What the device gives by the mix of reads and writes, for policies that go by what it can keep up; `None` where
    /// that was not measured.
    pub device_map: Option<DeviceMap>,
    /// Whether I/O passes gates and ledger at all. Off only to measure what they cost.
    pub gates: bool,
}

/// Fixed limits of the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The bandwidth that the node gate hands out.
    pub device: Limits,
    /// What partitions of tenants without limits of their own were sold: their foreground rate is reserved from it
    /// (FX-10). Zero = their foreground is not limited.
    pub capacity: Capacity,
    /// The bandwidth that a partition's flushes and compactions may use, in bytes per second.
    pub background: u64,
}

impl NodeConfig {
    /// The defaults, in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            engine: EngineKind::default(),
            log: LogKind::default(),
            tree: TreeOptions::default(),
            store: StoreOptions::default(),
            cache_bytes: 256 << 20,
            cache_shares: CacheMode::default(),
            write_memory_bytes: 1 << 30,
            write_memory_shares: ShareMode::default(),
            sync: SyncMode::default(),
            segment_bytes: 64 << 20,
            shared_log_bytes: 256 << 20,
            sync_interval: 100_000_000,
            hibernate_after: 0,
            flush_slots: None,
            compaction_slots: 2,
            profile: Profile::default(),
            bandwidth: None,
            device_map: None,
            gates: true,
        }
    }
}
