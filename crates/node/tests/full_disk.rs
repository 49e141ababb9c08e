//! A full disk, case by case: what needs no space, who is affected by an order that fails, and what stays in memory.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::runs;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Phase, Sim, SimFs};
use weir_io::{Error, ErrorKind, Fs, Result, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{
    DiskUse, FlushShares, LogKind, Machine, Node, NodeConfig, PartitionSlot, ShareMode, SlotState, StoredSecret,
    StoredUser, TenantName, TenantSettings, TenantSpec,
};

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;
/// Operations that need space.
const MAKING: [OpKind; 4] = [OpKind::Create, OpKind::Write, OpKind::Allocate, OpKind::CreateDir];

fn world(image: &DiskImage) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(1);
    let fs = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    (sim, fs)
}

fn config(sync: SyncMode) -> NodeConfig {
    let tree =
        TreeOptions { write_buffer_bytes: 16 << 10, table_bytes: 8 << 10, io_bytes: 8 << 10, ..TreeOptions::default() };
    NodeConfig { tree, cache_bytes: 32 << 10, sync, segment_bytes: 64 << 10, ..NodeConfig::new("/weir") }
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> Node {
    open_with(sim, fs, &config(sync)).await
}

async fn open_with(sim: &Sim, fs: &Arc<SimFs>, config: &NodeConfig) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(config, machine).await.expect("the node opens")
}

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

fn slot(node: &Node, tenant: &str) -> Arc<PartitionSlot> {
    Arc::clone(&node.tenant(&name(tenant)).expect("it is there").partitions()[0])
}

async fn write(node: &Node, tenant: &str, value: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(b"key", value);
    slot(node, tenant).partition().await?.write(&batch).await?.await
}

async fn read(node: &Node, tenant: &str) -> Option<Vec<u8>> {
    let partition = slot(node, tenant).partition_to_read().await.expect("it wakes");
    partition?.get(b"key").await.expect("a read").map(|record| record.value().expect("a string").to_vec())
}

/// Tenants that hold their own name and sleep, and `blank`, which was never used.
async fn settle_down(node: &Node, tenants: &[&str]) {
    for tenant in tenants {
        node.create_tenant(TenantSpec::new(name(tenant))).await.expect("created");
        write(node, tenant, tenant.as_bytes()).await.expect("written");
        slot(node, tenant).sleep().await;
    }
    node.create_tenant(TenantSpec::new(name("blank"))).await.expect("created");
}

fn made(fs: &SimFs) -> u64 {
    MAKING.map(|kind| fs.counters().total(kind).ops).iter().sum()
}

#[test]
fn reading_makes_nothing() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        settle_down(&node, &["a"]).await;
        let before = made(&fs);
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"a"[..]));
        assert_eq!(read(&node, "blank").await, None);
        assert_eq!(made(&fs), before, "something was made or written");
        assert_eq!(slot(&node, "blank").state(), SlotState::Asleep);
    });
}

#[test]
fn an_order_that_fails_concerns_its_own_tenant_alone() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        settle_down(&node, &["a", "b"]).await;
        // No edit and no new journal are possible, not even out of the reserve.
        let broken = [OpKind::Write, OpKind::Create, OpKind::Rename];
        fs.set_faults(broken.iter().fold(FaultPlan::none(), |plan, &kind| plan.chance(kind, Fault::Error, 1.0)));
        node.clear_tenant(&name("a")).await.expect_err("the catalogue cannot be written");
        assert_eq!(read(&node, "b").await.as_deref(), Some(&b"b"[..]), "it has nothing to do with it");
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"a"[..]), "it keeps everything");
        let error = write(&node, "a", b"2").await.expect_err("a crash might find it emptied");
        assert!(error.to_string().contains("failed half-way"), "{error}");
        // The log can be written again, the catalogue cannot.
        fs.set_faults(FaultPlan::none().chance(OpKind::Rename, Fault::Error, 1.0));
        sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
        write(&node, "a", b"2").await.expect_err("still not certain");
        fs.set_faults(FaultPlan::none());
        sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
        write(&node, "a", b"2").await.expect("it is certain now");
    });
    let (sim, fs) = world(&fs.crash_keeping(Keep::None, &mut sim.rng()));
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"2"[..]), "what was acknowledged afterwards stays");
    });
}

