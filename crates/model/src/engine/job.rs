//! Jobs: background work, as futures that somebody else runs.
//!
//! A job claims its inputs when it is handed out. Its future yields every 128 KiB of work. Not polling it parks it: it
//! keeps its claims and open output, but no thread and no tokens (U-5). Dropping it cancels it: claims are released,
//! outputs become garbage. From [`JobControl::is_committing`] on it must be polled to the end (U-26): every other job
//! of the engine would wait for it.

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

/// What a job did.
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
    /// Tables that went without being read.
    pub tables_dropped: usize,
    /// Parts of rows that went because a cover said that they were dead.
    pub covered_entries: u64,
    /// Their bytes, of keys and values.
    pub covered_bytes: u64,
    /// Keys that were met when they had expired, and were kept (a tree keeps heads, for the sake of their parts):
    /// whoever runs the job deletes their rows by a record of the log. There may be more of them when there are
    /// [`EXPIRED_KEYS_MAX`].
    pub expired_keys: Vec<Vec<u8>>,
}

/// Most expired keys that a job reports.
pub const EXPIRED_KEYS_MAX: usize = 1000;

impl Job {
    /// `work` is what it does, and holds its claims, also before it is polled for the first time.
    pub fn new(
        facts: JobFacts,
        control: Arc<JobControl>,
        work: impl Future<Output = Result<JobReport>> + Send + 'static,
    ) -> Self {
        Self { facts, control, work: Box::pin(work) }
    }

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
    /// Whatever the disk said. The engine is as before, the inputs can be picked again; after
    /// [`weir_io::ErrorKind::NoSpace`] that is worth doing once there is space.
    pub async fn run(self) -> Result<JobReport> {
        self.work.await
    }
}
