//! What all tenants of a node share, and that no tenant is left without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_admission::{Limits, UNLIMITED};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Nanos, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{
    Bandwidth, FlushShares, JobKind, Machine, Node, NodeConfig, Partition, ShareMode, StallCause, TenantName,
    TenantSpec, cost,
};

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

fn disk(sim: &Sim, bytes_per_sec: u64) -> Arc<SimFs> {
    let device = DeviceSpec { latency: 50_000, parallelism: 4, ..DeviceSpec::shared(bytes_per_sec) };
    SimFs::from_image(&DiskImage::default(), sim.clock(), device, FaultPlan::none(), sim.rng())
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, config: &NodeConfig) -> Arc<Node> {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Arc::new(Node::open(config, machine).await.expect("the node opens"))
}

async fn tenant(node: &Node, name: &str) -> Arc<Partition> {
    let spec = TenantSpec::new(TenantName::new(name).expect("a name"));
    let tenant = node.create_tenant(spec).await.expect("created");
    tenant.partitions()[0].partition().await.expect("it opens")
}

/// A key at a place that differs from the last one.
fn key(number: u64) -> String {
    format!("{:08x}", (number as u32).wrapping_mul(0x9e37_79b1))
}

/// One row of 1 KiB.
fn row(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(number).as_bytes(), &[number as u8; 1024]);
    batch
}

/// Watches the most write memory that is ever in use, until `over`.
fn watch(sim: &Sim, node: &Arc<Node>, over: &Arc<AtomicBool>) -> Arc<AtomicU64> {
    let most = Arc::new(AtomicU64::new(0));
    let (node, over, clock, seen) = (Arc::clone(node), Arc::clone(over), sim.clock(), Arc::clone(&most));
    sim.spawn(async move {
        while !over.load(Ordering::Relaxed) {
            seen.fetch_max(node.write_memory().stats().used, Ordering::Relaxed);
            sleep_until(&clock, clock.now() + MS / 10).await;
        }
    });
    most
}

fn waited(partition: &Partition) -> u64 {
    let stalls = partition.metrics().stalls;
    let node_memory = StallCause::ALL.iter().position(|&cause| cause == StallCause::NodeMemory).expect("a cause");
    stalls[node_memory].stopped
}

/// The memory that a memtable may take at once.
const CHUNK: u64 = 256 << 10;

#[test]
fn a_tree_that_always_has_something_to_compact_leaves_slots_to_others() {
    // C-14.
    let sim = Sim::new(5);
    let clock = sim.clock();
    let (greedy_jobs, most_runs, most_waiting) = sim.block_on(async {
        let node = open(&sim, &disk(&sim, 32 << 20), &NodeConfig { compaction_slots: 1, ..config() }).await;
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
            most_runs = most_runs.max(modest.metrics().engine.shape().levels[0].tables);
            most_waiting = most_waiting.max(node.compactions().1);
        }
        over.store(true, Ordering::Relaxed);
        node.close().await.expect("closed");
        (greedy.metrics().jobs, most_runs, most_waiting)
    });
    assert!(greedy_jobs > 200, "{greedy_jobs} jobs: the other one was busy");
    assert_eq!(most_waiting, 2, "both of them waited");
    // They are due from 4 runs and gather up to 10; then they wait for one job of the greedy tree at most. Writes are
    // slowed from 20 runs on.
    assert!(most_runs < 20, "{most_runs} runs");
}

