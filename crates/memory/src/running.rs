//! The jobs that are out: at most one of each kind.

use std::sync::Arc;

use weir_model::engine::{JobControl, JobCount, JobFacts, JobKind};

/// Kinds of jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Snapshot,
    Sweep,
}

/// The jobs that are out, by kind.
#[derive(Default)]
pub(crate) struct Running([Option<(JobFacts, Arc<JobControl>)>; 2]);

impl Running {
    /// Notes a job, unless one of its kind is out. Returns whether it was noted.
    pub fn begin(&mut self, work: Work, facts: JobFacts, control: &Arc<JobControl>) -> bool {
        let is_free = !self.has(work);
        if is_free {
            self.0[work as usize] = Some((facts, Arc::clone(control)));
        }
        is_free
    }

    /// Notes that the job of this kind has ended.
    pub fn end(&mut self, work: Work) {
        self.0[work as usize] = None;
    }

    /// Whether a job of this kind is out.
    pub fn has(&self, work: Work) -> bool {
        self.0[work as usize].is_some()
    }

    /// How many jobs there are, in the order of [`JobKind::ALL`]. They write in pieces of `write_bytes`.
    pub fn counts(&self, write_bytes: u64) -> [JobCount; JobKind::ALL.len()] {
        let mut counts = [JobCount::default(); JobKind::ALL.len()];
        for (facts, control) in self.0.iter().flatten() {
            for (count, _) in counts.iter_mut().zip(JobKind::ALL).filter(|(_, kind)| *kind == facts.kind()) {
                count.running += 1;
                count.parked += usize::from(control.is_parked());
                count.bytes_left += control.bytes_left(facts.input_bytes, write_bytes);
            }
        }
        counts
    }
}
