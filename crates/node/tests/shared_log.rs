//! Tenants that share a log: each keeps its own data, through kills, sleep, cascades, drops, backups and repairs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Class, ErrorKind, Fs, Nanos, Owner, Result, Rng, Tag, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::repair::Repair;
use weir_node::{
    LogKind, Machine, Node, NodeConfig, Partition, SharedStats, SlotState, Tenant, TenantName, TenantSpec,
};

pub(crate) const DIR: &str = "/weir";
pub(crate) const SEGMENTS: &str = "/weir/shared-log/log";
const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);
pub(crate) const SECOND: Nanos = 1_000_000_000;
const TENANTS: u64 = 6;
pub(crate) const CAP: u64 = 1 << 20;

fn config(sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 64 << 10,
        level1_bytes: 256 << 10,
        table_bytes: 64 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    NodeConfig { tree, cache_bytes: 32 << 10, sync, shared_log_bytes: CAP, ..NodeConfig::new(DIR) }
}

pub(crate) fn world(seed: u64, image: &DiskImage) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let fs = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> Result<Node> {
    open_on(sim, Arc::clone(fs) as Arc<dyn Fs>, sync).await
}

pub(crate) async fn open_on(sim: &Sim, fs: Arc<dyn Fs>, sync: SyncMode) -> Result<Node> {
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config(sync), machine).await
}

pub(crate) fn name(number: u64) -> TenantName {
    TenantName::new(&format!("tenant{number}")).expect("a name")
}

pub(crate) async fn create(node: &Node, number: u64) -> Arc<Tenant> {
    let spec = TenantSpec { partitions: 2, log: LogKind::Shared, ..TenantSpec::new(name(number)) };
    node.create_tenant(spec).await.expect("created")
}

pub(crate) fn tenant(node: &Node, number: u64) -> Arc<Tenant> {
    node.tenant(&name(number)).expect("it is there")
}

pub(crate) async fn put(tenant: &Tenant, key: u64, value: u64) {
    let (key, mut batch) = (key.to_be_bytes(), Batch::new());
    batch.put(&key, &value.to_le_bytes().repeat(40));
    let partition = tenant.slot_of(&key).partition().await.expect("awake");
    partition.write(&batch).await.expect("room").await.expect("written");
}

pub(crate) async fn value(tenant: &Tenant, key: u64) -> Result<Option<u64>> {
    let key = key.to_be_bytes();
    let partition = tenant.slot_of(&key).partition().await?;
    let record = partition.get(&key).await?;
    let value = record.as_ref().map(|record| record.value().expect("a string"));
    Ok(value.map(|value| u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))))
}

pub(crate) fn log(node: &Node) -> SharedStats {
    node.shared_log().expect("it was used")
}

/// Every tenant has the keys below `keys`, with the values that were written last.
pub(crate) async fn has_all(node: &Node, tenants: impl IntoIterator<Item = u64>, keys: u64) {
    for number in tenants {
        has_all_of(node, number, 0..keys).await;
    }
}

pub(crate) async fn has_all_of(node: &Node, number: u64, keys: impl IntoIterator<Item = u64>) {
    for key in keys {
        let found = value(&tenant(node, number), key).await.expect("it can be read");
        assert_eq!(found, Some(number * 1_000 + key), "tenant {number}, key {key}");
    }
}

pub(crate) async fn write_all(node: &Node, tenants: impl IntoIterator<Item = u64> + Clone, keys: u64) {
    for key in 0..keys {
        for number in tenants.clone() {
            put(&tenant(node, number), key, number * 1_000 + key).await;
        }
    }
}

