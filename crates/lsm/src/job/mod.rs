//! Jobs: flushes and compactions, as futures that somebody else runs.
//!
//! 1. [`Tree::next_flush`] and [`Tree::next_compaction`] hand out a [`Job`], which claims its inputs.
//! 2. [`Job::run`] is a future over the tree's `Fs`. It yields every 128 KiB of work. Not polling it parks it: it keeps
//!    its claims and open output, but no thread and no tokens (U-5). Dropping it cancels it: claims are released,
//!    outputs become garbage.
//! 3. It ends with one manifest edit. From [`JobControl::is_committing`] on it must be polled to the end (U-26): it
//!    holds the manifest, and every other job of the tree would wait for it.

mod compact;
mod control;
mod facts;
mod flush;
mod output;
pub mod retention;

use std::sync::Arc;

use weir_io::{Class, Nanos, Result};

pub use self::control::JobControl;
pub use self::facts::{JobFacts, JobKind};
use crate::knobs::TreeKnobs;
use crate::pick::{ClaimedRange, Means, Pick, Scope, Urgency, dead, intra_l0};
use crate::read::view::{Sealed, View};
use crate::tree::{Running, State, Tree};
use crate::version::Version;

/// A piece of background work, ready to run.
#[must_use = "a job that is not run releases its inputs again"]
pub struct Job {
    tree: Arc<Tree>,
    work: Work,
    facts: JobFacts,
    control: Arc<JobControl>,
    claim: Claim,
}

enum Work {
    Flush(Vec<Sealed>),
    Compact { pick: Pick, version: Arc<Version> },
}

/// What a job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Entries read.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
    /// Bytes of the tables written (0 for a move).
    pub bytes_written: u64,
    /// Tables that changed level without being rewritten.
    pub tables_moved: usize,
    /// Tables that went without being read.
    pub tables_dropped: usize,
}

/// Bytes that the memtables of a tree have taken from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableBytes {
    /// In those that nobody is flushing: the active one, and sealed ones that wait for company. [`Tree::seal`] changes
    /// that.
    pub held: u64,
    /// In those that are being flushed, or will be next.
    pub leaving: u64,
    /// Since when the oldest of those held is there; 0 if it is the first since the tree was opened.
    pub since: Nanos,
}

impl Job {
    /// What it is about.
    pub fn facts(&self) -> JobFacts {
        self.facts
    }

    /// A handle for whoever runs it.
    pub fn control(&self) -> Arc<JobControl> {
        Arc::clone(&self.control)
    }

    /// Does the work.
    ///
    /// # Errors
    /// Whatever the disk said. The tree is as before, the inputs can be picked again; after
    /// [`weir_io::ErrorKind::NoSpace`] that is worth doing once there is space.
    pub async fn run(self) -> Result<JobReport> {
        let Job { tree, work, facts, control, claim } = self;
        let report = match work {
            Work::Flush(sealed) => flush::run(&tree, sealed, &control).await,
            Work::Compact { pick, version } => compact::run(&tree, pick, &version, facts.class, &control).await,
        };
        // While the claim is held: a tree whose jobs have all ended has no file left over. What cannot be removed now
        // stays noted, and whoever tidies next meets and reports the error; the job itself has succeeded.
        let _noted = tree.tidy().await;
        drop(claim);
        report
    }
}

fn class_of(pick: &Pick) -> Class {
    match pick.level {
        _ if pick.reclaims => Class::Reclaim,
        0 => Class::CompactL0,
        _ => Class::CompactDeep,
    }
}

/// What a job holds in the tree's state, until it is dropped.
struct Claim {
    tree: Arc<Tree>,
    job: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.tree.state().lock().end(self.job);
    }
}

/// A flush writes what has been gathered for as long as this at the latest, in nanoseconds: so much more there may be
/// to replay, and to keep in memory, of a partition that fills its memtables slowly.
const GATHER_NANOS_MAX: Nanos = 60_000_000_000;

impl Tree {
    /// A flush of the oldest sealed memtables, if one is due and no flush is out.
    pub fn next_flush(self: &Arc<Self>) -> Option<Job> {
        let mut state = self.state().lock();
        if state.jobs.values().any(|job| job.facts.kind() == JobKind::Flush) {
            return None;
        }
        let view = self.view();
        let knobs = self.knobs();
        if self.is_gathering(&state, &view, &knobs) {
            return None;
        }
        let oldest = view.sealed.iter().rev().take(self.options.flush_memtables_max.max(knobs.flush_gather));
        let sealed: Vec<Sealed> = oldest.cloned().collect();
        if sealed.is_empty() {
            return None;
        }
        let facts = JobFacts {
            class: Class::Flush,
            level: None,
            output_level: 0,
            inputs: sealed.len(),
            input_bytes: sealed.iter().map(|sealed| sealed.memtable.bytes() as u64).sum(),
            is_drop: false,
            is_urgent: false,
        };
        let entries = sealed.iter().map(|sealed| sealed.memtable.len() as u64).sum();
        let work = Work::Flush(sealed);
        Some(self.job(&mut state, work, facts, entries, Vec::new(), None))
    }

