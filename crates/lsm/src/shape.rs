//! The shape of a tree: facts for policies, dashboards and tests.

use weir_model::LogIndex;

use crate::job::JobKind;
use crate::pick::leveled;
use crate::stall::Stall;
use crate::tree::{LevelCount, Tree};
use crate::version::LEVELS;

/// One level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelShape {
    /// Tables (runs, in level 0).
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that it should hold at most.
    pub target_bytes: u64,
    /// Tables that running jobs have claimed.
    pub claimed: usize,
    /// Their bytes.
    pub claimed_bytes: u64,
    /// How far above its target, running jobs discounted; above 1 (level 0: at 1) a compaction is due.
    pub score: f64,
}

/// Running jobs of one kind, and those of them that are parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCount {
    /// Handed out and not yet finished, parked ones too.
    pub running: usize,
    /// Not being polled.
    pub parked: usize,
    /// Bytes of the inputs that they have still to consume.
    pub bytes_left: u64,
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
    /// The same by kind, in the order of [`JobKind::ALL`].
    pub jobs: [JobCount; JobKind::ALL.len()],
    /// Level-0 runs from which writes are slowed, and at which they stop.
    pub l0_limits: [usize; 2],
    /// Memtables allowed, the active one included.
    pub write_buffers: usize,
    /// A memtable of this many bytes is sealed.
    pub write_buffer_bytes: usize,
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

impl Tree {
    /// The facts of the moment.
    pub fn shape(&self) -> Shape {
        let mut state = self.state().lock();
        let view = self.view();
        let census = state.census(&view.version);
        let levels: [LevelShape; LEVELS] = std::array::from_fn(|level| {
            let LevelCount { tables, bytes, claimed, claimed_bytes } = census[level];
            let target_bytes = leveled::bytes_target(level, &self.options);
            let score = leveled::score(level, tables - claimed, bytes - claimed_bytes, &self.options);
            LevelShape { tables, bytes, target_bytes, claimed, claimed_bytes, score }
        });
        let mut jobs = [JobCount::default(); JobKind::ALL.len()];
        for job in state.jobs.values() {
            let kind = job.facts.kind();
            for count in jobs.iter_mut().zip(JobKind::ALL).filter(|(_, of)| *of == kind).map(|(count, _)| count) {
                count.running += 1;
                count.parked += usize::from(job.control.is_parked());
                count.bytes_left += (job.facts.input_bytes as f64 * (1.0 - job.control.progress())) as u64;
            }
        }
        let excess = |level: usize| levels[level].bytes.saturating_sub(levels[level].target_bytes);
        let l0_debt = if levels[0].score >= 1.0 { levels[0].bytes } else { 0 };
        Shape {
            memtable_bytes: view.memtable.bytes(),
            sealed: view.sealed.len(),
            sealed_bytes: view.sealed.iter().map(|sealed| sealed.memtable.bytes()).sum(),
            debt_bytes: l0_debt + (1..LEVELS - 1).map(excess).sum::<u64>(),
            levels,
            jobs_running: state.jobs.len(),
            jobs,
            l0_limits: [self.options.l0_slow, self.options.l0_stop],
            write_buffers: self.knobs().write_buffers,
            write_buffer_bytes: self.options.write_buffer_bytes,
            stall: self.stall(),
            applied: state.applied,
            persisted: state.persisted,
        }
    }
}
