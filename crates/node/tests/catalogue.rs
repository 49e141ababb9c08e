//! The catalogue on a disk that fails: each order happens as a whole or not at all, its error says so, and nothing is
//! lost either way. And lost partitions are told apart from partitions that were never used.

use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{ErrorKind, Fs, Result, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::{Batch, Databases};
use weir_node::{LogKind, Machine, Node, NodeCheck, NodeConfig, TenantName, TenantSettings, TenantSpec};

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::Interval, SyncMode::None];

const FAULTS: [(OpKind, Fault); 13] = [
    (OpKind::Write, Fault::Error),
    (OpKind::Write, Fault::NoSpace),
    (OpKind::Write, Fault::ShortWrite),
    (OpKind::Create, Fault::NoSpace),
    (OpKind::Sync, Fault::Error),
    (OpKind::SyncDir, Fault::Error),
    (OpKind::Open, Fault::Error),
    (OpKind::Read, Fault::Error),
    (OpKind::List, Fault::Error),
    (OpKind::Rename, Fault::Error),
    (OpKind::Remove, Fault::Error),
    (OpKind::RemoveDir, Fault::Error),
    (OpKind::Allocate, Fault::NoSpace),
];

/// An order to the node that changes the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Create,
    Alter,
    Drop,
    Clear,
    Swap,
}

/// What a client sees of a tenant: its limit, plus [`SWAPPED`] if its databases were swapped, and its key. `None` =
/// there is no such tenant.
type Seen = Option<(u64, Option<Vec<u8>>)>;

const OLD: u64 = 111;
const NEW: u64 = 222;
const SWAPPED: u64 = 1000;

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

fn settings(disk_bytes_max: u64) -> TenantSettings {
    TenantSettings { disk_bytes_max: disk_bytes_max << 30, ..TenantSettings::default() }
}

fn world(seed: u64, image: &DiskImage) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let device = DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(50 << 20) };
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    (sim, fs)
}

fn config(sync: SyncMode) -> NodeConfig {
    let tree =
        TreeOptions { write_buffer_bytes: 16 << 10, table_bytes: 8 << 10, io_bytes: 8 << 10, ..TreeOptions::default() };
    NodeConfig { tree, cache_bytes: 32 << 10, sync, segment_bytes: 16 << 10, ..NodeConfig::new("/weir") }
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> Node {
    open_as(sim, fs, config(sync)).await
}

async fn open_as(sim: &Sim, fs: &Arc<SimFs>, config: NodeConfig) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config, machine).await.expect("the node opens")
}

async fn write(node: &Node, tenant: &str, value: &[u8]) -> Result<()> {
    let partition = node.tenant(&name(tenant)).expect("it is there").partitions()[0].partition().await?;
    let mut batch = Batch::new();
    batch.put(b"key", value);
    partition.write(&batch).await?.await
}

async fn see(node: &Node, tenant: &str) -> Seen {
    let tenant = node.tenant(&name(tenant))?;
    let partition = tenant.partitions()[0].partition().await.expect("it wakes");
    let record = partition.get(b"key").await.expect("a read");
    let swapped = u64::from(tenant.databases() == Databases::AS_NAMED.swapped(0, 1)) * SWAPPED;
    Some((
        (tenant.settings().disk_bytes_max >> 30) + swapped,
        record.map(|record| record.value().expect("a string").to_vec()),
    ))
}

impl Order {
    const ALL: [Order; 5] = [Order::Create, Order::Alter, Order::Drop, Order::Clear, Order::Swap];

    async fn give(self, node: &Node) -> Result<()> {
        let shop = name("shop");
        match self {
            Order::Create => {
                let spec = TenantSpec { settings: settings(OLD), ..TenantSpec::new(shop) };
                node.create_tenant(spec).await.map(drop)
            }
            Order::Alter => {
                let change = |present: &mut TenantSettings| {
                    *present = settings(NEW);
                    Ok(())
                };
                node.alter_tenant(&shop, change).await
            }
            Order::Drop => node.drop_tenant(&shop).await,
            Order::Clear => node.clear_tenant(&shop).await,
            Order::Swap => node.swap_databases(&node.tenant(&shop).expect("it is there"), (0, 1), ()).await,
        }
    }

    /// What is seen of the tenant before and after.
    fn seen(self) -> (Seen, Seen) {
        let with = |limit, value: Option<&str>| Some((limit, value.map(|value| value.as_bytes().to_vec())));
        let before = with(OLD, Some("shop"));
        match self {
            Order::Create => (None, with(OLD, None)),
            Order::Alter => (before, with(NEW, Some("shop"))),
            Order::Drop => (before, None),
            Order::Clear => (before, with(OLD, None)),
            Order::Swap => (before, with(OLD + SWAPPED, Some("shop"))),
        }
    }
}

