//! How a job and its runner talk to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the job and its runner.
#[derive(Default)]
pub struct JobControl {
    committing: AtomicBool,
    parked: AtomicBool,
    /// The number of entries in all inputs.
    entries: u64,
    entries_done: AtomicU64,
    bytes_written: AtomicU64,
}

impl JobControl {
    /// For a job with `entries` entries in all its inputs.
    pub fn new(entries: u64) -> Arc<Self> {
        Arc::new(Self { entries, ..Self::default() })
    }

    /// The job begins to write its manifest edit.
    pub fn begin_commit(&self) {
        self.committing.store(true, Ordering::Relaxed);
    }

    /// Sets how many entries the job has consumed so far.
    pub fn set_entries_done(&self, entries: u64) {
        self.entries_done.store(entries, Ordering::Relaxed);
    }

    /// Sets how many bytes the job has written so far.
    pub fn set_bytes_written(&self, bytes: u64) {
        self.bytes_written.store(bytes, Ordering::Relaxed);
    }

    /// Whether the job is writing its manifest edit: neither park nor cancel it now.
    pub fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Relaxed)
    }

    /// How much of its input the job has consumed, from 0 to 1, by entries.
    pub fn progress(&self) -> f64 {
        let done = self.entries_done.load(Ordering::Relaxed);
        if self.entries == 0 { 0.0 } else { (done as f64 / self.entries as f64).min(1.0) }
    }

    /// Bytes that the job has still to consume or to write, of the `input_bytes` in all its inputs. It writes in pieces
    /// of `write_bytes`, and entries that it has consumed may still wait to be written. So one piece is left until the
    /// job is over.
    pub fn bytes_left(&self, input_bytes: u64, write_bytes: u64) -> u64 {
        let left = input_bytes as f64 * (1.0 - self.progress());
        (left as u64).max(write_bytes.min(input_bytes))
    }

    /// Bytes of output so far: they would be thrown away if the job were cancelled now.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Notes whether the job is parked, that is, not being polled. The note is for [`EngineFacts`](super::EngineFacts)
    /// and [`parked_in_the_way`](super::Jobs::parked_in_the_way); nothing here depends on it.
    pub fn set_parked(&self, parked: bool) {
        self.parked.store(parked, Ordering::Relaxed);
    }

    /// The last note.
    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_has_consumed_all_has_its_last_piece_to_write() {
        let control = JobControl::new(100);
        let after = |entries| {
            control.set_entries_done(entries);
            control.bytes_left(1_000, 64)
        };
        assert_eq!([0, 50, 75, 95, 100].map(after), [1_000, 500, 250, 64, 64]);
        assert_eq!(control.bytes_left(40, 64), 40, "all in one piece");
        assert_eq!(JobControl::default().bytes_left(0, 64), 0, "nothing to write");
    }
}
