//! Weir as a fleet: one node, with a tenant of one partition for each store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use weir_admission::policy::PartitionKnobs;
use weir_io::real::{RealClock, RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Clock, Fs};
use weir_model::engine::Stall;
use weir_node::{Machine, Node, NodeConfig, Partition};
use weir_scenario::outcome::Bytes;
use weir_scenario::plan::Plan;
use weir_scenario::preload;
use weir_scenario::watch::{bytes, bytes_of_each, place};

use super::fleet::{Fleet, Flow, State};
use super::slowed::SlowedFs;
use crate::{Result, embedded};

/// Background threads: as many as `weir serve` has with its default of two compactions.
const BACKGROUND_THREADS: usize = 3;

/// A node, and the partition of each of its tenants.
pub struct Weir {
    node: Node,
    partitions: Vec<Arc<Partition>>,
    /// Writes of each partition that had waited by the last look at its state.
    waited: Vec<AtomicU64>,
    remarks: String,
    params: Map<String, Value>,
}

/// The machine itself, for a node below the current directory; `slowed` limits its disk to this many bytes a second.
pub fn machine(slowed: Option<u64>) -> Result<Machine> {
    let real = RealFs::new(RealFsOptions { probe_dir: Some(PathBuf::from(".")), ..RealFsOptions::default() });
    let clock: Arc<dyn Clock> = RealClock::new();
    let fs: Arc<dyn Fs> = match slowed {
        Some(bytes_per_sec) => SlowedFs::new(real, Arc::clone(&clock), bytes_per_sec),
        None => real,
    };
    embedded::machine(fs, clock, BACKGROUND_THREADS)
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
        let params = json!({
            "sync": config.sync.name(),
            "sync_interval_ms": config.sync_interval / 1_000_000,
        });
        let params = if let Value::Object(params) = params { params } else { Map::new() };
        let waited = partitions.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { node, partitions, waited, remarks, params })
    }
}

impl Weir {
    /// The knobs of the partition, as set by the last tick of the policy.
    fn knobs(&self, partition: usize) -> Option<PartitionKnobs> {
        let tick = self.node.last_tick()?;
        let owner = self.partitions[partition].owner();
        tick.decision.knobs.partitions.iter().find(|knobs| knobs.owner == owner).copied()
    }

    /// Whether a write has waited since the last look: for the tree, for the rate of a policy, or for memory.
    fn has_waited(&self, partition: usize) -> bool {
        let stalls = self.partitions[partition].metrics().stalls;
        let now = stalls.iter().map(|times| times.slowed + times.stopped).sum();
        self.waited[partition].swap(now, Ordering::Relaxed) != now
    }
}

impl Fleet for Weir {
    fn version(&self) -> String {
        embedded::version()
    }

    fn remarks(&self) -> String {
        self.remarks.clone()
    }

    fn params(&self) -> Map<String, Value> {
        self.params.clone()
    }

    fn why(&self, partition: usize) -> String {
        self.knobs(partition).map_or_else(String::new, |knobs| knobs.why.to_string())
    }

    fn put(&self, partition: usize, key: &[u8], value: &[u8]) -> Result<()> {
        embedded::put(&self.partitions[partition], key, value)
    }

    fn get(&self, partition: usize, key: &[u8]) -> Result<bool> {
        embedded::get(&self.partitions[partition], key, &mut |_| ())
    }

    fn scan(&self, partition: usize, from: &[u8], limit: u64) -> Result<u64> {
        let mut found = 0;
        embedded::scan(&self.partitions[partition], from, limit as usize, &mut |_, _| found += 1)?;
        Ok(found)
    }

    fn settle(&self, partition: usize) -> Result<()> {
        embedded::settle(&self.partitions[partition]);
        Ok(())
    }

    fn state(&self, partition: usize) -> State {
        let facts = self.partitions[partition].engine().facts();
        let shape = facts.shape();
        let knobs = self.knobs(partition);
        let has_waited = self.has_waited(partition);
        let flow = match facts.stall {
            Stall::Stop(_) => Flow::Stopped,
            Stall::Slow(_) => Flow::Slow,
            Stall::None if has_waited || knobs.is_some_and(|knobs| knobs.write_rate.is_some()) => Flow::Slow,
            Stall::None => Flow::Free,
        };
        let upper: u64 = shape.levels[..2].iter().map(|level| level.bytes).sum();
        State {
            flow,
            l0: shape.levels[0].tables as u16,
            sealed: shape.sealed as u16,
            stage: knobs.map_or(0, |knobs| place(knobs.stage)),
            memory: upper + facts.unflushed_bytes,
        }
    }

    fn bytes(&self) -> Result<Bytes> {
        Ok(bytes(&self.node.ledger().total()))
    }

    fn bytes_of_each(&self) -> Option<Vec<Bytes>> {
        Some(bytes_of_each(self.node.ledger(), self.partitions.iter().map(|partition| partition.owner())))
    }

    fn shape(&self) -> String {
        self.partitions.first().map_or_else(String::new, |first| embedded::shape(first))
    }

    fn close(self: Box<Self>) -> Result<()> {
        embedded::close(&self.node)
    }
}
