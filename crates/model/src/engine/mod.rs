//! A storage engine as its owner sees it (XS-3, XS-12); the owner is a partition, an embedding program or a test.
//!
//! An engine applies the records of a log and answers reads. It owns no thread, no timer and no log, and knows no
//! tenant. It hands out background work as [`Job`]s for its owner to run. A stall is a state that it reports, not a
//! wait.
//!
//! The contract is five small traits, one per subject. [`Engine`] is all of them together. One suite of tests runs on
//! every engine that a node has: `node/src/engines/conformance.rs`.
//!
//! | trait | what |
//! |---|---|
//! | [`Records`] | apply records, publish them, bring them into files |
//! | [`Reads`] | points, ranges, snapshots |
//! | [`Jobs`] | flushes and merges, and the knobs that say which may begin |
//! | [`Facts`] | what policies and dashboards ask: bytes, debt, stalls |
//! | [`Files`] | old files, checkpoints |

mod deadlines;
mod engine_kind;
mod entry;
mod facts;
mod files;
mod found;
mod job;
mod job_control;
mod job_facts;
mod knobs;
mod lookup;
mod scan;
mod snapshot;
mod space;
mod stall;
mod tree_shape;

use std::sync::Arc;

pub use self::deadlines::{Counter, Deadline, Deadlines, POINTS_MAX};
pub use self::engine_kind::{EngineKind, UnknownEngine};
pub use self::entry::{Entry, Kind, SEQ_MAX, Seq, compare, is_expired};
pub use self::facts::{CacheUsage, EngineFacts, Facts, UnflushedMemory};
pub use self::files::{CheckReport, Checkpoint, Files};
pub use self::found::Found;
pub use self::job::{EXPIRED_KEYS_MAX, Job, JobReport};
pub use self::job_control::JobControl;
pub use self::job_facts::{JobCount, JobFacts, JobKind};
pub use self::knobs::{Scope, TreeKnobs, Urgency};
pub use self::lookup::Lookup;
pub use self::scan::{Passed, Range, Scan, ScanStep, Walk};
pub use self::snapshot::{Snapshot, Snapshots};
pub use self::space::Space;
pub use self::stall::{Stall, StallCause};
pub use self::tree_shape::{LEVELS, LevelShape, TreeShape};
use crate::{BatchRef, LogIndex};

/// A storage engine: all five traits.
pub trait Engine: Records + Reads + Jobs + Facts + Files {}

impl<T: Records + Reads + Jobs + Facts + Files> Engine for T {}

/// The result of [`Records::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Sequence number of the last change.
    pub last_seq: Seq,
    /// Whether a job is due that was not due before.
    pub is_job_due: bool,
}

/// Writing: takes the records of a log, in the log's order.
pub trait Records: Send + Sync {
    /// Whether there is room for `batch` in the memory that the engine's owner may use. There is always room for a
    /// batch that frees as much as it takes. Ask before the batch is logged, while keeping other writes of this engine
    /// out: a batch that is in the log is applied, whatever it takes.
    fn has_room_for(&self, _batch: BatchRef<'_>) -> bool {
        true
    }

