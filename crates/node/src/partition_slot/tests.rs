//! How long falling asleep takes, and what is known of a partition's space afterwards.

use std::future::poll_fn;
use std::task::Poll;

use weir_admission::cost::Capacity;
use weir_admission::{Direction, Limits, Rank};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Nanos, Owner, sleep_until};
use weir_model::{Batch, TenantName};

use super::*;
use crate::config::{Bandwidth, Machine, NodeConfig};
use crate::{LogKind, Node, TenantSpec};

const MS: Nanos = 1_000_000;
const SEC: Nanos = 1_000 * MS;

fn open(sim: &Sim, config: &NodeConfig, device: DeviceSpec) -> Node {
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let machine = Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    sim.block_on(Node::open(config, machine)).expect("the node opens")
}

fn config(device: u64) -> NodeConfig {
    let bandwidth = Bandwidth { device: Limits::bytes(device), capacity: Capacity::default(), background: device };
    NodeConfig { bandwidth: Some(bandwidth), segment_bytes: 1 << 20, ..NodeConfig::new("/weir") }
}

fn slot(node: &Node, name: &TenantName) -> Arc<PartitionSlot> {
    Arc::clone(&node.tenant(name).expect("there").partitions()[0])
}

fn fill(sim: &Sim, slot: &Arc<PartitionSlot>, items: u32) {
    let partition = sim.block_on(slot.partition()).expect("wakes");
    for item in 0..items {
        let mut batch = Batch::new();
        batch.put(&item.to_be_bytes(), &[7; 1000]);
        let _commit = sim.block_on(partition.write(&batch)).expect("no faults");
    }
}

#[test]
fn the_way_to_sleep_is_as_wide_as_the_device_whatever_the_last_tick_left() {
    let sim = Sim::new(1);
    let node = open(&sim, &config(10_000_000), DeviceSpec::shared(10_000_000));
    let slot = slot(&node, &TenantName::built_in());
    fill(&sim, &slot, 400);
    slot.reservation.gates().expect("awake").background().set_limits(Limits::bytes(4096));
    let begin = sim.now();
    sim.block_on(slot.sleep());
    assert_eq!(slot.state(), SlotState::Asleep);
    assert!(sim.now() - begin < SEC, "400 KB took {} ns", sim.now() - begin);
    assert_eq!(slot.awake().as_ref().map(|partition| partition.owner()), None);
}

