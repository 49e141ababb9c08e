//! Weir itself, as an embedded program uses it: a node as `weir serve` opens it, and client threads that may block.

use std::path::Path;
use std::sync::Arc;

use weir_admission::cost::Capacity;
use weir_admission::{Limits, Rates};
use weir_io::real::{RealClock, RealFs, RealFsOptions, block_on, blocking_scope};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::engine::EngineKind;
use weir_model::parts::{Head, Life, RowType};
use weir_model::{Batch, Change, Row, StoredKey};
use weir_node::{Bandwidth, Node, NodeConfig, Partition};

use crate::contestant::{Contestant, Logged, Rows};
use crate::settings::Settings;
use crate::{Result, embedded};

/// Limits far above what any disk here does: every request passes every gate, is counted and booked, and none waits.
const FAR_ABOVE: Bandwidth = Bandwidth {
    device: Limits::Shared(Rates { bytes: 100_000_000_000, ops: 100_000_000 }),
    capacity: Capacity { rcu: 5_000_000, wcu: 5_000_000 },
    background: 100_000_000_000,
};

/// An open Weir.
pub struct Weir {
    node: Node,
    partition: Arc<Partition>,
    remarks: String,
}

impl Weir {
    /// Opens (creates if missing) the store in `dir`, with its rows in `engine`; with `gates`, behind partition gate,
    /// node gate and ledger.
    pub fn open(dir: &Path, settings: &Settings, engine: EngineKind, gates: bool) -> Result<Self> {
        let fs = RealFs::new(RealFsOptions { probe_dir: Some(dir.to_path_buf()), ..RealFsOptions::default() });
        let threads = (settings.compaction_threads + settings.flush_threads) as usize;
        let machine = embedded::machine(fs.clone(), RealClock::new(), threads)?;
        let config = NodeConfig { engine, bandwidth: gates.then_some(FAR_ABOVE), gates, ..config(dir, settings) };
        let _scope = blocking_scope();
        let node = block_on(Node::open(&config, machine))?;
        let partition = block_on(node.default_partition())?;
        let gates = if gates { "on, limits far above the load" } else { "off" };
        let remarks = format!("gates {gates}; log {:?}; disk {:?}", config.sync, fs.backend());
        Ok(Self { node, partition, remarks })
    }
}

/// The settings in Weir's own words. Everything else has the node's default.
fn config(dir: &Path, settings: &Settings) -> NodeConfig {
    NodeConfig {
        tree: TreeOptions {
            write_buffer_bytes: settings.write_buffer_bytes as usize,
            write_buffers_max: settings.write_buffers as usize,
            l0_trigger: settings.l0_trigger as usize,
            l0_slow: settings.l0_slowdown as usize,
            l0_stop: settings.l0_stop as usize,
            level1_bytes: settings.base_level_bytes,
            level_factor: settings.level_ratio.into(),
            table_bytes: settings.table_bytes,
            block_bytes: settings.block_bytes as usize,
            filter_bits_per_key: settings.filter_bits,
            ..TreeOptions::default()
        },
        cache_bytes: settings.cache_bytes as usize,
        sync: if settings.sync { SyncMode::Always } else { SyncMode::Interval },
        compaction_slots: settings.compaction_threads as usize,
        ..NodeConfig::new(dir)
    }
}

impl Contestant for Weir {
    fn version(&self) -> String {
        embedded::version()
    }

    fn remarks(&self) -> String {
        self.remarks.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        embedded::put(&self.partition, key, value)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        embedded::get(&self.partition, key, see)
    }

    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        embedded::scan(&self.partition, from, limit, see)
    }

    fn settle(&self) -> Result<()> {
        embedded::settle(&self.partition);
        Ok(())
    }

    fn shape(&self) -> String {
        embedded::shape(&self.partition)
    }

    fn rows(&self) -> Option<&dyn Rows> {
        Some(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        embedded::close(&self.node)
    }
}

/// The database that rows of many parts are in.
const DATABASE: u8 = 0;

impl Rows for Weir {
    fn put_parts(&self, name: &[u8], parts: &[(&[u8], &[u8])]) -> Result<()> {
        let key = StoredKey::new(DATABASE, name);
        let change = |rows: &[Option<Row>], batch: &mut Batch| {
            let head = rows.iter().flatten().find_map(|row| row.head().cloned());
            // The version is the one that a command gives to a row that it makes: larger than that of any change so
            // far.
            let make = || Head::new(RowType::Hash, self.partition.engine().applied_seq() + 1);
            let mut head = head.unwrap_or_else(make);
            let life = Life::new(head.version);
            for (subkey, value) in parts {
                batch.put(&life.part(0, subkey), value);
            }
            head.count += parts.len() as u64;
            batch.push(Change::Head { key: &key, head: &head.encode(), expire_at_ms: None });
        };
        let _scope = blocking_scope();
        block_on(async {
            let ((), commit) = self.partition.update(&[&key], change).await?;
            commit.ok_or("nothing was written")?.await?;
            Ok(())
        })
    }

    fn has(&self, name: &[u8]) -> Result<bool> {
        embedded::get(&self.partition, &StoredKey::new(DATABASE, name), &mut |_| ())
    }

    fn delete(&self, name: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(&StoredKey::new(DATABASE, name));
        embedded::write(&self.partition, &batch)
    }

    fn logged(&self) -> Logged {
        let log = self.partition.metrics().log;
        Logged { records: log.records, bytes: log.payload_bytes }
    }
}
