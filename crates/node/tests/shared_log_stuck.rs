//! Tenants that share a log of which one cannot flush, a segment was lost, or a number was given out twice; and whose
//! bytes and waits are booked to whom.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use weir_admission::{Direction, Limits};
use weir_io::sim::{DiskImage, Fault, Keep, OpKind, SimFs};
use weir_io::{
    AlignedBuf, Class, Clock, Error, ErrorKind, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs, sleep_until,
};
use weir_log::SyncMode;
use weir_model::Batch;
use weir_node::cost::Capacity;
use weir_node::repair::{Finding, Repair};
use weir_node::waits::{self, Cause, Followed};
use weir_node::{Bandwidth, LogKind, Machine, Node, NodeConfig, Profile, TenantSettings, TenantSpec, UnitLimits};

use crate::shared_log::{
    CAP, DIR, SECOND, SEGMENTS, create, has_all, log, name, open_on, put, tenant, value, world, write_all,
};

/// A disk on which no file can be made in the tree of some partitions: they cannot flush. If it is told so, no segment
/// of the shared log can be removed either.
struct StuckFs {
    inner: Arc<dyn Fs>,
    stuck: Mutex<Vec<u32>>,
    keeps_segments: AtomicBool,
}

impl StuckFs {
    fn on(disk: &Arc<SimFs>) -> Arc<Self> {
        let (stuck, keeps_segments) = Default::default();
        Arc::new(Self { inner: Arc::clone(disk) as Arc<dyn Fs>, stuck, keeps_segments })
    }

    fn set_stuck(&self, partitions: &[u32]) {
        *self.stuck.lock() = partitions.to_vec();
    }
}

impl Fs for StuckFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let is_in = |number: &u32| path.starts_with(format!("{DIR}/partitions/{number:06}/tree"));
        if options.create_new && self.stuck.lock().iter().any(is_in) {
            return Op::ready(Err(Error::new(ErrorKind::Device, "create", path, "planned")));
        }
        self.inner.open(path, options, tag)
    }

    fn remove(&self, path: &Path, tag: Tag) -> Op<()> {
        let is_segment = path.starts_with(SEGMENTS) && path.extension().is_some_and(|extension| extension == "log");
        if is_segment && self.keeps_segments.load(Ordering::Relaxed) {
            return Op::ready(Err(Error::new(ErrorKind::Device, "remove", path, "planned")));
        }
        self.inner.remove(path, tag)
    }

    forward_fs!(inner: rename, hard_link, create_dir_all, remove_dir, list, sync_dir, real_path, volume, lock);
}

/// A disk on which the opening of partition 2 does not end as long as it `is_slow`.
struct SlowFs {
    inner: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    is_slow: Arc<AtomicBool>,
}

impl Fs for SlowFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        if options.create_new || !path.ends_with("000002/tree/CURRENT") {
            return self.inner.open(path, options, tag);
        }
        let (inner, path) = (Arc::clone(&self.inner), path.to_path_buf());
        let (clock, is_slow) = (Arc::clone(&self.clock), Arc::clone(&self.is_slow));
        Op::pending(async move {
            while is_slow.load(Ordering::Relaxed) {
                sleep_until(&clock, clock.now() + SECOND / 100).await;
            }
            inner.open(&path, options, tag).await
        })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, real_path, volume, lock);
}

/// A disk that clients use up: the zeros that fill the next segment of the shared log never have their turn.
struct BusyFs {
    inner: Arc<dyn Fs>,
    has_begun: Arc<AtomicBool>,
}

struct BusySegment {
    inner: Arc<dyn File>,
    has_begun: Arc<AtomicBool>,
}

impl Fs for BusyFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let opened = self.inner.open(path, options, tag);
        if !path.starts_with(SEGMENTS) {
            return opened;
        }
        let has_begun = Arc::clone(&self.has_begun);
        Op::pending(async move { Ok(Arc::new(BusySegment { inner: opened.await?, has_begun }) as Arc<dyn File>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, real_path, volume, lock);
}

impl File for BusySegment {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        if tag.class.is_foreground() {
            return self.inner.write_at(offset, buf, tag);
        }
        self.has_begun.store(true, Ordering::Relaxed);
        Op::pending(std::future::pending())
    }

    forward_file!(inner: read_at, sync, allocate, set_len, len, data_end, is_direct, read_unit);
}

