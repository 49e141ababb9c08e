//! How the machine's disk is driven.

use std::path::PathBuf;

/// What makes the reads that must wait for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The one that measures better at start.
    #[default]
    Auto,
    /// Worker threads with blocking system calls.
    Threads,
    /// io_uring, where the kernel allows it; worker threads for everything but reads.
    Uring,
}

/// How the machine's disk is driven. Start from `RealFsOptions::default()`.
#[derive(Clone, Debug)]
pub struct RealFsOptions {
    /// The backend.
    pub backend: Backend,
    /// The directory in which [`Backend::Auto`] measures, for some 60 ms, on a temporary file of 1 MiB. Without it,
    /// io_uring is taken unmeasured wherever the kernel allows it.
    pub probe_dir: Option<PathBuf>,
    /// Most worker threads for I/O that clients wait for.
    pub foreground_threads: usize,
    /// Most worker threads for flush, compaction and maintenance.
    pub background_threads: usize,
    /// Most operations waiting for a worker, per lane. If there are more, the submitting thread does the work itself.
    pub queue_max: usize,
}

impl Default for RealFsOptions {
    fn default() -> Self {
        Self { backend: Backend::Auto, probe_dir: None, foreground_threads: 32, background_threads: 8, queue_max: 4096 }
    }
}
