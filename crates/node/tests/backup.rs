//! Backups on a simulated machine: complete whatever goes on at the same time, and restored as a whole or not at all.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::runs;
use futures_util::future::{Either, join, join_all, select};
use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{
    AlignedBuf, Class, Clock, ErrorKind, File, Fs, Nanos, Op, OpenOptions, Owner, Tag, forward_fs, sleep_until,
};
use weir_lsm::TreeOptions;
use weir_model::{Batch, TenantName};
use weir_node::{Machine, Node, NodeConfig, Scope, SlotState, Tenant, TenantSpec, TreeKnobs};

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
    open_with(sim, fs, 0).await
}

/// Partitions fall asleep when nobody has asked them anything for `hibernate_after` nanoseconds; 0 = never.
async fn open_with(sim: &Sim, fs: &Arc<SimFs>, hibernate_after: Nanos) -> Node {
    open_on(sim, Arc::clone(fs) as Arc<dyn Fs>, hibernate_after).await
}

async fn open_on(sim: &Sim, fs: Arc<dyn Fs>, hibernate_after: Nanos) -> Node {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        table_bytes: 16 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    let config = NodeConfig {
        tree,
        cache_bytes: 32 << 10,
        segment_bytes: 64 << 10,
        hibernate_after,
        ..NodeConfig::new("/weir")
    };
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
    let partition = tenant.slot_of(&key).partition().await.expect("awake");
    partition.write(&batch).await.expect("room").await.expect("written");
}

async fn value(tenant: &Tenant, number: u64) -> Option<u64> {
    let key = key(number);
    let partition = tenant.slot_of(&key).partition().await.expect("awake");
    let record = partition.get(&key).await.expect("get")?;
    Some(u64::from_le_bytes(record.value().expect("a string")[..8].try_into().expect("eight bytes")))
}

/// A node with a tenant `shop` of three partitions, every key at 1, and a backup that was made while every key went to
/// 2.
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

/// Whether each of these backups, made at the same time, can be restored, or was refused with an error that says what
/// to do.
async fn made_beside(sim: &Sim, fs: &Arc<SimFs>, orders: &[(&str, &str)]) -> Vec<bool> {
    let node = open(sim, fs).await;
    for tenant in ["shop", "mail"] {
        let made = node.create_tenant(TenantSpec { partitions: 2, ..TenantSpec::new(name(tenant)) }).await;
        let made = made.expect("created");
        for number in 0..50 {
            put(&made, number, 1).await;
        }
    }
    let backups = orders.iter().map(|(tenant, to)| {
        let (node, sim, tenant) = (&node, sim, name(tenant));
        async move {
            // In some other order, and some later than others.
            let clock: Arc<dyn Clock> = sim.clock();
            sleep_until(&clock, clock.now() + sim.rng().below(4_000_000)).await;
            node.backup(&tenant, Path::new(to)).await
        }
    });
    let outcomes = join_all(backups).await;
    let disk = Arc::clone(fs) as Arc<dyn Fs>;
    for (outcome, (tenant, to)) in outcomes.iter().zip(orders) {
        match outcome {
            Ok(report) => {
                let found = weir_node::backup::verify(&disk, Path::new(to)).await.expect("was answered");
                assert_eq!((&found, found.tenant.as_str()), (report, *tenant));
            }
            Err(error) => {
                let refused = [ErrorKind::AlreadyExists, ErrorKind::Locked, ErrorKind::Invalid];
                assert!(refused.contains(&error.kind()) && error.to_string().contains("choose"), "{error}");
            }
        }
    }
    node.close().await.expect("closed");
    outcomes.iter().map(Result::is_ok).collect()
}

#[test]
fn of_backups_into_one_directory_exactly_one_is_made() {
    let mut winners = [0; 5];
    for seed in 0..40 {
        let (sim, fs) = world(seed, None);
        let orders = ["shop", "mail", "shop", "shop", "mail"].map(|tenant| (tenant, BACKUP));
        let made = sim.block_on(made_beside(&sim, &fs, &orders));
        assert_eq!(made.iter().filter(|&&made| made).count(), 1, "seed {seed}: {made:?}");
        winners[made.iter().position(|&made| made).expect("one")] += 1;
    }
    assert!(winners.iter().all(|&won| won > 0), "every one of them wins sometimes: {winners:?}");
}

