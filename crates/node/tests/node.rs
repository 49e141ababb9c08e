//! A node on a simulated machine: it answers, survives, stalls and goes on.

use std::sync::Arc;

use crate::opened::Opened;
use weir_admission::Direction;
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Fs, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::{Batch, Change, StoredKey};
use weir_node::{Machine, NodeConfig, Partition};

fn config(sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 16 << 10,
        level1_bytes: 64 << 10,
        table_bytes: 32 << 10,
        io_bytes: 16 << 10,
        ..TreeOptions::default()
    };
    NodeConfig { tree, cache_bytes: 64 << 10, sync, segment_bytes: 64 << 10, ..NodeConfig::new("/weir") }
}

fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> Opened {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    sim.block_on(Opened::open(&config(sync), machine)).expect("the node opens")
}

fn batch(key: u64, value: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(format!("key{key:05}").as_bytes(), &value.to_le_bytes().repeat(20));
    batch
}

async fn put(partition: &Arc<Partition>, key: u64, value: u64) -> weir_io::Result<()> {
    partition.write(&batch(key, value)).await?.await
}

async fn value(partition: &Arc<Partition>, key: u64) -> Option<u64> {
    let record = partition.get(format!("key{key:05}").as_bytes()).await.expect("get")?;
    Some(u64::from_le_bytes(record.value().expect("a string")[..8].try_into().expect("eight bytes")))
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut() {
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, SyncMode::Always);
        let partition = Arc::clone(node.partition());
        sim.block_on(async {
            for number in 0..1_000 {
                put(&partition, number % 300, number).await.expect("put");
            }
        });
        let image = fs.crash_keeping(Keep::Random, &mut sim.rng());
        drop((partition, node, sim));

        let sim = Sim::new(seed + 1_000);
        let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, SyncMode::Always);
        for key in 0..300 {
            let newest = (0..1_000).rev().find(|number| number % 300 == key);
            assert_eq!(sim.block_on(value(node.partition(), key)), newest, "seed {seed}, key {key}");
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_in_interval_mode() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..3_000 {
            put(&partition, number, number).await.expect("put");
        }
    });
    let image = fs.crash_keeping(Keep::All, &mut sim.rng());
    drop((partition, node, sim));
    let sim = Sim::new(2);
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    for key in 0..3_000 {
        assert_eq!(sim.block_on(value(node.partition(), key)), Some(key));
    }
}

#[test]
fn writes_stop_at_the_limit_and_go_on_when_there_is_room() {
    // A device so slow that flushes lag far behind.
    let sim = Sim::new(3);
    let fs = SimFs::new(sim.clock(), DeviceSpec::shared(2 << 20), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..6_000 {
            put(&partition, number, number).await.expect("put");
        }
        partition.settle().await;
    });
    let metrics = node.partition().metrics();
    assert!(metrics.stalls.iter().any(|stall| stall.stopped > 0 && stall.stopped_nanos > 0), "{metrics:?}");
    assert!(metrics.engine.is_settled());
    for key in (0..6_000).step_by(97) {
        assert_eq!(sim.block_on(value(node.partition(), key)), Some(key));
    }
}

#[test]
fn a_failed_log_is_replaced_and_nothing_it_did_not_sync_was_acknowledged() {
    for seed in 0..30 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, SyncMode::Always);
        let partition = Arc::clone(node.partition());
        let mut acknowledged = Vec::new();
        sim.block_on(async {
            for number in 0..400 {
                if number % 100 == 50 {
                    fs.fail_next(Some(OpKind::Write), Fault::Error);
                }
                if put(&partition, number, number).await.is_ok() {
                    acknowledged.push(number);
                } else {
                    // Reads go on while the log is being replaced.
                    assert_eq!(value(&partition, 0).await, Some(0));
                    let clock = sim.clock();
                    sleep_until(&clock, clock.now() + 1_000_000_000).await;
                }
            }
        });
        assert!(acknowledged.len() > 380, "writes go on: {}", acknowledged.len());
        assert!(node.partition().metrics().log_replacements > 0);
        let image = fs.crash_keeping(Keep::None, &mut sim.rng());
        drop((partition, node, sim));
        let sim = Sim::new(seed);
        let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, SyncMode::Always);
        for &key in &acknowledged {
            assert_eq!(sim.block_on(value(node.partition(), key)), Some(key), "seed {seed}");
        }
    }
}

