//! Weir as a fleet: one node, a tenant with one partition for each.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_io::real::{RealClock, RealFs, RealFsOptions, RealSpawn, block_on, blocking_scope};
use weir_io::{Clock, Fs};
use weir_lsm::Stall;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, Partition};
use weir_scenario::outcome::Bytes;
use weir_scenario::plan::Plan;
use weir_scenario::preload;
use weir_scenario::watch::{bytes, place};

use super::fleet::{Fleet, Flow, State};
use super::slowed::SlowedFs;
use crate::Result;

/// The niceness that `weir serve` gives background work.
const BACKGROUND_NICE: i32 = 10;

/// Threads of the background: what `weir serve` has with its default of two compactions.
const BACKGROUND_THREADS: usize = 3;

/// See the module.
pub struct Weir {
    node: Node,
    partitions: Vec<Arc<Partition>>,
    remarks: String,
}

/// The machine itself, for a node below the current directory; with a disk of so many bytes a second, if `slowed`.
pub fn machine(slowed: Option<u64>) -> Result<Machine> {
    let real = RealFs::new(RealFsOptions { probe_dir: Some(PathBuf::from(".")), ..RealFsOptions::default() });
    let clock: Arc<dyn Clock> = RealClock::new();
    let fs: Arc<dyn Fs> = match slowed {
        Some(bytes_per_sec) => SlowedFs::new(real, Arc::clone(&clock), bytes_per_sec),
        None => real,
    };
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Machine {
        fs,
        clock,
        spawn: Arc::new(RealSpawn::new(BACKGROUND_THREADS, BACKGROUND_NICE)),
        salt: since_1970.as_nanos() as u64,
    })
}

impl Weir {
    /// Opens the node that was preloaded for `plan`, under the settings `config`; see [`machine`].
    pub fn open(config: &NodeConfig, plan: &Plan, slowed: Option<u64>) -> Result<Self> {
        let _scope = blocking_scope();
        let node = block_on(Node::open(config, machine(slowed)?))?;
        let partitions = block_on(preload::partitions(&node, plan))?;
        let tree = &config.tree;
        let remarks = format!(
            "write buffer {} x{}, L0 {}/{}/{}, L1 {}, {} compaction slots, log synced every {} ms, {:?}",
            tree.write_buffer_bytes,
            tree.write_buffers_max,
            tree.l0_trigger,
            tree.l0_slow,
            tree.l0_stop,
            tree.level1_bytes,
            config.compaction_slots,
            config.sync_interval / 1_000_000,
            config.bandwidth,
        );
        Ok(Self { node, partitions, remarks })
    }
}

impl Weir {
    /// As the last tick of the policy has it.
    fn stage(&self, partition: usize) -> u8 {
        let Some(tick) = self.node.last_tick() else { return 0 };
        let knobs = &tick.decision.knobs.partitions;
        let owner = self.partitions[partition].owner();
        knobs.iter().find(|knobs| knobs.owner == owner).map_or(0, |knobs| place(knobs.stage))
    }
}

impl Fleet for Weir {
    fn version(&self) -> String {
        format!("weir {}", env!("CARGO_PKG_VERSION"))
    }

    fn remarks(&self) -> String {
        self.remarks.clone()
    }

    fn put(&self, partition: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let _scope = blocking_scope();
        let mut batch = Batch::new();
        batch.put(key, value);
        block_on(async { self.partitions[partition].write(&batch).await?.await })?;
        Ok(())
    }

    fn get(&self, partition: usize, key: &[u8]) -> Result<bool> {
        let _scope = blocking_scope();
        Ok(block_on(self.partitions[partition].get(key))?.is_some())
    }

    fn settle(&self, partition: usize) -> Result<()> {
        self.partitions[partition].seal();
        block_on(self.partitions[partition].settle());
        Ok(())
    }

    fn state(&self, partition: usize) -> State {
        let shape = self.partitions[partition].tree().shape();
        let flow = match shape.stall {
            Stall::None => Flow::Free,
            Stall::Slow(_) => Flow::Slow,
            Stall::Stop(_) => Flow::Stopped,
        };
        let upper: u64 = shape.levels[..2].iter().map(|level| level.bytes).sum();
        State {
            flow,
            l0: shape.levels[0].tables as u16,
            sealed: shape.sealed as u16,
            stage: self.stage(partition),
            memory: upper + (shape.memtable_bytes + shape.sealed_bytes) as u64,
        }
    }

    fn bytes(&self) -> Result<Bytes> {
        Ok(bytes(&self.node.ledger().total()))
    }

    fn shape(&self) -> String {
        let Some(first) = self.partitions.first() else { return String::new() };
        let shape = first.tree().shape();
        let levels = shape.levels.iter().enumerate().filter(|(_, level)| level.tables > 0);
        levels.map(|(level, facts)| format!("L{level}:{}", facts.tables)).collect::<Vec<_>>().join(" ")
    }

    fn close(self: Box<Self>) -> Result<()> {
        let _scope = blocking_scope();
        block_on(self.node.close())?;
        Ok(())
    }
}
