//! Tenants whose rows are in memory: the same promises, a limit of memory, snapshots instead of tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{ErrorKind, Fs, Nanos, Rng, sleep_until};
use weir_log::SyncMode;
use weir_model::{Batch, Change, TenantName};
use weir_node::{
    EngineKind, FlushShares, Machine, Node, NodeConfig, ShareMode, StoreOptions, Tenant, TenantSettings, TenantSpec,
};

const SEC: Nanos = 1_000_000_000;

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

fn config(sync: SyncMode) -> NodeConfig {
    let store = StoreOptions { snapshot_log_bytes: 8 << 10, ..StoreOptions::default() };
    NodeConfig { store, sync, segment_bytes: 16 << 10, ..NodeConfig::new("/weir") }
}

fn disk(sim: &Sim, image: &DiskImage) -> Arc<SimFs> {
    let device = DeviceSpec { latency: 50_000, parallelism: 4, ..DeviceSpec::shared(100 << 20) };
    SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng())
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, config: &NodeConfig) -> Node {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(config, machine).await.expect("the node opens")
}

async fn create(node: &Node, partitions: u16, memory_bytes_max: u64) -> Arc<Tenant> {
    let settings = TenantSettings { memory_bytes_max, ..TenantSettings::default() };
    let spec = TenantSpec { partitions, engine: EngineKind::Memory, settings, ..TenantSpec::new(name("shop")) };
    node.create_tenant(spec).await.expect("created")
}

/// Closes the node and drops everything that holds its directory.
async fn end<const N: usize>(node: Node, tenants: [Arc<Tenant>; N]) {
    node.close().await.expect("closed");
    drop((node, tenants));
}

async fn limit(node: &Node, memory_bytes_max: u64) {
    let change = move |settings: &mut TenantSettings| -> weir_io::Result<()> {
        settings.memory_bytes_max = memory_bytes_max;
        Ok(())
    };
    node.alter_tenant(&name("shop"), change).await.expect("altered");
}

async fn write(tenant: &Tenant, key: &[u8], value: Option<&[u8]>) -> weir_io::Result<()> {
    let mut batch = Batch::new();
    match value {
        Some(value) => batch.put(key, value),
        None => batch.delete(key),
    }
    tenant.slot_of(key).partition().await?.write(&batch).await?.await
}

