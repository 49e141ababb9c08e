//! Tenants created, dropped, emptied, backed up, restored, altered, suspended, put to sleep and written to at random,
//! under power cuts: acknowledged writes hold, and nothing of a dropped tenant comes back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::{Contents, Expected, Found, batch};
use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{Class, Error, ErrorKind, Fs, Owner, Result, Rng, Tag, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{
    LogKind, Machine, Node, NodeConfig, PartitionSlot, TenantName, TenantSettings, TenantSpec, UnitLimits,
};

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);
/// The modes in turn.
const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::Interval, SyncMode::None];

fn config(sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 4 << 10,
        level1_bytes: 16 << 10,
        table_bytes: 8 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    let hibernate_after = 300_000_000_000;
    NodeConfig {
        tree,
        cache_bytes: 32 << 10,
        sync,
        segment_bytes: 16 << 10,
        hibernate_after,
        ..NodeConfig::new("/weir")
    }
}

fn world(seed: u64, image: &DiskImage) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let device = DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(50 << 20) };
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config(sync), machine).await.expect("the node opens")
}

/// Writes as a store does: a partition that is just going to sleep is asked again.
async fn write(slot: &Arc<PartitionSlot>, value: u64) -> Result<()> {
    loop {
        let partition = slot.partition().await?;
        match partition.write(&batch(value)).await {
            Err(error) if error.kind() == ErrorKind::Closed && !slot.has(&partition) => {}
            commit => return commit?.await,
        }
    }
}

async fn find(node: &Node, name: &TenantName) -> Option<Found> {
    match node.tenant(name) {
        Some(tenant) => Some(Found::of(&tenant).await),
        None => None,
    }
}

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

/// Puts `slot` to sleep at some moment during the next step, or before or after it.
fn sleep_soon(sim: &Sim, slot: &Arc<PartitionSlot>, rng: &mut Rng) {
    let (slot, clock, wait) = (Arc::clone(slot), sim.clock(), rng.below(400_000));
    sim.spawn(async move {
        sleep_until(&clock, clock.now() + wait).await;
        slot.sleep().await;
    });
}

/// Backs up a tenant that holds `contents`, again if it falls asleep meanwhile.
async fn back_up(node: &Node, name: &TenantName, contents: &Contents, step: u64, expected: &Mutex<Expected>) {
    for attempt in 0.. {
        let to = PathBuf::from(format!("/backups/{step}-{attempt}"));
        expected.lock().backing_up = Some((to.clone(), contents.clone().durable()));
        match node.backup(name, &to).await {
            Err(error) if error.kind() == ErrorKind::Closed => {}
            backup => {
                backup.expect("backed up");
                break;
            }
        }
    }
    let mut expected = expected.lock();
    let made = expected.backing_up.take();
    expected.backups.extend(made);
    expected.is_durable(name);
}

/// Alters limits, or whether the tenant is suspended.
fn alter(settings: &mut TenantSettings, step: u64, suspends: bool) {
    match suspends {
        true => settings.suspended = !settings.suspended,
        false => {
            settings.limits = UnitLimits { rcu: 1_000 * step, wcu: 500 * step, ..settings.limits };
            settings.connections_max = step as u32;
        }
    }
}

async fn live(sim: &Sim, node: &Node, sync: SyncMode, steps: u64, expected: &Mutex<Expected>) {
    let mut rng = sim.rng();
    for step in 1..=steps {
        let name = name(["a", "b", "c"][rng.below(3) as usize]);
        let ask = |after| expected.lock().ask(&name, after);
        let before = expected.lock().tenant(&name).cloned();
        let backups = expected.lock().backups.len() as u64;
        match (before, rng.below(24)) {
            (None, 8..) if backups > 0 => {
                // Of any tenant, also of one that no longer exists.
                let (from, contents) = expected.lock().backups[rng.below(backups) as usize].clone();
                ask(Some(contents));
                node.restore(&from, name.clone(), None).await.expect("restored");
                expected.lock().answer(sync);
            }
            (None, _) => {
                let partitions = 1 + rng.below(3) as u16;
                ask(Some(Contents::new(partitions)));
                let log = LogKind::ALL[step as usize % LogKind::ALL.len()];
                let spec = TenantSpec { partitions, log, ..TenantSpec::new(name.clone()) };
                node.create_tenant(spec).await.expect("created");
                expected.lock().answer(sync);
            }
            (Some(_), 0) => {
                ask(None);
                node.drop_tenant(&name).await.expect("dropped");
                expected.lock().answer(sync);
            }
            (Some(contents), 1) => {
                ask(Some(contents.emptied()));
                node.clear_tenant(&name).await.expect("emptied");
                expected.lock().answer(sync);
            }
            (Some(contents), change @ (2 | 3)) => {
                let suspends = change == 2;
                ask(Some(contents.altered(|settings| alter(settings, step, suspends))));
                let change = move |settings: &mut TenantSettings| {
                    alter(settings, step, suspends);
                    Ok::<(), Error>(())
                };
                node.alter_tenant(&name, change).await.expect("altered");
                expected.lock().answer(sync);
            }
            (Some(contents), change @ (4..6)) => {
                let tenant = node.tenant(&name).expect("it is there");
                if change == 4 {
                    if rng.chance(0.3) {
                        sleep_soon(sim, &tenant.partitions()[0], &mut rng);
                    }
                    back_up(node, &name, &contents, step, expected).await;
                } else {
                    for slot in tenant.partitions() {
                        slot.sleep().await;
                    }
                    expected.lock().is_durable(&name);
                }
            }
            (Some(contents), _) => {
                let part = rng.below(contents.partitions() as u64) as usize;
                let slot = Arc::clone(&node.tenant(&name).expect("it is there").partitions()[part]);
                ask(Some(contents.written(part, step)));
                if rng.chance(0.3) {
                    sleep_soon(sim, &slot, &mut rng);
                }
                write(&slot, step).await.expect("written");
                expected.lock().answer(sync);
            }
        }
        if rng.chance(0.5) {
            let (found, expected) = (find(node, &name).await, expected.lock().tenant(&name).cloned());
            let is_so = match (&expected, &found) {
                (Some(expected), Some(found)) => expected.is(found),
                (expected, found) => expected.is_none() && found.is_none(),
            };
            assert!(is_so, "step {step}, tenant {name}: {found:?}, not {expected:?}");
        }
    }
}

