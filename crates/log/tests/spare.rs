//! The next segment is made while the one before it has room.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use weir_io::sim::{Fault, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Clock, File, Fs, Op, OpenOptions, Owner, Tag, forward_file, forward_fs, sleep_until};
use weir_log::{Log, LogOptions, SyncMode, WriteAheadLog};

use crate::common::{DIR, device, open};

const SEGMENT_BYTES: u64 = 256 << 10;

/// A disk that clients use up: writes of the background never have their turn.
struct BusyFs {
    inner: Arc<dyn Fs>,
}

struct BusyFile {
    inner: Arc<dyn File>,
}

impl Fs for BusyFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let opened = self.inner.open(path, options, tag);
        Op::pending(async move { Ok(Arc::new(BusyFile { inner: opened.await? }) as Arc<dyn File>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, lock);
}

impl File for BusyFile {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        match tag.class.is_foreground() {
            true => self.inner.write_at(offset, buf, tag),
            false => Op::pending(std::future::pending()),
        }
    }

    forward_file!(inner: read_at, sync, allocate, set_len, len, data_end, is_direct, read_unit);
}

fn options(sync: SyncMode) -> LogOptions {
    LogOptions { sync, segment_bytes: SEGMENT_BYTES, ..LogOptions::new(Owner::default(), 1) }
}

/// Opens a new log in mode `Always` on such a disk.
async fn open_busy(fs: &Arc<SimFs>) -> Log {
    let busy = BusyFs { inner: Arc::clone(fs) as Arc<dyn Fs> };
    let mut nobody = |_, _: &[u8]| Op::ready(Ok(()));
    Log::open(Arc::new(busy), Path::new(DIR), options(SyncMode::Always), 0, &mut nobody).await.expect("a fresh disk").0
}

/// Runs `test` with such a disk, its clock and a new log.
fn with_busy_log(test: impl AsyncFnOnce(Arc<SimFs>, Arc<dyn Clock>, Log)) {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let log = open_busy(&fs).await;
        test(fs, sim.clock(), log).await;
    });
}

/// A write of `log` fails.
async fn fail(fs: &SimFs, log: &Log) {
    fs.fail_next(Some(OpKind::Write), Fault::Error);
    let index = log.append(&[7; 1_000]).expect("nothing has failed yet");
    assert!(log.commit(index).await.is_err());
}

/// Writes until the segment is more than half full, so that the next one is due.
async fn until_due(log: &Log) {
    while !log.wants_maintenance() {
        write(log).await;
    }
}

/// Writes until the next segment is due, and makes it.
async fn make_next(log: &Log) {
    until_due(log).await;
    log.maintain().await.expect("nothing fails");
}

/// Writes until the next segment is due, and begins to fill it with zeros, which have no turn on a busy disk.
async fn begin_zeros(log: &Log, clock: &Arc<dyn Clock>) {
    until_due(log).await;
    select(log.maintain(), pin!(sleep_until(clock, clock.now() + 1_000_000))).await;
}

/// What comes of `work`, which must not wait for zeros.
async fn without_zeros<T>(clock: &Arc<dyn Clock>, work: impl Future<Output = T> + Unpin) -> T {
    match select(work, pin!(sleep_until(clock, clock.now() + 1_000_000_000))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("it waits for the zeros"),
    }
}

/// The names of files that are no segments.
async fn strangers(fs: &SimFs) -> Vec<String> {
    let entries = fs.list(Path::new(DIR), Tag::new(Owner::default(), Class::Log)).await.expect("it is there");
    entries.into_iter().map(|entry| entry.name).filter(|name| !name.ends_with(".log")).collect()
}

async fn write(log: &Log) {
    let index = log.append(&[7; 1_000]).expect("nothing fails");
    log.commit(index).await.expect("nothing fails");
}

#[test]
fn a_log_does_not_wait_behind_flushes_for_its_next_segment_where_that_is_a_page() {
    for sync in [SyncMode::Interval, SyncMode::Always] {
        let sim = Sim::new(1);
        let fs = Arc::new(SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng()));
        sim.block_on(async {
            let (log, ..) = open(&fs, options(sync), 0).await.expect("a fresh disk");
            let ahead_of_time = || fs.count(Class::Flush, OpKind::Write).bytes;
            make_next(&log).await;
            let is_filled = sync == SyncMode::Always;
            assert_eq!(ahead_of_time() > 0, is_filled, "{sync:?}: with zeros");
            // Each segment is twice as long as the one before, up to this size.
            for _ in 0..4 * SEGMENT_BYTES / 1_000 {
                write(&log).await;
            }
            let before = ahead_of_time();
            make_next(&log).await;
            assert_eq!(ahead_of_time() > before, is_filled, "{sync:?}");
        });
    }
}