/// Carries out `order` with its `nth` operation of a kind failing. Whether it was refused; `None` = nothing was left to
/// fail.
fn fail(order: Order, sync: SyncMode, nth: u64, kind: OpKind, fault: Fault) -> Option<bool> {
    let (sim, fs) = world(nth, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, sync));
    let (before, after) = order.seen();
    sim.block_on(async {
        write(&node, "default", b"other").await.expect("written");
        if before.is_some() {
            Order::Create.give(&node).await.expect("created");
            write(&node, "shop", b"shop").await.expect("written");
        }
        let first = fs.counters().total(kind).ops;
        fs.set_faults(FaultPlan::none().fail_nth(Some(kind), first + nth, fault));
        let outcome = order.give(&node).await;
        let was_hit = fs.counters().total(kind).ops > first + nth;
        fs.set_faults(FaultPlan::none());
        // After a cut right now it is found done or not done, and nothing in between.
        let cut = fs.crash_keeping(Keep::Random, &mut sim.rng());
        let what = format!("{order:?} with {sync:?}, operation {nth} of kind {kind:?} with {fault:?}: {outcome:?}");
        if sync == SyncMode::Always {
            let (sim, fs) = world(nth, &cut);
            sim.block_on(async {
                let node = open(&sim, &fs, sync).await;
                let found = see(&node, "shop").await;
                let either = outcome.is_err() && found == before;
                // A write under the old numbers must not become another database's.
                let is_done = order != Order::Swap || outcome.is_ok();
                assert!(found == after && is_done || either, "after a cut {found:?}; {what}");
                assert_eq!(see(&node, "default").await.expect("there").1.as_deref(), Some(&b"other"[..]), "{what}");
            });
        }
        if sync == SyncMode::Interval && order == Order::Swap && outcome.is_ok() {
            let (sim, fs) = world(nth, &cut);
            let found = sim.block_on(async { see(&open(&sim, &fs, sync).await, "shop").await });
            assert_eq!(found, after, "what was written before is there, too; {what}");
        }
        // The process itself knows exactly, and its error names the file.
        if let Err(error) = &outcome {
            assert!(!error.path().as_os_str().is_empty() && error.kind() != ErrorKind::Closed, "{what}");
        }
        let expected = if outcome.is_ok() { &after } else { &before };
        assert_eq!(&see(&node, "shop").await, expected, "{what}");
        if outcome.is_err() {
            let mut again = order.give(&node).await;
            // A log that has failed is replaced in the background.
            for _ in 0..10 {
                if order == Order::Swap && again.is_err() {
                    sleep_until(&sim.clock(), sim.now() + 100_000_000).await;
                    again = order.give(&node).await;
                }
            }
            again.unwrap_or_else(|error| panic!("again: {error}; {what}"));
        }
        assert_eq!(see(&node, "shop").await, after, "once more: {what}");
        assert_eq!(see(&node, "default").await.expect("there").1.as_deref(), Some(&b"other"[..]), "{what}");
        node.close().await.expect("closed");
        was_hit.then_some(outcome.is_err())
    })
    .inspect(|_| {
        drop(node);
        let image = fs.crash_keeping(Keep::All, &mut sim.rng());
        let (sim, fs) = world(nth, &image);
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await;
            assert_eq!(see(&node, "shop").await, after, "after a restart: {order:?} {nth}");
        });
    })
}

#[test]
fn an_order_that_meets_a_failing_disk_happens_or_not_and_nothing_in_between() {
    let (mut runs, mut refused) = (0, 0);
    for order in Order::ALL {
        for (kind, fault) in FAULTS {
            for sync in MODES {
                let mut nth = 0;
                while let Some(was_refused) = fail(order, sync, nth, kind, fault) {
                    (runs, refused, nth) = (runs + 1, refused + u32::from(was_refused), nth + 1);
                }
            }
        }
    }
    eprintln!("{runs} orders met a failing operation, {refused} were refused");
    assert!(refused > 20 && refused < runs, "{refused} of {runs}");
}

