//! Facts about an engine that policies, schedulers and dashboards ask for.

use weir_io::Nanos;

use super::{JobCount, JobKind, Space, Stall, StallCause, TreeShape};
use crate::LogIndex;

/// An engine at one moment, in terms that fit every engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineFacts {
    /// Bytes of changes that are applied and not in any file yet.
    pub unflushed_bytes: u64,
    /// Bytes that merges still have to move at least once, because the merges were put off: the debt.
    pub debt_bytes: u64,
    /// Bytes that can be written before writes are stopped, if no job ends meanwhile; `None` if writes are never
    /// stopped. Divided by a write rate it is the time until the stall.
    pub bytes_to_stall: Option<u64>,
    /// Memory of the engine's data that no flush gives back, in bytes.
    pub resident_bytes: u64,
    /// Whether writes should be slowed or stopped.
    pub stall: Stall,
    /// Whether work is due, or waits to be handed out.
    pub is_work_due: bool,
    /// Jobs that are handed out and not yet finished.
    pub jobs_running: usize,
    /// The running jobs by kind, in the order of [`JobKind::ALL`].
    pub jobs: [JobCount; JobKind::ALL.len()],
    /// The last log record applied.
    pub applied: LogIndex,
    /// Every log record up to here is in files.
    pub persisted: LogIndex,
    /// The shape of the tree, if the engine is one.
    pub tree: Option<TreeShape>,
}

impl EngineFacts {
    /// Whether nothing waits and nothing runs.
    pub fn is_settled(&self) -> bool {
        self.jobs_running == 0 && !self.is_work_due
    }

    /// Adds the facts of another engine. Values that cannot be summed (positions in the log, scores, limits, the stall)
    /// stay those of this one.
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

    /// The shape of the tree; an empty one where there is none.
    pub fn shape(&self) -> TreeShape {
        self.tree.clone().unwrap_or_default()
    }
}

/// The memory of changes, which a flush gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnflushedMemory {
    /// Bytes that are not being flushed. [`seal`](super::Records::seal) changes that.
    pub held: u64,
    /// Bytes that are being flushed, or will be flushed next.
    pub leaving: u64,
    /// The time of the oldest change among those held; 0 if it is the first since the engine was opened.
    pub since: Nanos,
}

/// The engine's part of the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Bytes of entries, including pinned ones.
    pub bytes: u64,
    /// Bytes of pinned entries.
    pub pinned_bytes: u64,
    /// Bytes of warm entries: blocks that were put in as they were written.
    pub warm_bytes: u64,
    /// Bytes of all entries ever put in because somebody read them, including those that are gone by now.
    pub read_bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not find their block.
    pub misses: u64,
}

impl CacheUsage {
    /// Adds the usage of another engine.
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

/// The questions that an engine answers about itself.
pub trait Facts: Send + Sync {
    /// Whether writes should be slowed or stopped now. Asked by every write.
    fn stall(&self) -> Stall;

    /// Bytes per second at which writes should go while the stall is [`Stall::Slow`]. Never 0.
    fn slow_rate(&self) -> u64;

    /// The cause that will stop writes first, if any does.
    fn nearest_stall(&self) -> StallCause;

    /// Whether writes will soon have to wait, for nothing but a flush (U-11).
    fn is_flush_urgent(&self) -> bool;

    /// Whether changes are applied for which no flush has been asked.
    fn has_unsealed(&self) -> bool;

    /// The memory that flushes give back.
    fn unflushed_memory(&self) -> UnflushedMemory;

    /// The facts of the moment.
    fn facts(&self) -> EngineFacts;

    /// The space that the engine takes on the device and in memory, and how much of it is dead. Looks at no data.
    fn space(&self) -> Space;

    /// The entries that the engine has in the block cache, and those pinned there.
    fn cache_usage(&self) -> CacheUsage;
}
