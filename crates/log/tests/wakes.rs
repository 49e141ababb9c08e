//! Nobody waits for ever: runs things that another thread may do while a write is being handed over, in the middle of
//! it.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::{DIR, device, options};
use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, BoxFuture, File, Fs, Op, OpenOptions, Result, Tag, forward_file, forward_fs};
use weir_log::{Log, SyncMode, WriteAheadLog};

type Meddle = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A file system that runs a given action during the next write, and counts the operations on the directory that the
/// making of a segment does.
struct Meddled {
    inner: Arc<dyn Fs>,
    meddle: Meddle,
    makings: Arc<AtomicUsize>,
}

struct MeddledFile {
    inner: Arc<dyn File>,
    meddle: Meddle,
}

impl Fs for Meddled {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (opened, meddle) = (self.inner.open(path, options, tag), Arc::clone(&self.meddle));
        Op::pending(async move {
            let inner = opened.await?;
            Ok(Arc::new(MeddledFile { inner, meddle }) as Arc<dyn File>)
        })
    }

    fn rename(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        self.makings.fetch_add(1, Ordering::SeqCst);
        self.inner.rename(from, to, tag)
    }

    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        self.makings.fetch_add(1, Ordering::SeqCst);
        self.inner.sync_dir(path, tag)
    }

    forward_fs!(inner: hard_link, remove, create_dir_all, remove_dir, list, lock);
}

impl File for MeddledFile {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let meddle = self.meddle.lock().take();
        if let Some(meddle) = meddle {
            meddle();
        }
        self.inner.write_at(offset, buf, tag)
    }

    forward_file!(inner: read_at, sync, allocate, set_len, len, data_end, is_direct, read_unit);
}

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled only when it was woken, as an executor would.
struct Task<T> {
    future: BoxFuture<T>,
    bell: Arc<Bell>,
    polled_at: Option<usize>,
}

impl<T> Task<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), bell: Arc::default(), polled_at: None }
    }

    /// `None` if it is not done, or has not been woken since the last time.
    fn run(&mut self) -> Option<T> {
        loop {
            let rung = self.bell.0.load(Ordering::SeqCst);
            if self.polled_at == Some(rung) {
                return None;
            }
            self.polled_at = Some(rung);
            let waker = Waker::from(Arc::clone(&self.bell));
            if let Poll::Ready(output) = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
        }
    }
}

fn open(sync: SyncMode) -> (Sim, Log, Meddle) {
    let (sim, log, meddle, _) = open_counted(sync, DeviceSpec::instant());
    (sim, log, meddle)
}

/// Opens a log; also returns the count of operations of the making of segments.
fn open_counted(sync: SyncMode, device: DeviceSpec) -> (Sim, Log, Meddle, Arc<AtomicUsize>) {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let (meddle, makings) = (Meddle::default(), Arc::default());
    let fs: Arc<dyn Fs> = Arc::new(Meddled { inner: fs, meddle: Arc::clone(&meddle), makings: Arc::clone(&makings) });
    let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
    let (log, _) = sim.block_on(Log::open(fs, Path::new(DIR), options(sync, 1), 0, &mut replay)).expect("a fresh disk");
    // So that the next write is that of a record, and not one that makes a segment.
    let first = log.append(b"first").expect("an append");
    sim.block_on(log.commit(first)).expect("a commit");
    (sim, log, meddle, makings)
}

