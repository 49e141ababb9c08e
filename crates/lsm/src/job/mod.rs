//! A tree's jobs: flushes and compactions.
//!
//! A [`Job`] claims its inputs when it is handed out, and ends with one manifest edit. From
//! [`JobControl::is_committing`] on it holds the manifest (U-26).

mod compact;
mod covers;
mod flush;
mod output;
pub mod retention;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Class, ErrorKind, Result};
use weir_model::engine::{Files, Job, JobControl, JobFacts, JobKind, JobReport, Jobs, TreeKnobs, Urgency};

use crate::pick::{ClaimedRange, Claims, Gathering, Pick, Waiting, pick_drop, picker};
use crate::read::view::{Sealed, View};
use crate::tree::{Running, Tree, TreeState};
use crate::version::Version;

enum Work {
    Flush(Vec<Sealed>),
    /// `sealed`: memtables that are merged with the tables of `pick`, the oldest first, without gaps.
    Compact {
        pick: Pick,
        version: Arc<Version>,
        sealed: Vec<Sealed>,
    },
}

impl Work {
    async fn run(self, tree: Arc<Tree>, class: Class, control: Arc<JobControl>, claim: Claim) -> Result<JobReport> {
        let report = match self {
            Work::Flush(sealed) => flush::run(&tree, sealed, &control).await,
            Work::Compact { pick, version, sealed } => {
                compact::run(&tree, pick, &version, sealed, class, &control).await
            }
        };
        if report.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace) {
            tree.state().lock().found_full = Some(tree.env.clock.now());
        }
        // While the claim is held, so that a tree whose jobs have all ended has no file left over. Files that cannot be
        // removed now stay noted, and the next attempt to tidy reports the error. The job itself has succeeded.
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

/// The range that a job of this pick writes. A run of level 0 is written into a place and not into a range: other jobs
/// may go on beside it.
fn claimed_range(pick: &Pick) -> Option<ClaimedRange> {
    (pick.output_level > 0 && !pick.means.is_drop()).then(|| ClaimedRange {
        level: pick.output_level,
        smallest: pick.smallest.clone(),
        largest: pick.largest.clone(),
    })
}

/// A job's entry in the tree's state, with all that it claims. Dropping this ends it.
struct Claim {
    tree: Arc<Tree>,
    job: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.tree.state().lock().end(self.job);
    }
}

impl Jobs for Tree {
    /// A flush of the oldest sealed memtables.
    fn next_flush(&self) -> Option<Job> {
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
        let version = self.version();
        let pick = self.pick_flush(&state.claims(|_| true), &state, &version, &sealed)?;
        Some(self.flush(&mut state, pick, version, sealed))
    }

    /// A job that drops tables which need not be read, if there are any: one manifest edit, for which nobody needs to
    /// wait.
    fn next_drop(&self) -> Option<Job> {
        let mut state = self.state().lock();
        let version = self.version();
        let claims = state.claims(|_| true);
        let pick = pick_drop(&self.levels_view(&version, &claims, &state))?;
        Some(self.compaction(&mut state, pick, version))
    }

    fn next_compaction(&self) -> Option<Job> {
        let mut state = self.state().lock();
        let version = self.version();
        let pick = self.pick(&state.claims(|_| true), &state, &version)?;
        Some(self.compaction(&mut state, pick, version))
    }

    fn compaction_due(&self) -> Option<Class> {
        let state = self.state().lock();
        let pick = self.pick(&state.claims(|_| true), &state, &self.version())?;
        Some(class_of(&pick))
    }