#[test]
fn a_tenant_that_could_not_be_emptied_or_dropped_holds_as_much_as_before() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        settle_down(&node, &["a"]).await;
        let tenant = node.tenant(&name("a")).expect("it is there");
        let before = tenant.disk_use();
        assert!(before.stored > 0 && before.living > 0, "{before:?}");
        let broken = [OpKind::Write, OpKind::Create, OpKind::Rename];
        fs.set_faults(broken.iter().fold(FaultPlan::none(), |plan, &kind| plan.chance(kind, Fault::Error, 1.0)));
        node.clear_tenant(&name("a")).await.expect_err("the catalogue cannot be written");
        assert_eq!(tenant.disk_use(), before, "it was not emptied");
        node.drop_tenant(&name("a")).await.expect_err("the catalogue cannot be written");
        assert_eq!(tenant.disk_use(), before, "it was not dropped");
        fs.set_faults(FaultPlan::none());
        node.clear_tenant(&name("a")).await.expect("emptied");
        assert_eq!(tenant.disk_use(), DiskUse::default());
    });
}

#[test]
fn with_nothing_free_tenants_are_dropped_and_emptied_before_and_after_a_restart() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        settle_down(&node, &["a", "b", "c"]).await;
        assert!(node.reserve_bytes() > 0);
        fs.set_free_bytes(0);
        node.clear_tenant(&name("a")).await.expect("emptied");
        assert_eq!(read(&node, "a").await, None);
        fs.set_free_bytes(0);
        let error = write(&node, "blank", b"1").await.expect_err("no space for its files");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert_eq!(read(&node, "blank").await, None);
    });
    let (sim, fs) = world(&fs.crash_keeping(Keep::Random, &mut sim.rng()));
    fs.set_free_bytes(0);
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        assert_eq!((read(&node, "a").await, read(&node, "b").await), (None, Some(b"b".to_vec())));
        node.drop_tenant(&name("b")).await.expect("dropped");
        // It gives its space back, and life goes on.
        sleep_until(&sim.clock(), sim.now() + 2 * SEC).await;
        assert!(fs.free_bytes() > 0);
        assert_eq!(read(&node, "c").await.as_deref(), Some(&b"c"[..]));
        fs.set_free_bytes(8 << 20);
        sleep_until(&sim.clock(), sim.now() + 2 * SEC).await;
        assert!(node.reserve_bytes() > 0, "it is set aside again");
        for tenant in ["a", "c", "blank"] {
            write(&node, tenant, b"3").await.expect("there is space");
        }
    });
}

#[test]
fn an_edit_that_is_longer_than_what_is_set_aside_leaves_that_alone() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        settle_down(&node, &["a", "b"]).await;
        let set_aside = node.reserve_bytes();
        assert!(set_aside > 0);
        fs.set_free_bytes(0);
        for _ in 0..3 {
            let user = |number: u32| StoredUser {
                name: format!("user{number:03}").into_bytes().into(),
                rules: Box::default(),
                secret: Some(StoredSecret::new(vec![7_u8; 1_000])),
            };
            let users: Arc<[StoredUser]> = (0..250).map(user).collect();
            let change = move |settings: &mut TenantSettings| {
                settings.users = users;
                Ok::<(), Error>(())
            };
            let error = node.alter_tenant(&name("a"), change).await.expect_err("250 KB are not there");
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            // Others take what becomes free.
            fs.set_free_bytes(0);
            assert_eq!(node.reserve_bytes(), set_aside);
        }
        node.drop_tenant(&name("b")).await.expect("dropped");
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"a"[..]));
    });
}

#[test]
fn what_could_be_written_nowhere_is_not_put_to_sleep() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::None).await;
        settle_down(&node, &["a"]).await;
        // Opened, and without a segment: it gets one when something is written.
        let slot = slot(&node, "a");
        slot.partition().await.expect("it wakes");
        fs.set_free_bytes(0);
        write(&node, "a", b"in memory").await.expect("in mode `none` memory is enough");
        slot.sleep().await;
        assert_eq!(slot.state(), SlotState::Awake);
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"in memory"[..]));
        fs.set_free_bytes(8 << 20);
        sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
        write(&node, "a", b"later").await.expect("there is space");
        slot.sleep().await;
        assert_eq!(slot.state(), SlotState::Asleep);
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"later"[..]));
    });
}