#[test]
fn no_backup_is_made_inside_of_another_whichever_begins_first() {
    let places = ["/b", "/b/partition-000", "/b/partition-000/x", "/b/c", "/b/c/d", "/beside", "/weir/partitions/x"];
    let mut seen = [0; 7];
    for seed in 0..40 {
        let (sim, fs) = world(seed, None);
        let orders = places.map(|to| (if seed % 2 == 0 { "shop" } else { "mail" }, to));
        let made = sim.block_on(made_beside(&sim, &fs, &orders));
        for (count, &made) in seen.iter_mut().zip(&made) {
            *count += u32::from(made);
        }
        for (inner, outer) in [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (4, 3)] {
            assert!(!(made[inner] && made[outer]), "seed {seed}: {} and {}", places[inner], places[outer]);
        }
    }
    assert!(seen[..6].iter().all(|&made| made > 0), "every place is free sometimes: {seen:?}");
    assert_eq!((seen[5], seen[6]), (40, 0), "beside is always free, the data directory never");
}

#[test]
fn a_backup_that_fails_leaves_its_directory_free() {
    let mut failed = 0;
    for seed in 0..20 {
        let (sim, fs) = world(seed, None);
        let clock: Arc<dyn Clock> = sim.clock();
        sim.block_on(async {
            let node = backed_up(&sim, &fs).await;
            let (to, shop) = (Path::new("/backup/again"), name("shop"));
            let dropped = async {
                sleep_until(&clock, clock.now() + 1_000_000 * seed).await;
                node.drop_tenant(&shop).await.expect("dropped");
            };
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            match join(node.backup(&shop, to), dropped).await.0 {
                Ok(_) => drop(weir_node::backup::verify(&disk, to).await.expect("whole")),
                Err(error) => {
                    assert!([ErrorKind::Closed, ErrorKind::NotFound].contains(&error.kind()), "{error}");
                    failed += 1;
                    let none = weir_node::backup::verify(&disk, to).await.expect_err("it failed").to_string();
                    assert!(none.contains("no finished backup"), "{none}");
                    node.restore(Path::new(BACKUP), name("copy"), None).await.expect("restored");
                    node.backup(&name("copy"), to).await.expect("its place is free");
                    weir_node::backup::verify(&disk, to).await.expect("whole");
                }
            }
            node.close().await.expect("closed");
        });
    }
    assert!(failed > 3, "{failed} of 20 failed");
}

/// Only the first and the last partition hold something. The tenant is emptied when the backup opens one between them.
#[test]
fn a_tenant_that_is_emptied_meanwhile_is_backed_up_as_a_whole_or_not_at_all() {
    let mut failed = 0;
    for seed in 0..5 {
        let (sim, fs) = world(seed, None);
        let clock: Arc<dyn Clock> = sim.clock();
        sim.block_on(async {
            let (node, shop_name) = (open(&sim, &fs).await, name("shop"));
            let made = node.create_tenant(TenantSpec { partitions: 4, ..TenantSpec::new(name("shop")) }).await;
            let shop = made.expect("created");
            let held: Vec<u64> = (0..KEYS).filter(|&number| [0, 3].contains(&shop.index_of(&key(number)))).collect();
            for &number in &held {
                put(&shop, number, 1).await;
            }
            let emptied = async {
                while shop.partitions()[1].state() != SlotState::Waking {
                    sleep_until(&clock, clock.now() + 1_000).await;
                }
                node.clear_tenant(&shop_name).await.expect("emptied");
            };
            match join(node.backup(&shop_name, Path::new(BACKUP)), emptied).await.0 {
                Ok(_) => {
                    let copy = node.restore(Path::new(BACKUP), name("copy"), None).await.expect("restored");
                    for &number in &held {
                        assert_eq!(value(&copy, number).await, Some(1), "seed {seed}: key {number}");
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Closed, "seed {seed}: {error}");
                    failed += 1;
                }
            }
            node.close().await.expect("closed");
        });
    }
    assert!(failed > 0, "it was never emptied in time");
}

