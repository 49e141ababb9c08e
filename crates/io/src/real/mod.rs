//! The machine itself: files through the kernel, the monotonic clock, background threads, and threads that may block.
//!
//! How an operation travels:
//!
//! - What the page cache takes or holds (writes of buffered files, cached reads) is done on the caller's thread.
//! - On a thread inside a [`blocking_scope`], everything is done on the caller's thread.
//! - Direct reads and writes, and syncs, are submitted at call time to the [`Backend`]: worker threads or io_uring.
//! - Calls on names (open, rename, …) may wait for the file system's journal: always a worker thread.
#![allow(
    clippy::disallowed_methods,
    reason = "this is where the machine's clock, threads and files are handed in from"
)]

mod blocking;
mod clock;
mod completion;
mod file;
mod fs;
mod lock;
mod spawn;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;

pub use blocking::{BlockingScope, block_on, blocking_scope};
pub use clock::RealClock;
pub use fs::{Backend, RealFs, RealFsOptions};
pub use spawn::RealSpawn;
