//! Jobs: background work, as futures that the engine's owner runs.
//!
//! A job claims its inputs when it is handed out. Its future yields after every 128 KiB of work. Not polling a job
//! parks it: the job keeps its claims and its open output, but no thread and no tokens (U-5). Dropping a job cancels
//! it: its claims are released, its outputs become garbage. Once [`JobControl::is_committing`] is true, the job must be
//! polled to the end (U-26): every other job of the engine would wait for it.

use std::sync::Arc;

use weir_io::{BoxFuture, Result};

use super::{JobControl, JobFacts};

/// A piece of background work, ready to run.
#[must_use = "a job that is not run releases its inputs again"]
pub struct Job {
    facts: JobFacts,
    control: Arc<JobControl>,
    work: BoxFuture<Result<JobReport>>,
}

/// The results of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Entries read.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
    /// Bytes of the files written (0 for a move).
    pub bytes_written: u64,
    /// Tables that changed level without being rewritten.
    pub tables_moved: usize,
    /// Tables that were dropped without being read.
    pub tables_dropped: usize,
    /// Parts of rows that were dropped because a cover declared them dead.
    pub covered_entries: u64,
    /// The bytes of their keys and values.
    pub covered_bytes: u64,
    /// Keys that had expired when the job met them, and were kept (a tree keeps heads, for the sake of their parts).
    /// The runner of the job deletes their rows by a record of the log. If there are [`EXPIRED_KEYS_MAX`] keys here,
    /// there may be more.
    pub expired_keys: Vec<Vec<u8>>,
}

/// Most expired keys that a job reports.
pub const EXPIRED_KEYS_MAX: usize = 1000;

impl Job {
    /// A job that runs `work`. The future holds the job's claims, even before it is polled for the first time.
    pub fn new(
        facts: JobFacts,
        control: Arc<JobControl>,
        work: impl Future<Output = Result<JobReport>> + Send + 'static,
    ) -> Self {
        Self { facts, control, work: Box::pin(work) }
    }

    /// The facts of the job.
    pub fn facts(&self) -> JobFacts {
        self.facts
    }

    /// A handle for the runner of the job.
    pub fn control(&self) -> Arc<JobControl> {
        Arc::clone(&self.control)
    }

    /// Does the work.
    ///
    /// # Errors
    /// Any error of the disk. The engine is as before, and the inputs can be picked again; after
    /// [`weir_io::ErrorKind::NoSpace`] this is worth doing once there is space.
    pub async fn run(self) -> Result<JobReport> {
        self.work.await
    }
}
