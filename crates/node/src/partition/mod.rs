//! A partition: one log, one tree, and the order in which writes enter both.
//!
//! 1. A write waits while the tree stalls, then takes the *order lock*, appends to the log, applies to the tree, and
//!    releases the lock. The log's order and the tree's are therefore the same.
//! 2. Its [`Commit`] is done when the log has what the sync mode promises; then its changes are published (in `None`
//!    mode, which promises nothing, at once).
//! 3. A read that meets a change which is not yet published waits for that change's commit before it answers. So nobody
//!    ever sees a change that the loss of the machine (in `Interval` mode: a killed process) would take back. In
//!    `Interval` mode that wait is a write into the page cache, which the reader then does itself.
//! 4. A read-modify-write whose read is in memory happens inside the order lock. One that needs the device latches its
//!    rows there, reads without the lock, and takes the lock again; writes to latched rows wait meanwhile. One of many
//!    rows latches them in turns before it begins.
//!
//! Lock order: `order`, then the log's and the tree's own. Never held over an await.

pub(crate) mod anchor;
#[cfg(test)]
mod asked;
mod background;
mod commit;
mod covers;
mod expired;
mod expiry;
mod fields;
mod jobs;
mod latch;
mod locked;
mod log_repair;
mod member;
mod moment;
mod open;
mod parking;
mod part_page;
mod read;
mod replay;
mod retries;
mod space;
mod tended;
mod write;
mod write_throttle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_admission::{Account, Direction, PartitionGate};
use weir_io::{Class, Clock, Error, ErrorKind, Event, FsLock, Owner, Result};
use weir_log::{Recovery, SyncMode, WriteAheadLog};
use weir_model::LogIndex;
use weir_model::engine::{Checkpoint, Engine, TreeKnobs};

use self::anchor::{Anchor, AnchorClaim};
pub(crate) use self::background::Background;
pub use self::commit::Commit;
use self::expiry::Expiry;
use self::latch::Latches;
pub(crate) use self::open::{Opening, Settle};
use self::parking::Parking;
use self::retries::Retries;
use self::write_throttle::WriteThrottle;
use crate::control::Control;
use crate::log_toll::LogToll;
use crate::memory::WriteMemory;
use crate::metrics::{Counters, PartitionMetrics};
use crate::witnessed::Witnessed;
use crate::workers::Workers;

/// An open partition: one log and one engine, and the order of the writes to both.
pub struct Partition {
    pub(crate) owner: Owner,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) log: Arc<dyn WriteAheadLog>,
    pub(crate) sync: SyncMode,
    /// What it owes its gate for its writes to a shared log.
    toll: Option<LogToll>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    /// The listeners that are told what happens to its tenant's keys.
    witnessed: Arc<Witnessed>,
    /// The order lock.
    order: Mutex<Latches>,
    /// The version that was last given to a row of many parts.
    last_version: AtomicU64,
    /// A job has ended, a latch was released, or the log was replaced.
    pub(crate) progress: Event,
    pub(crate) workers: Arc<Workers>,
    pub(crate) parking: Parking,
    pub(crate) memory: Arc<WriteMemory>,
    pub(crate) control: Arc<Control>,
    /// When to look at the agenda of expiring fields, in milliseconds since 1970: nothing on it is due before.
    agenda_due_ms: AtomicU64,
    /// The first time on the agenda of the hashes that could not be swept, and wait to be tried again; `u64::MAX` if
    /// there are none.
    agenda_passed_ms: AtomicU64,
    /// Somebody is looking at the agenda.
    is_sweeping: AtomicBool,
    /// Keys whose expiry must be told in time.
    expiry: Expiry,
    /// It is on the control loop's list.
    marked: AtomicBool,
    closing: AtomicBool,
    /// Background tasks under way.
    tasks: AtomicUsize,
    /// Closing has begun, or a background task has ended.
    ending: Event,
    /// Why the last background job failed; `None` since one succeeded.
    pub(crate) job_failure: Mutex<Option<Error>>,
    /// The jobs that have failed, and when they may be tried again.
    retries: Retries,
    /// How many jobs have failed.
    job_failures: AtomicU64,
    /// A flush is under way.
    is_flushing: AtomicBool,
    /// Where slowed writes wait.
    write_throttle: WriteThrottle,
    /// Bytes per second that users may write, as a policy says; 0 = as they like.
    pub(crate) write_rate: AtomicU64,
    /// The tree's knobs as a policy last set them.
    pub(crate) policy_knobs: Mutex<TreeKnobs>,
    /// The log is being replaced.
    pub(crate) repairing: AtomicBool,
    /// Has to succeed before the log is replaced.
    settle: Settle,
    recovery: Recovery,
    anchor: Anchor,
    /// The gates in front of it; `None` where there are none.
    pub(crate) gates: Option<Arc<PartitionGate>>,
    /// The account on which its users' bytes, and those of its I/O, are booked.
    pub(crate) account: Arc<Account>,
    /// Nobody else may have the directory as long as anything here may still write to it.
    _lock: Arc<dyn FsLock>,
}

/// What to do with changes that are only in memory and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Keep them: everything goes to tables.
    Keep,
    /// It is about to be removed.
    Discard,
}