#[test]
fn each_tenant_finds_its_own_after_a_kill_and_no_partition_has_a_log_of_its_own() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, fs) = world(1, &DiskImage::new());
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await.expect("a fresh disk");
            for number in 0..TENANTS {
                create(&node, number).await;
            }
            write_all(&node, 0..TENANTS, 20).await;
            let clock = sim.clock();
            // Anchors then say that it is durable.
            sleep_until(&clock, clock.now() + 3 * SECOND).await;
        });
        let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut sim.rng()));
        sim.block_on(async {
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            let found = weir_node::check(&disk, Path::new(DIR), |_, _| ()).await.expect("it is a node's directory");
            assert_eq!(found.all_problems().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
            let in_log: u64 = found.partitions.iter().filter_map(|found| found.log.as_ref()).map(|log| log.last).sum();
            assert_eq!(in_log, 20 * TENANTS, "every record is one of some member's");
            let node = open(&sim, &fs, sync).await.expect("it is whole");
            node.recover().await;
            let slots = node.tenants().into_iter().flat_map(|tenant| tenant.partitions().to_vec());
            let awake = slots.filter(|slot| slot.state() == SlotState::Awake).count();
            assert_eq!(awake, 2 * TENANTS as usize, "who has something in the log was opened");
            has_all(&node, 0..TENANTS, 20).await;
            for number in 1..=2 * TENANTS {
                let own = format!("{DIR}/partitions/{:06}/log", number + 1);
                assert!(fs.list(own.as_ref(), TAG).await.is_err(), "{own}");
            }
            write_all(&node, 0..TENANTS, 20).await;
            node.close().await.expect("closed");
        });
        let (sim, fs) = world(3, &fs.crash_keeping(Keep::None, &mut sim.rng()));
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await.expect("it was closed");
            has_all(&node, 0..TENANTS, 20).await;
        });
    }
}

#[test]
fn who_sleeps_or_is_dropped_holds_nothing_and_who_wakes_goes_on() {
    let (sim, fs) = world(1, &DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..3 {
            create(&node, number).await;
        }
        write_all(&node, 0..3, 100).await;
        let before = log(&node);
        assert!(before.log.segments > 2, "{before:?}");
        for number in 0..2 {
            for slot in tenant(&node, number).partitions() {
                slot.sleep().await;
            }
        }
        assert!(log(&node).members == 2, "the partitions of the third one: {:?}", log(&node));
        node.drop_tenant(&name(2)).await.expect("dropped");
        let clock = sim.clock();
        sleep_until(&clock, clock.now() + 2 * SECOND).await;
        let after = log(&node);
        assert_eq!((after.log.segments, after.members), (1, 0), "{after:?}");
        has_all(&node, 0..2, 100).await;
        // After it was emptied, its partitions have other numbers, and nothing from before.
        node.clear_tenant(&name(1)).await.expect("emptied");
        assert_eq!(value(&tenant(&node, 1), 5).await.expect("it can be read"), None);
        write_all(&node, 0..2, 120).await;
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut sim.rng()));
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("it is whole");
        assert!(node.tenant(&name(2)).is_none());
        has_all(&node, 0..2, 120).await;
    });
}

#[test]
fn a_log_at_its_cap_is_shortened_by_those_who_keep_it_long_asleep_or_awake() {
    let (sim, fs) = world(1, &DiskImage::new());
    let fast = TENANTS;
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..=fast {
            create(&node, number).await;
        }
        write_all(&node, 0..TENANTS, 2).await;
        assert_eq!(log(&node).cascades, 0);
        // Several times the cap.
        for key in 0..16_000 {
            put(&tenant(&node, fast), key, key).await;
            if key % 100 == 0 {
                let clock = sim.clock();
                sleep_until(&clock, clock.now() + SECOND / 5).await;
            }
        }
        let after = log(&node);
        assert!(after.cascades > 0 && after.log.live_bytes < CAP, "{after:?}");
        let flushed = (0..TENANTS).all(|number| {
            let tenant = tenant(&node, number);
            let is_flushed = |partition: &Arc<Partition>| !partition.engine().has_unsealed();
            tenant.partitions().iter().all(|slot| slot.awake().as_ref().is_none_or(is_flushed))
        });
        assert!(flushed, "they had to");
        write_all(&node, 0..TENANTS, 4).await;
    });
    // Nobody asks for those tenants any more.
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut sim.rng()));
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("it is whole");
        for key in 0..6_000 {
            put(&tenant(&node, fast), key, key).await;
            if key % 100 == 0 {
                let clock = sim.clock();
                sleep_until(&clock, clock.now() + SECOND / 2).await;
            }
        }
        let after = log(&node);
        assert!(after.cascades > 0 && after.log.live_bytes < CAP, "sleepers were woken: {after:?}");
        has_all(&node, 0..TENANTS, 4).await;
    });
}

