//! Mode `Interval` over many partitions: the loss of the machine costs at most the interval, whether logs are synced
//! one by one or all together.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Fs, Nanos, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, PartitionSlot, TenantName, TenantSpec};

const INTERVAL: Nanos = 100_000_000;
/// The time that syncs may take here: some tens of them at 70 us.
const SYNCING: Nanos = 5_000_000;

/// When each value of each tenant was acknowledged; values count from 1.
type Acknowledged = Arc<Mutex<Vec<Vec<Nanos>>>>;

fn world(seed: u64, image: &DiskImage, faults: FaultPlan) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let device = DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(100 << 20) };
    let fs = SimFs::from_image(image, sim.clock(), device, faults, sim.rng());
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    let tree = TreeOptions { write_buffer_bytes: 64 << 10, io_bytes: 8 << 10, ..TreeOptions::default() };
    let config = NodeConfig {
        tree,
        sync: SyncMode::Interval,
        sync_interval: INTERVAL,
        segment_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        ..NodeConfig::new("/weir")
    };
    Node::open(&config, machine).await.expect("the node opens")
}

fn name(tenant: usize) -> TenantName {
    TenantName::new(&format!("t{tenant}")).expect("a name")
}

fn slot(node: &Node, tenant: usize) -> Arc<PartitionSlot> {
    Arc::clone(&node.tenant(&name(tenant)).expect("it is there").partitions()[0])
}

/// Writes values that count up, at moments drawn at random, until a write fails or the time is over.
fn start(sim: &Sim, node: &Node, tenant: usize, until: Nanos, acknowledged: &Acknowledged) {
    let (slot, clock, mut rng, acknowledged) = (slot(node, tenant), sim.clock(), sim.rng(), Arc::clone(acknowledged));
    sim.spawn(async move {
        let mut value = 0u64;
        while clock.now() < until {
            sleep_until(&clock, clock.now() + rng.below(2 * INTERVAL / (1 + tenant as u64 % 10))).await;
            // The catalogue, which notes a first opening, may have lost bytes as well: it is tried again next time.
            let Ok(partition) = slot.partition().await else { continue };
            let mut batch = Batch::new();
            value += 1;
            batch.put(b"value", &value.to_le_bytes());
            // A fenced log refuses writes until it is replaced.
            let Ok(commit) = partition.write(&batch).await else {
                value -= 1;
                continue;
            };
            match commit.await {
                Ok(()) => acknowledged.lock()[tenant].push(clock.now()),
                Err(_) => value -= 1,
            }
        }
    });
}

async fn value(node: &Node, tenant: usize) -> u64 {
    let partition = slot(node, tenant).partition().await.expect("it wakes");
    let record = partition.get(b"value").await.expect("a read");
    record
        .map_or(0, |record| u64::from_le_bytes(record.value().expect("a string")[..].try_into().expect("eight bytes")))
}

/// Lets `tenants` write on a node that has been idle for `idle`, cuts the power after `work` and another `rest`, and
/// looks for acknowledged values that are lost. Gives the longest time between such an acknowledgement and the cut, and
/// how often single files and how often everything was synced for the log.
fn longest_loss(seed: u64, tenants: usize, idle: Nanos, rest: Nanos, faults: FaultPlan) -> (Nanos, u64, u64) {
    let (sim, fs) = world(seed, &DiskImage::new(), faults);
    let acknowledged: Acknowledged = Arc::new(Mutex::new(vec![Vec::new(); tenants]));
    let mut work = 0;
    let node = sim.block_on(async {
        let node = open(&sim, &fs).await;
        sleep_until(&sim.clock(), sim.now() + idle).await;
        for tenant in 0..tenants {
            node.create_tenant(TenantSpec::new(name(tenant))).await.expect("created");
        }
        work = sim.now() + 1_000_000_000 + sim.rng().below(2 * INTERVAL);
        (0..tenants).for_each(|tenant| start(&sim, &node, tenant, work, &acknowledged));
        node
    });
    sim.run_until(work + rest);
    fs.cut_power();
    let cut = sim.now();
    let (one, all) = (fs.counters().total(OpKind::Sync).ops, fs.counters().total(OpKind::SyncAll).ops);
    let image = fs.crash_keeping(Keep::None, &mut sim.rng());
    drop(node);
    let acknowledged = std::mem::take(&mut *acknowledged.lock());

    let (sim, fs) = world(seed + 1, &image, FaultPlan::none());
    let longest = sim.block_on(async {
        let node = open(&sim, &fs).await;
        let mut longest = 0;
        for (tenant, times) in acknowledged.iter().enumerate() {
            assert!(!times.is_empty(), "tenant {tenant} wrote nothing");
            let lost = times.get(value(&node, tenant).await as usize).map_or(0, |at| cut - at);
            longest = longest.max(lost);
        }
        longest
    });
    (longest, one, all)
}

#[test]
fn a_lost_machine_costs_at_most_the_interval() {
    let mut most = 0;
    for seed in 0..10 {
        let (few, _, all) = longest_loss(seed, 3, 0, 0, FaultPlan::none());
        assert!(few <= INTERVAL + SYNCING, "three tenants lost {few} ns");
        assert_eq!(all, 0, "three logs are synced one by one");
        let (many, one, all) = longest_loss(seed, 40, 0, 0, FaultPlan::none());
        assert!(many <= INTERVAL + SYNCING, "forty tenants lost {many} ns");
        assert!((8..=16).contains(&all), "one sync of everything in each interval, not {all}");
        assert!(one < 400, "and hardly one of a single log: {one} with those that make files");
        most = most.max(few).max(many);
    }
    assert!(most > INTERVAL / 2, "the cuts are no test: {most} ns lost at most");
}

#[test]
fn what_a_failed_sync_of_everything_lost_is_not_taken_for_durable() {
    for seed in 0..10 {
        let faults = FaultPlan::none().chance(OpKind::SyncAll, Fault::Error, 0.3);
        // Time for the logs that failed to be replaced, and for the last sync.
        let (lost, _, all) = longest_loss(seed, 40, 0, 1_000_000_000, faults);
        assert!(all > 0, "nothing was synced together");
        assert_eq!(lost, 0, "a value of {lost} ns ago");
    }
}

#[test]
fn a_node_that_was_idle_syncs_what_is_written_then() {
    for idle in [INTERVAL / 2, 3 * INTERVAL, 100 * INTERVAL] {
        for tenants in [1, 40] {
            let (lost, _, _) = longest_loss(idle, tenants, idle, 0, FaultPlan::none());
            assert!(lost <= INTERVAL + SYNCING, "{tenants} tenants after {idle} ns lost {lost} ns");
        }
    }
}
