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
pub(crate) struct Running {
    jobs: [Option<Out>; 2],
    /// How many jobs have begun.
    begun: u64,
}

/// A job that is out.
struct Out {
    /// How many jobs had begun when it did, this one included.
    number: u64,
    facts: JobFacts,
    control: Arc<JobControl>,
}

impl Running {
    /// Notes a job, unless one of its kind is out. Returns whether it was noted.
    pub fn begin(&mut self, work: Work, facts: JobFacts, control: &Arc<JobControl>) -> bool {
        let is_free = !self.has(work);
        if is_free {
            self.begun += 1;
            self.jobs[work as usize] = Some(Out { number: self.begun, facts, control: Arc::clone(control) });
        }
        is_free
    }

    /// Notes that the job of this kind has ended.
    pub fn end(&mut self, work: Work) {
        self.jobs[work as usize] = None;
    }

    /// Whether a job of this kind is out.
    pub fn has(&self, work: Work) -> bool {
        self.jobs[work as usize].is_some()
    }

    /// How many jobs there are, in the order of [`JobKind::ALL`]. They write in pieces of `write_bytes`.
    pub fn counts(&self, write_bytes: u64) -> [JobCount; JobKind::ALL.len()] {
        let mut counts = [JobCount::default(); JobKind::ALL.len()];
        for Out { number, facts, control } in self.jobs.iter().flatten() {
            for (count, _) in counts.iter_mut().zip(JobKind::ALL).filter(|(_, kind)| *kind == facts.kind()) {
                count.running += 1;
                count.parked += usize::from(control.is_parked());
                count.newest = count.newest.max(*number);
                count.bytes_left += control.bytes_left(facts.input_bytes, write_bytes);
            }
        }
        counts
    }
}
