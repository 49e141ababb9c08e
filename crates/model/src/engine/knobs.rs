//! Knobs: what a policy may change in an engine while it runs. The engine obeys at its next decision; nothing under way
//! is touched.

use super::{JobFacts, JobKind};

/// The knobs of a tree. Each stands for itself: there is no order in which they must be changed. An engine that has no
/// levels keeps them and heeds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeKnobs {
    /// Which compactions may start (FX-19, FX-20).
    pub scope: Scope,
    /// A flush waits until so many memtables are sealed, and writes them as one run; 1 = at once. It does not wait when
    /// it is asked for ([`seal`](super::Records::seal)), when the last write buffer is filling, when
    /// memtables have ceased to fill, or after a minute.
    pub flush_gather: usize,
    /// Memtables allowed, the active one included. At least 2; a lower value than there are takes effect as they are
    /// flushed.
    pub write_buffers: usize,
    /// The smallest number of runs that a merge within level 0 takes (FX-22: 4). At least 2.
    pub intra_l0_fan_in: usize,
    /// Runs in level 0 from which on merges within it begin.
    pub intra_l0_from: usize,
    /// The most bytes that a merge within level 0 takes, unless it takes no more than `intra_l0_fan_in` runs.
    pub intra_l0_bytes: u64,
    /// What merges write into the upper levels (`warm_levels` of its options) stays in the cache from now on. What
    /// flushes write always does.
    pub warm: bool,
    /// Level 0 may gather more runs than make it due, where that saves rewriting level 1 (`l0_gather` of its options).
    pub l0_gathers: bool,
}

/// How much it matters that dead bytes are given back: the tree obeys, its owner decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// There is space: only where it costs little.
    #[default]
    Idle,
    /// The tree is about to have all the space that it may take.
    Near,
    /// It has: writes are refused or wait.
    Full,
}

impl Urgency {
    /// Each, the least first.
    pub const ALL: [Urgency; 3] = [Urgency::Idle, Urgency::Near, Urgency::Full];
}

/// Which jobs may start (FX-19, FX-20). The tree obeys; a policy decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every compaction.
    #[default]
    All,
    /// Stage 1: only level 0 into level 1.
    L0ToL1,
    /// Stage 2: only within level 0.
    IntraL0,
}

impl Scope {
    /// Every scope, the widest first.
    pub const ALL: [Scope; 3] = [Scope::All, Scope::L0ToL1, Scope::IntraL0];

    /// Whether a job may go on in this scope. What relieves level 0 may where level 0 goes down, even if it was begun
    /// in a wider scope and goes through to level 2: parked, it would bar that way. A tree that is short of space may
    /// give it back in the first stage, too: its writes are refused otherwise. To drop what is dead as a whole costs
    /// nothing, and is always admitted.
    pub fn admits(self, job: &JobFacts) -> bool {
        match (self, job.kind()) {
            (Scope::All, _) | (_, JobKind::Flush | JobKind::IntraL0 | JobKind::Drop) => true,
            (Scope::L0ToL1, kind) => kind == JobKind::L0 || job.is_urgent,
            (Scope::IntraL0, _) => false,
        }
    }
}
