//! Jobs: snapshots and sweeps.

mod snapshot;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Class, Result};
use weir_model::engine::{Files, Job, JobControl, JobFacts, JobReport, Jobs, TreeKnobs, Urgency};

use crate::running::Work;
use crate::store::Store;

impl Work {
    async fn run(self, store: Arc<Store>, control: Arc<JobControl>, claim: Claim) -> Result<JobReport> {
        let report = match self {
            Work::Snapshot => snapshot::write(&store, &control).await,
            Work::Sweep => Ok(sweep::run(&store, &control).await),
        };
        let report = report.map(|report| {
            let dropped = std::mem::take(&mut store.writer.lock().dropped);
            JobReport { covered_entries: dropped.entries, covered_bytes: dropped.bytes, ..report }
        });
        // While the claim is held, so that a store whose jobs have all ended has no file left over. Files that cannot
        // be removed now stay noted, and the next attempt to tidy reports the error. The job itself has succeeded.
        let _noted = store.tidy().await;
        drop(claim);
        report
    }
}

/// Keeps other jobs of the kind out until it is dropped.
struct Claim(Arc<Store>, Work);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.running.lock().end(self.1);
    }
}

impl Store {
    /// Hands out the job, unless one of its kind is out.
    fn job(&self, work: Work, class: Class, input_bytes: u64) -> Option<Job> {
        let is_drop = work == Work::Sweep;
        let facts = JobFacts { class, level: None, output_level: 0, inputs: 1, input_bytes, is_drop, is_urgent: false };
        let control = JobControl::new(self.booked.rows());
        if !self.running.lock().begin(work, facts, &control) {
            return None;
        }
        let store = self.shared();
        let claim = Claim(Arc::clone(&store), work);
        Some(Job::new(facts, Arc::clone(&control), work.run(store, control, claim)))
    }
}

impl Jobs for Store {
    /// A snapshot, if enough has been written since the last one or somebody asked for it.
    fn next_flush(&self) -> Option<Job> {
        if !self.is_snapshot_wanted() {
            return None;
        }
        self.job(Work::Snapshot, Class::Flush, self.booked.newest())
    }

    /// A sweep, which does no I/O.
    fn next_drop(&self) -> Option<Job> {
        if !self.is_sweep_due() {
            return None;
        }
        self.job(Work::Sweep, Class::Reclaim, self.booked.older())
    }

    /// There is nothing to merge.
    fn next_compaction(&self) -> Option<Job> {
        None
    }

    fn compaction_due(&self) -> Option<Class> {
        None
    }

    fn parked_in_the_way(&self) -> Option<Arc<JobControl>> {
        None
    }

    fn knobs(&self) -> TreeKnobs {
        *self.knobs.lock()
    }

    /// Knobs are for trees: a store keeps them and ignores them.
    fn set_knobs(&self, knobs: TreeKnobs) {
        *self.knobs.lock() = knobs;
    }

    /// Nothing here waits for more to do.
    fn set_eager(&self, _: bool) {}

    fn set_urgency(&self, urgency: Urgency) {
        self.urgency.store(urgency as u8, Ordering::Relaxed);
    }

    fn urgency(&self) -> Urgency {
        Urgency::ALL[usize::from(self.urgency.load(Ordering::Relaxed))]
    }

    fn is_reclaiming(&self) -> bool {
        self.running.lock().has(Work::Sweep) || self.is_sweep_due()
    }
}
