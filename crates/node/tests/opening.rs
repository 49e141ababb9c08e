//! A partition that cannot be opened, and is opened again.

use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Fs, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, Partition, PartitionSlot, TenantName, TenantSpec};

const SEC: u64 = 1_000_000_000;
const KEYS: u32 = 300;

/// A disk that takes 2 ms for each operation.
fn world(image: &DiskImage) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(1);
    let device = DeviceSpec { latency: 2_000_000, ..DeviceSpec::instant() };
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, write_buffer_bytes: usize) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let tree = TreeOptions { write_buffer_bytes, table_bytes: 8 << 10, io_bytes: 8 << 10, ..TreeOptions::default() };
    let sync = SyncMode::Interval;
    let config = NodeConfig { tree, cache_bytes: 32 << 10, sync, segment_bytes: 64 << 10, ..NodeConfig::new("/weir") };
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    Node::open(&config, machine).await.expect("the node opens")
}

fn slot(node: &Node) -> Arc<PartitionSlot> {
    let name = TenantName::new("a").expect("a name");
    Arc::clone(&node.tenant(&name).expect("it is there").partitions()[0])
}

async fn put(partition: &Arc<Partition>, key: u32, value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(&key.to_be_bytes(), value);
    partition.write(&batch).await.expect("no faults").await.expect("no faults");
}

async fn has_all(partition: &Arc<Partition>) {
    for key in 0..KEYS {
        let found = partition.get(&key.to_be_bytes()).await.expect("no faults").expect("it was written");
        assert_eq!(found.value().expect("a string").to_vec(), vec![key as u8; 1000], "{key}");
    }
}

/// While the log is read, memtables that are full are flushed. If the rest of it cannot be read, the next request opens
/// the directory again, with an engine of its own: the first one must not write to it any more.
#[test]
fn an_opening_that_fails_leaves_nothing_behind_that_writes() {
    let (sim, disk) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &disk, 1 << 20).await;
        node.create_tenant(TenantSpec::new(TenantName::new("a").expect("a name"))).await.expect("created");
        let partition = slot(&node).partition().await.expect("it wakes");
        for key in 0..KEYS {
            put(&partition, key, &vec![key as u8; 1000]).await;
        }
        sleep_until(&sim.clock(), sim.now() + SEC).await;
    });
    let image = disk.crash_keeping(Keep::None, &mut sim.rng());
    // Each read of an opening fails once.
    let mut failed_behind_a_flush = 0;
    for nth in 0.. {
        let (sim, disk) = world(&image);
        let written = || disk.counters().total(OpKind::Write).ops;
        let is_over = sim.block_on(async {
            let node = open(&sim, &disk, 16 << 10).await;
            let (slot, before) = (slot(&node), disk.counters().total(OpKind::Read).ops);
            disk.set_faults(FaultPlan::none().fail_nth(Some(OpKind::Read), before + nth, Fault::Error));
            let written_before = written();
            let opened = slot.partition().await;
            let is_over = disk.counters().total(OpKind::Read).ops <= before + nth;
            disk.set_faults(FaultPlan::none());
            if opened.is_err() {
                let after = written();
                failed_behind_a_flush += u32::from(after > written_before);
                sleep_until(&sim.clock(), sim.now() + 10 * SEC).await;
                assert_eq!(written(), after, "read {nth}: an engine writes that nobody has any more");
            }
            let partition = slot.partition().await.expect("it can be read now");
            has_all(&partition).await;
            put(&partition, 0, &[0; 1000]).await;
            slot.sleep().await;
            has_all(&slot.partition().await.expect("it wakes")).await;
            is_over
        });
        if is_over {
            break;
        }
    }
    assert!(failed_behind_a_flush > 0, "some reads fail when something has been flushed");
}