/// A refused write counts once the log is replaced. Reads have left it out, so their clients are told.
#[test]
fn who_has_left_out_a_refused_write_is_told_although_another_tenant_has_the_log_replaced() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, fs) = world(1, &DiskImage::new());
        sim.block_on(async {
            // The control loop looks at no log meanwhile, and no cascade begins.
            let config = NodeConfig { sync_interval: 3_600 * SECOND, ..config(sync) };
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
            let node = Node::open(&config, machine).await.expect("a fresh disk");
            let tenants = [create(&node, 0).await, create(&node, 1).await];
            write_all(&node, 0..2, 1).await;
            let told = Arc::<AtomicU64>::default();
            let counter = Arc::clone(&told);
            tenants[0].on_log_replaced(Arc::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }));
            let (key, mut batch) = (0_u64.to_be_bytes(), Batch::new());
            batch.put(&key, &7_u64.to_le_bytes().repeat(40));
            let partition = tenants[0].slot_of(&key).partition().await.expect("awake");
            // Its writer has gone.
            drop(partition.write(&batch).await.expect("room"));
            let other = tenants[1].slot_of(&key).partition().await.expect("awake");
            fs.fail_next(Some(OpKind::Write), Fault::Error);
            let refused = async { other.write(&batch).await?.await }.await;
            assert!(refused.is_err(), "{sync:?}: the log has failed");
            assert_eq!(value(&tenants[0], 0).await.expect("reads go on"), Some(0), "{sync:?}");
            // It also flushes for another reason. From then on the other one can replace the log.
            partition.seal();
            sleep_until(&sim.clock(), sim.now() + SECOND).await;
            assert_eq!(value(&tenants[0], 0).await.expect("it can be read"), Some(7), "{sync:?}: it counts");
            assert_eq!(told.load(Ordering::Relaxed), 1, "{sync:?}");
        });
    }
}

#[test]
fn a_restored_tenant_shares_the_log_and_a_backup_needs_none() {
    let (sim, fs) = world(1, &DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("a fresh disk");
        create(&node, 0).await;
        write_all(&node, 0..1, 50).await;
        node.backup(&name(0), Path::new("/backup")).await.expect("backed up");
        node.drop_tenant(&name(0)).await.expect("dropped");
        let restored = node.restore(Path::new("/backup"), name(0), None).await.expect("restored");
        assert_eq!(restored.log(), LogKind::Shared);
        has_all(&node, 0..1, 50).await;
        write_all(&node, 0..1, 60).await;
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut sim.rng()));
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("it is whole");
        assert_eq!(tenant(&node, 0).log(), LogKind::Shared);
        has_all(&node, 0..1, 60).await;
    });
}

/// Three tenants with something in the log, killed a while after the last write.
fn killed() -> DiskImage {
    let (sim, fs) = world(1, &DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..3 {
            create(&node, number).await;
        }
        write_all(&node, 0..3, 60).await;
        let clock = sim.clock();
        sleep_until(&clock, clock.now() + 3 * SECOND).await;
    });
    fs.crash_keeping(Keep::All, &mut sim.rng())
}

/// All that can be read; the error of the first partition that cannot.
async fn contents(sim: &Sim, fs: &Arc<SimFs>) -> Result<Vec<u64>> {
    let node = open(sim, fs, SyncMode::Interval).await?;
    let mut counts = Vec::new();
    for number in 0..3 {
        let mut count = 0;
        for key in 0..60 {
            if let Some(found) = value(&tenant(&node, number), key).await? {
                assert_eq!(found, number * 1_000 + key, "tenant {number}, key {key}");
                count += 1;
            }
        }
        counts.push(count);
    }
    Ok(counts)
}

async fn problems(fs: &Arc<SimFs>) -> usize {
    let disk = Arc::clone(fs) as Arc<dyn Fs>;
    let found = weir_node::check(&disk, Path::new(DIR), |_, _| ()).await.expect("it is a node's directory");
    found.all_problems().count()
}