    /// Of several parked jobs, the least complete one.
    fn parked_in_the_way(&self) -> Option<Arc<JobControl>> {
        let state = self.state().lock();
        let stays = |job: &Running| job.control.is_parked();
        let version = self.version();
        if !state.jobs.values().any(stays) {
            return None;
        }
        let due = |claims: &Claims| {
            // A flush that becomes a run of level 0 needs nothing that other jobs hold.
            let merge =
                self.pick_flush(claims, &state, &version, &self.view().sealed).filter(|pick| pick.output_level > 0);
            merge.or_else(|| self.pick(claims, &state, &version))
        };
        let now = due(&state.claims(|_| true));
        let due = due(&state.claims(|job| !stays(job)))?;
        // If a job that is at least as urgent can start now, no parked job is in the way.
        if now.is_some_and(|now| class_of(&now) <= class_of(&due)) {
            return None;
        }
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

    fn knobs(&self) -> TreeKnobs {
        self.knobs.get()
    }

    fn set_knobs(&self, knobs: TreeKnobs) {
        self.knobs.set(knobs);
    }

    fn set_eager(&self, eager: bool) {
        self.eager.store(eager, Ordering::Relaxed);
    }

    fn set_urgency(&self, urgency: Urgency) {
        self.urgency.store(urgency as u8, Ordering::Relaxed);
    }

    fn urgency(&self) -> Urgency {
        Urgency::ALL[usize::from(self.urgency.load(Ordering::Relaxed))]
    }

    /// Flushes count as well: there tombstones meet what they delete for the first time.
    fn is_reclaiming(&self) -> bool {
        let state = self.state().lock();
        let view = self.view();
        if !state.jobs.is_empty() || !view.sealed.is_empty() {
            return true;
        }
        let claims = state.claims(|_| true);
        let levels_view = self.levels_view(&view.version, &claims, &state);
        pick_drop(&levels_view).is_some() || self.pick(&claims, &state, &view.version).is_some()
    }
}

impl Tree {
    /// Whether a flush should wait for more memtables ([`crate::TreeKnobs::flush_gather`] says when it does not).
    pub(crate) fn is_gathering(&self, state: &TreeState, view: &View, knobs: &TreeKnobs) -> bool {
        let Some(oldest) = view.sealed.last() else { return false };
        let is_last_buffer_filling = view.sealed.len() + 1 >= knobs.write_buffers;
        let Gathering { memtables, nanos_max } = picker(&self.options).gathering(knobs);
        view.sealed.len() < memtables
            && !is_last_buffer_filling
            && oldest.epoch >= state.flush_before
            && self.env.clock.now().saturating_sub(oldest.sealed_at) < nanos_max
            && self.is_filling(state)
    }

    /// Where the memtables of `sealed` go next, beside the jobs that hold `claims`; `None` if there are none, or if
    /// they have to wait.
    pub(crate) fn pick_flush(
        &self,
        claims: &Claims,
        state: &TreeState,
        version: &Version,
        sealed: &[Sealed],
    ) -> Option<Pick> {
        let ends: Vec<_> = sealed.iter().filter_map(|sealed| sealed.memtable.ends()).collect();
        let smallest = ends.iter().map(|[smallest, _]| &**smallest).min()?;
        let largest = ends.iter().map(|[_, largest]| &**largest).max()?;
        let levels_view = self.levels_view(version, claims, state);
        picker(&self.options).flush(&levels_view, Waiting { smallest, largest }, &self.options)
    }

    fn flush(&self, state: &mut TreeState, pick: Pick, version: Arc<Version>, sealed: Vec<Sealed>) -> Job {
        let tables: Vec<u64> = pick.inputs.iter().map(|(_, id)| *id).collect();
        let inputs = || version.tables().filter(|(_, table)| tables.contains(&table.meta.id));
        let of_memtables: u64 = sealed.iter().map(|sealed| sealed.memtable.bytes() as u64).sum();
        let facts = JobFacts {
            class: Class::Flush,
            level: None,
            output_level: pick.output_level,
            inputs: sealed.len() + tables.len(),
            input_bytes: of_memtables + inputs().map(|(_, table)| table.meta.bytes).sum::<u64>(),
            is_drop: false,
            is_urgent: false,
        };
        let entries = sealed.iter().map(|sealed| sealed.memtable.len() as u64).sum::<u64>()
            + inputs().map(|(_, table)| table.meta.entries).sum::<u64>();
        let range = claimed_range(&pick);
        let work = match pick.output_level {
            0 => Work::Flush(sealed),
            _ => Work::Compact { pick, version: Arc::clone(&version), sealed },
        };
        self.job(state, work, facts, entries, tables, range)
    }

    fn compaction(&self, state: &mut TreeState, pick: Pick, version: Arc<Version>) -> Job {
        let tables: Vec<u64> = pick.inputs.iter().map(|(_, id)| *id).collect();
        let range = claimed_range(&pick);
        let inputs = || version.tables().filter(|(_, table)| tables.contains(&table.meta.id));
        let facts = JobFacts {
            class: class_of(&pick),
            level: Some(pick.level),
            output_level: pick.output_level,
            inputs: tables.len(),
            input_bytes: inputs().map(|(_, table)| table.meta.bytes).sum(),
            is_drop: pick.means.is_drop(),
            is_urgent: pick.reclaims && self.urgency() > Urgency::Idle,
        };
        let entries = inputs().map(|(_, table)| table.meta.entries).sum();
        let work = Work::Compact { pick, version: Arc::clone(&version), sealed: Vec::new() };
        self.job(state, work, facts, entries, tables, range)
    }

    fn job(
        &self,
        state: &mut TreeState,
        work: Work,
        facts: JobFacts,
        entries: u64,
        tables: Vec<u64>,
        range: Option<ClaimedRange>,
    ) -> Job {
        let control = JobControl::new(entries);
        let job = state.begin(Running { facts, control: Arc::clone(&control), tables, range });
        let tree = self.shared();
        let claim = Claim { tree: Arc::clone(&tree), job };
        let work = work.run(tree, facts.class, Arc::clone(&control), claim);
        Job::new(facts, control, work)
    }
}
