//! The backend that moves bytes and makes calls, shared by the file system and its open files.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::blocking::may_block;
use super::completion::slot;
use super::options::RealFsOptions;
use super::threads::{Lane, Task, Threads};
use super::transfer::{Request, Transfer, Verb};
use super::uring::Uring;
use crate::{AlignedBuf, Op, Result};

/// The backend of one file system. When its last owner goes, everything submitted has completed.
pub(super) struct Device {
    threads: Threads,
    /// `None` where worker threads do everything.
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

    /// Submits `transfer`: reads to the ring, everything else to worker threads. The kernel would pass syncs, and
    /// writes that lengthen a file, to workers of its own. It would finish a synced write in a work queue that loses
    /// against a busy machine: measured, 4 KiB took 0.1 ms when idle, but 4 to 7 ms beside a dozen compilers, where a
    /// worker thread mostly took 0.2 ms.
    pub(super) fn submit(&self, lane: Lane, transfer: Transfer) -> Op<AlignedBuf> {
        let (completer, wait) = slot();
        let request = Request { transfer, completer };
        match &self.ring {
            Some(ring) if request.transfer.verb == Verb::Read => ring.submit(lane, request),
            _ => self.threads.submit(lane, Task::Transfer(request)),
        }
        Op::pending(wait)
    }

    /// Makes a blocking call: on this thread if it may block, else on a worker.
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
