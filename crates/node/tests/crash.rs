//! A partition under power cuts, kills and failing disks, against a list of what was written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::opened::Opened;
use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Fs, Rng, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_model::engine::{Lookup, Range};
use weir_node::{Machine, NodeConfig, Partition};

type KeyValues = BTreeMap<Vec<u8>, Vec<u8>>;

fn config(sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        table_bytes: 16 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    NodeConfig { tree, cache_bytes: 32 << 10, sync, segment_bytes: 16 << 10, ..NodeConfig::new("/weir") }
}

/// Fast enough to get somewhere, slow enough that everything overlaps.
fn device() -> DeviceSpec {
    DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(50 << 20) }
}

fn world(seed: u64, image: &DiskImage, faults: FaultPlan) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let fs = SimFs::from_image(image, sim.clock(), device(), faults, sim.rng());
    (sim, fs)
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode) -> weir_io::Result<Opened> {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Opened::open(&config(sync), machine).await
}

/// Batch `number` of the run of `seed`: some puts and deletes of few keys, so that every batch leaves a trace.
fn batch(seed: u64, number: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng::new(seed.wrapping_mul(1_000_003) ^ number);
    let mut changes = vec![(b"number".to_vec(), Some(number.to_le_bytes().to_vec()))];
    for _ in 0..1 + rng.below(4) {
        let key = format!("key{:03}", rng.below(150)).into_bytes();
        let value = (!rng.chance(0.2)).then(|| vec![number as u8; 20 + rng.below(200) as usize]);
        changes.push((key, value));
    }
    changes
}

fn encode(changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    batch
}

/// The content of a store that has had the first `count` batches.
fn state_after(seed: u64, count: u64) -> KeyValues {
    let mut state = KeyValues::new();
    for (key, value) in (1..=count).flat_map(|number| batch(seed, number)) {
        match value {
            Some(value) => state.insert(key, value),
            None => state.remove(&key),
        };
    }
    state
}

/// Everything, by a scan; and each key again by a point read.
async fn contents(partition: &Arc<Partition>) -> KeyValues {
    let mut state = KeyValues::new();
    let mut scan = partition.scan(Range::all()).await.expect("a scan");
    while let Some(entry) = scan.next().await.expect("the next entry") {
        state.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    for number in 0..150 {
        let key = format!("key{number:03}").into_bytes();
        let record = partition.get(&key).await.expect("a read");
        assert_eq!(
            record.as_ref().map(|record| &record.value().expect("a string")[..]),
            state.get(&key).map(|value| &value[..])
        );
    }
    state
}

/// Opens what is on the disk: the state after some number of batches, at least `promised`, at most `sent`.
async fn check(sim: &Sim, fs: &Arc<SimFs>, sync: SyncMode, seed: u64, promised: u64, sent: u64) -> (Opened, u64) {
    let node = open(sim, fs, sync).await.unwrap_or_else(|error| panic!("opening: {error}"));
    let state = contents(node.partition()).await;
    let count = state.get(&b"number"[..]).map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("eight")));
    assert!((promised..=sent).contains(&count), "{count} batches, promised {promised}, sent {sent}");
    assert!(state == state_after(seed, count), "not the state after {count} batches");
    (node, count)
}

/// Writes batches `from..=to`, several on their way at a time, and books what was sent, acknowledged and durable.
async fn write(sim: &Sim, partition: &Arc<Partition>, seed: u64, from: u64, to: u64, booked: &[AtomicU64; 3]) {
    let clock = sim.clock();
    let mut rng = sim.rng();
    let mut commits = std::collections::VecDeque::new();
    for number in from..=to {
        booked[0].store(number, Ordering::Relaxed);
        let Ok(commit) = partition.write(&encode(&batch(seed, number))).await else { return };
        commits.push_back((number, commit));
        while commits.len() > rng.below(6) as usize {
            let Some((number, commit)) = commits.pop_front() else { break };
            if commit.await.is_err() {
                return;
            }
            booked[1].store(number, Ordering::Relaxed);
        }
        // Every batch is one log record, and the first record is the first batch.
        booked[2].store(partition.metrics().log.durable.min(number), Ordering::Relaxed);
        if rng.chance(0.05) {
            sleep_until(&clock, clock.now() + 20_000_000).await;
        }
    }
    for (number, commit) in commits {
        if commit.await.is_err() {
            return;
        }
        booked[1].store(number, Ordering::Relaxed);
    }
}

