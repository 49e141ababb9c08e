//! Tenants created, dropped, emptied, put to sleep and written to at random, under power cuts: what was acknowledged holds, and nothing of
//! what was dropped comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{ErrorKind, Fs, Result, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Home, Machine, Node, NodeConfig, TenantName, TenantSpec};

/// What a tenant's key holds; `None` = there is no such tenant.
type Present = Option<Option<u64>>;

#[derive(Clone, Default)]
struct Expected {
    /// Acknowledged.
    settled: BTreeMap<TenantName, Present>,
    /// Asked for, and not answered yet.
    pending: Option<(TenantName, Present)>,
}

fn config() -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 4 << 10,
        level1_bytes: 16 << 10,
        table_bytes: 8 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    let sync = SyncMode::Always;
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

async fn open(sim: &Sim, fs: &Arc<SimFs>) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config(), machine).await.expect("the node opens")
}

/// As a store does it: a partition that is just going to sleep is asked again.
async fn write(home: &Arc<Home>, value: u64) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(b"key", &value.to_le_bytes());
    batch.put(format!("padding{}", value % 7).as_bytes(), &[7; 500]);
    loop {
        let partition = home.partition().await?;
        match partition.write(&batch).await {
            Err(error) if error.kind() == ErrorKind::Closed && !home.has(&partition) => {}
            commit => return commit?.await,
        }
    }
}

async fn read(node: &Node, name: &TenantName) -> Present {
    let tenant = node.tenant(name)?;
    let partition = tenant.partitions()[0].partition().await.expect("it wakes");
    let record = partition.get(b"key").await.expect("a read");
    Some(record.map(|record| u64::from_le_bytes(record.value[..].try_into().expect("eight bytes"))))
}

async fn live(sim: &Sim, node: &Node, steps: u64, expected: &Mutex<Expected>) {
    let mut rng = sim.rng();
    for step in 1..=steps {
        let name = TenantName::new(["a", "b", "c"][rng.below(3) as usize]).expect("a name");
        let before = expected.lock().settled.get(&name).copied().flatten();
        let after = match (before, rng.below(12)) {
            (None, _) => Some(None),
            (Some(_), 0) => None,
            (Some(_), 1) => Some(None),
            (Some(_), _) => Some(Some(step)),
        };
        expected.lock().pending = Some((name.clone(), after));
        match (before, after) {
            (None, _) => drop(node.create_tenant(TenantSpec::new(name.clone())).await.expect("created")),
            (_, None) => node.drop_tenant(&name).await.expect("dropped"),
            (_, Some(None)) => node.clear_tenant(&name).await.expect("emptied"),
            (_, Some(Some(value))) => {
                let home = Arc::clone(&node.tenant(&name).expect("it is there").partitions()[0]);
                if rng.chance(0.3) {
                    // At some moment of the write, or before or after it.
                    let (home, clock, wait) = (Arc::clone(&home), sim.clock(), rng.below(400_000));
                    sim.spawn(async move {
                        sleep_until(&clock, clock.now() + wait).await;
                        home.sleep().await;
                    });
                }
                write(&home, value).await.expect("written");
            }
        }
        {
            let mut expected = expected.lock();
            expected.settled.insert(name.clone(), after);
            expected.pending = None;
        }
        if rng.chance(0.5) {
            assert_eq!(read(node, &name).await, after, "step {step}, tenant {name}");
        }
    }
}

/// Every tenant is as it was promised, and nothing else is there.
async fn check(sim: &Sim, fs: &Arc<SimFs>, expected: &Expected) {
    let node = open(sim, fs).await;
    let mut tenants = 1;
    for name in ["a", "b", "c"].map(|name| TenantName::new(name).expect("a name")) {
        let found = read(&node, &name).await;
        let settled = expected.settled.get(&name).copied().flatten();
        let pending = expected.pending.as_ref().filter(|(pending, _)| *pending == name).map(|(_, after)| *after);
        assert!(found == settled || Some(found) == pending, "{name}: {found:?}, not {settled:?} or {pending:?}");
        tenants += usize::from(found.is_some());
    }
    assert_eq!(node.tenants().len(), tenants);
    let clock = sim.clock();
    sleep_until(&clock, clock.now() + 1_000_000_000).await;
    let tag = weir_io::Tag::new(weir_io::Owner::default(), weir_io::Class::Maintenance);
    let there = fs.list("/weir/partitions".as_ref(), tag).await.map_or(0, |names| names.len());
    assert!(there <= tenants, "{there} partitions of {tenants} tenants");
}

