//! What moves bytes and makes calls, shared by the file system and its open files.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::blocking::may_block;
use super::completion::slot;
use super::fs::RealFsOptions;
use super::threads::{Lane, Task, Threads};
use super::transfer::{Request, Transfer, Verb};
use super::uring::Uring;
use crate::{AlignedBuf, Op, Result};

/// Who moves the bytes of direct I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Whichever measures better at start.
    #[default]
    Auto,
    /// Worker threads with blocking system calls.
    Threads,
    /// io_uring, where the kernel allows it.
    Uring,
}

/// When the last owner goes, everything submitted has completed.
pub(super) struct Device {
    threads: Threads,
    /// Absent where worker threads do everything.
    ring: Option<Uring>,
    /// The first file for which the file system refused O_DIRECT.
    pub(super) direct_refused: OnceLock<PathBuf>,
}

impl Device {
    /// Worker threads as `options` say, and the ring if there is one.
    pub(super) fn new(options: &RealFsOptions, ring: Option<Uring>) -> Self {
        let threads = Threads::new(options.foreground_threads, options.background_threads, options.queue_max);
        Self { threads, ring, direct_refused: OnceLock::new() }
    }

    /// Submits `transfer`.
    pub(super) fn submit(&self, lane: Lane, transfer: Transfer) -> Op<AlignedBuf> {
        let (completer, wait) = slot();
        let request = Request { transfer, completer };
        match &self.ring {
            Some(ring) if rides(&request.transfer) => ring.submit(lane, request),
            _ => self.threads.submit(lane, Task::Transfer(request)),
        }
        Op::pending(wait)
    }

    /// Makes a blocking call: here if this thread may block, else on a worker.
    pub(super) fn call<T: Send + 'static>(
        &self,
        lane: Lane,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Op<T> {
        if may_block() {
            return Op::ready(call());
        }
        let (completer, wait) = slot();
        self.threads.submit(lane, Task::Call(Box::new(move || completer.complete(call()))));
        Op::pending(wait)
    }
}

/// What the ring does better than worker threads: reads, and synced writes (the log's, into allocated segments). Writes
/// that lengthen a file, and syncs, the kernel would give to worker threads of its own, at a higher price (measured
/// with the example `read_latency`: 64 us of CPU per 256 KiB appended, against 54).
fn rides(transfer: &Transfer) -> bool {
    match transfer.verb {
        Verb::Read => true,
        Verb::Write => transfer.handle.dsync,
        Verb::Sync => false,
    }
}
