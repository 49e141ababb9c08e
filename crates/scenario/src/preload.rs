//! The data that is there before the load: full levels, with keys spread over all of each, made by writing every item
//! once.
//!
//! One level after the other is written, the deepest first, and its items in the order of their keys. Then a run of
//! level 0 never overlaps anything, and is moved down without being rewritten, to the level whose target lets it stay.

use std::sync::Arc;

use indicatif::ProgressBar;
use weir_io::{Result, Rng};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::{Batch, TenantName};
use weir_node::{Machine, Node, NodeConfig, Partition, PartitionSlot, TenantSpec};

use crate::data::{Key, fill};
use crate::plan::Plan;
use crate::profile::base;

/// Items written at a time.
const BATCH_ITEMS: usize = 64;

/// The tenant of partition `index` (from 0).
///
/// # Panics
/// Never: such a name is always valid.
pub fn tenant(index: usize) -> TenantName {
    TenantName::new(&format!("t{index:04}")).expect("a letter and digits")
}

/// The partitions of all tenants of the scenario; each is awake afterwards.
///
/// # Errors
/// A partition cannot be opened.
pub async fn partitions(node: &Node, plan: &Plan) -> Result<Vec<Arc<Partition>>> {
    let mut partitions = Vec::new();
    for index in 0..usize::from(plan.args.partitions) {
        partitions.push(slot(node, index).await?.partition().await?);
    }
    Ok(partitions)
}

/// The places of these partitions, which stay asleep or awake.
///
/// # Errors
/// A tenant cannot be created.
pub async fn slots(node: &Node, plan: &Plan) -> Result<Vec<Arc<PartitionSlot>>> {
    let mut slots = Vec::new();
    for index in 0..usize::from(plan.args.partitions) {
        slots.push(slot(node, index).await?);
    }
    Ok(slots)
}

/// The place of partition `index`, whose tenant is created if need be.
async fn slot(node: &Node, index: usize) -> Result<Arc<PartitionSlot>> {
    let tenant = match node.tenant(&tenant(index)) {
        Some(tenant) => tenant,
        None => node.create_tenant(TenantSpec::new(tenant(index))).await?,
    };
    Ok(Arc::clone(&tenant.partitions()[0]))
}

/// Writes all of it on `machine`, which should have an unlimited device. `bar` advances with every item.
///
/// # Errors
/// The disk fails.
pub async fn preload(machine: &Machine, plan: &Plan, bar: &ProgressBar) -> Result<()> {
    for (level, items) in plan.preload() {
        let node = Node::open(&config(plan, level), machine.clone()).await?;
        for (index, partition) in partitions(&node, plan).await?.iter().enumerate() {
            let mut keys: Vec<_> = items.clone().map(|item| (plan.sizes().key(item), item)).collect();
            keys.sort_unstable();
            let mut rng = Rng::new(plan.args.seed ^ (index as u64) << 32 ^ (level as u64) << 56);
            for keys in keys.chunks(BATCH_ITEMS) {
                write(partition, plan, keys, &mut rng).await?;
                bar.inc(keys.len() as u64);
            }
            partition.seal();
            partition.settle().await;
        }
        node.close().await?;
    }
    if plan.preload_runs() > 0 { debt(machine, plan).await } else { Ok(()) }
}

/// Writes the items of `keys`.
async fn write(partition: &Arc<Partition>, plan: &Plan, keys: &[(Key, u64)], rng: &mut Rng) -> Result<()> {
    let mut longest = vec![0; plan.sizes().value_bytes_max()];
    let mut batch = Batch::new();
    for (key, item) in keys {
        let value = &mut longest[..plan.sizes().value_bytes(*item)];
        fill(value, rng);
        batch.put(key, value);
    }
    partition.write(&batch).await?.await
}

/// Fills level 0 of every partition with runs that nothing merges.
async fn debt(machine: &Machine, plan: &Plan) -> Result<()> {
    let node = Node::open(&base(plan, resting(plan)), machine.clone()).await?;
    let items = plan.tree().write_buffer_bytes as u64 / u64::from(plan.args.item_bytes);
    for (index, partition) in partitions(&node, plan).await?.iter().enumerate() {
        let mut rng = Rng::new(plan.args.seed ^ (index as u64) << 32 ^ 0x6465_6274);
        for _ in 0..plan.preload_runs() {
            let drawn = (0..items).map(|_| rng.below(plan.items().max(1)));
            let mut keys: Vec<_> = drawn.map(|item| (plan.sizes().key(item), item)).collect();
            keys.sort_unstable();
            keys.dedup();
            for keys in keys.chunks(BATCH_ITEMS) {
                write(partition, plan, keys, &mut rng).await?;
            }
            partition.seal();
            partition.settle().await;
        }
    }
    node.close().await
}

/// Settings under which no level is ever over its target.
fn resting(plan: &Plan) -> TreeOptions {
    let (l0_slow, l0_stop) = (1_000_000, 2_000_000);
    // Large enough that no run ends before it is sealed.
    let write_buffer_bytes = plan.tree().write_buffer_bytes * 2;
    let (level1_bytes, level_factor) = (u64::MAX, 1);
    TreeOptions {
        write_buffer_bytes,
        l0_trigger: l0_slow,
        l0_gather: l0_slow,
        l0_slow,
        l0_stop,
        pending_bytes_limits: [u64::MAX; 2],
        level1_bytes,
        level_factor,
        ..plan.tree()
    }
}

/// Settings under which everything written in the order of keys ends in `level`.
pub fn tree(plan: &Plan, level: usize) -> TreeOptions {
    let tree = plan.tree();
    let table = tree.table_bytes;
    // Levels above must be over their target with a single table, `level` itself never.
    let (level1_bytes, level_factor) = match level {
        1 => (u64::MAX, 1),
        2 => (1, u64::MAX),
        _ => (1, (table as f64 / 2.0).powf(1.0 / (level - 2) as f64) as u64),
    };
    TreeOptions {
        write_buffer_bytes: table as usize,
        l0_trigger: 1,
        l0_gather: 1,
        pending_bytes_limits: [u64::MAX; 2],
        level1_bytes,
        level_factor,
        ..tree
    }
}

fn config(plan: &Plan, level: usize) -> NodeConfig {
    let tree = tree(plan, level);
    NodeConfig { sync: SyncMode::None, compaction_slots: 4, ..base(plan, tree) }
}
