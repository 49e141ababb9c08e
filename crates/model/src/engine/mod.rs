//! What a storage engine is to whoever has one (XS-3, XS-12): a partition, an embedding program, a test.
//!
//! An engine applies the records of a log and answers reads. It owns no thread, no timer and no log, and knows no
//! tenant. Background work comes out of it as [`Job`]s for somebody else to run; a stall is a state that it tells, not
//! a wait.
//!
//! The contract is five small traits, by what they are about. [`Engine`] is all of them. One suite runs on every
//! engine that a node has: `node/src/engines/conformance.rs`.
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

/// See the module.
pub trait Engine: Records + Reads + Jobs + Facts + Files {}

impl<T: Records + Reads + Jobs + Facts + Files> Engine for T {}

/// What [`Records::apply`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Sequence number of the last change.
    pub last_seq: Seq,
    /// A job is due that was not due before.
    pub is_job_due: bool,
}

/// Writing: records of a log in, in its order.
pub trait Records: Send + Sync {
    /// Whether there is room for `batch` in the memory that its owner may have; what frees as much as it takes always
    /// has room. To be asked before the batch is logged, by whoever keeps other writes of this engine out: what is in
    /// the log is applied, whatever it takes.
    fn has_room_for(&self, _batch: BatchRef<'_>) -> bool {
        true
    }

    /// Applies the changes of log record `index`. They are invisible until [`Records::publish`], except to
    /// [`Reads::get_latest`]. The caller applies records in log order, and respects [`Facts::stall`].
    fn apply(&self, index: LogIndex, batch: BatchRef<'_>) -> Applied;

    /// Makes every change up to `seq` visible. To be called when the log has promised what its sync mode promises.
    fn publish(&self, seq: Seq);

    /// The newest visible sequence number.
    fn published(&self) -> Seq;

    /// The sequence number of the newest change applied; it is the last of its batch.
    fn applied_seq(&self) -> Seq;

    /// Every log record up to here is in files, durably.
    fn persisted(&self) -> LogIndex;

    /// Asks for the flush of all that has been applied: the next [`Jobs::next_flush`] gives it.
    fn seal(&self);
}

/// Reading. A read of one key takes no lock. What reads as of one moment (snapshots, scans) may take the short lock of
/// the list of those moments.
pub trait Reads: Send + Sync {
    /// The newest visible value of `key`, or as of `snapshot`. Answers at once when it is in memory.
    fn get(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Lookup;

    /// The newest version of `key`, published or not, tombstones included; of a batch that is just being applied,
    /// nothing. For a write that reads first, and for readers that wait until what they saw is published before they
    /// tell anybody.
    fn get_latest(&self, key: &[u8]) -> Lookup;

    /// The newest visible values of several keys, all as of one moment, in their order.
    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Lookup>;

    /// Has the processor fetch what reads of `keys` will touch. Worth it for a few keys that follow one another.
    fn prefetch(&self, keys: &[&[u8]]);

    /// Starts a scan of what is visible now, or as of `snapshot`.
    fn scan(&self, range: Range, snapshot: Option<&Snapshot>) -> Scan;

    /// The same as of now, for somebody who has time: what is read from the device goes behind what others wait for.
    fn scan_in_background(&self, range: Range) -> Scan {
        self.scan(range, None)
    }

    /// Starts a scan of what is applied, published or not: as [`Reads::get_latest`].
    fn scan_latest(&self, range: Range) -> Scan;

    /// Whether there is any head of a row of many parts, or cover. Answers at once.
    fn holds_heads(&self) -> bool;

    /// Whether the newest version of `key`, published or not, may be the head of a row of many parts. Answers at once,
    /// from memory: "no" is certain.
    fn may_hold_head(&self, key: &[u8]) -> bool;

    /// Keeps what is visible now readable until the snapshot is dropped.
    fn snapshot(&self) -> Snapshot;
}

/// Background work. Whoever runs it asks again when a job has ended, knobs were turned, or a record was applied that
/// made one due.
pub trait Jobs: Send + Sync {
    /// What brings records into files, if that is due and not under way: after it [`Records::persisted`] is larger, and
    /// the log shorter. One at a time.
    fn next_flush(&self) -> Option<Job>;

    /// What costs next to nothing, and for which nobody need wait.
    fn next_drop(&self) -> Option<Job>;

    /// The most urgent other work within the scope that the knobs say, if any is due and free to run.
    fn next_compaction(&self) -> Option<Job>;

    /// The class of what [`Jobs::next_compaction`] would hand out now; `None` if nothing is due. Claims nothing.
    fn compaction_due(&self) -> Option<weir_io::Class>;

    /// The job that is parked and bars the way of what is due (U-6).
    fn parked_in_the_way(&self) -> Option<Arc<JobControl>>;

    /// Where the knobs stand.
    fn knobs(&self) -> TreeKnobs;

    /// Turns the knobs. Ask for jobs afterwards: what was not due may be due now. Numbers that would stop the engine
    /// for ever are raised.
    fn set_knobs(&self, knobs: TreeKnobs);

    /// Whether work starts as soon as it is due, even if waiting for more would save some: somebody waits for rest.
    fn set_eager(&self, eager: bool);

    /// Says how much it matters that dead bytes are given back. Ask for jobs afterwards.
    fn set_urgency(&self, urgency: Urgency);

    /// What was said last.
    fn urgency(&self) -> Urgency;

    /// Whether dead bytes are being given back, or will be by jobs that are due.
    fn is_reclaiming(&self) -> bool;
}