#[test]
fn idle_partitions_fall_asleep_side_by_side() {
    let sim = Sim::new(3);
    let config = NodeConfig { hibernate_after: 100 * SEC, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    let device = DeviceSpec { latency: 50 * MS, sync_latency: 50 * MS, parallelism: 64, ..DeviceSpec::instant() };
    let node = open(&sim, &config, device);
    let slots: Vec<Arc<PartitionSlot>> = (0..16)
        .map(|number| {
            let name = TenantName::new(&format!("tenant{number}")).expect("a name");
            let tenant = sim.block_on(node.create_tenant(TenantSpec::new(name))).expect("created");
            Arc::clone(&tenant.partitions()[0])
        })
        .collect();
    // The first time wakes them, which takes longer.
    (0..2).for_each(|_| slots.iter().for_each(|slot| fill(&sim, slot, 1)));
    let clock = sim.clock();
    let asleep = || slots.iter().filter(|slot| slot.state() == SlotState::Asleep).count();
    let [first, last] = sim.block_on(async {
        let mut at = [0; 2];
        for (at, count) in at.iter_mut().zip([1, slots.len()]) {
            while asleep() < count {
                sleep_until(&clock, clock.now() + MS).await;
            }
            *at = clock.now();
        }
        at
    });
    // Each flush takes half a second, most of it alone.
    assert!(last - first < 2 * SEC, "{} ns between the first and the last", last - first);
}

/// For a minute, others always ask for more than the device has, and are strictly first.
fn keep_busy(sim: &Sim, node: &Node) {
    for partition in 100..104 {
        let (gate, clock) = (Arc::clone(node.gate()), sim.clock());
        sim.spawn(async move {
            while clock.now() < 60 * SEC {
                let owner = Owner { tenant: 9, partition };
                drop(gate.request(owner, Rank::Foreground, Direction::Read, 4096).await);
            }
        });
    }
}

#[test]
fn who_waits_for_a_sleeper_does_not_wait_until_all_others_are_silent() {
    let sim = Sim::new(2);
    let node = open(&sim, &config(1_000_000), DeviceSpec::shared(10_000_000));
    let slot = slot(&node, &TenantName::built_in());
    fill(&sim, &slot, 100);
    sim.run_until(sim.now() + 2 * SEC);
    keep_busy(&sim, &node);
    let sleeper = Arc::clone(&slot);
    sim.spawn(async move { sleeper.sleep().await });
    sim.run_until(sim.now() + 2 * SEC);
    assert_eq!(slot.state(), SlotState::Leaving, "background waits for all foreground");
    let begin = sim.now();
    drop(sim.block_on(slot.partition()).expect("wakes"));
    assert!(sim.now() - begin < 3 * SEC, "{} ns", sim.now() - begin);
}

#[test]
fn who_needs_the_catalogue_does_not_wait_until_all_others_are_silent() {
    let sim = Sim::new(4);
    let node = open(&sim, &config(1_000_000), DeviceSpec::shared(10_000_000));
    let tenant = node.tenant(&TenantName::built_in()).expect("there");
    let slot = slot(&node, &TenantName::built_in());
    keep_busy(&sim, &node);
    sim.run_until(sim.now() + SEC);
    // The first use of its partition.
    fill(&sim, &slot, 100);
    assert!(sim.now() < 20 * SEC, "{} ns", sim.now());
    // Meanwhile its anchor is due, and waits behind all of these.
    sim.run_until(sim.now() + 5 * SEC);
    let begin = sim.now();
    sim.block_on(node.clear(&tenant, ())).expect("emptied");
    let other = TenantName::new("other").expect("a name");
    sim.block_on(node.create_tenant(TenantSpec::new(other.clone()))).expect("created");
    sim.block_on(node.drop_tenant(&other)).expect("dropped");
    assert!(sim.now() - begin < 10 * SEC, "{} ns", sim.now() - begin);
}

#[test]
fn who_needs_the_shared_log_does_not_wait_until_all_others_are_silent() {
    let sim = Sim::new(7);
    let node = open(&sim, &config(1_000_000), DeviceSpec::shared(10_000_000));
    let name = TenantName::new("sharer").expect("a name");
    let spec = TenantSpec { log: LogKind::Shared, ..TenantSpec::new(name.clone()) };
    sim.block_on(node.create_tenant(spec)).expect("created");
    keep_busy(&sim, &node);
    sim.run_until(sim.now() + SEC);
    fill(&sim, &slot(&node, &name), 10);
    assert!(sim.now() < 20 * SEC, "{} ns", sim.now());
}

#[test]
fn what_was_measured_before_a_partition_left_does_not_count_any_more() {
    let sim = Sim::new(5);
    let config = NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    let node = open(&sim, &config, DeviceSpec::instant());
    let tenant = node.tenant(&TenantName::built_in()).expect("there");
    let slot = slot(&node, &TenantName::built_in());
    fill(&sim, &slot, 100);
    let partition = sim.block_on(slot.partition()).expect("awake");
    // The tenant is emptied between a measurement and its note.
    let measured = partition.engine().space();
    assert!(measured.stored_bytes > 0 && slot.disk_use().stored > 0);
    sim.block_on(node.clear(&tenant, ())).expect("emptied");
    slot.note_space(&partition, measured);
    assert_eq!((slot.state(), slot.disk_use()), (SlotState::Asleep, DiskUse::default()));
}

#[test]
fn what_is_held_until_a_tenant_is_empty_is_held_although_the_caller_goes_away() {
    let sim = Sim::new(6);
    let config = NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    let node = open(&sim, &config, DeviceSpec { latency: MS, ..DeviceSpec::instant() });
    let tenant = node.tenant(&TenantName::built_in()).expect("there");
    let slot = slot(&node, &TenantName::built_in());
    fill(&sim, &slot, 1);
    let held = Arc::new(());
    sim.block_on(async {
        let mut emptying = Box::pin(node.clear(&tenant, Arc::clone(&held)));
        let polled = poll_fn(|task| Poll::Ready(emptying.as_mut().poll(task)));
        assert!(polled.await.is_pending());
    });
    assert_eq!((Arc::strong_count(&held), slot.state()), (2, SlotState::Leaving));
    sim.run_until(sim.now() + SEC);
    assert_eq!((Arc::strong_count(&held), slot.state()), (1, SlotState::Asleep));
}
