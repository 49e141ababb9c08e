//! Backups on a simulated machine: complete whatever goes on beside them, and restored as a whole or not at all.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, join, select};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Clock, ErrorKind, Fs, OpenOptions, Owner, Tag, sleep_until};
use weir_lsm::TreeOptions;
use weir_model::{Batch, TenantName};
use weir_node::{Machine, Node, NodeConfig, Tenant, TenantSpec};

const KEYS: u64 = 300;
const BACKUP: &str = "/backup/shop";

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

/// Slow enough that everything overlaps.
fn device() -> DeviceSpec {
    DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(50 << 20) }
}

fn world(seed: u64, image: Option<&DiskImage>) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let fs = match image {
        Some(image) => SimFs::from_image(image, sim.clock(), device(), FaultPlan::none(), sim.rng()),
        None => SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng()),
    };
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>) -> Node {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        table_bytes: 16 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    let config = NodeConfig { tree, cache_bytes: 32 << 10, segment_bytes: 64 << 10, ..NodeConfig::new("/weir") };
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config, machine).await.expect("the node opens")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

async fn put(tenant: &Tenant, number: u64, value: u64) {
    let key = key(number);
    let mut batch = Batch::new();
    batch.put(&key, &value.to_le_bytes().repeat(20));
    let partition = tenant.home_of(&key).partition().await.expect("awake");
    partition.write(&batch).await.expect("room").await.expect("written");
}

async fn value(tenant: &Tenant, number: u64) -> Option<u64> {
    let key = key(number);
    let partition = tenant.home_of(&key).partition().await.expect("awake");
    let record = partition.get(&key).await.expect("get")?;
    Some(u64::from_le_bytes(record.value[..8].try_into().expect("eight bytes")))
}

/// A node with a tenant `shop` of three partitions, every key at 1, and a backup that was made while every key went to 2.
async fn backed_up(sim: &Sim, fs: &Arc<SimFs>) -> Node {
    let node = open(sim, fs).await;
    let shop =
        node.create_tenant(TenantSpec { partitions: 3, ..TenantSpec::new(name("shop")) }).await.expect("created");
    for number in 0..KEYS {
        put(&shop, number, 1).await;
    }
    let (busy, shop_name) = (Arc::clone(&shop), name("shop"));
    let writes = async {
        for number in 0..KEYS {
            put(&busy, number, 2).await;
        }
    };
    let (backup, ()) = join(node.backup(&shop_name, Path::new(BACKUP)), writes).await;
    let report = backup.expect("backed up");
    assert!(report.partitions == 3 && report.files > 6 && report.bytes > 0, "{report:?}");
    node
}

async fn assert_complete(tenant: &Tenant) {
    for number in 0..KEYS {
        let found = value(tenant, number).await;
        assert!(matches!(found, Some(1 | 2)), "key {number}: {found:?}");
    }
}

#[test]
fn a_backup_made_beside_writers_is_whole_and_becomes_a_tenant() {
    for seed in 0..8 {
        let (sim, fs) = world(seed, None);
        sim.block_on(async {
            let node = backed_up(&sim, &fs).await;
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            weir_node::backup::verify(&disk, Path::new(BACKUP)).await.expect("whole");
            let copy = node.restore(Path::new(BACKUP), name("copy"), None).await.expect("restored");
            assert_eq!(copy.partitions().len(), 3);
            assert_complete(&copy).await;
            // Two tenants from now on.
            put(&copy, 7, 99).await;
            let shop = node.tenant(&name("shop")).expect("there");
            assert_eq!((value(&copy, 7).await, value(&shop, 7).await), (Some(99), Some(2)));
            let again = node.restore(Path::new(BACKUP), name("copy"), None).await;
            assert_eq!(again.err().expect("the name is taken").kind(), ErrorKind::AlreadyExists);
            node.close().await.expect("closed");
        });
    }
}

#[test]
fn a_crash_while_restoring_leaves_a_whole_tenant_or_none() {
    let mut seen = [0; 2];
    for seed in 0..40 {
        let (sim, fs) = world(seed, None);
        let clock: Arc<dyn Clock> = sim.clock();
        let image = sim.block_on(async {
            let node = backed_up(&sim, &fs).await;
            let begin = clock.now();
            node.restore(Path::new(BACKUP), name("first"), None).await.expect("restored");
            let cut = sleep_until(&clock, clock.now() + (clock.now() - begin) * (seed + 1) / 38);
            match select(pin!(node.restore(Path::new(BACKUP), name("copy"), None)), cut).await {
                Either::Left((done, _)) => assert!(done.is_ok()),
                Either::Right(_) => {}
            }
            fs.crash_keeping(Keep::Random, &mut sim.rng())
        });
        drop((sim, fs));
        let (sim, fs) = world(seed, Some(&image));
        sim.block_on(async {
            let node = open(&sim, &fs).await;
            seen[usize::from(node.tenant(&name("copy")).is_some())] += 1;
            let copy = match node.tenant(&name("copy")) {
                Some(copy) => copy,
                None => node.restore(Path::new(BACKUP), name("copy"), None).await.expect("restored at last"),
            };
            assert_complete(&copy).await;
            assert_complete(&node.tenant(&name("first")).expect("was answered")).await;
            node.close().await.expect("closed");
        });
    }
    assert!(seen[0] > 0 && seen[1] > 0, "both outcomes were seen: {seen:?}");
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_nothing_of_it_is_restored() {
    let (sim, fs) = world(1, None);
    sim.block_on(async {
        let node = backed_up(&sim, &fs).await;
        let disk = Arc::clone(&fs) as Arc<dyn Fs>;
        let tag = Tag::new(Owner::default(), Class::Maintenance);
        let mut paths = Vec::new();
        for part in ["partition-000", "partition-001", "partition-002", ""] {
            let dir = Path::new(BACKUP).join(part);
            let names = disk.list(&dir, tag).await.expect("listed");
            paths
                .extend(names.into_iter().filter(|entry| !entry.is_dir).map(|entry| (dir.join(entry.name), entry.len)));
        }
        assert!(paths.len() > 8);
        for (path, len) in paths {
            let options = OpenOptions { write: true, create_new: false, direct: false, dsync: false };
            let file = disk.open(&path, options, tag).await.expect("opened");
            let at = sim.rng().below(len);
            let old = file.read_at(at, AlignedBuf::with_len(1), tag).await.expect("read")[0];
            file.write_at(at, AlignedBuf::copy_of(&[old ^ 1 << sim.rng().below(8)]), tag).await.expect("written");
            let found = weir_node::backup::verify(&disk, Path::new(BACKUP)).await;
            assert!(found.is_err(), "byte {at} of {} was flipped unnoticed", path.display());
            let restored = node.restore(Path::new(BACKUP), name("copy"), None).await;
            assert!(restored.is_err() && node.tenant(&name("copy")).is_none());
            file.write_at(at, AlignedBuf::copy_of(&[old]), tag).await.expect("written");
        }
        node.restore(Path::new(BACKUP), name("copy"), None).await.expect("all is well again");
        node.close().await.expect("closed");
    });
}