fn partitions(node: &Node, number: u64) -> Vec<u32> {
    tenant(node, number).partitions().iter().map(|slot| slot.owner().partition).collect()
}

#[test]
fn a_tenant_that_cannot_flush_keeps_neither_the_log_long_nor_others_waiting() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, disk) = world(1, &DiskImage::new());
        let fs = StuckFs::on(&disk);
        let clock = sim.clock();
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&fs) as Arc<dyn Fs>, sync).await.expect("a fresh disk");
            for number in 0..2 {
                create(&node, number).await;
            }
            write_all(&node, 0..1, 20).await;
            fs.set_stuck(&partitions(&node, 0));
            let mut longest = 0;
            for key in 0..16_000 {
                put(&tenant(&node, 1), key, 1_000 + key).await;
                if key % 100 == 0 {
                    sleep_until(&clock, clock.now() + SECOND / 5).await;
                }
                longest = log(&node).log.live_bytes.max(longest);
            }
            // Of 16 to 66 MB. Partitions that cannot flush are looked for once a second, in which up to 2 MB are
            // written.
            assert!(longest < 5 * CAP, "{sync:?}: {longest} bytes: {:?}", log(&node));
            assert!(log(&node).carried > 0, "{:?}", log(&node));
            // It can still be read, and written to until its memory is full.
            has_all(&node, 0..1, 20).await;
            put(&tenant(&node, 0), 20, 20).await;
            sleep_until(&clock, clock.now() + SECOND).await;
        });
        let (sim, disk) = world(2, &disk.crash_keeping(Keep::None, &mut sim.rng()));
        let clock = sim.clock();
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, sync).await.expect("it is whole");
            node.recover().await;
            has_all(&node, 0..1, 21).await;
            // Nothing keeps it from flushing any more.
            for slot in tenant(&node, 0).partitions() {
                slot.sleep().await;
            }
            assert_eq!(log(&node).carried, 0, "{sync:?}");
            write_all(&node, 0..1, 30).await;
            sleep_until(&clock, clock.now() + SECOND).await;
            node.close().await.expect("closed");
        });
        let found = sim.block_on(async {
            let fs = Arc::clone(&disk) as Arc<dyn Fs>;
            weir_node::check(&fs, Path::new(DIR), |_, _| ()).await.expect("it is a node's directory")
        });
        assert_eq!(found.all_problems().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn after_a_failed_write_those_who_can_flush_go_on_and_the_other_one_when_it_can() {
    for (sync, kind) in [(SyncMode::Always, OpKind::Write), (SyncMode::Interval, OpKind::Sync)] {
        let (sim, disk) = world(1, &DiskImage::new());
        let fs = StuckFs::on(&disk);
        let clock = sim.clock();
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&fs) as Arc<dyn Fs>, sync).await.expect("a fresh disk");
            for number in 0..3 {
                create(&node, number).await;
            }
            write_all(&node, 0..3, 10).await;
            sleep_until(&clock, clock.now() + SECOND).await;
            let stuck = partitions(&node, 0);
            fs.set_stuck(&stuck);
            disk.fail_next(Some(kind), Fault::Error);
            let failing = tenant(&node, 0).slot_of(&3_u64.to_be_bytes()).partition().await.expect("awake");
            let mut batch = weir_model::Batch::new();
            batch.put(&3_u64.to_be_bytes(), &3_u64.to_le_bytes().repeat(40));
            let written = async { failing.write(&batch).await?.await }.await;
            sleep_until(&clock, clock.now() + SECOND).await;
            assert!(log(&node).log.failures == 1, "{sync:?}: the log has failed: {written:?}");
            sleep_until(&clock, clock.now() + 8 * SECOND).await;
            // Nobody has mended anything.
            write_all(&node, 1..3, 10).await;
            has_all(&node, 0..3, 10).await;
            fs.set_stuck(&[]);
            sleep_until(&clock, clock.now() + 8 * SECOND).await;
            write_all(&node, 0..3, 12).await;
            has_all(&node, 0..3, 12).await;
            sleep_until(&clock, clock.now() + SECOND).await;
        });
        let (sim, disk) = world(2, &disk.crash_keeping(Keep::None, &mut sim.rng()));
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, sync).await.expect("it is whole");
            has_all(&node, 0..3, 12).await;
        });
    }
}