/// A swap that has failed waits until no crash can find it. Meanwhile others need the catalogue, for instance to open a
/// partition that is asleep.
#[test]
fn a_swap_that_waits_for_the_catalogue_holds_up_nobody_else() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = Arc::new(open(&sim, &fs, SyncMode::None).await);
        settle_down(&node, &["a", "b"]).await;
        let broken = [OpKind::Write, OpKind::Create];
        fs.set_faults(broken.into_iter().fold(FaultPlan::none(), |plan, kind| plan.chance(kind, Fault::Error, 1.0)));
        let swapped = Arc::new(Mutex::new(None));
        let (swapping, outcome) = (Arc::clone(&node), Arc::clone(&swapped));
        sim.spawn(async move {
            let tenant = swapping.tenant(&name("a")).expect("it is there");
            *outcome.lock() = Some(swapping.swap_databases(&tenant, (0, 1), ()).await.is_ok());
        });
        sleep_until(&sim.clock(), sim.now() + SEC).await;
        assert_eq!(*swapped.lock(), None, "it waits");
        let timeout = sleep_until(&sim.clock(), sim.now() + SEC);
        match select(pin!(read(&node, "b")), pin!(timeout)).await {
            Either::Left((found, _)) => assert_eq!(found.as_deref(), Some(&b"b"[..])),
            Either::Right(_) => panic!("b cannot be read"),
        }
        fs.set_faults(FaultPlan::none());
        sleep_until(&sim.clock(), sim.now() + SEC).await;
        assert_eq!(*swapped.lock(), Some(false));
    });
}

/// The control loop comes by while a partition is on its way to sleep, and the partition has to stay awake: its log is
/// synced as before.
#[test]
fn a_partition_that_comes_back_is_synced_again() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await;
        settle_down(&node, &["a"]).await;
        let slot = slot(&node, "a");
        write(&node, "a", b"before").await.expect("no faults");
        // Nothing can be made durable, and to find that out takes longer than the interval between syncs.
        let broken = FaultPlan::none().hang(sim.now(), sim.now() + SEC);
        let kinds = [OpKind::Sync, OpKind::Create].into_iter();
        fs.set_faults(kinds.fold(broken, |plan, kind| plan.chance(kind, Fault::Error, 1.0)));
        slot.sleep().await;
        assert_eq!(slot.state(), SlotState::Awake);
        fs.set_faults(FaultPlan::none());
        sleep_until(&sim.clock(), sim.now() + 20 * SEC).await;
        write(&node, "a", b"after").await.expect("the log was replaced");
        sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
    });
    let image = fs.crash_keeping(Keep::None, &mut sim.rng());
    let (sim, fs) = world(&image);
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await;
        assert_eq!(read(&node, "a").await.as_deref(), Some(&b"after"[..]));
    });
}

/// Coming back is enough for the repair to begin. The control loop would begin it as well, but comes by only hours
/// later here.
#[test]
fn the_log_of_a_partition_that_comes_back_is_replaced_at_once() {
    for log in [LogKind::Own, LogKind::Shared] {
        let config = NodeConfig { sync_interval: 3_600 * SEC, ..config(SyncMode::Interval) };
        let (sim, fs) = world(&DiskImage::new());
        sim.block_on(async {
            let node = open_with(&sim, &fs, &config).await;
            node.create_tenant(TenantSpec { log, ..TenantSpec::new(name("a")) }).await.expect("created");
            write(&node, "a", b"before").await.expect("no faults");
            // Neither a table nor the log can be written.
            let kinds = [OpKind::Sync, OpKind::Create].into_iter();
            fs.set_faults(kinds.fold(FaultPlan::none(), |plan, kind| plan.chance(kind, Fault::Error, 1.0)));
            let slot = slot(&node, "a");
            slot.sleep().await;
            assert_eq!(slot.state(), SlotState::Awake, "{log}");
            fs.set_faults(FaultPlan::none());
            sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
            write(&node, "a", b"after").await.unwrap_or_else(|error| panic!("{log}: {error}"));
            assert_eq!(slot.metrics().log_replacements, 1, "{log}");
        });
        // What was written before is in tables.
        let (sim, fs) = world(&fs.crash_keeping(Keep::None, &mut sim.rng()));
        sim.block_on(async {
            let node = open_with(&sim, &fs, &config).await;
            assert_eq!(read(&node, "a").await.as_deref(), Some(&b"before"[..]), "{log}");
        });
    }
}

#[test]
fn flushes_that_fail_do_not_count_as_short_ones() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let flush_slots = Some(FlushShares { slots: 1, mode: ShareMode::Fair });
        // All fits into the first segment of the log, which is a 64th as large: each write takes a page.
        let config = NodeConfig { flush_slots, segment_bytes: 16 << 20, ..config(SyncMode::Always) };
        let node = open_with(&sim, &fs, &config).await;
        node.create_tenant(TenantSpec::new(name("a"))).await.expect("created");
        let tree = slot(&node, "a").partition().await.expect("it wakes");
        write(&node, "a", b"first").await.expect("written");
        fs.set_faults(FaultPlan::none().chance(OpKind::Create, Fault::NoSpace, 1.0));
        for _ in 0..24 {
            write(&node, "a", &[7; 1000]).await.expect("one memtable is full, and there are others");
        }
        sleep_until(&sim.clock(), sim.now() + SEC).await;
        assert!(tree.metrics().job_errors > 1, "the flush was tried again");
        let time = || node.flush_waits().expect("their number is bounded").time;
        assert_eq!(time(), None);
        fs.set_faults(FaultPlan::none());
        sleep_until(&sim.clock(), sim.now() + SEC).await;
        assert!(time().is_some(), "now it has succeeded");
    });
}