#[test]
fn a_power_cut_at_any_change_leaves_the_state_after_some_batch_that_was_promised() {
    let mut cuts = 0;
    for (seed, sync) in (0..3).flat_map(|seed| [(seed, SyncMode::Always), (seed, SyncMode::Interval)]) {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let booked: Arc<[AtomicU64; 3]> = Arc::default();
        let images: Arc<Mutex<Vec<(DiskImage, u64, u64)>>> = Arc::default();
        {
            let (images, booked, mut rng) = (Arc::clone(&images), Arc::clone(&booked), sim.rng());
            fs.on_cut_point(move |fs, _| {
                let keep = [Keep::Random, Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(5) as usize];
                let [sent, acknowledged, durable] = [0, 1, 2].map(|at| booked[at].load(Ordering::Relaxed));
                let promised = if sync == SyncMode::Always { acknowledged } else { durable };
                images.lock().push((fs.crash_keeping(keep, &mut rng), promised, sent));
            });
        }
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await.expect("a fresh disk");
            write(&sim, node.partition(), seed, 1, 300, &booked).await;
        });
        fs.clear_hook();
        let images = std::mem::take(&mut *images.lock());
        cuts += images.len();
        for (number, (image, promised, sent)) in (0..).zip(images) {
            let (sim, fs) = world(number, &image, FaultPlan::none());
            sim.block_on(async {
                let (node, count) = check(&sim, &fs, sync, seed, promised, sent).await;
                if number % 4 == 0 {
                    // The store goes on from there, and survives the next cut.
                    let booked = <[AtomicU64; 3]>::default();
                    write(&sim, node.partition(), seed, count + 1, count + 20, &booked).await;
                    let image = fs.crash(&mut sim.rng());
                    let (sim, fs) = world(number + 1, &image, FaultPlan::none());
                    let promised = if sync == SyncMode::Always { count + 20 } else { count };
                    sim.block_on(check(&sim, &fs, sync, seed, promised, count + 20));
                }
            });
        }
    }
    assert!(cuts > 1_300, "only {cuts} cuts");
}

#[test]
fn failing_operations_lose_nothing_acknowledged_and_writes_go_on() {
    for seed in 0..60 {
        let sync = if seed % 2 == 0 { SyncMode::Always } else { SyncMode::Interval };
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let clock = sim.clock();
        let mut acknowledged = BTreeMap::new();
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await.expect("nothing fails yet");
            let partition = node.partition();
            let plan = FaultPlan::none()
                .chance(OpKind::Write, Fault::Error, 0.01)
                .chance(OpKind::Sync, Fault::Error, 0.05)
                .chance(OpKind::Rename, Fault::Error, 0.05)
                .chance(OpKind::SyncDir, Fault::Error, 0.05)
                .chance(OpKind::Create, Fault::NoSpace, 0.05);
            fs.set_faults(plan);
            let mut refused = 0;
            for number in 0..600_u64 {
                // Each batch has a key of its own: a refused write may still have happened.
                let mut batch = Batch::new();
                batch.put(format!("key{number:05}").as_bytes(), &[number as u8; 100]);
                let outcome = match partition.write(&batch).await {
                    Ok(commit) => commit.await,
                    Err(error) => Err(error),
                };
                match outcome {
                    Ok(()) => drop(acknowledged.insert(number, ())),
                    Err(_) => {
                        refused += 1;
                        sleep_until(&clock, clock.now() + 150_000_000).await;
                    }
                }
            }
            assert!(refused > 0 && acknowledged.len() > 400, "{refused} refused, {} not", acknowledged.len());
            fs.set_faults(FaultPlan::none());
            // The disk is well again: everything becomes durable, also in interval mode.
            sleep_until(&clock, clock.now() + 2_000_000_000).await;
            let mut last = Batch::new();
            last.put(b"last", b"");
            partition.write(&last).await.expect("well again").await.expect("well again");
            sleep_until(&clock, clock.now() + 1_000_000_000).await;
        });
        let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut sim.rng()), FaultPlan::none());
        sim.block_on(async {
            let node = open(&sim, &fs, sync).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for number in acknowledged.into_keys() {
                let record = node.partition().get(format!("key{number:05}").as_bytes()).await.expect("a read");
                assert!(
                    record.is_some_and(|record| record.value().expect("a string")[..] == [number as u8; 100]),
                    "seed {seed}: {number}"
                );
            }
        });
    }
}