/// A refused write counts once the log is replaced. For whoever has read the row without it, it comes after that.
#[test]
fn a_watch_counts_a_refused_write_that_a_read_leaves_out() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let sim = Sim::new(10);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, sync);
        let (partition, tenant) = (node.partition(), Arc::clone(&node.tenants()[0]));
        let set = async |value: u8| {
            let mut batch = Batch::new();
            batch.push_row(0, Change::Put { key: b"k", value: &[value], expire_at_ms: None });
            partition.write(&batch).await?.await
        };
        let get = async || {
            let row = partition.get(&StoredKey::new(0, b"k")).await.expect("get").expect("it is there");
            row.value().expect("a string")[0]
        };
        sim.block_on(async {
            set(1).await.expect("no faults");
            fs.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::Error, 1.0));
            set(2).await.expect_err("the log has failed");
            let watch = tenant.watch(0, b"k").await.expect("it is awake");
            assert!(!watch.is_changed(), "{sync:?}: the write came before");
            assert_eq!(get().await, 1, "{sync:?}: reads go on");
            assert!(watch.is_changed(), "{sync:?}: the write may yet count");
            fs.set_faults(FaultPlan::none());
            sleep_until(&sim.clock(), sim.now() + 5_000_000_000).await;
            let watch = tenant.watch(0, b"k").await.expect("it is awake");
            assert_eq!(get().await, 2, "{sync:?}: it counts");
            assert!(!watch.is_changed(), "{sync:?}: nothing is in doubt any more");
        });
    }
}

#[test]
fn writes_resume_when_the_disk_has_space_again() {
    let sim = Sim::new(5);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    let clock = sim.clock();
    sim.block_on(async {
        fs.set_free_bytes(300 << 10);
        let mut refused = None;
        for number in 0..20_000 {
            let Err(error) = put(&partition, number, number).await else { continue };
            refused = Some((number, error));
            break;
        }
        let (number, error) = refused.expect("a full disk refuses writes");
        assert_eq!(error.kind(), weir_io::ErrorKind::NoSpace, "{error}");
        assert_eq!(value(&partition, number - 1).await, Some(number - 1), "reads go on");
        fs.set_free_bytes(u64::MAX);
        sleep_until(&clock, clock.now() + 5_000_000_000).await;
        for number in 20_000..21_000 {
            put(&partition, number, number).await.expect("writes resume");
        }
        for key in (0..number).step_by(13) {
            assert_eq!(value(&partition, key).await, Some(key));
        }
    });
}