#[test]
fn a_log_that_was_replaced_can_be_repaired_without_its_anchor_and_loses_nothing() {
    let (sim, disk) = world(1, &DiskImage::new());
    let fs = StuckFs::on(&disk);
    let clock = sim.clock();
    sim.block_on(async {
        let node = open_on(&sim, Arc::clone(&fs) as Arc<dyn Fs>, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..2 {
            create(&node, number).await;
        }
        write_all(&node, 0..2, 10).await;
        sleep_until(&clock, clock.now() + SECOND).await;
        // The segment with the gap stays.
        fs.keeps_segments.store(true, Ordering::Relaxed);
        let failing = tenant(&node, 0).slot_of(&3_u64.to_be_bytes()).partition().await.expect("awake");
        let mut batch = weir_model::Batch::new();
        batch.put(&3_u64.to_be_bytes(), &3_u64.to_le_bytes().repeat(40));
        disk.fail_next(Some(OpKind::Write), Fault::NoSpace);
        let written = async { failing.write(&batch).await?.await }.await;
        assert_eq!(written.expect_err("nothing was written").kind(), ErrorKind::NoSpace);
        sleep_until(&clock, clock.now() + 8 * SECOND).await;
        write_all(&node, 0..2, 12).await;
        sleep_until(&clock, clock.now() + 3 * SECOND).await;
        assert_eq!(log(&node).log.failures, 1);
    });
    let mut image = disk.crash_keeping(Keep::All, &mut sim.rng());
    let files: Vec<_> = image.files().into_iter().map(|(path, _)| path).collect();
    let segments = Path::new(SEGMENTS.trim_start_matches('/'));
    assert!(files.iter().filter(|path| path.starts_with(segments)).count() > 1, "{files:?}");
    let anchor = files.iter().find(|path| path.ends_with("shared-log/ANCHOR")).expect("the log was used");
    assert!(image.remove(anchor));
    let (sim, disk) = world(2, &image);
    sim.block_on(async {
        let fs = Arc::clone(&disk) as Arc<dyn Fs>;
        let plan = Repair::plan(&fs, Path::new(DIR), None, 3).await.expect("a plan");
        assert!(!plan.findings().is_empty(), "the anchor is missing");
        assert!(plan.findings().iter().all(Finding::can_be_repaired), "without a loss: {:?}", plan.findings());
        plan.apply().await.expect("repaired");
        let node = open_on(&sim, fs, SyncMode::Interval).await.expect("it is whole");
        has_all(&node, 0..2, 12).await;
    });
}

#[test]
fn a_tenant_that_cannot_be_opened_does_not_keep_the_log_long() {
    let (sim, disk) = world(1, &DiskImage::new());
    sim.block_on(async {
        let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..2 {
            create(&node, number).await;
        }
        write_all(&node, 0..2, 20).await;
        sleep_until(&sim.clock(), sim.clock().now() + 3 * SECOND).await;
    });
    let mut image = disk.crash_keeping(Keep::All, &mut sim.rng());
    let current: Vec<_> = image.files().into_iter().map(|(path, _)| path).collect();
    let damaged = current.iter().find(|path| path.ends_with("000002/tree/CURRENT")).expect("it has a tree");
    assert!(image.remove(damaged));
    let (sim, disk) = world(2, &image);
    let clock = sim.clock();
    sim.block_on(async {
        let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, SyncMode::Interval).await.expect("it is whole");
        for key in 0..12_000 {
            put(&tenant(&node, 1), key, 1_000 + key).await;
            if key % 100 == 0 {
                sleep_until(&clock, clock.now() + SECOND / 2).await;
            }
        }
        let after = log(&node);
        assert!(after.carried > 0 && after.log.live_bytes < 3 * CAP, "{after:?}");
    });
    // Its records are still there for a repair.
    let found = sim.block_on(async {
        let fs = Arc::clone(&disk) as Arc<dyn Fs>;
        fs.list(Path::new(&format!("{DIR}/shared-log/carried")), Tag::new(Default::default(), Class::Log)).await
    });
    assert!(!found.expect("something was carried").is_empty());
}