    /// The memory of its memtables.
    pub fn memtable_bytes(&self) -> MemtableBytes {
        let state = self.state().lock();
        let view = self.view();
        let active = view.memtable.booked_bytes() as u64;
        let sealed = view.sealed.iter().map(|sealed| sealed.memtable.booked_bytes() as u64).sum();
        let flushing = state.jobs.values().any(|job| job.facts.kind() == JobKind::Flush);
        if flushing || !self.is_gathering(&state, &view, &self.knobs()) {
            MemtableBytes { held: active, leaving: sealed, since: state.sealed_at[0].unwrap_or(0) }
        } else {
            let oldest = view.sealed.last().map_or(0, |sealed| sealed.sealed_at);
            MemtableBytes { held: active + sealed, leaving: 0, since: oldest }
        }
    }

    /// Whether a flush had better wait for more memtables ([`crate::TreeKnobs::flush_gather`] says when it does not).
    fn is_gathering(&self, state: &State, view: &View, knobs: &TreeKnobs) -> bool {
        let Some(oldest) = view.sealed.last() else { return false };
        let now = self.env.clock.now();
        let is_last_buffer_filling = view.sealed.len() + 1 >= knobs.write_buffers;
        view.sealed.len() < knobs.flush_gather
            && !is_last_buffer_filling
            && oldest.epoch >= state.flush_before
            && now < oldest.sealed_at + GATHER_NANOS_MAX
            && self.is_filling(state)
    }

    /// The class of the compaction that [`Tree::next_compaction`] would hand out now; `None` if none is due. Claims
    /// nothing.
    pub fn compaction_due(&self) -> Option<Class> {
        let state = self.state().lock();
        let pick = self.pick(&state.claims(|_| true), &state, &self.version())?;
        Some(class_of(&pick))
    }

    /// The most urgent compaction within the scope that the knobs say, if one is due and free to run.
    pub fn next_compaction(self: &Arc<Self>) -> Option<Job> {
        let mut state = self.state().lock();
        let version = self.version();
        let pick = self.pick(&state.claims(|_| true), &state, &version)?;
        Some(self.compaction(&mut state, pick, version))
    }

    /// The tables that can go without being read, if there are any: one manifest edit, for which nobody need wait.
    pub fn next_drop(self: &Arc<Self>) -> Option<Job> {
        let mut state = self.state().lock();
        let version = self.version();
        let claims = state.claims(|_| true);
        let pick = dead::pick(&self.picture(&version, &claims, &state))?;
        Some(self.compaction(&mut state, pick, version))
    }

    fn compaction(self: &Arc<Self>, state: &mut State, pick: Pick, version: Arc<Version>) -> Job {
        let tables: Vec<u64> = pick.inputs.iter().map(|(_, id)| *id).collect();
        // A merge within level 0 writes into a place, not into a range: others may go on beside it.
        let writes_into_range = pick.output_level > 0 && pick.means != Means::Drop;
        let range = writes_into_range.then(|| ClaimedRange {
            level: pick.output_level,
            smallest: pick.smallest.clone(),
            largest: pick.largest.clone(),
        });
        let inputs = || version.tables().filter(|(_, table)| tables.contains(&table.meta.id));
        let facts = JobFacts {
            class: class_of(&pick),
            level: Some(pick.level),
            output_level: pick.output_level,
            inputs: tables.len(),
            input_bytes: inputs().map(|(_, table)| table.meta.bytes).sum(),
            is_drop: pick.means == Means::Drop,
            is_urgent: pick.reclaims && self.urgency() > Urgency::Idle,
        };
        let entries = inputs().map(|(_, table)| table.meta.entries).sum();
        let work = Work::Compact { pick, version: Arc::clone(&version) };
        self.job(state, work, facts, entries, tables, range)
    }

    /// The job that is parked and bars the way of what is due (U-6); of several the least complete. Where only merges
    /// within level 0 may start, they leave it alone until writes are about to be slowed.
    pub fn parked_in_the_way(&self) -> Option<Arc<JobControl>> {
        let state = self.state().lock();
        let scope = self.knobs().scope;
        // What the scope admits will go on by itself.
        let stays = |job: &Running| job.control.is_parked() && !scope.admits(&job.facts);
        let version = self.version();
        let is_close = intra_l0::is_close(version.level(0).len(), &self.options);
        if !state.jobs.values().any(stays) || (scope == Scope::IntraL0 && !is_close) {
            return None;
        }
        if self.pick(&state.claims(|_| true), &state, &version).is_some() {
            return None;
        }
        let due = self.pick(&state.claims(|job| !stays(job)), &state, &version)?;
        let bars = |job: &&Running| -> bool {
            let is_input = |id: &u64| due.inputs.iter().any(|(_, input)| input == id);
            let overlaps = |range: &ClaimedRange| {
                range.level == due.output_level && range.smallest <= due.largest && due.smallest <= range.largest
            };
            stays(job) && (job.tables.iter().any(is_input) || job.range.as_ref().is_some_and(overlaps))
        };
        let barring = state.jobs.values().filter(bars).map(|job| &job.control);
        barring.min_by(|a, b| a.progress().total_cmp(&b.progress())).cloned()
    }

    fn job(
        self: &Arc<Self>,
        state: &mut State,
        work: Work,
        facts: JobFacts,
        entries: u64,
        tables: Vec<u64>,
        range: Option<ClaimedRange>,
    ) -> Job {
        let control = JobControl::new(entries);
        let job = state.begin(Running { facts, control: Arc::clone(&control), tables, range });
        let claim = Claim { tree: Arc::clone(self), job };
        Job { tree: Arc::clone(self), work, facts, control, claim }
    }
}