/// For each value of a key that some update saw, that update.
type Seen = BTreeMap<(u8, Vec<u8>), u64>;

/// Every update writes a value of its own and notes the value that it saw: no two updates may see the same. And when an
/// update decides, the value that it saw is still the newest: no plain write came in between.
#[test]
fn no_write_slips_between_the_read_and_the_write_of_an_update() {
    for seed in 0..10 {
        let sync = if seed % 2 == 0 { SyncMode::Always } else { SyncMode::Interval };
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let node = sim.block_on(open(&sim, &fs, sync)).expect("a fresh disk");
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let finished = Arc::new(AtomicU64::new(0));
        for task in 0..12_u64 {
            let (partition, seen, finished) = (Arc::clone(node.partition()), Arc::clone(&seen), Arc::clone(&finished));
            let (clock, mut rng) = (sim.clock(), sim.rng());
            sim.spawn(async move {
                for round in 0..60 {
                    let key = [rng.below(3) as u8];
                    let mut value = (task * 1_000 + round + 1).to_le_bytes().to_vec();
                    value.resize(300, 0);
                    let commit = if task % 4 == 0 {
                        let mut batch = Batch::new();
                        batch.put(&key, &value);
                        partition.write(&batch).await.expect("a write")
                    } else {
                        let (old, commit) = partition
                            .update(&[&key], |found, batch| {
                                batch.put(&key, &value);
                                let old = found[0].as_ref().map(|record| record.value().expect("a string").to_vec());
                                // A write that slipped in would be in the memtable.
                                if let Lookup::Ready(Some(newest)) = partition.engine().get_latest(&key) {
                                    let newest = newest.expect("a read").map(|newest| newest.value.to_vec());
                                    assert_eq!(newest, old, "seed {seed}: key {} changed meanwhile", key[0]);
                                }
                                old
                            })
                            .await
                            .expect("an update");
                        let before = seen.lock().insert((key[0], old.clone().unwrap_or_default()), task);
                        assert_eq!(before, None, "seed {seed}: two updates saw the same value of key {}", key[0]);
                        commit.expect("it wrote")
                    };
                    if rng.chance(0.7) {
                        commit.await.expect("a commit");
                    }
                    if rng.chance(0.1) {
                        partition.seal();
                    }
                    sleep_until(&clock, clock.now() + rng.below(300_000)).await;
                }
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        while finished.load(Ordering::Relaxed) < 12 {
            sim.run_until(sim.now() + 10_000_000);
        }
    }
}

/// "The key exists, nothing written" is an answer too, and must not be given before what it saw is durable.
#[test]
fn an_update_that_writes_nothing_waits_for_what_it_saw() {
    for seed in 0..40 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let image = sim.block_on(async {
            let node = open(&sim, &fs, SyncMode::Always).await.expect("a fresh disk");
            let mut batch = Batch::new();
            batch.put(b"key", b"value");
            let unacknowledged = node.partition().write(&batch).await.expect("a write");
            let (exists, commit) =
                node.partition().update(&[b"key"], |found, _| found[0].is_some()).await.expect("an update");
            assert!(exists);
            if let Some(commit) = commit {
                commit.await.expect("a commit");
            }
            drop(unacknowledged);
            fs.crash_keeping(Keep::None, &mut sim.rng())
        });
        let (sim, fs) = world(seed, &image, FaultPlan::none());
        sim.block_on(async {
            let node = open(&sim, &fs, SyncMode::Always).await.expect("it opens");
            assert!(node.partition().get(b"key").await.expect("a read").is_some(), "somebody was told that it exists");
        });
    }
}