#[test]
fn increments_from_many_tasks_are_all_counted() {
    // On a device with latency, so that reads of the counter from tables wait.
    let sim = Sim::new(6);
    let device = DeviceSpec { latency: 100_000, ..DeviceSpec::instant() };
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Always);
    let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for task in 0..20_u64 {
        let (partition, done) = (Arc::clone(node.partition()), Arc::clone(&done));
        sim.spawn(async move {
            for round in 0..50 {
                let ((), commit) = partition
                    .update(&[b"counter"], |found, batch| {
                        let before = found[0].as_ref().map_or(0, |record| {
                            u64::from_le_bytes(record.value().expect("a string")[..].try_into().expect("eight bytes"))
                        });
                        batch.put(b"counter", &(before + 1).to_le_bytes());
                    })
                    .await
                    .expect("update");
                commit.expect("it writes").await.expect("commit");
                if (task + round) % 10 == 0 {
                    partition.seal();
                }
            }
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    }
    while done.load(std::sync::atomic::Ordering::Relaxed) < 20 {
        sim.run_until(sim.now() + 10_000_000);
    }
    let record = sim.block_on(node.partition().get(b"counter")).expect("get").expect("counted");
    assert_eq!(record.value().expect("a string")[..], 1_000_u64.to_le_bytes());
}

#[test]
fn writes_of_several_are_one_record_that_each_may_wait_for() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let sim = Sim::new(8);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let node = open(&sim, &fs, sync);
        let partition = Arc::clone(node.partition());
        let together = {
            let mut together = batch(0, 10);
            (1..3).for_each(|key| batch(key, 10 + key).as_ref().iter().for_each(|change| together.push(change)));
            together
        };
        let before = node.ledger().total().user(Direction::Write).ops;
        let records = partition.metrics().log.last;
        let commit = partition.try_write_together(&together, 3).expect("nothing is in the way");
        assert_eq!(partition.metrics().log.last, records + 1);
        assert_eq!(node.ledger().total().user(Direction::Write).ops, before + 3, "each has written");
        sim.block_on(async {
            // In any order: the first that is polled drives the log for all.
            let others = [commit.another(), commit.another()];
            for commit in others.into_iter().chain([commit]) {
                commit.await.expect("commit");
            }
            for key in 0..3 {
                assert_eq!(value(&partition, key).await, Some(10 + key), "{sync:?}");
            }
            node.close().await.expect("close");
        });
        assert!(partition.try_write_together(&together, 3).is_none(), "it is closed, and each is told so by itself");
    }
}

#[test]
fn each_commit_of_a_lost_record_fails() {
    let sim = Sim::new(9);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Always);
    sim.block_on(async {
        put(node.partition(), 0, 0).await.expect("put");
        let commit = node.partition().try_write_together(&batch(0, 1), 2).expect("nothing is in the way");
        let other = commit.another();
        fs.fail_next(Some(OpKind::Write), Fault::Error);
        commit.await.expect_err("it is lost");
        other.await.expect_err("it is lost");
    });
}

#[test]
fn a_second_node_on_the_same_directory_is_refused() {
    let sim = Sim::new(7);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let _node = open(&sim, &fs, SyncMode::Interval);
    let machine = Machine { fs: Arc::clone(&fs) as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
    let error = sim.block_on(Opened::open(&config(SyncMode::Interval), machine)).err().expect("refused");
    assert_eq!(error.kind(), weir_io::ErrorKind::Locked);
}

#[test]
fn a_node_that_is_about_to_end_is_waited_for() {
    let sim = Sim::new(7);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let first = open(&sim, &fs, SyncMode::Interval);
    let (clock, begin) = (sim.clock(), sim.now());
    sim.spawn(async move {
        sleep_until(&clock, begin + 300_000_000).await;
        drop(first);
    });
    let machine = Machine { fs: Arc::clone(&fs) as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
    sim.block_on(Opened::open(&config(SyncMode::Interval), machine)).expect("it is opened as soon as that is gone");
    assert!((300_000_000..400_000_000).contains(&(sim.now() - begin)), "{}", sim.now() - begin);
}

#[test]
fn closing_makes_everything_durable_and_refuses_writes() {
    let sim = Sim::new(8);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..100 {
            put(&partition, number, number).await.expect("put");
        }
        node.close().await.expect("close");
        put(&partition, 100, 100).await.expect_err("closed");
    });
    let image = fs.crash_keeping(Keep::None, &mut sim.rng());
    drop((partition, node, sim));
    let sim = Sim::new(9);
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    assert_eq!(sim.block_on(value(node.partition(), 99)), Some(99));
}