/// Checks that every tenant and backup is as promised, and that nothing else exists.
async fn check(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode, expected: &Expected) {
    let node = open(sim, fs, sync).await;
    let mut tenants = 1;
    for name in ["a", "b", "c"].map(name) {
        let found = find(&node, &name).await;
        expected.check(&name, found.as_ref());
        tenants += usize::from(found.is_some());
    }
    assert_eq!(node.tenants().len(), tenants);
    if let Some(last) = expected.backups.len().checked_sub(1) {
        let mut rng = sim.rng();
        // Mostly the tenant whose last steps may still be on their way to the disk.
        let chosen = if rng.chance(0.7) { last } else { rng.below(expected.backups.len() as u64) as usize };
        let (from, contents) = &expected.backups[chosen];
        restores(&node, from, "finished", contents).await;
    }
    if let Some((from, contents)) = &expected.backing_up {
        let disk = Arc::clone(fs) as Arc<dyn Fs>;
        match weir_node::backup::verify(&disk, from).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "all of a backup or none: {error}"),
            Ok(_) => restores(&node, from, "begun", contents).await,
        }
    }
    let clock = sim.clock();
    sleep_until(&clock, clock.now() + 1_000_000_000).await;
    let slots = || node.tenants().into_iter().flat_map(|tenant| tenant.partitions().to_vec());
    let named: Vec<String> = slots().map(|slot| format!("{:06}", slot.owner().partition)).collect();
    for entry in fs.list("/weir/partitions".as_ref(), TAG).await.unwrap_or_default() {
        assert!(named.contains(&entry.name), "partition {} is nobody's", entry.name);
    }
}

async fn restores(node: &Node, from: &Path, to: &str, contents: &Contents) {
    let restored = node.restore(from, name(to), None).await.expect("restored");
    let found = Found::of(&restored).await;
    assert!(contents.is(&found), "{from:?} has {found:?}, not {contents:?}");
}

#[test]
fn what_was_acknowledged_holds_after_any_cut_and_nothing_dropped_comes_back() {
    let (mut cuts, mut backups) = (0, 0);
    for (seed, sync) in (0..).zip(MODES) {
        let (sim, fs) = world(seed, &DiskImage::new());
        let expected: Arc<Mutex<Expected>> = Arc::default();
        let images: Arc<Mutex<Vec<(DiskImage, Expected)>>> = Arc::default();
        let node = sim.block_on(open(&sim, &fs, sync));
        {
            let (images, expected, mut rng) = (Arc::clone(&images), Arc::clone(&expected), sim.rng());
            fs.on_cut_point(move |fs, _| {
                let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
                if rng.chance(0.1) {
                    images.lock().push((fs.crash_keeping(keep, &mut rng), expected.lock().clone()));
                }
            });
        }
        sim.block_on(live(&sim, &node, sync, 150, &expected));
        fs.clear_hook();
        drop(node);
        backups += expected.lock().backups.len();
        let images = std::mem::take(&mut *images.lock());
        cuts += images.len();
        for (number, (image, expected)) in (0..).zip(images) {
            let (sim, fs) = world(number, &image);
            sim.block_on(check(&sim, &fs, sync, &expected));
        }
    }
    assert!(cuts > 200 && backups > 8, "only {cuts} cuts, {backups} backups");
}

#[test]
fn writes_and_reads_race_with_sleep() {
    for (seed, sync) in (0..).zip(MODES.into_iter().cycle()).take(24) {
        let (sim, fs) = world(seed, &DiskImage::new());
        let expected = Mutex::default();
        let node = sim.block_on(open(&sim, &fs, sync));
        sim.block_on(live(&sim, &node, sync, 120, &expected));
    }
}

