//! Knobs: settings of an engine that a policy may change while it runs. The engine obeys at its next decision; work in
//! flight is not touched.

use super::{JobFacts, JobKind};

/// The knobs of a tree. They are independent: there is no order in which they must be changed. An engine without levels
/// stores them and ignores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeKnobs {
    /// Which compactions may start (FX-19, FX-20).
    pub scope: Scope,
    /// A flush waits until this many memtables are sealed, and writes them as one run; 1 = it does not wait. It does
    /// not wait either when it is asked for ([`seal`](super::Records::seal)), when the last write buffer is filling,
    /// when memtables have stopped filling, or after a minute.
    pub flush_gather: usize,
    /// Memtables allowed, the active one included. At least 2. If there are more at the moment, a lower value takes
    /// effect as they are flushed.
    pub write_buffers: usize,
    /// The smallest number of runs that a merge within level 0 takes (FX-22: 4). At least 2.
    pub intra_l0_fan_in: usize,
    /// Merges within level 0 begin at this many runs.
    pub intra_l0_from: usize,
    /// The most bytes that a merge within level 0 takes, unless it takes no more than `intra_l0_fan_in` runs.
    pub intra_l0_bytes: u64,
    /// From now on the output of merges into the upper levels (`warm_levels` of the tree's options) stays in the cache.
    /// The output of flushes always does.
    pub warm: bool,
    /// Level 0 may gather more runs than the number at which it is due, where that saves rewriting level 1 (`l0_gather`
    /// of the tree's options).
    pub l0_gathers: bool,
    /// Bytes of pending compactions slow and stop writes. A policy says no from when it puts compactions off until the
    /// debt is paid (U-7); in a narrower scope than [`Scope::All`] they never do.
    pub pending_stalls: bool,
}

/// How much it matters that the space of dead bytes is given back: the tree obeys, its owner decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// There is space: reclaim only where it costs little.
    #[default]
    Idle,
    /// The tree has nearly all the space that it may take.
    Near,
    /// The tree has all the space that it may take: writes are refused or wait.
    Full,
}

impl Urgency {
    /// Every urgency, the least first.
    pub const ALL: [Urgency; 3] = [Urgency::Idle, Urgency::Near, Urgency::Full];
}

/// Which compactions may start (FX-19, FX-20). The tree obeys; a policy decides.
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

    /// Whether a job may go on in this scope. A job that relieves level 0 may go on wherever level 0 may be merged
    /// down, even if it was begun in a wider scope and goes through to level 2: if it were parked, it would bar that
    /// way. In the first stage a tree that is short of space may reclaim it, too: otherwise its writes are refused.
    /// Dropping tables that are dead as a whole costs nothing, and is always admitted.
    pub fn admits(self, job: &JobFacts) -> bool {
        match (self, job.kind()) {
            (Scope::All, _) | (_, JobKind::Flush | JobKind::IntraL0 | JobKind::Drop) => true,
            (Scope::L0ToL1, kind) => kind == JobKind::L0 || job.is_urgent,
            (Scope::IntraL0, _) => false,
        }
    }
}
