//! What the tests share: owners, gates on a simulated clock, and a disk that remembers what it was asked for.
#![allow(dead_code, reason = "each program uses its part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use weir_admission::{Gate, GateOptions, Limits};
use weir_io::sim::Sim;
use weir_io::{
    AlignedBuf, Class, Clock, DirEntry, Error, ErrorKind, File, Fs, FsLock, Nanos, Op, OpenOptions, Owner, Tag,
    sleep_until,
};

pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000 * US;
pub const SEC: Nanos = 1_000 * MS;

pub fn owner(partition: u32) -> Owner {
    Owner { tenant: 1, partition }
}

pub fn node_gate(sim: &Sim, limits: Limits) -> Arc<Gate> {
    Gate::new(sim.clock(), GateOptions::NODE.with_limits(limits))
}

/// A gate that does not bound what is in flight: its grants need not be kept.
pub fn rate_gate(sim: &Sim, limits: Limits) -> Arc<Gate> {
    Gate::new(sim.clock(), GateOptions::BACKGROUND.with_limits(limits))
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

pub fn percentile(samples: &mut [Nanos], p: f64) -> Nanos {
    samples.sort_unstable();
    samples[((samples.len() - 1) as f64 * p) as usize]
}

/// One I/O as the disk saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at: Nanos,
    pub class: Class,
    pub write: bool,
    pub offset: u64,
    pub bytes: usize,
}

/// A disk with one file: it has no faults, takes `ns_per_byte` per byte after everything that came before, and keeps a
/// list of what it was asked for.
pub struct TraceDisk {
    clock: Arc<dyn Clock>,
    ns_per_byte: u64,
    /// Whether its file is behind the page cache.
    pub is_cached: AtomicBool,
    pub content: Mutex<Vec<u8>>,
    pub seen: Mutex<Vec<Seen>>,
    /// When everything that was asked for so far is done.
    busy_until: Mutex<Nanos>,
    /// The longest the queue before the device ever was, in device time.
    pub longest_queue: Mutex<Nanos>,
}

impl TraceDisk {
    pub fn new(clock: Arc<dyn Clock>, ns_per_byte: u64) -> Arc<Self> {
        Arc::new(Self {
            clock,
            ns_per_byte,
            is_cached: AtomicBool::new(false),
            content: Mutex::default(),
            seen: Mutex::default(),
            busy_until: Mutex::default(),
            longest_queue: Mutex::default(),
        })
    }

    /// Notes an I/O, and returns when it will be done.
    fn note(&self, class: Class, write: bool, offset: u64, bytes: usize) -> Nanos {
        let at = self.clock.now();
        self.seen.lock().push(Seen { at, class, write, offset, bytes });
        let mut busy_until = self.busy_until.lock();
        *busy_until = (*busy_until).max(at) + bytes as u64 * self.ns_per_byte;
        let mut longest = self.longest_queue.lock();
        *longest = (*longest).max(*busy_until - at);
        *busy_until
    }

    fn done_at<T: Send + Unpin + 'static>(&self, at: Nanos, value: T) -> Op<T> {
        if at <= self.clock.now() {
            return Op::ready(Ok(value));
        }
        let sleep = sleep_until(&self.clock, at);
        Op::pending(async move {
            sleep.await;
            Ok(value)
        })
    }
}

fn unused<T>() -> Op<T> {
    Op::ready(Err(Error::new(ErrorKind::Invalid, "use", "trace disk", "this disk has one open file and no names")))
}

/// The file system handle of a [`TraceDisk`].
pub struct TraceFs(pub Arc<TraceDisk>);

impl Fs for TraceFs {
    fn open(&self, _: &Path, _: OpenOptions, _: Tag) -> Op<Arc<dyn File>> {
        Op::ready(Ok(Arc::new(TraceFile(Arc::clone(&self.0)))))
    }
    fn rename(&self, _: &Path, _: &Path, _: Tag) -> Op<()> {
        unused()
    }
    fn hard_link(&self, _: &Path, _: &Path, _: Tag) -> Op<()> {
        unused()
    }
    fn remove(&self, _: &Path, _: Tag) -> Op<()> {
        unused()
    }
    fn create_dir_all(&self, _: &Path, _: Tag) -> Op<()> {
        unused()
    }
    fn remove_dir(&self, _: &Path, _: Tag) -> Op<()> {
        unused()
    }
    fn list(&self, _: &Path, _: Tag) -> Op<Vec<DirEntry>> {
        unused()
    }
    fn sync_dir(&self, _: &Path, tag: Tag) -> Op<()> {
        self.0.note(tag.class, true, 0, 0);
        Op::ready(Ok(()))
    }
    fn lock(&self, _: &Path) -> Op<Box<dyn FsLock>> {
        unused()
    }
}

struct TraceFile(Arc<TraceDisk>);

impl File for TraceFile {
    fn read_at(&self, offset: u64, mut buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let content = self.0.content.lock();
        let start = content.len().min(offset as usize);
        let got = buf.len().min(content.len() - start);
        buf[..got].copy_from_slice(&content[start..start + got]);
        drop(content);
        buf.truncate(got);
        let at = self.0.note(tag.class, false, offset, got);
        self.0.done_at(at, buf)
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let mut content = self.0.content.lock();
        let end = offset as usize + buf.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(&buf);
        drop(content);
        let at = self.0.note(tag.class, true, offset, buf.len());
        self.0.done_at(at, buf)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        self.0.note(tag.class, true, 0, 0);
        Op::ready(Ok(()))
    }

    fn allocate(&self, _: u64, _: Tag) -> Op<()> {
        Op::ready(Ok(()))
    }

    fn set_len(&self, len: u64, _: Tag) -> Op<()> {
        self.0.content.lock().resize(len as usize, 0);
        Op::ready(Ok(()))
    }

    fn len(&self) -> Op<u64> {
        Op::ready(Ok(self.0.content.lock().len() as u64))
    }

    fn is_direct(&self) -> bool {
        !self.0.is_cached.load(Relaxed)
    }

    fn read_unit(&self) -> usize {
        weir_io::PAGE
    }
}
