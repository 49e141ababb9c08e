//! Jobs: flushes and compactions, as futures that somebody else runs.
//!
//! 1. [`Tree::next_flush`] and [`Tree::next_compaction`] hand out a [`Job`], which claims its inputs.
//! 2. [`Job::run`] is a future over the tree's `Fs`. It yields every 128 KiB of work. Not polling it parks it: it keeps its claims and
//!    open output, but no thread and no tokens (U-5). Dropping it cancels it: claims are released, outputs become garbage.
//! 3. It ends with one manifest edit. From [`JobControl::is_committing`] on it must be polled to the end (U-26): it holds the
//!    manifest, and every other job of the tree would wait for it.

mod compact;
mod flush;
mod output;
pub mod retention;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::{Class, Result};

use crate::pick::{ClaimedRange, Pick, Scope};
use crate::read::view::Sealed;
use crate::tree::Tree;
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

/// What a job is about: for schedulers and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The class of its I/O.
    pub class: Class,
    /// Level that is relieved; `None` for a flush.
    pub level: Option<usize>,
    /// Level that receives.
    pub output_level: usize,
    /// Tables or memtables that go in.
    pub inputs: usize,
    /// Their bytes.
    pub input_bytes: u64,
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
}

/// Shared with whoever runs the job.
#[derive(Default)]
pub struct JobControl {
    committing: AtomicBool,
}

impl JobControl {
    /// Whether the job is writing its manifest edit: neither park nor cancel it now.
    pub fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Relaxed)
    }
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
    /// Whatever the disk said. The tree is as before, the inputs can be picked again; after [`weir_io::ErrorKind::NoSpace`] that
    /// is worth doing once there is space.
    pub async fn run(self) -> Result<JobReport> {
        let Job { tree, work, facts, control, claim } = self;
        let report = match work {
            Work::Flush(sealed) => flush::run(&tree, sealed, &control).await,
            Work::Compact { pick, version } => compact::run(&tree, pick, &version, facts.class, &control).await,
        };
        // While the claim is held: a tree whose jobs have all ended has no file left over. What cannot be removed now stays
        // noted, and whoever tidies next meets and reports the error; the job itself has succeeded.
        let _noted = tree.tidy().await;
        drop(claim);
        report
    }
}

/// What a job holds in the tree's state, until it is dropped.
struct Claim {
    tree: Arc<Tree>,
    held: Held,
}

enum Held {
    Flush,
    Compaction { tables: Vec<u64>, range: ClaimedRange },
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.tree.state().lock();
        state.jobs_running -= 1;
        match &self.held {
            Held::Flush => state.flushing = false,
            Held::Compaction { tables, range } => {
                tables.iter().for_each(|id| {
                    state.claims.tables.remove(id);
                });
                state.claims.ranges.retain(|claimed| claimed != range);
            }
        }
    }
}

impl Tree {
    /// A flush of the oldest sealed memtables, if there are any and no flush is out.
    pub fn next_flush(self: &Arc<Self>) -> Option<Job> {
        let mut state = self.state().lock();
        if state.flushing {
            return None;
        }
        let view = self.view();
        let oldest = view.sealed.iter().rev().take(self.options.flush_memtables_max);
        let sealed: Vec<Sealed> = oldest.cloned().collect();
        if sealed.is_empty() {
            return None;
        }
        state.flushing = true;
        state.jobs_running += 1;
        let facts = JobFacts {
            class: Class::Flush,
            level: None,
            output_level: 0,
            inputs: sealed.len(),
            input_bytes: sealed.iter().map(|sealed| sealed.memtable.bytes() as u64).sum(),
        };
        Some(self.job(Work::Flush(sealed), facts, Held::Flush))
    }

    /// The most urgent compaction within `scope`, if one is due and free to run.
    pub fn next_compaction(self: &Arc<Self>, scope: Scope) -> Option<Job> {
        let mut state = self.state().lock();
        let version = self.version();
        let pick = self.pick(&state, &version, scope)?;
        let tables: Vec<u64> = pick.inputs.iter().map(|(_, id)| *id).collect();
        state.claims.tables.extend(&tables);
        let (smallest, largest) = (pick.smallest.clone(), pick.largest.clone());
        let range = ClaimedRange { level: pick.output_level, smallest, largest };
        state.claims.ranges.push(range.clone());
        state.jobs_running += 1;
        let input_bytes = version.tables().filter(|(_, table)| tables.contains(&table.meta.id));
        let facts = JobFacts {
            class: if pick.level == 0 { Class::CompactL0 } else { Class::CompactDeep },
            level: Some(pick.level),
            output_level: pick.output_level,
            inputs: tables.len(),
            input_bytes: input_bytes.map(|(_, table)| table.meta.bytes).sum(),
        };
        Some(self.job(Work::Compact { pick, version }, facts, Held::Compaction { tables, range }))
    }

    fn job(self: &Arc<Self>, work: Work, facts: JobFacts, held: Held) -> Job {
        let claim = Claim { tree: Arc::clone(self), held };
        Job { tree: Arc::clone(self), work, facts, control: Arc::default(), claim }
    }
}