#[test]
fn memtables_of_all_tenants_stay_within_the_budget_and_who_is_below_its_share_never_waits() {
    // DF-7, C-10.
    const BUDGET: u64 = 2 << 20;
    const MODEST: u64 = 40;
    let sim = Sim::new(7);
    let clock = sim.clock();
    let tree = TreeOptions { write_buffer_bytes: 1 << 20, ..config().tree };
    let config = NodeConfig { tree, write_memory_bytes: BUDGET, sync: SyncMode::Interval, ..config() };
    let fs = disk(&sim, 8 << 20);
    let written = sim.block_on(async {
        let node = open(&sim, &fs, &config).await;
        let over = Arc::new(AtomicBool::new(false));
        let most = watch(&sim, &node, &over);
        let hog = tenant(&node, "hog").await;
        let written = Arc::new(AtomicU64::new(0));
        for _ in 0..8 {
            let (hog, over, written) = (Arc::clone(&hog), Arc::clone(&over), Arc::clone(&written));
            sim.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    hog.write(&row(number)).await.expect("written").await.expect("committed");
                }
            });
        }
        let mut modest = Vec::new();
        for number in 0..MODEST {
            modest.push(tenant(&node, &format!("modest{number}")).await);
        }
        // The quarter that is kept for the others lasts a second at this pace, and a flush of the hog takes half a
        // second.
        for number in 0..24 {
            for partition in &modest {
                partition.write(&row(number)).await.expect("written").await.expect("committed");
                sleep_until(&clock, clock.now() + 2 * MS).await;
            }
        }
        over.store(true, Ordering::Relaxed);
        sleep_until(&clock, clock.now() + 2_000 * MS).await;
        assert!(waited(&hog) >= 8, "the hog waited {} times", waited(&hog));
        assert!(modest.iter().all(|partition| waited(partition) == 0));
        let most = most.load(Ordering::Relaxed);
        assert!((BUDGET / 2..=BUDGET + CHUNK).contains(&most), "{most} bytes");
        for partition in &modest {
            for number in 0..24 {
                assert!(partition.get(key(number).as_bytes()).await.expect("a read").is_some());
            }
        }
        node.close().await.expect("closed");
        written.load(Ordering::Relaxed)
    });
    assert!(written > 4 * BUDGET / 1024, "{written} rows, and none of them lost:");
    sim.block_on(async {
        // The logs may hold more than a smaller budget: memtables are flushed while the logs are replayed.
        let budget = BUDGET / 4;
        let node = open(&sim, &fs, &NodeConfig { write_memory_bytes: budget, ..config.clone() }).await;
        let over = Arc::new(AtomicBool::new(false));
        let most = watch(&sim, &node, &over);
        node.recover().await;
        let most = most.load(Ordering::Relaxed);
        assert!((budget / 4..=budget + CHUNK).contains(&most), "{most} bytes");
        let hog = node.tenant(&TenantName::new("hog").expect("a name")).expect("it is there");
        let hog = hog.partitions()[0].partition().await.expect("it opens");
        for number in 0..written {
            assert!(hog.get(key(number).as_bytes()).await.expect("a read").is_some(), "row {number}");
        }
        over.store(true, Ordering::Relaxed);
        node.close().await.expect("closed");
    });
}

#[test]
fn half_empty_memtables_of_those_who_rest_make_room() {
    const BUDGET: u64 = 1 << 20;
    const RESTING: u64 = 60;
    let sim = Sim::new(8);
    let clock = sim.clock();
    sim.block_on(async {
        let tree = TreeOptions { write_buffer_bytes: 1 << 20, ..config().tree };
        let config = NodeConfig { tree, write_memory_bytes: BUDGET, ..config() };
        let node = open(&sim, &disk(&sim, 64 << 20), &config).await;
        let over = Arc::new(AtomicBool::new(false));
        let most = watch(&sim, &node, &over);
        let mut resting = Vec::new();
        for tenants in 0..RESTING {
            let partition = tenant(&node, &format!("resting{tenants}")).await;
            for number in 0..10 {
                partition.write(&row(number)).await.expect("written").await.expect("committed");
            }
            resting.push(partition);
        }
        let busy = tenant(&node, "busy").await;
        for number in 0..3_000 {
            busy.write(&row(number)).await.expect("written").await.expect("committed");
            sleep_until(&clock, clock.now() + MS / 10).await;
        }
        assert!(most.load(Ordering::Relaxed) <= BUDGET + CHUNK);
        let flushed = resting.iter().filter(|partition| partition.metrics().jobs > 0).count();
        assert!(flushed > 10, "{flushed} were flushed for the others' sake");
        for partition in resting {
            for number in 0..10 {
                assert!(partition.get(key(number).as_bytes()).await.expect("a read").is_some());
            }
        }
        over.store(true, Ordering::Relaxed);
        node.close().await.expect("closed");
        drop(node);
    });
}