#[test]
fn a_damaged_log_is_read_once_and_does_not_hold_up_those_with_logs_of_their_own() {
    let mut image = killed();
    let segments = Path::new(SEGMENTS.trim_start_matches('/'));
    let files = image.files();
    let (first, _) = files.iter().find(|(path, _)| path.starts_with(segments)).expect("there are segments");
    assert!(image.flip_bit(first, 5_000, 3));
    let (sim, fs) = world(2, &image);
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("the node itself is whole");
        node.recover().await;
        let read = fs.count(Class::Log, OpKind::Read).bytes;
        for number in (0..3).cycle().take(30) {
            let error = value(&tenant(&node, number), 1).await.expect_err("its records may be damaged");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
        assert_eq!(fs.count(Class::Log, OpKind::Read).bytes, read, "it was known by then");
        let spec = TenantSpec { partitions: 2, ..TenantSpec::new(name(7)) };
        node.create_tenant(spec).await.expect("created");
        put(&tenant(&node, 7), 1, 7_001).await;
        has_all_of(&node, 7, [1]).await;
    });
}

#[test]
fn nothing_is_left_of_the_log_when_the_last_who_shared_it_is_gone() {
    let (sim, fs) = world(2, &killed());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("it is whole");
        for number in 0..3 {
            // Nobody has opened the log yet.
            node.drop_tenant(&name(number)).await.expect("dropped");
        }
        node.close().await.expect("closed");
    });
    let before = sim.block_on(async { fs.list(SEGMENTS.as_ref(), TAG).await.expect("it is there").len() });
    let (sim, fs) = world(3, &fs.crash_keeping(Keep::All, &mut sim.rng()));
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await.expect("it is whole");
        node.recover().await;
        let after = fs.list(SEGMENTS.as_ref(), TAG).await.expect("it is there").len();
        assert!(before > 2 && after < before && after <= 2, "{before} segments, then {after}");
    });
}

/// Removes, cuts or changes a file, as `kind` says.
fn tamper(kind: u64, image: &mut DiskImage, path: &Path, rng: &mut Rng) {
    let bytes = image.read(path).expect("it is there");
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last as u64 + 1);
    match kind % 3 {
        0 => assert!(image.remove(path)),
        1 => assert!(image.cut(path, rng.below(used))),
        _ => assert!(image.flip_bit(path, rng.below(used), rng.below(8) as u8)),
    }
}

