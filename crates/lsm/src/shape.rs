//! The shape of a tree: facts for policies, dashboards and tests.

use weir_model::LogIndex;

use crate::stall::Stall;
use crate::version::LEVELS;

/// One level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelShape {
    /// Tables (runs, in level 0).
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// How far above its target, running jobs discounted; above 1 (level 0: at 1) a compaction is due.
    pub score: f64,
}

/// The whole tree at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Bytes in the active memtable.
    pub memtable_bytes: usize,
    /// Sealed memtables.
    pub sealed: usize,
    /// Bytes in them.
    pub sealed_bytes: usize,
    /// The levels.
    pub levels: [LevelShape; LEVELS],
    /// Bytes above target over all levels: what compactions still have to move at least once.
    pub debt_bytes: u64,
    /// Jobs handed out and not yet finished.
    pub jobs_running: usize,
    /// Whether writes should be slowed or stopped.
    pub stall: Stall,
    /// Last log record applied.
    pub applied: LogIndex,
    /// Every log record up to here is in tables.
    pub persisted: LogIndex,
}

impl Shape {
    /// Nothing waits, nothing runs, every level is within its target.
    pub fn is_settled(&self) -> bool {
        let fits =
            |(level, shape): (usize, &LevelShape)| if level == 0 { shape.score < 1.0 } else { shape.score <= 1.0 };
        self.sealed == 0 && self.jobs_running == 0 && self.levels.iter().enumerate().all(fits)
    }
}