#[test]
fn a_quota_is_all_that_a_tenant_has_and_it_goes_on_within_it() {
    // DF-18.
    const QUOTA: u64 = 2 << 20;
    let sim = Sim::new(9);
    let clock = sim.clock();
    // A memtable would be larger than the quota: it is flushed before it is full, for its own tenant's sake.
    let tree = TreeOptions { write_buffer_bytes: 4 << 20, ..config().tree };
    let shares = ShareMode::Quota;
    let config = NodeConfig { tree, write_memory_bytes: 4 * QUOTA, write_memory_shares: shares, ..config() };
    let fs = disk(&sim, 16 << 20);
    let (written, most, rested) = sim.block_on(async {
        let node = open(&sim, &fs, &config).await;
        let hog = tenant(&node, "hog").await;
        let mut modest = Vec::new();
        for number in 0..3 {
            modest.push(tenant(&node, &format!("modest{number}")).await);
        }
        // The node looks once a second which tenants are awake.
        sleep_until(&clock, clock.now() + 1_100 * MS).await;
        assert_eq!(node.write_memory_shares().shares.tenants.len(), 4);
        let (over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        for _ in 0..8 {
            let (hog, over, written) = (Arc::clone(&hog), Arc::clone(&over), Arc::clone(&written));
            sim.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    hog.write(&row(number)).await.expect("written").await.expect("committed");
                }
            });
        }
        let mut most = 0;
        for number in 0..2_000 {
            for partition in &modest {
                partition.write(&row(number)).await.expect("written").await.expect("committed");
            }
            most = node.write_memory().parts().iter().map(|(_, part)| part.used).max().unwrap_or(0).max(most);
            sleep_until(&clock, clock.now() + 2 * MS).await;
        }
        over.store(true, Ordering::Relaxed);
        sleep_until(&clock, clock.now() + 2_000 * MS).await;
        assert!(waited(&hog) > 0);
        let rested = modest.iter().map(|partition| waited(partition)).sum::<u64>();
        node.close().await.expect("closed");
        (written.load(Ordering::Relaxed) << 10, most, rested)
    });
    assert!(most <= QUOTA + 2 * CHUNK + (64 << 10), "{most} bytes of one tenant");
    assert!(written > 8 * QUOTA, "{written} bytes: its own flushes make room again");
    assert_eq!(rested, 0, "the others did not notice");
}

#[test]
fn readers_who_use_all_of_the_device_leave_a_part_to_flushes_that_writes_wait_for() {
    // C-6. More memtables are allowed than there is room for: no tree's own memtables are ever all full, so that its
    // flush is never urgent by itself (U-11).
    const DEVICE: u64 = 4 << 20;
    let sim = Sim::new(11);
    let clock = sim.clock();
    let tree = TreeOptions { write_buffers_max: 64, ..config().tree };
    let config = NodeConfig { tree, cache_bytes: 64 << 10, write_memory_bytes: 1 << 20, ..config() };
    let (written, waits) = sim.block_on(async {
        let (node, writer, over) = beside_readers(&sim, DEVICE, &config).await;
        let written = Arc::new(AtomicU64::new(0));
        for _ in 0..8 {
            let (writer, over, written) = (Arc::clone(&writer), Arc::clone(&over), Arc::clone(&written));
            sim.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    writer.write(&row(number)).await.expect("written").await.expect("committed");
                }
            });
        }
        sleep_until(&clock, clock.now() + 20_000 * MS).await;
        over.store(true, Ordering::Relaxed);
        let seen = (written.load(Ordering::Relaxed), waited(&writer));
        sleep_until(&clock, clock.now() + 5_000 * MS).await;
        node.close().await.expect("closed");
        seen
    });
    assert!(written > 3_000 && waits > 50, "{written} KiB in 20 s, {waits} waits for room");
}

/// A node on a device of `device` bytes a second, and a partition to write to. Beside it is a partition of another
/// tenant whose readers use the whole device until it is over.
async fn beside_readers(sim: &Sim, device: u64, config: &NodeConfig) -> (Arc<Node>, Arc<Partition>, Arc<AtomicBool>) {
    let (limits, capacity) = (Limits::bytes(device), cost::Capacity::default());
    let bandwidth = Some(Bandwidth { device: limits, capacity, background: UNLIMITED });
    let node = open(sim, &disk(sim, device), &NodeConfig { bandwidth, ..config.clone() }).await;
    let (reader, writer) = (tenant(&node, "reader").await, tenant(&node, "writer").await);
    for number in 0..2_000 {
        reader.write(&row(number)).await.expect("written").await.expect("committed");
    }
    reader.seal();
    reader.settle().await;
    let over = Arc::new(AtomicBool::new(false));
    read_all_the_time(sim, &reader, &over);
    (node, writer, over)
}

/// 64 clients that read rows of `reader` that no cache holds, until it is `over`.
fn read_all_the_time(sim: &Sim, reader: &Arc<Partition>, over: &Arc<AtomicBool>) {
    for first in 0..64 {
        let (reader, over) = (Arc::clone(reader), Arc::clone(over));
        sim.spawn(async move {
            for number in (first..).step_by(7) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                assert!(reader.get(key(number % 2_000).as_bytes()).await.expect("a read").is_some());
            }
        });
    }
}

