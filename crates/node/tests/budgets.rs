//! What all tenants of a node share, and that none of them is left without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Nanos, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, Partition, TenantName, TenantSpec};

const MS: Nanos = 1_000_000;

fn config() -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 64 << 10,
        level1_bytes: 256 << 10,
        table_bytes: 64 << 10,
        io_bytes: 32 << 10,
        ..TreeOptions::default()
    };
    NodeConfig { tree, cache_bytes: 1 << 20, sync: SyncMode::None, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") }
}

async fn open(sim: &Sim, config: &NodeConfig, bytes_per_sec: u64) -> Arc<Node> {
    let device = DeviceSpec { latency: 50_000, parallelism: 4, ..DeviceSpec::shared(bytes_per_sec) };
    let fs = SimFs::from_image(&DiskImage::default(), sim.clock(), device, FaultPlan::none(), sim.rng());
    let machine =
        Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Arc::new(Node::open(config, machine).await.expect("the node opens"))
}

async fn tenant(node: &Node, name: &str) -> Arc<Partition> {
    let spec = TenantSpec::new(TenantName::new(name).expect("a name"));
    let tenant = node.create_tenant(spec).await.expect("created");
    tenant.partitions()[0].partition().await.expect("it opens")
}

/// One row of 1 KiB, at a place that differs from the last.
fn row(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(format!("{:08x}", (number as u32).wrapping_mul(0x9e37_79b1)).as_bytes(), &[number as u8; 1024]);
    batch
}

#[test]
fn a_tree_that_always_has_something_to_compact_leaves_slots_to_others() {
    // C-14.
    let sim = Sim::new(5);
    let clock = sim.clock();
    let (greedy_jobs, most_runs, most_waiting) = sim.block_on(async {
        let node = open(&sim, &NodeConfig { compaction_slots: 1, ..config() }, 32 << 20).await;
        let (greedy, modest) = (tenant(&node, "greedy").await, tenant(&node, "modest").await);
        let over = Arc::new(AtomicBool::new(false));
        for writer in 0..4 {
            let (greedy, over) = (Arc::clone(&greedy), Arc::clone(&over));
            sim.spawn(async move {
                let mut numbers = (writer..).step_by(4);
                while !over.load(Ordering::Relaxed) {
                    let written = greedy.write(&row(numbers.next().expect("endless"))).await;
                    assert!(written.is_ok() || over.load(Ordering::Relaxed), "{:?}", written.err());
                }
            });
        }
        let (mut most_runs, mut most_waiting) = (0, 0);
        for number in 0..4_000 {
            modest.write(&row(number)).await.expect("written").await.expect("committed");
            sleep_until(&clock, clock.now() + 5 * MS).await;
            most_runs = most_runs.max(modest.metrics().shape.levels[0].tables);
            most_waiting = most_waiting.max(node.compactions().1);
        }
        over.store(true, Ordering::Relaxed);
        node.close().await.expect("closed");
        (greedy.metrics().jobs, most_runs, most_waiting)
    });
    assert!(greedy_jobs > 200, "{greedy_jobs} jobs: the other one was busy");
    assert_eq!(most_waiting, 2, "both of them waited");
    // They are due from 4 runs and gather up to 10; then they wait for a job of the greedy tree at most. Writes are slowed from 20.
    assert!(most_runs < 20, "{most_runs} runs");
}