#[test]
fn a_tenant_that_is_opened_slowly_does_not_keep_others_from_being_flushed() {
    let (sim, disk) = world(1, &DiskImage::new());
    sim.block_on(async {
        let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, SyncMode::Interval).await.expect("a fresh disk");
        for number in 0..3 {
            create(&node, number).await;
        }
        write_all(&node, 0..3, 20).await;
        sleep_until(&sim.clock(), sim.clock().now() + 3 * SECOND).await;
    });
    let (sim, disk) = world(2, &disk.crash_keeping(Keep::All, &mut sim.rng()));
    let (clock, is_slow): (Arc<dyn Clock>, _) = (sim.clock(), Arc::<AtomicBool>::default());
    let inner = Arc::clone(&disk) as Arc<dyn Fs>;
    let fs = SlowFs { inner, clock: Arc::clone(&clock), is_slow: Arc::clone(&is_slow) };
    sim.block_on(async {
        let node = open_on(&sim, Arc::new(fs), SyncMode::Interval).await.expect("it is whole");
        assert_eq!(partitions(&node, 0)[0], 2);
        is_slow.store(true, Ordering::Relaxed);
        for key in 0..5_000 {
            put(&tenant(&node, 2), key, 2_000 + key).await;
            if key % 100 == 0 {
                sleep_until(&clock, clock.now() + SECOND / 2).await;
            }
        }
        assert!(log(&node).log.live_bytes > CAP, "partition 2 keeps it long: {:?}", log(&node));
        for slot in tenant(&node, 1).partitions() {
            assert!(slot.metrics().jobs > 0, "{:?} was woken and has flushed", slot.owner());
        }
        is_slow.store(false, Ordering::Relaxed);
        has_all(&node, 0..2, 20).await;
    });
}

#[test]
fn a_tenant_is_emptied_although_zeros_for_the_shared_log_never_have_their_turn() {
    let (sim, disk) = world(1, &DiskImage::new());
    let (clock, has_begun) = (sim.clock(), Arc::<AtomicBool>::default());
    let fs = BusyFs { inner: Arc::clone(&disk) as Arc<dyn Fs>, has_begun: Arc::clone(&has_begun) };
    sim.block_on(async {
        let node = open_on(&sim, Arc::new(fs), SyncMode::Always).await.expect("a fresh disk");
        create(&node, 0).await;
        // The first segment has room for three pages.
        write_all(&node, 0..1, 2).await;
        sleep_until(&clock, clock.now() + SECOND).await;
        assert!(has_begun.load(Ordering::Relaxed), "a partition waits for the next segment: {:?}", log(&node));
        let sharer = name(0);
        match select(pin!(node.clear_tenant(&sharer)), pin!(sleep_until(&clock, clock.now() + 10 * SECOND))).await {
            Either::Left((cleared, _)) => cleared.expect("nothing fails"),
            Either::Right(_) => panic!("it waits for the zeros"),
        }
    });
}

#[test]
fn a_lost_last_segment_refuses_all_that_share_the_log_and_says_what_to_do() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let (sim, disk) = world(1, &DiskImage::new());
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, sync).await.expect("a fresh disk");
            for number in 0..2 {
                create(&node, number).await;
            }
            write_all(&node, 0..2, 300).await;
            node.close().await.expect("closed");
        });
        let mut image = disk.crash_keeping(Keep::None, &mut sim.rng());
        let segments = Path::new(SEGMENTS.trim_start_matches('/'));
        let files: Vec<_> = image.files().into_iter().map(|(path, _)| path).collect();
        // Not a segment that has nothing but a mark.
        let has_records = |path: &&std::path::PathBuf| {
            let bytes = image.read(path).filter(|_| path.starts_with(segments)).unwrap_or_default();
            bytes.iter().skip(4_096).filter(|byte| **byte > 0).count() > 200
        };
        let last = files.iter().rfind(has_records).expect("there are segments");
        // The partitions' own anchors would notice the loss, too; without them, nothing would.
        assert!(image.remove(last));
        let (sim, disk) = world(2, &image);
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, sync).await.expect("the node is whole");
            let error = value(&tenant(&node, 1), 1).await.expect_err("records are gone that were durable");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{sync:?}");
            let message = error.to_string();
            let says_what_to_do = message.contains("weir repair") || message.contains("although it was durable");
            assert!(message.contains("shared-log") && says_what_to_do, "{sync:?}: {message}");
        });
    }
}