    /// Applies the changes of log record `index`. They are invisible until [`Records::publish`], except to
    /// [`Reads::get_latest`]. The caller applies records in log order, and respects [`Facts::stall`].
    fn apply(&self, index: LogIndex, batch: BatchRef<'_>) -> Applied;

    /// Makes every change up to `seq` visible. Call it when the log has done what its sync mode promises.
    fn publish(&self, seq: Seq);

    /// The newest visible sequence number.
    fn published(&self) -> Seq;

    /// The sequence number of the newest change applied, which is the last one of its batch.
    fn applied_seq(&self) -> Seq;

    /// Every log record up to this one is in files, durably.
    fn persisted(&self) -> LogIndex;

    /// Asks for a flush of everything that has been applied: the next [`Jobs::next_flush`] returns it.
    fn seal(&self);
}

/// Reading. A read of one key takes no lock. Reads as of one moment (snapshots, scans) may take a lock for a short
/// time, that of the list of these moments.
pub trait Reads: Send + Sync {
    /// The newest visible value of `key`, or the one as of `snapshot`. Answers at once if the value is in memory.
    fn get(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Lookup;

    /// The newest version of `key`, published or not, including tombstones. Changes of a batch that is just being
    /// applied are not found. This is for writes that read first, and for readers that do not answer until the version
    /// they saw is published.
    fn get_latest(&self, key: &[u8]) -> Lookup;

    /// Shows to `see` what [`Reads::get_latest`] would find (`None`: there is no version), without a reference to it.
    /// Only an engine with all rows in memory does, and not while a batch is being applied to the key. Nothing is freed
    /// while `see` looks: keep it short.
    fn see_latest(&self, _key: &[u8], _see: &mut dyn FnMut(Option<Entry<'_>>)) {}

    /// The newest visible values of several keys, all as of one moment, in the order of the keys.
    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Lookup>;

    /// Tells the processor to fetch the memory that reads of `keys` will touch. Worth it for a few keys read in
    /// succession.
    fn prefetch(&self, keys: &[&[u8]]);

    /// Starts a scan of everything visible now, or as of `snapshot`.
    fn scan(&self, range: Range, snapshot: Option<&Snapshot>) -> Scan;

    /// The same as of now, for a caller that has time: its reads of the device go behind those that others wait for.
    fn scan_in_background(&self, range: Range) -> Scan {
        self.scan(range, None)
    }

    /// Starts a scan of everything applied, published or not: see [`Reads::get_latest`].
    fn scan_latest(&self, range: Range) -> Scan;

    /// Whether the engine holds any head of a row of many parts, or any cover. Answers at once.
    fn holds_heads(&self) -> bool;

    /// Whether the newest version of `key`, published or not, may be the head of a row of many parts. Answers at once,
    /// from memory: "no" is certain.
    fn may_hold_head(&self, key: &[u8]) -> bool;

    /// Keeps everything visible now readable until the snapshot is dropped.
    fn snapshot(&self) -> Snapshot;
}

/// Background work. The engine's owner runs it. It asks for jobs again when a job has ended, when knobs were turned,
/// and when a record was applied that made a job due.
pub trait Jobs: Send + Sync {
    /// The job that brings records into files, if it is due and not running yet: after it [`Records::persisted`] is
    /// larger, and the log can be cut. One at a time.
    fn next_flush(&self) -> Option<Job>;

    /// A job that costs next to nothing, and that nobody need wait for.
    fn next_drop(&self) -> Option<Job>;

    /// The most urgent other job within the scope of the knobs, if one is due and its inputs are free.
    fn next_compaction(&self) -> Option<Job>;

    /// The class of the job that [`Jobs::next_compaction`] would hand out now; `None` if nothing is due. Claims
    /// nothing.
    fn compaction_due(&self) -> Option<weir_io::Class>;

    /// The parked job that bars the way of a job that is due (U-6).
    fn parked_in_the_way(&self) -> Option<Arc<JobControl>>;

    /// The present positions of the knobs.
    fn knobs(&self) -> TreeKnobs;

    /// Turns the knobs. Ask for jobs afterwards: turning may make jobs due. Numbers that would stop the engine for ever
    /// are raised.
    fn set_knobs(&self, knobs: TreeKnobs);

    /// Whether work starts as soon as it is due, even if waiting for more would save some: set it when somebody waits
    /// for the engine to settle.
    fn set_eager(&self, eager: bool);

    /// Sets how much it matters that the space of dead bytes is given back. Ask for jobs afterwards.
    fn set_urgency(&self, urgency: Urgency);

    /// The urgency that was set last.
    fn urgency(&self) -> Urgency;

    /// Whether dead bytes are being reclaimed, or will be by jobs that are due.
    fn is_reclaiming(&self) -> bool;
}