#[test]
fn a_node_reopened_right_after_its_end_is_not_harmed_by_jobs_of_its_former_life() {
    for close in [true, false] {
        for written in (600..3_000).step_by(150) {
            // So slow that jobs are under way when the node ends.
            let sim = Sim::new(10);
            let fs = SimFs::new(sim.clock(), DeviceSpec::shared(4 << 20), FaultPlan::none(), sim.rng());
            let node = open(&sim, &fs, SyncMode::Interval);
            sim.block_on(async {
                for number in 0..written {
                    put(node.partition(), number % 500, number).await.expect("put");
                }
                if close {
                    node.close().await.expect("close");
                }
            });
            drop(node);
            let machine =
                || Machine { fs: Arc::clone(&fs) as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
            let node = loop {
                match sim.block_on(Opened::open(&config(SyncMode::Interval), machine())) {
                    Ok(node) => break node,
                    // A job still has the directory.
                    Err(error) if error.kind() == weir_io::ErrorKind::Locked && !close => {
                        sim.run_until(sim.now() + 10_000_000);
                    }
                    Err(error) => panic!("{written} written, close: {close}: {error}"),
                }
            };
            sim.run_until(sim.now() + 5_000_000_000);
            for key in 0..500 {
                let newest = (0..written).rev().find(|number| number % 500 == key);
                assert_eq!(sim.block_on(value(node.partition(), key)), newest, "{written} written, close: {close}");
            }
            sim.block_on(node.close()).expect("close");
            drop(node);
            sim.run_until(sim.now() + 5_000_000_000);
            let fs = Arc::clone(&fs) as Arc<dyn Fs>;
            let tree = std::path::Path::new("/weir/partitions/000001/tree");
            let report = sim.block_on(weir_lsm::check::check(&fs, tree, |_, _| {})).expect("check");
            assert!(report.problems.is_empty(), "{written} written, close: {close}: {report:?}");
        }
    }
}

#[test]
fn a_check_finds_a_flipped_bit_in_any_table_and_names_the_file() {
    let sim = Sim::new(10);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..2_000 {
            put(&partition, number, number).await.expect("put");
        }
        partition.seal();
        partition.settle().await;
        node.close().await.expect("close");
    });
    drop((partition, node));
    let image = fs.crash_keeping(Keep::All, &mut sim.rng());
    drop(sim);
    let check = |image: &weir_io::sim::DiskImage| {
        let sim = Sim::new(11);
        let fs = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let fs = fs as Arc<dyn Fs>;
        sim.block_on(weir_node::check(&fs, "/weir".as_ref(), |_, _| {})).expect("check")
    };
    let sound = check(&image);
    assert!(sound.partitions[0].problems.is_empty(), "{:?}", sound.partitions[0].problems);
    assert_eq!(sound.partitions[0].tree.entries, 2_000);
    let tables: Vec<_> =
        image.files().into_iter().filter(|(path, _)| path.extension() == Some("sst".as_ref())).collect();
    for (path, length) in &tables {
        let mut flipped = image.clone();
        assert!(flipped.flip_bit(path, length / 3, 4));
        let found = check(&flipped);
        assert!(
            found.partitions[0].problems.iter().any(|problem| problem.path().ends_with(path)),
            "{path:?}: {:?}",
            found.partitions[0].problems
        );
    }
}

#[test]
fn a_page_costs_bounded_work_where_everything_was_deleted() {
    let sim = Sim::new(11);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = node.partition();
    sim.block_on(async {
        // Enough tombstones in the memtable, where no compaction drops them.
        let mut batch = Batch::new();
        (0..400).filter(|key| key % 100 != 77).for_each(|key| batch.delete(format!("key{key:05}").as_bytes()));
        for key in [77, 177, 277, 377] {
            put(partition, key, key).await.expect("put");
        }
        partition.write(&batch).await.expect("write").await.expect("commit");
        let (mut found, mut pages, mut next) = (Vec::new(), 0, Some(Vec::new()));
        while let Some(from) = next {
            let page = partition.page(&from, None, 10).await.expect("page");
            found.extend(page.keys);
            pages += 1;
            next = page.next.inspect(|next| assert!(*next > from, "every page gets somewhere"));
        }
        assert_eq!(found, [b"key00077", b"key00177", b"key00277", b"key00377"]);
        assert_eq!(pages, 4, "400 entries, at most 100 a page");
    });
}