#[test]
fn a_swap_makes_durable_what_a_killed_process_left_in_the_page_cache() {
    for log in LogKind::ALL {
        let (sim, fs) = world(1, &DiskImage::new());
        // Nothing is synced unless somebody asks for it.
        let config = || NodeConfig { sync_interval: 3_600_000_000_000, ..config(SyncMode::Interval) };
        let node = sim.block_on(open_as(&sim, &fs, config()));
        sim.block_on(async {
            let spec = TenantSpec { settings: settings(OLD), log, ..TenantSpec::new(name("shop")) };
            node.create_tenant(spec).await.expect("created");
            write(&node, "shop", b"shop").await.expect("written");
        });
        // Nothing is closed.
        drop(node);
        let after_a_power_cut = |seed| {
            let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut sim.rng()));
            sim.block_on(async { see(&open(&sim, &fs, SyncMode::Interval).await, "shop").await })
        };
        let node = sim.block_on(open_as(&sim, &fs, config()));
        assert_eq!(after_a_power_cut(2), Some((OLD, None)), "{log:?}: the write is in the page cache alone");
        sim.block_on(Order::Swap.give(&node)).expect("swapped");
        assert_eq!(after_a_power_cut(3), Some((OLD + SWAPPED, Some(b"shop".to_vec()))), "{log:?}");
    }
}

#[test]
fn a_first_use_that_meets_a_failing_disk_is_tried_again() {
    for nth in 0..60 {
        let (sim, fs) = world(nth, &DiskImage::new());
        let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
        sim.block_on(async {
            fs.set_faults(FaultPlan::none().fail_nth(None, nth, Fault::Error));
            let first = write(&node, "default", b"1").await;
            fs.set_faults(FaultPlan::none());
            let mut refused = first.is_err();
            for _ in 0..10 {
                if refused {
                    refused = write(&node, "default", b"1").await.is_err();
                    // A log that has failed is replaced in the background.
                    sleep_until(&sim.clock(), sim.now() + 100_000_000).await;
                }
            }
            assert!(!refused, "operation {nth}");
        });
        let cut = fs.crash_keeping(Keep::Random, &mut sim.rng());
        let (sim, fs) = world(nth, &cut);
        sim.block_on(async {
            let node = open(&sim, &fs, SyncMode::Always).await;
            assert_eq!(see(&node, "default").await.expect("there").1.as_deref(), Some(&b"1"[..]), "operation {nth}");
        });
    }
}

/// There is no number behind the largest one, and the catalogue gives out numbers behind those of all its journals.
#[test]
fn a_file_with_a_number_that_no_journal_gets_is_no_journal_of_the_catalogue() {
    let (sim, fs) = world(1, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
    sim.block_on(node.close()).expect("closed");
    drop(node);
    let mut image = fs.crash_keeping(Keep::All, &mut sim.rng());
    for (copy, number) in [("catalogue", u64::MAX), ("catalogue.mirror", u64::MAX - 1)] {
        image.insert(format!("weir/{copy}/CATALOGUE-{number}"), b"not a journal").expect("inserted");
    }
    let (sim, fs) = world(1, &image);
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        Order::Create.give(&node).await.expect("created");
        node.close().await.expect("closed");
        drop(node);
        let node = open(&sim, &fs, SyncMode::Always).await;
        assert!(see(&node, "shop").await.is_some());
    });
}

#[test]
fn a_partition_that_is_gone_is_lost_and_one_that_was_never_used_is_not() {
    let (sim, fs) = world(1, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs, SyncMode::Always));
    sim.block_on(async {
        Order::Create.give(&node).await.expect("created");
        write(&node, "default", b"1").await.expect("written");
        node.close().await.expect("closed");
    });
    drop(node);
    let image = fs.crash_keeping(Keep::All, &mut sim.rng());
    let check = |image: &DiskImage| -> NodeCheck {
        let (sim, fs) = world(1, image);
        sim.block_on(weir_node::check(&(fs as Arc<dyn Fs>), "/weir".as_ref(), |_, _| {})).expect("checked")
    };
    let found = check(&image);
    assert_eq!((found.partitions.len(), found.unused), (1, 1));
    assert!(found.partitions[0].problems.is_empty(), "{:?}", found.partitions[0].problems);

    let mut robbed = DiskImage::new();
    for (path, _) in image.files().into_iter().filter(|(path, _)| !path.starts_with("weir/partitions/000001")) {
        robbed.insert(&path, &image.read(&path).expect("a file")).expect("inserted");
    }
    let found = check(&robbed);
    assert_eq!((found.partitions.len(), found.unused), (1, 1));
    let problem = found.partitions[0].problems.first().expect("it is lost").to_string();
    assert!(problem.contains("partitions/000001/tree/CURRENT") && problem.contains("lost"), "{problem}");
    let (sim, fs) = world(1, &robbed);
    sim.block_on(async {
        let node = open(&sim, &fs, SyncMode::Always).await;
        let error = write(&node, "default", b"2").await.expect_err("an empty one in its place would hide the loss");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        write(&node, "shop", b"2").await.expect("the other one is fine");
        // An operator who can do without the lost data says so.
        node.clear_tenant(&name("default")).await.expect("emptied");
        write(&node, "default", b"2").await.expect("written");
    });
}