#[test]
fn what_a_crash_left_of_a_backup_is_recognised() {
    let mut seen = [0; 3];
    for seed in 0..40 {
        let (sim, fs) = world(seed, None);
        let clock: Arc<dyn Clock> = sim.clock();
        let to = Path::new("/backup/again");
        let image = sim.block_on(async {
            let node = backed_up(&sim, &fs).await;
            let begin = clock.now();
            node.backup(&name("shop"), Path::new("/backup/first")).await.expect("backed up");
            let cut = sleep_until(&clock, clock.now() + (clock.now() - begin) * (seed + 1) / 38);
            match select(pin!(node.backup(&name("shop"), to)), cut).await {
                Either::Left((done, _)) => drop(done.expect("backed up")),
                Either::Right(_) => {}
            }
            fs.crash_keeping(if seed % 2 == 0 { Keep::Random } else { Keep::All }, &mut sim.rng())
        });
        drop((sim, fs));
        let (sim, fs) = world(seed, Some(&image));
        sim.block_on(async {
            let node = open(&sim, &fs).await;
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            let found = weir_node::backup::verify(&disk, to).await;
            let again = node.backup(&name("shop"), to).await;
            let state = match (&found, &again) {
                (Ok(_), Err(error)) => {
                    assert!(error.to_string().contains("holds a finished backup"), "{error}");
                    0
                }
                // Nothing but the lock's file was there.
                (Err(_), Ok(_)) => 1,
                (Err(found), Err(error)) => {
                    assert_eq!(found.kind(), ErrorKind::NotFound, "{found}");
                    assert!(error.to_string().contains("not empty"), "{error}");
                    2
                }
                (Ok(_), Ok(_)) => panic!("seed {seed}: a finished backup was overwritten"),
            };
            seen[state] += 1;
            node.close().await.expect("closed");
        });
    }
    assert!(seen.iter().all(|&count| count > 0), "finished, empty, broken off: {seen:?}");
}

#[test]
fn a_path_that_could_be_another_place_is_refused() {
    let (sim, fs) = world(1, None);
    sim.block_on(async {
        let node = backed_up(&sim, &fs).await;
        for wrong in ["s3://bucket/shop", "file:///backup/x", "backup/x", "", ".", "/backup/../x"] {
            let to = Path::new(wrong);
            let refused = node.backup(&name("shop"), to).await.expect_err(wrong);
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
            let refused = node.restore(to, name("copy"), None).await.err().expect(wrong);
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        }
        node.close().await.expect("closed");
    });
}

#[test]
fn a_tenant_that_falls_asleep_while_it_is_backed_up_is_backed_up_all_the_same() {
    for seed in 0..5 {
        let (sim, fs) = world(seed, None);
        let clock: Arc<dyn Clock> = sim.clock();
        sim.block_on(async {
            let node = open_with(&sim, &fs, 20_000_000).await;
            let made = node.create_tenant(TenantSpec { partitions: 3, ..TenantSpec::new(name("shop")) }).await;
            let shop = made.expect("created");
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            for round in 0..30 {
                for number in 0..20 {
                    put(&shop, number, round).await;
                }
                sleep_until(&clock, clock.now() + sim.rng().below(60_000_000)).await;
                let to = Path::new("/backup").join(round.to_string());
                let report = node.backup(&name("shop"), &to).await.expect("backed up");
                assert_eq!(weir_node::backup::verify(&disk, &to).await.expect("whole"), report);
            }
            node.close().await.expect("closed");
        });
    }
}

/// The error of a job stays until the next job succeeds. A backup flushes, and only a failure of this flush concerns
/// it.
#[test]
fn a_backup_does_not_fail_because_a_compaction_has_failed_before() {
    let (sim, fs) = world(1, None);
    sim.block_on(async {
        let node = open(&sim, &fs).await;
        let shop = node.create_tenant(TenantSpec::new(name("shop"))).await.expect("created");
        let partition = shop.partitions()[0].partition().await.expect("it wakes");
        runs::gather(&sim, &partition).await;
        put(&shop, 7, 1).await;
        fs.fail_next(Some(OpKind::Create), Fault::NoSpace);
        runs::merge(&partition);
        runs::failure(&sim, &partition).await;
        node.backup(&name("shop"), Path::new(BACKUP)).await.expect("backed up");
        let copy = node.restore(Path::new(BACKUP), name("copy"), None).await.expect("restored");
        assert_eq!(value(&copy, 7).await, Some(1), "what only the memtable had");
        node.close().await.expect("closed");
    });
}

/// A disk on which copies of tables wait before they are made.
struct HeldUp {
    inner: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    is_asked: AtomicBool,
    is_held: Arc<AtomicBool>,
}