/// Starts `other` in the middle of the write of a record, which then ends at once. Returns whether `other` ends without
/// anybody else's help.
fn ends(sync: SyncMode, other: impl FnOnce(Log) -> BoxFuture<Result<()>> + Send + 'static) -> bool {
    let (sim, log, meddle) = open(sync);
    let started: Arc<Mutex<Option<Task<Result<()>>>>> = Arc::default();
    {
        let (started, log) = (Arc::clone(&started), log.clone());
        *meddle.lock() = Some(Box::new(move || {
            let mut task = Task::new(other(log));
            assert!(task.run().is_none(), "it has to wait for the write");
            *started.lock() = Some(task);
        }));
    }
    let index = log.append(b"record").expect("an append");
    sim.block_on(log.commit(index)).expect("a commit");
    let mut task = started.lock().take().expect("it was started during the write");
    for _ in 0..10 {
        if let Some(result) = task.run() {
            result.expect("nothing fails");
            return true;
        }
        // Lets the disk finish its work; it has no latency.
        sim.run_until(sim.now() + 1);
    }
    false
}

#[test]
fn a_sync_that_waits_for_a_write_hears_of_its_end() {
    assert!(ends(SyncMode::Interval, |log| log.sync()));
    assert!(ends(SyncMode::Always, |log| log.sync()));
}

#[test]
fn closing_while_a_write_is_handed_over_ends() {
    assert!(ends(SyncMode::Interval, |log| log.close()));
    assert!(ends(SyncMode::Always, |log| log.close()));
}

#[test]
fn a_commit_behind_a_write_that_is_handed_over_ends() {
    for sync in [SyncMode::Interval, SyncMode::Always] {
        assert!(ends(sync, |log| {
            // A write that is smaller than the one in flight waits for the end of that one; the same record again would
            // be written at once.
            Box::pin(async move { log.commit(2).await })
        }));
    }
}

#[test]
fn a_commit_makes_no_segment_for_others() {
    let (sim, log, _, makings) = open_counted(SyncMode::Interval, device());
    while !log.wants_maintenance() {
        let index = log.append(&[7; 1000]).expect("an append");
        sim.block_on(log.commit(index)).expect("a commit");
    }
    let before = makings.load(Ordering::SeqCst);
    let maintained = log.clone();
    let mut maintenance = Task::new(async move { maintained.maintain().await });
    assert!(maintenance.run().is_none(), "it has only begun");
    // Each of these finds the step before done; on a thread that may block it would do the next one itself.
    for _ in 0..10 {
        let index = log.append(b"small").expect("an append");
        sim.block_on(log.commit(index)).expect("a commit");
        sim.run_until(sim.now() + 1_000_000);
    }
    assert_eq!(makings.load(Ordering::SeqCst), before);
    while maintenance.run().is_none() {
        sim.run_until(sim.now() + 1_000_000);
    }
    assert!(makings.load(Ordering::SeqCst) > before);
}

/// The device finishes the second of two writes first. By the time when it finishes the first one, nobody waits for
/// that any more.
#[test]
fn a_commit_hears_of_the_end_of_an_earlier_write_that_nobody_waits_for() {
    let sim = Sim::new(1);
    let disk = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
    let (fs, mut replay) = (Arc::clone(&disk) as Arc<dyn Fs>, |_, _: &[u8]| Op::ready(Ok(())));
    let opened = Log::open(fs, Path::new(DIR), options(SyncMode::Always, 1), 0, &mut replay);
    let (log, _) = sim.block_on(opened).expect("a fresh disk");
    let first = log.append(b"first").expect("an append");
    sim.block_on(log.commit(first)).expect("a commit");

    let commit = || {
        let (log, index) = (log.clone(), log.append(b"record").expect("an append"));
        Task::new(async move { log.commit(index).await })
    };
    let began = sim.now();
    disk.set_faults(FaultPlan::none().slow(began, began + 1, 1_000));
    let mut slow = commit();
    assert!(slow.run().is_none(), "its write takes some 100 ms");
    sim.run_until(began + 1);
    let mut quick = commit();
    assert!(quick.run().is_none(), "its write takes some 40 ms");
    drop(slow);
    sim.run_until(began + 60_000_000);
    assert!(quick.run().is_none(), "records are committed in order");
    sim.run_until(began + 1_000_000_000);
    quick.run().expect("it was woken").expect("nothing fails");
}
