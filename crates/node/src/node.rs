//! A node: one directory, one disk, one set of gates.

use std::sync::Arc;

use weir_admission::cost::Capacity;
use weir_admission::policy::bandwidth::{Fixed, PartitionSample, Sample, fixed, unlimited};
use weir_admission::{Gate, GateOptions, GatedFs, Ledger, Limits, PartitionGate};
use weir_io::{Fs, Owner, Result};
use weir_log::Recovery;
use weir_lsm::cache::BlockCache;

use crate::config::{Machine, NodeConfig};
use crate::control;
use crate::layout;
use crate::partition::{Opening, Partition};
use crate::workers::Workers;

/// Whom the only partition belongs to, for now.
const OWNER: Owner = Owner { tenant: 1, partition: 1 };

/// See the module. Dropping it cancels its background work; the directory is locked until the last partition and all that goes on
/// in it is gone.
pub struct Node {
    partition: Arc<Partition>,
    gate: Arc<Gate>,
    ledger: Arc<Ledger>,
    cache: Arc<BlockCache>,
    recovery: Recovery,
}

impl Node {
    /// Opens the node in `config.dir`, recovering what a crash left.
    ///
    /// # Errors
    /// `Locked` if another process has the directory; corruption with file and offset.
    pub async fn open(config: &NodeConfig, machine: Machine) -> Result<Node> {
        let ledger = Ledger::new();
        let gate = Gate::new(Arc::clone(&machine.clock), GateOptions::NODE);
        // The node's own work is booked to tenant 0.
        let own_fs: Arc<dyn Fs> = GatedFs::node(Arc::clone(&machine.fs), Owner::default(), Arc::clone(&gate), &ledger);
        let lock = layout::prepare(&own_fs, &config.dir).await?;
        let dir = layout::partition_dir(&own_fs, &config.dir, OWNER.partition).await?;
        let partition_gate = PartitionGate::new(OWNER, &machine.clock);
        turn(config, &gate, &partition_gate);
        let fs = match config.gates {
            true => GatedFs::partition(Arc::clone(&machine.fs), partition_gate, Arc::clone(&gate), &ledger),
            false => Arc::clone(&machine.fs),
        };
        let cache = BlockCache::new(config.cache_bytes, CACHE_SHARDS);
        let workers = Workers::new(Arc::clone(&machine.spawn), config.compaction_slots);
        let opening = Opening {
            fs,
            dir: &dir,
            owner: OWNER,
            config,
            cache: Arc::clone(&cache),
            clock: Arc::clone(&machine.clock),
            workers,
            salt: machine.salt,
            account: ledger.account(OWNER),
            lock: lock.into(),
        };
        let (partition, recovery) = Partition::open(opening).await?;
        let tick = control::run(Arc::downgrade(&partition), Arc::clone(&machine.clock), config.sync_interval);
        machine.spawn.spawn(Box::pin(tick));
        Ok(Node { partition, gate, ledger, cache, recovery })
    }

    /// The partition.
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// The node gate, for dashboards.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Every device byte by owner and cause.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// What opening found in the log.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Refuses writes, ends all background work, makes everything durable. Reads go on until the node is dropped.
    ///
    /// # Errors
    /// As [`Partition::close`].
    pub async fn close(&self) -> Result<()> {
        self.partition.close().await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.partition.begin_closing();
    }
}

/// Device bytes read per byte asked for, at most, with four levels of which two are in memory (FX-11).
const READ_AMPLIFICATION: u64 = 4;

/// Enough that two cores seldom meet; each shard has a ghost queue, so not more than needed.
const CACHE_SHARDS: usize = 16;

/// Asks the bandwidth policy and turns the knobs.
fn turn(config: &NodeConfig, gate: &Gate, partition_gate: &PartitionGate) {
    let partition = |capacity| vec![PartitionSample { owner: OWNER, capacity }];
    let knobs = match config.bandwidth {
        None => unlimited(&Sample { device: Limits::UNLIMITED, partitions: partition(Capacity::default()) }),
        Some(bandwidth) => {
            let sample = Sample { device: bandwidth.device, partitions: partition(bandwidth.capacity) };
            let background = bandwidth.background;
            fixed(&sample, &Fixed { read_amplification: READ_AMPLIFICATION, background })
        }
    };
    gate.set_limits(knobs.node);
    for knob in &knobs.partitions {
        partition_gate.foreground().set_limits(knob.foreground);
        partition_gate.background().set_limits(knob.background);
        gate.set_weight(knob.owner, knob.weight);
    }
}