/// Of two trees that share one slot, the first finds no space for its merge. It gives the slot to the second one, and
/// after a pause it queues again beside it.
#[test]
fn a_tree_whose_compaction_failed_gives_its_slot_away_and_queues_again() {
    let sim = Sim::new(1);
    let device = DeviceSpec { latency: 2 * MS, ..DeviceSpec::instant() };
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let config = NodeConfig { compaction_slots: 1, ..config(SyncMode::None) };
        let node = open_with(&sim, &fs, &config).await;
        let mut trees = Vec::new();
        for tenant in ["a", "b"] {
            node.create_tenant(TenantSpec::new(name(tenant))).await.expect("created");
            let tree = slot(&node, tenant).partition().await.expect("it wakes");
            runs::gather(&sim, &tree).await;
            trees.push(tree);
        }
        fs.fail_next(Some(OpKind::Create), Fault::NoSpace);
        trees.iter().for_each(runs::merge);
        assert_eq!(node.compactions(), (1, 1), "the second waits for the first");
        runs::failure(&sim, &trees[0]).await;
        assert_eq!(node.compactions(), (1, 0), "the second has the slot, and the first pauses");
        fs.set_faults(FaultPlan::none().hang(sim.now(), sim.now() + SEC));
        sleep_until(&sim.clock(), sim.now() + SEC / 2).await;
        assert_eq!(node.compactions(), (1, 1), "the first waits for the second");
        sleep_until(&sim.clock(), sim.now() + 5 * SEC).await;
        assert!(trees.iter().all(|tree| runs::count(tree) == 0) && node.compactions() == (0, 0));
        assert_eq!(trees.iter().map(|tree| tree.metrics().job_errors).sum::<u64>(), 1);
    });
}

/// The merge can make no file, and not for want of space: as with damage, only somebody's repair would help.
#[test]
fn a_compaction_that_fails_again_and_again_pauses_longer_each_time() {
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::None).await;
        node.create_tenant(TenantSpec::new(name("a"))).await.expect("created");
        let tree = slot(&node, "a").partition().await.expect("it wakes");
        runs::gather(&sim, &tree).await;
        fs.set_faults(FaultPlan::none().chance(OpKind::Create, Fault::Error, 1.0));
        runs::merge(&tree);
        sleep_until(&sim.clock(), sim.now() + 600 * SEC).await;
        // Ten within the first minute, and then one a minute.
        let errors = tree.metrics().job_errors;
        assert!((15..25).contains(&errors), "{errors} attempts in ten minutes");
        fs.set_faults(FaultPlan::none());
        sleep_until(&sim.clock(), sim.now() + 65 * SEC).await;
        assert_eq!((runs::count(&tree), tree.metrics().job_errors), (0, errors), "it has succeeded");
    });
}

/// Counts what is warned of by the repair of logs.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().ends_with("log_repair")
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_log_that_cannot_be_replaced_for_long_is_warned_of_once() {
    let warnings = Arc::<AtomicUsize>::default();
    // Where there is only one dispatcher, the first thread to reach a warning decides for all whether anybody wants it,
    // and that may be the thread of another test. With a second one, all dispatchers are asked.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let _guard = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
    let (sim, fs) = world(&DiskImage::new());
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Interval).await;
        node.create_tenant(TenantSpec::new(name("a"))).await.expect("created");
        write(&node, "a", b"before").await.expect("no faults");
        fs.on_cut_point(|disk, point| {
            let is_segment = point.kind == OpKind::Create && point.path.ends_with("preparing.tmp");
            if is_segment && point.phase == Phase::Before {
                disk.fail_next(Some(OpKind::Create), Fault::NoSpace);
            }
        });
        fs.fail_next(Some(OpKind::Write), Fault::NoSpace);
        write(&node, "a", b"lost").await.expect_err("the log has failed");
        sleep_until(&sim.clock(), sim.now() + 30 * SEC).await;
        assert_eq!(warnings.load(Ordering::Relaxed), 2, "that it failed, and why it cannot be replaced");
        fs.clear_hook();
        sleep_until(&sim.clock(), sim.now() + SEC).await;
        write(&node, "a", b"after").await.expect("the log was replaced");
        assert_eq!(warnings.load(Ordering::Relaxed), 2);
    });
}