#[test]
fn what_was_acknowledged_holds_after_any_cut_and_nothing_dropped_comes_back() {
    let mut cuts = 0;
    for seed in 0..4 {
        let (sim, fs) = world(seed, &DiskImage::new());
        let expected: Arc<Mutex<Expected>> = Arc::default();
        let images: Arc<Mutex<Vec<(DiskImage, Expected)>>> = Arc::default();
        let node = sim.block_on(open(&sim, &fs));
        {
            let (images, expected, mut rng) = (Arc::clone(&images), Arc::clone(&expected), sim.rng());
            fs.on_cut_point(move |fs, _| {
                let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
                if rng.chance(0.25) {
                    images.lock().push((fs.crash_keeping(keep, &mut rng), expected.lock().clone()));
                }
            });
        }
        sim.block_on(live(&sim, &node, 150, &expected));
        fs.clear_hook();
        drop(node);
        let images = std::mem::take(&mut *images.lock());
        cuts += images.len();
        for (number, (image, expected)) in (0..).zip(images) {
            let (sim, fs) = world(number, &image);
            sim.block_on(check(&sim, &fs, &expected));
        }
    }
    assert!(cuts > 500, "only {cuts} cuts");
}

#[test]
fn writes_and_reads_race_with_sleep() {
    for seed in 0..60 {
        let (sim, fs) = world(seed, &DiskImage::new());
        let expected = Mutex::default();
        let node = sim.block_on(open(&sim, &fs));
        sim.block_on(live(&sim, &node, 120, &expected));
    }
}

#[test]
fn a_wake_that_nobody_waits_for_any_more_ends_all_the_same() {
    let (sim, fs) = world(1, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs));
    let name = TenantName::built_in();
    let home = Arc::clone(&node.tenant(&name).expect("built in").partitions()[0]);
    let clock = sim.clock();
    for wait in (0..3_000_000).step_by(100_000) {
        sim.block_on(async {
            let gone =
                futures_util::future::select(Box::pin(home.partition()), sleep_until(&clock, clock.now() + wait)).await;
            drop(gone);
            home.partition().await.expect("it wakes");
            home.sleep().await;
        });
    }
}

#[test]
fn who_is_asked_nothing_sleeps_without_a_log_and_wakes_with_everything() {
    let (sim, fs) = world(5, &DiskImage::new());
    let node = sim.block_on(open(&sim, &fs));
    let home = Arc::clone(&node.tenant(&TenantName::built_in()).expect("built in").partitions()[0]);
    let clock = sim.clock();
    sim.block_on(async {
        write(&home, 7).await.expect("written");
        let before = node.metrics();
        sleep_until(&clock, clock.now() + 2 * config().hibernate_after + 1_000_000_000).await;
        let after = node.metrics();
        assert!(
            before.writes > 0 && before.jobs <= after.jobs && before.writes == after.writes,
            "counters never go down"
        );
        assert_eq!(home.state(), weir_node::HomeState::Asleep);
        let tag = weir_io::Tag::new(weir_io::Owner::default(), weir_io::Class::Maintenance);
        assert_eq!(fs.list("/weir/partitions/000001/log".as_ref(), tag).await.expect("a list"), []);
        assert_eq!(read(&node, &TenantName::built_in()).await, Some(Some(7)));
        assert_eq!(home.state(), weir_node::HomeState::Awake);
    });
}

#[test]
fn a_node_that_is_closed_while_a_partition_wakes_or_falls_asleep_lets_nobody_in_again() {
    for wait in (0..3_000_000).step_by(100_000) {
        for sleeps in [false, true] {
            let (sim, fs) = world(1, &DiskImage::new());
            let node = sim.block_on(open(&sim, &fs));
            let home = Arc::clone(&node.tenant(&TenantName::built_in()).expect("built in").partitions()[0]);
            let clock = sim.clock();
            sim.block_on(async {
                if sleeps {
                    home.partition().await.expect("it wakes");
                }
                let turning = Arc::clone(&home);
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
                assert_eq!(home.state(), weir_node::HomeState::Gone, "closed after {wait} ns, asleep: {sleeps}");
            });
            drop((node, home));
            drop(sim.block_on(open(&sim, &fs)));
        }
    }
}