async fn read(tenant: &Tenant, key: &[u8]) -> Option<Vec<u8>> {
    let partition = tenant.slot_of(key).partition().await.expect("awake");
    partition.get(key).await.expect("get").map(|row| row.value().expect("a string").to_vec())
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

#[test]
fn rows_outlive_power_cuts_sleep_and_restarts_and_the_log_stays_short() {
    for seed in 0..12 {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        let (mut image, mut map) = (DiskImage::default(), BTreeMap::new());
        for life in 0..5 {
            let fs = disk(&sim, &image);
            sim.block_on(async {
                let node = open(&sim, &fs, &config(SyncMode::Always)).await;
                let tenant = match node.tenant(&name("shop")) {
                    Some(tenant) => tenant,
                    None => create(&node, 2, 0).await,
                };
                assert_eq!(tenant.engine(), EngineKind::Memory);
                for number in 0..200 {
                    assert_eq!(read(&tenant, &key(number)).await, map.get(&key(number)).cloned(), "{seed}/{life}");
                }
                for _ in 0..400 {
                    let key = key(rng.below(200));
                    let value = vec![rng.next_u64() as u8; rng.below(300) as usize];
                    let value = rng.chance(0.8).then_some(value);
                    write(&tenant, &key, value.as_deref()).await.expect("written");
                    match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                    if rng.chance(0.01) {
                        tenant.partitions()[rng.below(2) as usize].sleep().await;
                    }
                }
                for slot in tenant.partitions() {
                    let facts = slot.partition().await.expect("awake").metrics().engine;
                    assert!(facts.resident_bytes > 0 && facts.unflushed_bytes < 64 << 10, "{facts:?}");
                }
                if rng.chance(0.3) {
                    end(node, [tenant]).await;
                    let report =
                        weir_node::check(&(Arc::clone(&fs) as Arc<dyn Fs>), Path::new("/weir"), |_, _| ()).await;
                    let report = report.expect("a node's directory");
                    assert!(report.partitions.iter().all(|found| found.problems.is_empty()));
                    assert!(report.partitions.iter().any(|found| found.tree.entries > 0));
                }
            });
            image = fs.crash_keeping(Keep::Random, &mut rng);
        }
    }
}

#[test]
fn what_does_not_fit_into_memory_is_refused_and_what_frees_it_passes() {
    let sim = Sim::new(1);
    let fs = disk(&sim, &DiskImage::default());
    sim.block_on(async {
        let node = open(&sim, &fs, &config(SyncMode::None)).await;
        let tenant = create(&node, 2, 100_000).await;
        let mut stored = 0;
        let refused = loop {
            match write(&tenant, &key(stored), Some(&[7; 1000])).await {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
        let used = tenant.memory_use().expect("in memory");
        assert!((80..100).contains(&stored) && used <= 100_000 && used > 98_000, "{stored} rows, {used} bytes");
        assert_eq!(read(&tenant, &key(stored)).await, None);
        write(&tenant, &key(0), Some(&[8; 1000])).await.expect("it takes nothing more");
        assert_eq!(write(&tenant, &key(0), Some(&[8; 9000])).await.map_err(|e| e.kind()), Err(ErrorKind::OutOfMemory));
        write(&tenant, &key(1), None).await.expect("a deletion passes");
        write(&tenant, b"nothing", None).await.expect("a deletion of nothing passes");
        write(&tenant, &key(stored), Some(&[7; 800])).await.expect("there is room again");
        limit(&node, 200_000).await;
        write(&tenant, &key(0), Some(&[8; 9000])).await.expect("the limit was raised");
        // A lower limit takes nothing away, and the log is replayed however much memory that takes.
        limit(&node, 10_000).await;
        end(node, [tenant]).await;
        let node = open(&sim, &fs, &config(SyncMode::None)).await;
        let tenant = node.tenant(&name("shop")).expect("there");
        assert_eq!(read(&tenant, &key(2)).await, Some(vec![7; 1000]));
        assert_eq!(read(&tenant, &key(0)).await, Some(vec![8; 9000]));
        assert_eq!(write(&tenant, &key(1), Some(b"1")).await.map_err(|e| e.kind()), Err(ErrorKind::OutOfMemory));
    });
}

#[test]
fn what_has_expired_goes_by_a_record_and_stays_gone_whatever_the_clock_does() {
    let sim = Sim::new(2);
    sim.set_unix_ms(1_000_000);
    let fs = disk(&sim, &DiskImage::default());
    sim.block_on(async {
        let node = open(&sim, &fs, &config(SyncMode::None)).await;
        let tenant = create(&node, 1, 0).await;
        let partition = tenant.partitions()[0].partition().await.expect("awake");
        for number in 0..2_000 {
            let (key, mut batch) = (key(number), Batch::new());
            let expire_at_ms = (number % 10 != 0).then_some(1_030_000);
            batch.push(Change::Put { key: &key, value: &[7; 100], expire_at_ms });
            partition.write(&batch).await.expect("room").await.expect("written");
        }
        let before = tenant.memory_use().expect("in memory");
        sim.set_unix_ms(1_040_000);
        let clock = sim.clock();
        sleep_until(&clock, clock.now() + 10 * SEC).await;
        let after = tenant.memory_use().expect("in memory");
        assert!(after < before / 4, "{before} bytes, then {after}: nobody has asked for any of the keys");
        sim.set_unix_ms(1_000_000);
        assert_eq!(read(&tenant, &key(1)).await, None);
        assert!(read(&tenant, &key(10)).await.is_some());
        drop(partition);
        end(node, [tenant]).await;
        let node = open(&sim, &fs, &config(SyncMode::None)).await;
        let tenant = node.tenant(&name("shop")).expect("there");
        assert_eq!(read(&tenant, &key(1)).await, None, "also after a restart");
        assert!(read(&tenant, &key(10)).await.is_some());
    });
}

#[test]
fn a_sweep_is_no_flush() {
    let sim = Sim::new(4);
    sim.set_unix_ms(1_000_000);
    let fs = disk(&sim, &DiskImage::default());
    // There is no snapshot, whose file would be written by a flush.
    let flush_slots = Some(FlushShares { slots: 1, mode: ShareMode::Fair });
    let config = NodeConfig { store: StoreOptions::default(), flush_slots, ..config(SyncMode::None) };
    sim.block_on(async {
        let node = open(&sim, &fs, &config).await;
        let tenant = create(&node, 1, 0).await;
        let partition = tenant.partitions()[0].partition().await.expect("awake");
        for number in 0..2_000 {
            let (key, mut batch) = (key(number), Batch::new());
            batch.push(Change::Put { key: &key, value: &[7; 100], expire_at_ms: Some(1_030_000) });
            partition.write(&batch).await.expect("room").await.expect("written");
        }
        let before = tenant.memory_use().expect("in memory");
        sim.set_unix_ms(1_040_000);
        let clock = sim.clock();
        sleep_until(&clock, clock.now() + 10 * SEC).await;
        let after = tenant.memory_use().expect("in memory");
        assert!(after < before / 4, "{before} bytes, then {after}: it was swept");
        let waits = node.flush_waits().expect("their number is bounded");
        assert_eq!((waits.time, waits.longest.len()), (None, 0), "nobody has asked for a slot");
    });
}

#[test]
fn a_backup_is_restored_into_the_same_engine() {
    let sim = Sim::new(3);
    let fs = disk(&sim, &DiskImage::default());
    sim.block_on(async {
        let node = open(&sim, &fs, &config(SyncMode::Interval)).await;
        let tenant = create(&node, 3, 1 << 20).await;
        for number in 0..300 {
            write(&tenant, &key(number), Some(&[1; 200])).await.expect("written");
        }
        node.backup(&name("shop"), Path::new("/backup/shop")).await.expect("backed up");
        write(&tenant, &key(1), Some(b"later")).await.expect("written");
        let disk = Arc::clone(&fs) as Arc<dyn Fs>;
        weir_node::backup::verify(&disk, Path::new("/backup/shop")).await.expect("whole");
        let copy = node.restore(Path::new("/backup/shop"), name("copy"), None).await.expect("restored");
        assert_eq!((copy.engine(), copy.settings().memory_bytes_max), (EngineKind::Memory, 1 << 20));
        for number in 0..300 {
            assert_eq!(read(&copy, &key(number)).await, Some(vec![1; 200]));
        }
        write(&copy, &key(2), Some(b"its own")).await.expect("written");
        assert_eq!(read(&tenant, &key(2)).await, Some(vec![1; 200]));
        end(node, [tenant, copy]).await;
        let report = weir_node::check(&disk, Path::new("/weir"), |_, _| ()).await.expect("a node's directory");
        assert!(report.partitions.iter().all(|found| found.problems.is_empty()));
    });
}