#[test]
fn damage_is_told_and_a_repair_keeps_what_stands_in_front_of_it() {
    let image = killed();
    let (sim, fs) = world(9, &image);
    assert_eq!(sim.block_on(contents(&sim, &fs)).expect("it is whole"), [60; 3]);
    let shared = |path: &PathBuf| path.starts_with(DIR.trim_start_matches('/').to_owned() + "/shared-log");
    let files: Vec<PathBuf> = image.files().into_iter().map(|(path, _)| path).filter(shared).collect();
    assert!(files.len() > 3, "an anchor and segments: {files:?}");
    let (mut refused, mut shorter) = (0, 0);
    for (number, path) in files.iter().enumerate() {
        for round in 0..12 {
            let mut rng = Rng::new((number * 100) as u64 + round);
            let mut image = image.clone();
            tamper(round, &mut image, path, &mut rng);
            let (sim, fs) = world(9, &image);
            sim.block_on(async {
                let disk = Arc::clone(&fs) as Arc<dyn Fs>;
                let known = problems(&fs).await;
                match contents(&sim, &fs).await {
                    Ok(counts) => {
                        assert_eq!(counts, [60; 3], "kind {round} of {} goes unnoticed", path.display());
                        return;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                }
                assert!(known > 0, "what is refused is told by a check: kind {round} of {}", path.display());
                refused += 1;
                for plans in 0.. {
                    assert!(plans < 3, "kind {round} of {} takes more than two plans", path.display());
                    let mut plan = Repair::plan(&disk, Path::new(DIR), None, 3).await.expect("a plan");
                    if plan.findings().is_empty() {
                        break;
                    }
                    plan.accept_loss();
                    assert!(plan.findings().iter().all(weir_node::repair::Finding::can_be_repaired));
                    plan.apply().await.expect("repaired");
                }
                assert_eq!(problems(&fs).await, 0);
                let counts = contents(&sim, &fs).await.expect("it can be opened again");
                // Writes that were made in turns are lost from the same turn on, whosever they are.
                let (most, least) = (counts.iter().max(), counts.iter().min());
                assert!(most <= least.map(|least| least + 1).as_ref(), "{counts:?}");
                shorter += u32::from(counts != [60; 3]);
            });
        }
    }
    println!("{refused} refused, {shorter} of them shorter");
    assert!(refused > 10 && shorter > 5, "{refused} refused, {shorter} of them shorter");
    let (sim, fs) = world(9, &image);
    let left = sim.block_on(async { fs.list(SEGMENTS.as_ref(), TAG).await.expect("it is there").len() });
    assert!(left > 2);
}

/// Without its anchor, the log seems to begin with the first segment that can be read.
#[test]
fn a_log_without_its_anchor_and_its_first_segment_is_not_called_whole() {
    let image = killed();
    let files: Vec<PathBuf> = image.files().into_iter().map(|(path, _)| path).collect();
    let anchor = files.iter().find(|path| path.ends_with("shared-log/ANCHOR")).expect("the log was used");
    let segments = Path::new(SEGMENTS.trim_start_matches('/'));
    let first = files.iter().find(|path| path.starts_with(segments)).expect("there are segments");
    // The file is gone, or its header is damaged, or its first record.
    for damaged in [None, Some(20), Some(4_100)] {
        let mut image = image.clone();
        assert!(image.remove(anchor));
        match damaged {
            None => assert!(image.remove(first)),
            Some(at) => assert!(image.flip_bit(first, at, 0)),
        }
        let (sim, fs) = world(9, &image);
        sim.block_on(async {
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            let plan = || Repair::plan(&disk, Path::new(DIR), None, 3);
            let mut lossy = plan().await.expect("a plan");
            assert_eq!(lossy.findings().len(), 1, "{damaged:?}: {:?}", lossy.findings());
            assert!(!lossy.findings()[0].can_be_repaired(), "{damaged:?}: {:?}", lossy.findings());
            lossy.accept_loss();
            lossy.apply().await.expect("repaired");
            let next = plan().await.expect("a plan");
            assert!(!next.findings().is_empty(), "{damaged:?}: it names who has lost something");
            assert!(next.findings().iter().all(|finding| finding.problem.contains("a partition of tenant")));
        });
    }
}

#[test]
fn of_a_partition_without_its_anchor_nobody_knows_whether_it_has_lost_records() {
    let mut image = killed();
    let files: Vec<PathBuf> = image.files().into_iter().map(|(path, _)| path).collect();
    assert!(image.remove(files.iter().find(|path| path.ends_with("000002/ANCHOR")).expect("it was used")));
    let (sim, fs) = world(9, &image);
    sim.block_on(async {
        let disk = Arc::clone(&fs) as Arc<dyn Fs>;
        let plan = Repair::plan(&disk, Path::new(DIR), None, 3).await.expect("a plan");
        let [finding] = plan.findings() else { panic!("{:?}", plan.findings()) };
        assert!(finding.can_be_repaired() && finding.advice.contains("cannot be known any more"), "{finding:?}");
    });
}

#[test]
fn a_repair_that_cannot_read_something_plans_nothing() {
    let mut image = killed();
    let files: Vec<PathBuf> = image.files().into_iter().map(|(path, _)| path).collect();
    for end in ["shared-log/ANCHOR", "catalogue/CURRENT", "tree/CURRENT"] {
        assert!(image.remove(files.iter().find(|path| path.ends_with(end)).expect("it is there")));
    }
    for nth in 0.. {
        let sim = Sim::new(9);
        let faults = FaultPlan::none().fail_nth(None, nth, Fault::Error);
        let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), faults, sim.rng());
        let disk = Arc::clone(&fs) as Arc<dyn Fs>;
        match sim.block_on(Repair::plan(&disk, Path::new(DIR), None, 3)) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Device, "{error}"),
            Ok(plan) => {
                let done: u64 = OpKind::ALL.iter().map(|&kind| fs.counters().total(kind).ops).sum();
                assert!(done <= nth, "operation {nth} of {done} failed: {:?}", plan.findings());
                assert_eq!(plan.findings().len(), 3, "{:?}", plan.findings());
                break;
            }
        }
    }
}