impl Partition {
    /// The owner that its I/O is booked to.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The engine, for tools and tests.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// What opening found in the log.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// A number that rises with everything that users ask for. If it stays the same for a while, the partition is idle.
    pub(crate) fn asked(&self) -> u64 {
        let booked = self.account.booked();
        booked.user(Direction::Read).ops + booked.user(Direction::Write).ops
    }

    /// Puts the partition on the control loop's list; gives whether it was on it already.
    #[inline]
    pub(crate) fn marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed) || self.marked.swap(true, Ordering::Relaxed)
    }

    /// Takes it off the list. To be called before looking at what there is to do. A writer takes the log's lock before
    /// it looks at the mark, and the visit takes the log's lock after this. So either the visit sees the record, or the
    /// writer sees no mark.
    pub(crate) fn unmark(&self) {
        self.marked.store(false, Ordering::Relaxed);
    }

    /// What may be claimed of log and tree for ever.
    fn claim(&self) -> AnchorClaim {
        let persisted = self.engine.persisted();
        AnchorClaim { durable: self.log.stats().durable.max(persisted), persisted }
    }

    /// Makes durable what was written so far, if its sync mode promises durability at all.
    ///
    /// # Errors
    /// The failure that fenced the log.
    pub(crate) async fn make_durable(&self) -> Result<()> {
        if self.sync == SyncMode::None { Ok(()) } else { self.log.sync().await }
    }

    /// Whether it is time to write a claim to the anchor. Asked once in each round of the control loop.
    pub(crate) fn is_anchor_due(&self) -> bool {
        self.anchor.is_due(self.claim())
    }

    /// Writes the present claim to the anchor.
    pub(crate) async fn note_anchor(&self) {
        if let Err(error) = self.anchor.hold(self.claim(), Class::Maintenance).await {
            // The claim before stays, and the next round tries again.
            tracing::debug!(owner = ?self.owner, %error, "cannot write the anchor");
        }
    }

    /// Makes the present claim durable, before the log forgets records that the tree has.
    ///
    /// # Errors
    /// I/O: nothing of the log may be removed.
    pub(crate) async fn hold_anchor(&self) -> Result<()> {
        self.anchor.hold(self.claim(), Class::Flush).await
    }

    /// A version that no other life of any row in this partition has, had or will have. It is larger than that of any
    /// change applied, and the change that gets it will have a sequence number that is no less
    /// ([`Change::newest_version`]). So a partition that is opened anew gives out no version twice, either.
    ///
    /// [`Change::newest_version`]: weir_model::Change::newest_version
    pub fn new_version(&self) -> u64 {
        let applied = self.engine.applied_seq();
        let next = |last: u64| last.max(applied) + 1;
        let last = self.last_version.update(Ordering::Relaxed, Ordering::Relaxed, next);
        next(last)
    }

    /// Counters, and the shape of the tree.
    pub fn metrics(&self) -> PartitionMetrics {
        PartitionMetrics::new(&self.counters, &self.account.booked(), &*self.engine, self.log.stats())
    }

    /// Turns the tree's knobs, until the node's policy changes its mind about this partition. Jobs that are due by the
    /// new knobs begin, and writes that need not wait any more go on.
    pub fn set_tree_knobs(self: &Arc<Self>, knobs: TreeKnobs) {
        if self.engine.knobs() != knobs {
            self.engine.set_knobs(knobs);
            self.progress.notify();
            self.kick();
        }
    }

    /// Lets writes in again after a failure of the log. Everything applied is in tables.
    pub(crate) async fn replace_log(&self) -> Result<()> {
        (self.settle)().await?;
        self.log.replace(self.engine.persisted()).await
    }

    /// Seals the memtable, so that a flush begins.
    pub fn seal(self: &Arc<Self>) {
        self.engine.seal();
        self.kick();
    }

    /// Seals the memtable. Gives the log's last record, which is then in a sealed memtable or in a table, because a
    /// write that has appended but not applied yet holds the order lock.
    pub(crate) fn seal_all(self: &Arc<Self>) -> LogIndex {
        let last = {
            let _order = self.order.lock();
            self.engine.seal();
            self.log.last()
        };
        self.kick();
        last
    }

    /// Waits until everything written so far is in tables, and holds those tables.
    ///
    /// # Errors
    /// The flush fails; `Closed` if the partition is being closed.
    pub(crate) async fn flush_and_hold(self: &Arc<Self>) -> Result<Box<dyn Checkpoint>> {
        let failures = || self.job_failures.load(Ordering::Relaxed);
        let failed_before = failures();
        let last = self.seal_all();
        let flushed = || {
            if self.engine.persisted() >= last {
                return Some(Ok(()));
            }
            if self.is_closing() {
                let message = "the partition is being closed";
                return Some(Err(Error::new(ErrorKind::Closed, "flush", "the partition", message)));
            }
            // A job that failed before says nothing about this flush. One that fails now may be a compaction that the
            // flush waits for, as in a tree without level 0.
            self.job_failure.lock().clone().filter(|_| failures() > failed_before).map(Err)
        };
        self.progress.wait(flushed).await?;
        Ok(self.engine.hold())
    }

    /// Waits until nothing is left to flush or to compact, or the partition is being closed.
    pub async fn settle(self: &Arc<Self>) {
        self.engine.set_eager(true);
        self.kick();
        self.progress.wait(|| (self.is_closing() || self.engine.facts().is_settled()).then_some(())).await;
        self.engine.set_eager(false);
    }
}
