//! One read, write or sync, as a state machine that is independent of who makes the system calls: the caller's own
//! thread, a worker thread, or the ring. Short transfers and interruptions are handled here, once.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

use super::completion::Completer;
use crate::{AlignedBuf, Error, ErrorKind, Result};

/// Most bytes per system call: io_uring counts in 32 bits, and pread stops at 2 GiB.
const CALL_BYTES_MAX: usize = 1 << 30;
/// Most bytes per system call that only copies, between a process and the page cache or a socket: some 0.1 ms. Many
/// kernels let nobody else run in the middle of a call: 8 MB in one call kept everybody waiting for milliseconds.
pub const COPY_BYTES_MAX: usize = 256 << 10;
/// No device has smaller sectors. A direct transfer that ends between two of them ended because the file did.
pub(super) const SECTOR: usize = 512;

/// An open file descriptor, and the facts about it that errors and checks need.
pub(super) struct Handle {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    /// Direct I/O is in force: the caller asked for it and the file system did not refuse.
    pub(super) direct: bool,
    /// The caller asked for direct I/O, so alignment is checked even where the file system refused it.
    pub(super) aligned: bool,
    pub(super) write: bool,
    /// Every write is synced (O_DSYNC).
    pub(super) dsync: bool,
    /// See [`crate::File::read_unit`].
    pub(super) read_unit: usize,
}

/// The kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Write,
    Sync,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Sync => "sync",
        }
    }
}

/// What has to happen after a system call.
pub(super) enum Step {
    /// Another call is needed for the rest.
    Again,
    /// Nothing more to do.
    Finished(Result<()>),
}

/// A transfer and how far it got. Owns its buffer and keeps its file open until it is finished: the kernel may be
/// writing into the buffer.
pub(super) struct Transfer {
    pub(super) handle: Arc<Handle>,
    pub(super) verb: Verb,
    offset: u64,
    buf: AlignedBuf,
    /// Bytes already transferred. Invariant: `done <= buf.len()`.
    done: usize,
}

impl Transfer {
    pub(super) fn new(handle: Arc<Handle>, verb: Verb, offset: u64, buf: AlignedBuf) -> Self {
        Self { handle, verb, offset, buf, done: 0 }
    }

    /// Where in the file the next call starts.
    pub(super) fn position(&self) -> u64 {
        self.offset.saturating_add(self.done as u64)
    }

    /// The bytes of the next call.
    pub(super) fn rest(&mut self) -> &mut [u8] {
        let only_copies = !self.handle.direct && !self.handle.dsync;
        let len = (self.buf.len() - self.done).min(if only_copies { COPY_BYTES_MAX } else { CALL_BYTES_MAX });
        &mut self.buf[self.done..self.done + len]
    }

    /// Books the outcome of one call.
    pub(super) fn advance(&mut self, outcome: Result<usize, Errno>) -> Step {
        let count = match outcome {
            Ok(count) => count,
            // ECANCELED: the thread that submitted to the ring ended. AGAIN: a ring under pressure. In neither case was
            // anything done.
            Err(Errno::INTR | Errno::CANCELED | Errno::AGAIN) => return Step::Again,
            Err(error) => return Step::Finished(Err(self.error(error))),
        };
        let rest = self.rest().len();
        debug_assert!(count <= rest, "the kernel moved more than it was asked to");
        match self.verb {
            Verb::Sync => return Step::Finished(Ok(())),
            Verb::Read => {
                self.done += count;
                let ended = count == 0 || (self.handle.direct && !count.is_multiple_of(SECTOR));
                if ended {
                    self.buf.truncate(self.done);
                }
            }
            Verb::Write => {
                // The next direct write must start on a sector; writing some bytes twice is harmless.
                let count = if self.handle.direct && count < rest { count - count % SECTOR } else { count };
                if count == 0 && rest > 0 {
                    return Step::Finished(Err(self.refuse(ErrorKind::Device, "the device took no bytes")));
                }
                self.done += count;
            }
        }
        if self.done == self.buf.len() { Step::Finished(Ok(())) } else { Step::Again }
    }

    /// Makes one blocking system call.
    fn call(&mut self) -> Result<usize, Errno> {
        let handle = Arc::clone(&self.handle);
        let position = self.position();
        match self.verb {
            Verb::Read => rustix::io::pread(&handle.fd, self.rest(), position),
            Verb::Write => rustix::io::pwrite(&handle.fd, self.rest(), position),
            Verb::Sync => rustix::fs::fdatasync(&handle.fd).map(|()| 0),
        }
    }

    /// Makes blocking calls on this thread until finished.
    fn drive(&mut self) -> Result<()> {
        loop {
            let outcome = self.call();
            if let Step::Finished(result) = self.advance(outcome) {
                return result;
            }
        }
    }

    /// Does the whole transfer on this thread.
    pub(super) fn run(mut self) -> Result<AlignedBuf> {
        self.drive().map(|()| self.buf)
    }

    /// Reads what the page cache holds, without waiting for the device. Gives the transfer back if that was not
    /// everything.
    pub(super) fn run_cached(mut self) -> Result<Result<AlignedBuf>, Self> {
        loop {
            let handle = Arc::clone(&self.handle);
            let position = self.position();
            let mut slices = [std::io::IoSliceMut::new(self.rest())];
            let outcome = rustix::io::preadv2(&handle.fd, &mut slices, position, ReadWriteFlags::NOWAIT);
            if matches!(outcome, Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS)) {
                return Err(self);
            }
            if let Step::Finished(result) = self.advance(outcome) {
                return Ok(result.map(|()| self.buf));
            }
        }
    }

    /// An error of this transfer that does not come from the kernel.
    pub(super) fn refuse(&self, kind: ErrorKind, message: &str) -> Error {
        self.located(Error::new(kind, self.verb.name(), &self.handle.path, message))
    }

    fn error(&self, error: Errno) -> Error {
        self.located(Error::from_std(self.verb.name(), &self.handle.path, &error.into()))
    }

    fn located(&self, error: Error) -> Error {
        if self.verb == Verb::Sync { error } else { error.at(self.position()) }
    }
}

/// A transfer in the hands of a backend.
pub(super) struct Request {
    pub(super) transfer: Transfer,
    pub(super) completer: Completer<AlignedBuf>,
}

impl Request {
    /// Does the whole transfer on this thread.
    pub(super) fn run(mut self) {
        let result = self.transfer.drive();
        self.finish(result);
    }

    /// Hands over the result of a transfer that [`Transfer::advance`] called finished.
    pub(super) fn finish(self, result: Result<()>) {
        self.completer.complete(result.map(|()| self.transfer.buf));
    }
}