#[test]
fn an_urgent_flush_is_not_kept_from_the_device_by_readers_who_use_all_of_it() {
    // U-11: the first pieces of the flush asked for the device before it was urgent, and stand behind all readers.
    const DEVICE: u64 = 4 << 20;
    let sim = Sim::new(12);
    let clock = sim.clock();
    let tree = TreeOptions { write_buffers_max: 2, write_buffer_bytes: 512 << 10, ..config().tree };
    let config = NodeConfig { tree, cache_bytes: 64 << 10, write_memory_bytes: 2 << 20, ..config() };
    let stopped = sim.block_on(async {
        let (node, writer, over) = beside_readers(&sim, DEVICE, &config).await;
        // Four memtables in 30 s: each is flushed while the next one fills, in ten seconds.
        for number in 0..2_000 {
            writer.write(&row(number)).await.expect("written").await.expect("committed");
            sleep_until(&clock, clock.now() + 15 * MS).await;
        }
        let stopped = writer.metrics().stalls.iter().map(|stall| stall.stopped).sum::<u64>();
        over.store(true, Ordering::Relaxed);
        sleep_until(&clock, clock.now() + 5_000 * MS).await;
        node.close().await.expect("closed");
        stopped
    });
    assert_eq!(stopped, 0, "no write has stalled");
}

#[test]
fn merges_of_level_0_are_not_kept_from_the_device_by_readers_who_use_all_of_it() {
    const DEVICE: u64 = 32 << 20;
    let sim = Sim::new(13);
    let clock = sim.clock();
    let tree = TreeOptions { write_buffers_max: 2, write_buffer_bytes: 512 << 10, ..config().tree };
    let config = NodeConfig { tree, cache_bytes: 64 << 10, write_memory_bytes: 2 << 20, ..config() };
    let (longest, stopped) = sim.block_on(async {
        let (node, writer, over) = beside_readers(&sim, DEVICE, &config).await;
        // A memtable a second, for longer than it takes until writes stop if nothing is merged.
        let mut longest = 0;
        for number in 0..45_000 {
            writer.write(&row(number)).await.expect("written").await.expect("committed");
            sleep_until(&clock, clock.now() + 2 * MS).await;
            longest = longest.max(writer.metrics().engine.shape().levels[0].tables);
        }
        let stopped = writer.metrics().stalls.iter().map(|stall| stall.stopped).sum::<u64>();
        over.store(true, Ordering::Relaxed);
        sleep_until(&clock, clock.now() + 5_000 * MS).await;
        node.close().await.expect("closed");
        (longest, stopped)
    });
    assert!(stopped < MS, "no write has stalled, but for {stopped} ns");
    assert!((20..36).contains(&longest), "level 0 had {longest} runs: at 36 writes stop, for as long as others read");
}

#[test]
fn flushes_wait_for_their_turn_where_their_number_is_bounded() {
    // C-14: by default it is not.
    let sim = Sim::new(3);
    let clock = sim.clock();
    let mut most = [0; 2];
    for (slots, most) in [None, Some(FlushShares { slots: 1, mode: ShareMode::Fair })].into_iter().zip(&mut most) {
        sim.block_on(async {
            let node = open(&sim, &disk(&sim, 4 << 20), &NodeConfig { flush_slots: slots, ..config() }).await;
            let mut partitions = Vec::new();
            for number in 0..6 {
                partitions.push(tenant(&node, &format!("tenant{number}")).await);
            }
            for number in 0..400 {
                for partition in &partitions {
                    partition.write(&row(number)).await.expect("written").await.expect("committed");
                }
                let flushing =
                    |partition: &Arc<Partition>| partition.metrics().engine.jobs[JobKind::Flush as usize].running;
                *most = partitions.iter().map(flushing).sum::<usize>().max(*most);
                let waits = node.flush_waits();
                assert!(waits.is_none_or(|waits| waits.running <= 1 && waits.longest.len() <= 6));
            }
            sleep_until(&clock, clock.now() + 5_000 * MS).await;
            let waits = node.flush_waits();
            assert!(waits.is_none_or(|waits| waits.waiting == 0 && waits.longest.values().any(|&longest| longest > 0)));
            for partition in &partitions {
                assert!(partition.metrics().jobs >= 5, "it was flushed again and again");
                for number in 0..400 {
                    let found = partition.get(key(number).as_bytes()).await.expect("read");
                    assert!(found.is_some(), "{number}");
                }
            }
            node.close().await.expect("closed");
        });
    }
    assert!(most[0] > 1, "{most:?}");
}
