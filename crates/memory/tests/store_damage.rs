//! Damaged, missing and foreign files: the store is refused with the file's name, and never opened with a part of its
//! rows. And a disk that fails now and then, under jobs that fail or are dropped wherever they stand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{AlignedBuf, Class, ErrorKind, Fs, OpenOptions, Owner, Result, Rng, Tag, sleep_until};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::Batch;
use weir_model::engine::{Files, Jobs, Range, Reads, Records};

const OWNER: Owner = Owner { tenant: 1, partition: 1 };
const TAG: Tag = Tag::new(OWNER, Class::Maintenance);

fn disk(sim: &Sim) -> Arc<dyn Fs> {
    SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng())
}

fn env(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str, owner: Owner) -> Env {
    let budget = Arc::new(Budget::new(u64::MAX));
    Env { fs: Arc::clone(fs), dir: PathBuf::from(dir), owner, clock: sim.clock(), budget, salt: 7 }
}

fn open(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str, owner: Owner) -> Result<Arc<Store>> {
    sim.block_on(Store::open(env(sim, fs, dir, owner), StoreOptions::default()))
}

fn flush(sim: &Sim, store: &Store) {
    store.seal();
    while let Some(job) = store.next_flush() {
        sim.block_on(job.run()).expect("flush");
    }
}

async fn rows(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut scan, mut rows) = (store.scan(Range::all(), None), BTreeMap::new());
    while let Some(entry) = scan.next().await.expect("scan") {
        rows.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    rows
}

/// A store with a snapshot of a few blocks.
fn stored(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str) -> (Arc<Store>, String) {
    let store = open(sim, fs, dir, OWNER).expect("a new store");
    let mut batch = Batch::new();
    (0..3_u8).for_each(|number| batch.put(&[number], &vec![number; 50_000]));
    let applied = store.apply(1, batch.as_ref());
    store.publish(applied.last_seq);
    flush(sim, &store);
    let files = store.hold().files();
    assert_eq!(files.len(), 1);
    (store, format!("{dir}/{}", files[0]))
}

fn read(sim: &Sim, fs: &Arc<dyn Fs>, path: &str) -> AlignedBuf {
    sim.block_on(async {
        let file = fs.open(path.as_ref(), OpenOptions::read_buffered(), TAG).await?;
        let length = file.len().await? as usize;
        file.read_at(0, AlignedBuf::with_len(length), TAG).await
    })
    .expect("read")
}

fn replace(sim: &Sim, fs: &Arc<dyn Fs>, path: &str, content: &[u8]) {
    sim.block_on(async {
        fs.remove(path.as_ref(), TAG).await?;
        let file = fs.open(path.as_ref(), OpenOptions::create_new_buffered(), TAG).await?;
        file.write_at(0, AlignedBuf::copy_of(content), TAG).await.map(drop)
    })
    .expect("write");
}

#[test]
fn a_flipped_bit_anywhere_in_a_snapshot_is_named_and_nothing_is_opened() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let (_, path) = stored(&sim, &fs, "/store");
    let whole = read(&sim, &fs, &path).to_vec();
    assert!(whole.len() > 2 * (64 << 10), "several blocks");
    let mut rng = Rng::new(1);
    // Every bit of a block is tried where blocks are decoded.
    for _ in 0..200 {
        let bit = rng.below(whole.len() as u64 * 8) as usize;
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        replace(&sim, &fs, &path, &flipped);
        let error = open(&sim, &fs, "/store", OWNER).err().expect("damage");
        assert_eq!((error.kind(), error.path().to_str()), (ErrorKind::Corruption, Some(&*path)), "bit {bit}");
        assert!(error.offset().is_some_and(|offset| offset <= bit as u64 / 8), "bit {bit}: {error}");
        let report = sim.block_on(weir_memory::check::check(&fs, "/store".as_ref(), |_, _| ())).expect("a manifest");
        assert_eq!(report.problems.len(), 1, "bit {bit}");
    }
    replace(&sim, &fs, &path, &whole);
    open(&sim, &fs, "/store", OWNER).expect("it is whole again");
}