#[test]
fn a_log_longer_than_the_write_buffers_is_replayed_in_bounded_memory() {
    let sim = Sim::new(12);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let open_with = |sim: &Sim, fs: &Arc<SimFs>, write_buffer_bytes| {
        let tree = TreeOptions { write_buffer_bytes, ..config(SyncMode::Interval).tree };
        let config = NodeConfig { tree, ..config(SyncMode::Interval) };
        let machine = Machine {
            fs: Arc::clone(fs) as Arc<dyn Fs>,
            clock: sim.clock(),
            spawn: sim.spawner(),
            salt: sim.rng().next_u64(),
        };
        sim.block_on(Opened::open(&config, machine)).expect("the node opens")
    };
    let node = open_with(&sim, &fs, 64 << 20);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..5_000 {
            put(&partition, number, number).await.expect("put");
        }
    });
    let image = fs.crash_keeping(Keep::All, &mut sim.rng());
    drop((partition, node, sim));

    let sim = Sim::new(13);
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open_with(&sim, &fs, 16 << 10);
    let shape = node.partition().metrics().engine.shape();
    let in_memory = shape.memtable_bytes + shape.sealed_bytes;
    assert!(in_memory < 5 * (16 << 10), "{in_memory} bytes in memtables after replaying 900 KB");
    for key in 0..5_000 {
        assert_eq!(sim.block_on(value(node.partition(), key)), Some(key));
    }
}

#[test]
fn a_node_opens_and_reads_on_a_completely_full_disk() {
    let sim = Sim::new(14);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let node = open(&sim, &fs, SyncMode::Interval);
    let partition = Arc::clone(node.partition());
    sim.block_on(async {
        for number in 0..1_000 {
            put(&partition, number, number).await.expect("put");
        }
    });
    let image = fs.crash_keeping(Keep::All, &mut sim.rng());
    drop((partition, node, sim));
    let sim = Sim::new(15);
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    fs.set_free_bytes(0);
    let node = open(&sim, &fs, SyncMode::Interval);
    for key in 0..1_000 {
        assert_eq!(sim.block_on(value(node.partition(), key)), Some(key));
    }
}

#[test]
fn slowed_writers_share_one_rate_however_many_they_are() {
    let sim = Sim::new(16);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    // Without compactions level 0 only grows.
    let config = NodeConfig { compaction_slots: 0, ..config(SyncMode::Interval) };
    let machine = Machine {
        fs: Arc::clone(&fs) as Arc<dyn Fs>,
        clock: sim.clock(),
        spawn: sim.spawner(),
        salt: sim.rng().next_u64(),
    };
    let node = sim.block_on(Opened::open(&config, machine)).expect("the node opens");
    let slowed = || node.partition().metrics().stalls[0].slowed;
    let mut number = 0;
    while slowed() == 0 {
        sim.block_on(put(node.partition(), number, number)).expect("put");
        number += 1;
    }
    let (begin, already) = (sim.now(), slowed());
    let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for task in 0..20_u64 {
        let (partition, done) = (Arc::clone(node.partition()), Arc::clone(&done));
        sim.spawn(async move {
            for round in 0..10 {
                put(&partition, 100_000 + task * 10 + round, 1).await.expect("put");
            }
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    }
    while done.load(std::sync::atomic::Ordering::Relaxed) < 20 {
        sim.run_until(sim.now() + 10_000);
    }
    assert_eq!(slowed() - already, 200);
    // 200 batches of some 170 bytes at no more than 16 MiB/s, one after the other.
    let at_least = 200 * 170 * 1_000_000_000 / (16 << 20);
    assert!(sim.now() - begin >= at_least, "{} ns, at least {at_least} wanted", sim.now() - begin);
}
