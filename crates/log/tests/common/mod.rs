//! A log on a simulated disk, writers, and the guarantees they have.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Op, Owner, Result, Rng, sleep_until};
use weir_log::{Log, LogIndex, LogOptions, Recovery, SyncMode, WriteAheadLog};

pub const DIR: &str = "p/log";

/// The guarantees at some moment.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// The payload of every record appended, in order of index.
    pub appended: Vec<Vec<u8>>,
    /// The last index acknowledged.
    pub acknowledged: LogIndex,
    /// The last index that a completed sync covers.
    pub synced: LogIndex,
    /// The last index that the engine claims to hold.
    pub persisted: LogIndex,
}

pub type Shared = Arc<Mutex<Promises>>;

/// A device with some latency, so that operations overlap and complete out of order.
pub fn device() -> DeviceSpec {
    DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(100 << 20) }
}

pub fn options(sync: SyncMode, salt: u64) -> LogOptions {
    LogOptions { sync, segment_bytes: 32 << 10, ..LogOptions::new(Owner::default(), salt) }
}

/// Opens the log and returns the records after `persisted`.
pub async fn open(
    fs: &Arc<SimFs>,
    options: LogOptions,
    persisted: LogIndex,
) -> Result<(Log, Recovery, Vec<(LogIndex, Vec<u8>)>)> {
    let mut records = Vec::new();
    let mut replay = |index, payload: &[u8]| {
        records.push((index, payload.to_vec()));
        Op::ready(Ok(()))
    };
    let fs: Arc<dyn Fs> = Arc::clone(fs) as Arc<dyn Fs>;
    let (log, recovery) = Log::open(fs, Path::new(DIR), options, persisted, &mut replay).await?;
    Ok((log, recovery, records))
}

/// A payload that says which record it belongs to: mostly small, sometimes of several pages.
pub fn payload(index: LogIndex, rng: &mut Rng) -> Vec<u8> {
    let len = if rng.chance(0.05) { 4000 + rng.below(9000) } else { rng.below(700) } as usize;
    let mut bytes = index.to_le_bytes().to_vec();
    bytes.resize(8 + len, index as u8);
    bytes
}

/// Appends and books one record, and books its acknowledgement.
pub async fn write_one(log: &Log, promises: &Shared, rng: &mut Rng) -> Result<()> {
    let index = {
        // The lock stands for the partition's write order.
        let mut promises = promises.lock();
        let bytes = payload(promises.appended.len() as u64 + 1, rng);
        let index = log.append(&bytes)?;
        assert_eq!(index, promises.appended.len() as u64 + 1);
        promises.appended.push(bytes);
        index
    };
    log.commit(index).await?;
    let mut promises = promises.lock();
    promises.acknowledged = promises.acknowledged.max(index);
    Ok(())
}

/// `writers` writers write `count` records each. Meanwhile somebody syncs, truncates and maintains now and then. Ends
/// early if the log fails; returns whether it did not fail.
pub async fn work(log: &Log, promises: &Shared, writers: usize, count: usize, sim: &Sim) -> bool {
    let mut rng = sim.rng();
    let clock = sim.clock();
    let done = Arc::new(Mutex::new(0));
    let mut chance = rng.fork("control");
    let tasks = (0..writers).map(|writer| {
        let mut rng = rng.fork(&format!("writer {writer}"));
        let done = Arc::clone(&done);
        async move {
            let mut fine = true;
            for _ in 0..count {
                if write_one(log, promises, &mut rng).await.is_err() {
                    fine = false;
                    break;
                }
                // Sometimes the writer does not wait: the others must not notice.
                if rng.chance(0.1) {
                    let mut promises = promises.lock();
                    let bytes = payload(promises.appended.len() as u64 + 1, &mut rng);
                    if let Ok(index) = log.append(&bytes) {
                        promises.appended.push(bytes);
                        drop(promises);
                        let _ = log.commit(index).now_or_never();
                    }
                }
            }
            *done.lock() += 1;
            fine
        }
    });
    let control = async {
        let mut fine = true;
        while *done.lock() < writers {
            match chance.below(8) {
                0 => {
                    let target = log.last();
                    match log.sync().await {
                        Ok(()) => promises.lock().synced = target,
                        Err(_) => fine = false,
                    }
                }
                1 => {
                    // The engine may hold any prefix; its claim is durable before the log is told of it.
                    let persisted = {
                        let mut promises = promises.lock();
                        let last = promises.appended.len() as u64;
                        promises.persisted += chance.below(last - promises.persisted + 1);
                        promises.persisted
                    };
                    fine &= log.truncate(persisted).await.is_ok();
                }
                2 => fine &= log.maintain().await.is_ok(),
                _ => {}
            }
            sleep_until(&clock, clock.now() + 10_000 + chance.below(90_000)).await;
        }
        fine
    };
    let (written, controlled) = join(join_all(tasks), control).await;
    controlled && written.into_iter().all(|fine| fine)
}

/// Opens the log on the disk and checks it: a prefix of the appended records, with everything that was promised.
pub async fn check(fs: &Arc<SimFs>, sync: SyncMode, promises: &Promises, salt: u64) -> (Log, LogIndex) {
    let (log, recovery, records) =
        open(fs, options(sync, salt), promises.persisted).await.unwrap_or_else(|error| panic!("recovery: {error}"));
    let last = check_records(&records, promises);
    assert_eq!(recovery.last, last);
    let promised = match sync {
        SyncMode::Always => promises.acknowledged.max(promises.synced),
        SyncMode::Interval | SyncMode::None => promises.synced,
    };
    assert!(last >= promised, "recovered up to {last}, promised up to {promised}");
    (log, last)
}

/// Checks that the records after the persisted one are a gapless run of the appended ones. Returns the last index.
pub fn check_records(records: &[(LogIndex, Vec<u8>)], promises: &Promises) -> LogIndex {
    for ((index, bytes), expected) in records.iter().zip(promises.persisted + 1..) {
        assert_eq!(*index, expected, "a hole");
        let appended = promises.appended.get(*index as usize - 1).expect("a record that nobody appended");
        assert!(bytes == appended, "record {index} is not what was appended");
    }
    promises.persisted + records.len() as u64
}

/// A separate world with a disk that starts as `image`.
pub fn world(seed: u64, image: &DiskImage, faults: FaultPlan) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    let fs = SimFs::from_image(image, sim.clock(), device(), faults, sim.rng());
    (sim, fs)
}
