//! Rows that tenants have before anything is measured.

use weir_io::Rng;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, ShareTerms};

use super::client::{Class, clients};

/// Rows written at a time.
const BATCH: u64 = 16;

/// A disk on which each of `tenants` has rows of `row` bytes, as many as its entry says, numbered from 0. All of them
/// are below the levels whose blocks are pinned.
pub(super) fn image(seed: u64, tenants: &[(Class, ShareTerms, u64)], row: u64) -> Result<DiskImage, String> {
    let sim = Sim::new(seed);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    sim.block_on(preload(&sim, machine, tenants, row)).map_err(|error| format!("preloading: {error}"))?;
    Ok(disk.crash_keeping(Keep::All, &mut Rng::new(0)))
}

async fn preload(sim: &Sim, machine: Machine, tenants: &[(Class, ShareTerms, u64)], row: u64) -> weir_io::Result<()> {
    // Rows come in the order of their keys: every run is moved down, without a merge, to a level that is never full.
    let tree = TreeOptions {
        write_buffer_bytes: 4 << 20,
        l0_trigger: 1,
        l0_gather: 1,
        level1_bytes: 1,
        level_factor: u64::MAX,
        warm_levels: 0,
        ..TreeOptions::default()
    };
    let config = NodeConfig { tree, sync: SyncMode::None, segment_bytes: 8 << 20, ..NodeConfig::new("/weir") };
    let node = Node::open(&config, machine).await?;
    let value = vec![7; row as usize];
    let kinds = tenants.iter().map(|&(class, terms, _)| (class, terms));
    for (client, &(.., rows)) in clients(&node, &sim.clock(), kinds, row).await?.iter().zip(tenants) {
        let partition = client.partition();
        for first in (0..rows).step_by(BATCH as usize) {
            let mut batch = Batch::new();
            (first..rows.min(first + BATCH)).for_each(|number| batch.put(&number.to_be_bytes(), &value));
            partition.write(&batch).await?.await?;
        }
        partition.seal();
        partition.settle().await;
    }
    node.close().await
}