/// DF-16: the sum over tenants is what the disk has seen, and each tenant has what it has appended.
#[test]
fn what_a_tenant_writes_to_the_shared_log_is_booked_to_it() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, disk) = world(1, &DiskImage::new());
        sim.block_on(async {
            let node = open_on(&sim, Arc::clone(&disk) as Arc<dyn Fs>, sync).await.expect("a fresh disk");
            for number in 0..2 {
                create(&node, number).await;
            }
            // One tenant writes three times as much as the other.
            let (mut rng, mut written) = (sim.rng(), [0_u64; 2]);
            for key in 0..4_000 {
                let number = u64::from(rng.below(4) == 0);
                written[number as usize] += 1;
                put(&tenant(&node, number), key, key).await;
            }
            sleep_until(&sim.clock(), sim.clock().now() + SECOND).await;
            let booked = node.ledger().tenants();
            let of = |tenant: u32| booked[&tenant][(Class::Log, Direction::Write)].bytes;
            let ids = [0, 1].map(|number| tenant(&node, number).id().0);
            let (many, few) = (of(ids[0]), of(ids[1]));
            // A page that both have filled belongs to both; the first page of each of some thirty segments belongs to
            // the one that begins it.
            let (share, wanted) = (few * 1_000 / (many + few), written[1] * 1_000 / 4_000);
            assert!(few > 300_000 && share.abs_diff(wanted) < 15, "{sync:?}: {many} and {few}: {share}, not {wanted}");
            let total = node.ledger().total()[(Class::Log, Direction::Write)].bytes;
            assert_eq!(booked.values().map(|booked| booked[(Class::Log, Direction::Write)].bytes).sum::<u64>(), total);
            if sync == SyncMode::Always {
                assert_eq!(total, disk.count(Class::Log, OpKind::Write).bytes, "to the byte");
            }
            assert!(node.tenant(&name(0)).is_some());
        });
    }
}

#[test]
fn a_write_to_the_shared_log_books_its_own_wait_whoever_lets_its_record_pass() {
    let (sim, disk) = world(3, &DiskImage::new());
    let rate = 100_000_000;
    let config = NodeConfig {
        profile: Profile::RocksDbLimits,
        bandwidth: Some(Bandwidth { device: Limits::bytes(rate), capacity: Capacity::default(), background: rate }),
        sync: SyncMode::Always,
        shared_log_bytes: CAP,
        ..NodeConfig::new(DIR)
    };
    let machine = Machine { fs: disk as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    let node = sim.block_on(Node::open(&config, machine)).expect("a fresh disk");
    // 17,408 bytes a second, in bursts of a second.
    let limits = UnitLimits { rcu: 1, wcu: 1, ..UnitLimits::default() };
    let settings = TenantSettings { limits, ..TenantSettings::default() };
    let spec = TenantSpec { log: LogKind::Shared, settings, ..TenantSpec::new(name(0)) };
    let tenant = sim.block_on(node.create_tenant(spec)).expect("created");
    let partition = sim.block_on(tenant.partitions()[0].partition()).expect("awake");
    sim.run_until(sim.now() + 60 * SECOND);
    let told = Arc::new(Mutex::new(Vec::new()));
    for key in 0..3_u64 {
        let (partition, clock, told) = (Arc::clone(&partition), sim.clock(), Arc::clone(&told));
        sim.spawn(Followed::new(async move {
            let mut batch = Batch::new();
            batch.put(&key.to_be_bytes(), &[7; 20_000]);
            let commit = partition.write(&batch).await.expect("room");
            let began = clock.now();
            commit.await.expect("written");
            told.lock().push((clock.now() - began, waits::so_far()[Cause::Partition as usize]));
        }));
    }
    sim.run_until(sim.now() + SECOND / 2);
    assert_eq!(told.lock().len(), 1, "one burst is there, and the next takes more than a second");
    let unlimited = |settings: &mut TenantSettings| {
        settings.limits = UnitLimits::default();
        Ok::<(), Error>(())
    };
    sim.block_on(node.alter_tenant(&name(0), unlimited)).expect("altered");
    sim.run_until(sim.now() + SECOND);
    // Both pass at the same moment.
    let told = told.lock().clone();
    let have_waited: Vec<bool> = told.iter().map(|(took, _)| *took > SECOND / 3).collect();
    assert_eq!(have_waited, [false, true, true], "{told:?}");
    assert!(told.iter().all(|(took, waited)| took.abs_diff(*waited) < SECOND / 100), "{told:?}");
}