#[test]
fn a_segment_that_is_used_again_does_not_wait_behind_flushes() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let (log, ..) = open(&fs, options(SyncMode::Always), 0).await.expect("a fresh disk");
        for _ in 0..4 * SEGMENT_BYTES / 1_000 {
            write(&log).await;
        }
        log.truncate(log.last()).await.expect("nothing fails");
        assert_eq!(log.stats().segments_recycled, 1);
        assert_eq!(fs.count(Class::Flush, OpKind::Write).ops, 0);
    });
}

#[test]
fn writes_do_not_wait_for_zeros_that_never_have_their_turn() {
    with_busy_log(async |fs, clock, log| {
        for _ in 0..4 * SEGMENT_BYTES / 1_000 {
            write(&log).await;
            if log.wants_maintenance() {
                // The control loop asks for the next segment, and waits.
                select(log.maintain(), pin!(sleep_until(&clock, clock.now() + 1_000_000))).await;
            }
        }
        assert!(log.stats().segments > 4, "{:?}", log.stats());
        let last = log.last();
        drop(log);
        let (_, found, _) =
            open(&fs, LogOptions { salt: 2, ..options(SyncMode::Always) }, 0).await.expect("it is whole");
        assert_eq!(found.last, last);
    });
}

#[test]
fn one_caller_waits_for_the_next_segment() {
    with_busy_log(async |_, clock, log| {
        until_due(&log).await;
        let soon = || Box::pin(sleep_until(&clock, clock.now() + 1_000_000_000));
        let Either::Right((_, waiting)) = select(log.maintain(), soon()).await else { panic!("there are no zeros") };
        assert!(!log.wants_maintenance(), "somebody waits for the zeros");
        // A record whose writer has gone must be written all the same.
        let last = log.append(&[7; 1_000]).expect("nothing fails");
        assert!(log.wants_maintenance());
        let Either::Left((written, _)) = select(log.maintain(), soon()).await else { panic!("it waits for the zeros") };
        written.expect("nothing fails");
        assert_eq!(log.stats().committed, last);
        assert!(!log.wants_maintenance());
        drop(waiting);
        assert!(log.wants_maintenance(), "nobody waits for the zeros");
    });
}

#[test]
fn a_truncation_does_not_wait_for_zeros_that_never_have_their_turn() {
    with_busy_log(async |_, clock, log| {
        while log.stats().segments < 3 {
            write(&log).await;
        }
        begin_zeros(&log, &clock).await;
        without_zeros(&clock, log.truncate(log.last())).await.expect("nothing fails");
        assert_eq!(log.stats().segments, 1);
    });
}

#[test]
fn a_failed_log_is_replaced_although_zeros_never_have_their_turn() {
    with_busy_log(async |fs, clock, log| {
        begin_zeros(&log, &clock).await;
        fail(&fs, &log).await;
        without_zeros(&clock, log.replace(log.last())).await.expect("nothing fails any more");
        write(&log).await;
    });
}

#[test]
fn a_failed_log_gives_back_the_space_of_its_next_segment_before_it_is_replaced() {
    with_busy_log(async |fs, clock, log| {
        begin_zeros(&log, &clock).await;
        assert_eq!(strangers(&fs).await, ["preparing.tmp"]);
        fail(&fs, &log).await;
        // The removal may still be in flight.
        without_zeros(&clock, log.maintain()).await.expect("nothing else fails");
        assert!(strangers(&fs).await.is_empty(), "{:?}", strangers(&fs).await);
        without_zeros(&clock, log.replace(log.last())).await.expect("nothing fails any more");
        write(&log).await;
    });
}

#[test]
fn a_log_is_closed_although_zeros_never_have_their_turn() {
    with_busy_log(async |fs, clock, log| {
        begin_zeros(&log, &clock).await;
        without_zeros(&clock, log.close()).await.expect("nothing fails");
        assert!(strangers(&fs).await.is_empty(), "{:?}", strangers(&fs).await);
        let last = log.last();
        drop(log);
        let (_, found, _) =
            open(&fs, LogOptions { salt: 2, ..options(SyncMode::Always) }, 0).await.expect("it is whole");
        assert_eq!(found.last, last);
    });
}
