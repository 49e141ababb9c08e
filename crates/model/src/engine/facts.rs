//! What policies, schedulers and dashboards ask an engine.

use weir_io::Nanos;

use super::{JobCount, JobKind, Space, Stall, StallCause, TreeShape};
use crate::LogIndex;

/// An engine at one moment, in words that fit every engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineFacts {
    /// Bytes of changes that are applied and in no file yet.
    pub unflushed_bytes: u64,
    /// Bytes that merges still have to move at least once, because they were put off: the debt.
    pub debt_bytes: u64,
    /// Bytes that can be written before writes are stopped, if no job ends meanwhile; `None` if they never are. Divided
    /// by a rate it is the time to a stall.
    pub bytes_to_stall: Option<u64>,
    /// Memory of its data that no flush gives back, in bytes.
    pub resident_bytes: u64,
    /// Whether writes should be slowed or stopped.
    pub stall: Stall,
    /// Work is due, or waits to be handed out.
    pub is_work_due: bool,
    /// Jobs handed out and not yet finished.
    pub jobs_running: usize,
    /// The same by kind, in the order of [`JobKind::ALL`].
    pub jobs: [JobCount; JobKind::ALL.len()],
    /// Last log record applied.
    pub applied: LogIndex,
    /// Every log record up to here is in files.
    pub persisted: LogIndex,
    /// Of an engine that is a tree.
    pub tree: Option<TreeShape>,
}

impl EngineFacts {
    /// Nothing waits, nothing runs.
    pub fn is_settled(&self) -> bool {
        self.jobs_running == 0 && !self.is_work_due
    }

    /// Adds another's. What is not a sum (positions in the log, scores, limits, the stall) stays this one's.
    pub fn add(&mut self, other: &Self) {
        self.unflushed_bytes += other.unflushed_bytes;
        self.debt_bytes += other.debt_bytes;
        self.bytes_to_stall = self.bytes_to_stall.into_iter().chain(other.bytes_to_stall).min();
        self.resident_bytes += other.resident_bytes;
        self.jobs_running += other.jobs_running;
        for (sum, jobs) in self.jobs.iter_mut().zip(&other.jobs) {
            sum.running += jobs.running;
            sum.parked += jobs.parked;
            sum.bytes_left += jobs.bytes_left;
        }
        match (&mut self.tree, &other.tree) {
            (Some(sum), Some(tree)) => sum.add(tree),
            (sum @ None, tree) => sum.clone_from(tree),
            (Some(_), None) => {}
        }
    }

    /// The shape of its tree; an empty one where there is none.
    pub fn shape(&self) -> TreeShape {
        self.tree.clone().unwrap_or_default()
    }
}

/// Memory of changes that a flush gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnflushedMemory {
    /// Bytes that nobody is flushing. [`seal`](super::Records::seal) changes that.
    pub held: u64,
    /// Bytes that are being flushed, or will be next.
    pub leaving: u64,
    /// Since when the oldest of those held is there; 0 if it is the first since the engine was opened.
    pub since: Nanos,
}

/// What an engine has in the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Bytes of entries, pinned ones too.
    pub bytes: u64,
    /// Bytes of pinned entries.
    pub pinned_bytes: u64,
    /// Bytes of warm entries: put in as they were written.
    pub warm_bytes: u64,
    /// Bytes of entries that were put in because somebody read them, gone ones too.
    pub read_bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
}

impl CacheUsage {
    /// Adds another's.
    pub fn add(&mut self, other: &CacheUsage) {
        self.bytes += other.bytes;
        self.pinned_bytes += other.pinned_bytes;
        self.warm_bytes += other.warm_bytes;
        self.read_bytes += other.read_bytes;
        self.entries += other.entries;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// What can be asked of an engine.
pub trait Facts: Send + Sync {
    /// Whether writes should be slowed or stopped now. Asked by every write.
    fn stall(&self) -> Stall;

    /// Bytes per second at which writes should go while the engine says slow. Never 0.
    fn slow_rate(&self) -> u64;

    /// What will stop writes first, if something does.
    fn nearest_stall(&self) -> StallCause;

    /// Whether writes will soon wait for nothing but a flush (U-11).
    fn is_flush_urgent(&self) -> bool;

    /// Whether something is applied that no flush has been asked for.
    fn has_unsealed(&self) -> bool;

    /// Memory that flushes give back.
    fn unflushed_memory(&self) -> UnflushedMemory;

    /// The facts of the moment.
    fn facts(&self) -> EngineFacts;

    /// What it takes on the device and in memory, and what of it is dead. Looks at no data.
    fn space(&self) -> Space;

    /// What it has in the block cache, and pinned there.
    fn cache_usage(&self) -> CacheUsage;
}