#[test]
fn a_wake_that_nobody_waits_for_any_more_ends_all_the_same() {
    let (sim, fs) = world(1, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
    let name = TenantName::built_in();
    let slot = Arc::clone(&node.tenant(&name).expect("built in").partitions()[0]);
    let clock = sim.clock();
    for wait in (0..3_000_000).step_by(100_000) {
        sim.block_on(async {
            let gone =
                futures_util::future::select(Box::pin(slot.partition()), sleep_until(&clock, clock.now() + wait)).await;
            drop(gone);
            slot.partition().await.expect("it wakes");
            slot.sleep().await;
        });
    }
}

#[test]
fn who_is_asked_nothing_sleeps_without_a_log_and_wakes_with_everything() {
    let (sim, fs) = world(5, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
    let slot = Arc::clone(&node.tenant(&TenantName::built_in()).expect("built in").partitions()[0]);
    let clock = sim.clock();
    sim.block_on(async {
        write(&slot, 7).await.expect("written");
        let before = node.metrics();
        sleep_until(&clock, clock.now() + 2 * config(SyncMode::Always).hibernate_after + 1_000_000_000).await;
        let after = node.metrics();
        assert!(
            before.writes > 0 && before.jobs <= after.jobs && before.writes == after.writes,
            "counters never go down"
        );
        assert_eq!(slot.state(), weir_node::SlotState::Asleep);
        assert_eq!(fs.list("/weir/partitions/000001/log".as_ref(), TAG).await.expect("a list"), []);
        let found = find(&node, &TenantName::built_in()).await.expect("built in");
        assert!(Contents::new(1).written(0, 7).is(&found), "{found:?}");
        assert_eq!(slot.state(), weir_node::SlotState::Awake);
    });
}

#[test]
fn counters_of_the_node_keep_what_dropped_tenants_did() {
    let (sim, fs) = world(5, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
    sim.block_on(async {
        for round in 1..=3 {
            let before = node.metrics();
            let tenant = node.create_tenant(TenantSpec::new(name("a"))).await.expect("created");
            write(&tenant.partitions()[0], 7).await.expect("written");
            let partition = tenant.partitions()[0].partition().await.expect("awake");
            partition.seal();
            partition.settle().await;
            // Nobody holds the counters of the rounds before any more.
            drop((tenant, partition));
            let with_it = node.metrics();
            assert!(with_it.jobs > before.jobs && with_it.writes > before.writes);
            node.drop_tenant(&name("a")).await.expect("dropped");
            let after = node.metrics();
            assert_eq!((after.jobs, after.writes), (with_it.jobs, with_it.writes), "round {round}");
        }
    });
}

#[test]
fn a_node_that_is_closed_while_a_partition_wakes_or_falls_asleep_lets_nobody_in_again() {
    for wait in (0..3_000_000).step_by(100_000) {
        for sleeps in [false, true] {
            let (sim, fs) = world(1, &DiskImage::new());
            let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
            let slot = Arc::clone(&node.tenant(&TenantName::built_in()).expect("built in").partitions()[0]);
            let clock = sim.clock();
            sim.block_on(async {
                if sleeps {
                    slot.partition().await.expect("it wakes");
                }
                let turning = Arc::clone(&slot);
                sim.spawn(async move {
                    match sleeps {
                        true => turning.sleep().await,
                        // Refused if the node was closed first.
                        false => drop(turning.partition().await),
                    }
                });
                sleep_until(&clock, clock.now() + wait).await;
                node.close().await.expect("closed");
                sleep_until(&clock, clock.now() + 1_000_000_000).await;
                assert_eq!(slot.state(), weir_node::SlotState::Gone, "closed after {wait} ns, asleep: {sleeps}");
            });
            drop((node, slot));
            drop(sim.block_on(open(&sim, &fs, SyncMode::Always)));
        }
    }
}

/// A partition that falls asleep is flushed first, which may take long. The end of the node does not wait for that.
#[test]
fn a_node_that_is_closed_while_a_partition_falls_asleep_keeps_what_was_only_in_memory() {
    for sync in [SyncMode::Interval, SyncMode::None] {
        let mut leaving = 0;
        for wait in (0..3_000_000).step_by(100_000) {
            let (sim, fs) = world(1, &DiskImage::new());
            sim.block_on(async {
                let node = open(&sim, &fs, sync).await;
                let slot = Arc::clone(&node.tenant(&TenantName::built_in()).expect("built in").partitions()[0]);
                write(&slot, 7).await.expect("memory is enough");
                let turning = Arc::clone(&slot);
                sim.spawn(async move { turning.sleep().await });
                sleep_until(&sim.clock(), sim.now() + wait).await;
                leaving += u32::from(slot.state() == weir_node::SlotState::Leaving);
                node.close().await.expect("closed");
            });
            let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut sim.rng()));
            let node = sim.block_on(open(&sim, &fs, sync));
            let found = sim.block_on(find(&node, &TenantName::built_in())).expect("built in");
            assert!(Contents::new(1).written(0, 7).is(&found), "{sync:?}, closed after {wait} ns: {found:?}");
        }
        assert!(leaving > 0, "none was on its way to sleep");
    }
}