impl Fs for HeldUp {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let is_table = path.extension().is_some_and(|extension| extension == "sst");
        if !options.create_new || !is_table || !path.starts_with(BACKUP) {
            return self.inner.open(path, options, tag);
        }
        self.is_asked.store(true, Ordering::Relaxed);
        let (inner, path) = (Arc::clone(&self.inner), path.to_path_buf());
        let (clock, is_held) = (Arc::clone(&self.clock), Arc::clone(&self.is_held));
        Op::pending(async move {
            while is_held.load(Ordering::Relaxed) {
                sleep_until(&clock, clock.now() + 10_000).await;
            }
            inner.open(&path, options, tag).await
        })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, lock);
}

/// The partition falls asleep while nothing can be made, so the name of a table that it could not make is left over. It
/// is opened again, and makes tables that have the same names. All that before the backup has copied its first table.
#[test]
fn a_backup_removes_no_file_of_a_partition_that_was_opened_again_meanwhile() {
    let (sim, fs) = world(1, None);
    let clock: Arc<dyn Clock> = sim.clock();
    let image = sim.block_on(async {
        let is_held = Arc::new(AtomicBool::new(true));
        let disk = Arc::new(HeldUp {
            inner: Arc::clone(&fs) as Arc<dyn Fs>,
            clock: Arc::clone(&clock),
            is_asked: AtomicBool::new(false),
            is_held: Arc::clone(&is_held),
        });
        let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, 0).await;
        let shop_name = name("shop");
        let shop = node.create_tenant(TenantSpec::new(name("shop"))).await.expect("created");
        put(&shop, 0, 1).await;
        let meanwhile = async {
            while !disk.is_asked.load(Ordering::Relaxed) {
                sleep_until(&clock, clock.now() + 10_000).await;
            }
            put(&shop, 1, 1).await;
            fs.set_faults(FaultPlan::none().chance(OpKind::Create, Fault::NoSpace, 1.0));
            let slot = &shop.partitions()[0];
            slot.sleep().await;
            assert_eq!(slot.state(), SlotState::Asleep);
            fs.set_faults(FaultPlan::none());
            let partition = slot.partition().await.expect("it wakes");
            let knobs = partition.engine().knobs();
            partition.set_tree_knobs(TreeKnobs { scope: Scope::IntraL0, intra_l0_fan_in: 100, ..knobs });
            for number in 2..6 {
                put(&shop, number, 1).await;
                partition.seal();
                sleep_until(&clock, clock.now() + 100_000_000).await;
            }
            assert_eq!(runs::count(&partition), 5, "none of them is merged");
            is_held.store(false, Ordering::Relaxed);
        };
        let (backup, ()) = join(node.backup(&shop_name, Path::new(BACKUP)), meanwhile).await;
        backup.expect("backed up");
        node.close().await.expect("closed");
        fs.crash_keeping(Keep::All, &mut sim.rng())
    });
    let (sim, fs) = world(1, Some(&image));
    sim.block_on(async {
        let node = open(&sim, &fs).await;
        let shop = node.tenant(&name("shop")).expect("there");
        for number in 0..6 {
            assert_eq!(value(&shop, number).await, Some(1), "key {number}");
        }
        node.close().await.expect("closed");
    });
}

/// While the backup copies its first table, two databases are swapped, and then swapped back.
#[test]
fn a_backup_beside_which_databases_are_swapped_and_swapped_back_is_refused() {
    let (sim, fs) = world(1, None);
    let clock: Arc<dyn Clock> = sim.clock();
    sim.block_on(async {
        let is_held = Arc::new(AtomicBool::new(true));
        let disk = Arc::new(HeldUp {
            inner: Arc::clone(&fs) as Arc<dyn Fs>,
            clock: Arc::clone(&clock),
            is_asked: AtomicBool::new(false),
            is_held: Arc::clone(&is_held),
        });
        let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, 0).await;
        let shop_name = name("shop");
        let shop = node.create_tenant(TenantSpec::new(name("shop"))).await.expect("created");
        put(&shop, 0, 1).await;
        let meanwhile = async {
            while !disk.is_asked.load(Ordering::Relaxed) {
                sleep_until(&clock, clock.now() + 10_000).await;
            }
            for _ in 0..2 {
                node.swap_databases(&shop, (0, 1), ()).await.expect("swapped");
            }
            is_held.store(false, Ordering::Relaxed);
        };
        let (backup, ()) = join(node.backup(&shop_name, Path::new(BACKUP)), meanwhile).await;
        assert_eq!(backup.expect_err("refused").kind(), ErrorKind::Closed);
        node.backup(&shop_name, Path::new(BACKUP)).await.expect("nothing is swapped any more");
        node.close().await.expect("closed");
    });
}
