//! Which compaction next: pure functions from the tables to a decision.

pub mod covered;
pub mod dead;
pub mod intra_l0;
pub mod leveled;
pub mod memtables;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::covered::Covered;
use crate::options::TreeOptions;
use crate::version::{LEVELS, TableMeta};
use weir_model::engine::{Scope, Seq, TreeKnobs, Urgency};

/// The next compaction as `knobs` have it, or `None` if nothing is due or what is due is blocked by running jobs.
pub fn pick(levels_view: &LevelsView<'_>, knobs: TreeKnobs, options: &TreeOptions) -> Option<Pick> {
    match knobs.scope {
        Scope::IntraL0 if levels_view.levels[0].len() < knobs.intra_l0_from => None,
        Scope::IntraL0 => intra_l0::pick(levels_view, knobs.intra_l0_fan_in, knobs.intra_l0_bytes, options),
        scope @ (Scope::All | Scope::L0ToL1) => leveled::pick(levels_view, scope, options),
    }
}

/// All tables that can go without being read, or some of them if there are several reasons.
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
    /// Memtables wait to be merged into level 1, in a tree without level 0, and go before what is deeper.
    pub memtables_wait: bool,
    /// The wall clock, in milliseconds since 1970: what has expired by now is dead.
    pub now_ms: u64,
    /// No read is made before this sequence number.
    pub horizon: Seq,
    /// How much space matters.
    pub urgency: Urgency,
    /// What is dead because of covers.
    pub covered: Arc<Covered>,
}

/// What running compactions hold: nobody else may read their inputs into a merge, or write into their range.
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
    /// They are read, and what must stay of them is written.
    Merge,
    /// They change level without being rewritten.
    Move,
    /// They go, without being read: what is in them has expired or deletes.
    Drop,
    /// They go, without being read: covers say that what is in them is dead.
    DropCovered,
}

impl Means {
    /// Whether the inputs go without being read.
    pub fn is_drop(self) -> bool {
        matches!(self, Means::Drop | Means::DropCovered)
    }
}

/// A compaction to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Level that is relieved.
    pub level: usize,
    /// Level that receives.
    pub output_level: usize,
    /// Input tables: (level, id).
    pub inputs: Vec<(usize, u64)>,
    /// What becomes of the inputs.
    pub means: Means,
    /// It is done for the space that it gives back.
    pub reclaims: bool,
    /// Smallest key of all inputs.
    pub smallest: Box<[u8]>,
    /// Largest key of all inputs.
    pub largest: Box<[u8]>,
}