#[test]
fn a_snapshot_that_is_cut_missing_or_another_one_is_refused() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let (store, path) = stored(&sim, &fs, "/store");
    let whole = read(&sim, &fs, &path).to_vec();
    let refused = |content: Option<&[u8]>| {
        match content {
            Some(content) => replace(&sim, &fs, &path, content),
            None => sim.block_on(fs.remove(path.as_ref(), TAG)).expect("remove"),
        }
        let error = open(&sim, &fs, "/store", OWNER).err().expect("damage");
        assert_eq!((error.kind(), error.path().to_str()), (ErrorKind::Corruption, Some(&*path)));
    };
    refused(Some(&whole[..whole.len() - 4096]));
    refused(Some(&[&whole[..], &[0; 4096]].concat()));
    // A sound file of the same number and length, from a store that holds something else.
    let other = open(&sim, &fs, "/other", OWNER).expect("a new store");
    let mut batch = Batch::new();
    (0..3_u8).for_each(|number| batch.put(&[number], &vec![number + 1; 50_000]));
    other.publish(other.apply(1, batch.as_ref()).last_seq);
    flush(&sim, &other);
    let sound = read(&sim, &fs, &path.replace("/store", "/other"));
    assert_eq!(sound.len(), whole.len());
    refused(Some(&sound));
    refused(None);
    drop(store);
    sim.block_on(fs.remove("/store/CURRENT".as_ref(), TAG)).expect("remove");
    replace(&sim, &fs, &path.replace("/store", "/other"), &whole);
    let error = open(&sim, &fs, "/other", Owner { tenant: 2, partition: 2 }).err().expect("of another");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn a_store_whose_current_is_missing_is_not_taken_for_a_new_one() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    stored(&sim, &fs, "/store");
    sim.block_on(fs.remove("/store/CURRENT".as_ref(), TAG)).expect("remove");
    let error = open(&sim, &fs, "/store", OWNER).err().expect("damage");
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_checkpoint_is_a_store_of_its_own_for_anybody() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let (store, _) = stored(&sim, &fs, "/store");
    let before = sim.block_on(rows(&store));
    let held = store.hold();
    let mut batch = Batch::new();
    batch.put(b"later", b"not in it");
    store.publish(store.apply(2, batch.as_ref()).last_seq);
    flush(&sim, &store);
    assert_eq!((held.persisted(), store.persisted()), (1, 2));
    sim.block_on(async {
        fs.create_dir_all("/copy".as_ref(), TAG).await?;
        for name in held.files() {
            fs.hard_link(&held.dir().join(&name), &PathBuf::from("/copy").join(&name), TAG).await?;
        }
        held.write_manifest("/copy".as_ref()).await
    })
    .expect("copied");
    drop(held);
    sim.block_on(store.tidy()).expect("tidy");
    let report = sim.block_on(weir_memory::check::check(&fs, "/store".as_ref(), |_, _| ())).expect("check");
    assert_eq!(report.orphans, Vec::<String>::new(), "what was held is gone now");
    let copy = open(&sim, &fs, "/copy", Owner { tenant: 9, partition: 9 }).expect("the copy opens");
    assert_eq!((sim.block_on(rows(&copy)), copy.persisted()), (before, 1));
}

fn faults(rng: &mut Rng) -> FaultPlan {
    let kinds =
        [OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Rename, OpKind::Create, OpKind::Remove, OpKind::Read];
    let mut plan = FaultPlan::none();
    for kind in kinds {
        if rng.chance(0.5) {
            plan = plan.chance(kind, if rng.chance(0.5) { Fault::Error } else { Fault::NoSpace }, 0.05);
        }
    }
    plan
}

/// Batch `n` of the log is record `n + 1`. A log would have forgotten what the store has persisted.
async fn a_day(sim: &Sim, seed: u64) -> usize {
    let device = DeviceSpec { latency: 20_000, ..DeviceSpec::instant() };
    let (mut rng, clock) = (Rng::new(seed), sim.clock());
    let mut disk = SimFs::new(sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
    let (mut log, mut map, mut truncated, mut restarts): (Vec<Batch>, BTreeMap<_, _>, _, _) = Default::default();
    let options = || StoreOptions { snapshot_log_bytes: 2_000, io_bytes: 1 };
    let opening = |disk: &Arc<SimFs>| {
        let fs = Arc::clone(disk) as Arc<dyn Fs>;
        Store::open(env(sim, &fs, "/store", OWNER), options())
    };
    let mut store = opening(&disk).await.expect("a new store");
    disk.set_faults(faults(&mut rng));
    for _ in 0..250 {
        match rng.below(20) {
            0..12 => {
                let mut batch = Batch::new();
                for _ in 0..=rng.below(3) {
                    let key = format!("key{:03}", rng.below(150)).into_bytes();
                    if rng.chance(0.3) {
                        batch.delete(&key);
                        map.remove(&key);
                    } else {
                        let value = vec![rng.next_u64() as u8; rng.below(200) as usize];
                        batch.put(&key, &value);
                        map.insert(key, value);
                    }
                }
                store.publish(store.apply(log.len() as u64 + 1, batch.as_ref()).last_seq);
                log.push(batch);
            }
            12 => store.seal(),
            13..19 => {
                let Some(job) = store.next_flush() else { continue };
                let polls = if rng.chance(0.7) { u64::MAX } else { rng.below(60) };
                let mut job = Box::pin(job.run());
                for _ in 0..polls {
                    if std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx))).await.is_ready() {
                        break;
                    }
                    sleep_until(&clock, clock.now() + 7_000).await;
                }
                drop(job);
                truncated = store.persisted().max(truncated);
            }
            _ => {
                restarts += 1;
                let keep = [Keep::Random, Keep::None, Keep::All, Keep::Prefix][rng.below(4) as usize];
                let image = disk.crash_keeping(keep, &mut rng);
                disk = SimFs::from_image(&image, sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
                store = opening(&disk).await.expect("it opens when the disk is well");
                assert!(store.persisted() >= truncated, "seed {seed}: the log has forgotten what the store has not");
                for (at, batch) in log.iter().enumerate().skip(store.persisted() as usize) {
                    store.publish(store.apply(at as u64 + 1, batch.as_ref()).last_seq);
                }
                store.discard_unnamed().await.expect("the disk is well");
                assert!(rows(&store).await == map, "seed {seed}");
                disk.set_faults(faults(&mut rng));
            }
        }
    }
    restarts
}

#[test]
fn whatever_fails_store_and_log_hold_together_what_was_written() {
    let mut restarts = 0;
    for seed in 0..50 {
        let sim = Sim::new(seed);
        restarts += sim.block_on(a_day(&sim, seed));
    }
    assert!(restarts > 350, "{restarts}");
}
