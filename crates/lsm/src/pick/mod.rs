//! Decides what is flushed and what is compacted next: pure functions from memtables and tables to a decision.

pub mod covered;
pub mod dead;
pub mod intra_l0;
pub mod leveled;
pub mod sp_lsm;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::covered::Covered;
use self::leveled::Leveled;
use self::sp_lsm::SpLsm;
use crate::options::{PickerKind, TreeOptions};
use crate::version::{LEVELS, TableMeta};
use weir_io::Nanos;
use weir_model::engine::{Scope, Seq, TreeKnobs, Urgency};

/// How a tree keeps its shape. Each picker is a file of pure functions; an option of the tree ([`TreeOptions::picker`])
/// chooses one.
pub trait Picker: Send + Sync {
    /// What a flush waits for.
    fn gathering(&self, knobs: &TreeKnobs) -> Gathering;

    /// Whether memtables are merged with tables. If so, they may have to wait for compactions, and runs of level 0
    /// stall no writes, for no memtable becomes such a run.
    fn merges_memtables(&self) -> bool;

    /// Where memtables go next, and with which tables; `None` if they have to wait for compactions.
    fn flush(&self, levels_view: &LevelsView<'_>, waiting: Waiting<'_>, options: &TreeOptions) -> Option<Pick>;

    /// The next compaction in `scope`, which is not [`Scope::IntraL0`]; `None` if nothing is due, or if running jobs
    /// block what is due.
    fn compaction(&self, levels_view: &LevelsView<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick>;
}

/// The picker of a tree with these options.
pub fn picker(options: &TreeOptions) -> &'static dyn Picker {
    match options.picker {
        PickerKind::Leveled => &Leveled,
        PickerKind::SpLsm => &SpLsm,
    }
}

/// What a flush waits for, as long as memtables keep filling up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// The flush waits for this many sealed memtables …
    pub memtables: usize,
    /// … or until the oldest one has been sealed for this long. This bounds how much more a partition that fills its
    /// memtables slowly has to replay, and to keep in memory.
    pub nanos_max: Nanos,
}

/// The smallest and the largest key of the memtables that wait for their flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// Smallest key of all these memtables.
    pub smallest: &'a [u8],
    /// Largest key.
    pub largest: &'a [u8],
}

/// The next compaction that `knobs` allow; `None` if nothing is due, or if running jobs block what is due.
pub fn pick(levels_view: &LevelsView<'_>, knobs: TreeKnobs, options: &TreeOptions) -> Option<Pick> {
    match knobs.scope {
        Scope::IntraL0 if levels_view.levels[0].len() < knobs.intra_l0_from => None,
        Scope::IntraL0 => intra_l0::pick(levels_view, knobs.intra_l0_fan_in, knobs.intra_l0_bytes, options),
        scope @ (Scope::All | Scope::L0ToL1) => picker(options).compaction(levels_view, scope, options),
    }
}

/// Tables that can be dropped without being read: all those in which nothing lives, or, if there are none, all those
/// that covers make dead.
pub fn pick_drop(levels_view: &LevelsView<'_>) -> Option<Pick> {
    dead::pick(levels_view).or_else(|| covered::pick(levels_view))
}

/// What a picker sees: per level the tables in the order of [`crate::version::Version`], and what running jobs have
/// claimed.
pub struct LevelsView<'a> {
    /// Tables by level.
    pub levels: [Vec<&'a TableMeta>; LEVELS],
    /// Claims of running jobs.
    pub claims: &'a Claims,
    /// Memtables keep filling up: more runs are on their way to level 0.
    pub is_filling: bool,
    /// There are sealed memtables, and they do not gather any longer.
    pub flush_is_due: bool,
    /// Memtables that are merged with tables may be kept waiting until a level that is too large has become smaller.
    /// They may not where deeper compactions are put off, for no job would make that level smaller, nor where
    /// everything is to go into tables.
    pub memtables_may_wait: bool,
    /// The wall clock, in milliseconds since 1970: values that have expired by then are dead.
    pub now_ms: u64,
    /// No read is made before this sequence number.
    pub horizon: Seq,
    /// How urgently the tree needs space.
    pub urgency: Urgency,
    /// A job of the tree has found the disk full a short time ago.
    pub disk_is_full: bool,
    /// What is dead because of covers.
    pub covered: Arc<Covered>,
}

/// What running compactions hold: no other job may read their inputs into a merge, or write into their range.
#[derive(Debug, Default)]
pub struct Claims {
    /// Input tables.
    pub tables: BTreeSet<u64>,
    /// Where each running job writes.
    pub ranges: Vec<ClaimedRange>,
}

/// Keys `smallest..=largest` of `level`, which a running job is about to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRange {
    /// Output level.
    pub level: usize,
    /// Smallest key.
    pub smallest: Box<[u8]>,
    /// Largest key.
    pub largest: Box<[u8]>,
}

impl Claims {
    /// Whether a job may write `lo..=hi` into `level`.
    pub fn is_free(&self, level: usize, lo: &[u8], hi: &[u8]) -> bool {
        !self.ranges.iter().any(|claimed| claimed.level == level && &*claimed.smallest <= hi && lo <= &*claimed.largest)
    }
}

/// What becomes of the inputs of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// They are read, and the entries that must stay are written.
    Merge,
    /// They change level without being rewritten.
    Move,
    /// They are dropped without being read: everything in them has expired or is a tombstone.
    Drop,
    /// They are dropped without being read: covers say that everything in them is dead.
    DropCovered,
}

impl Means {
    /// Whether the inputs are dropped without being read.
    pub fn is_drop(self) -> bool {
        matches!(self, Means::Drop | Means::DropCovered)
    }
}

/// A compaction or a flush to start. A flush into level 0 becomes a run there; a flush into level 1 is merged with the
/// inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Level that is relieved.
    pub level: usize,
    /// Level that receives the output.
    pub output_level: usize,
    /// Input tables: (level, id).
    pub inputs: Vec<(usize, u64)>,
    /// What becomes of the inputs.
    pub means: Means,
    /// The job is done for the space that it frees.
    pub reclaims: bool,
    /// Smallest key of all inputs.
    pub smallest: Box<[u8]>,
    /// Largest key of all inputs.
    pub largest: Box<[u8]>,
}

impl Pick {
    /// The flush that makes `waiting` a run of level 0.
    fn run_of(waiting: Waiting<'_>) -> Self {
        Self {
            level: 0,
            output_level: 0,
            inputs: Vec::new(),
            means: Means::Merge,
            reclaims: false,
            smallest: waiting.smallest.into(),
            largest: waiting.largest.into(),
        }
    }
}
