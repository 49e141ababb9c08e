//! The machine itself: files through the kernel, the monotonic clock, background threads, and threads that may block.
//!
//! How an operation travels:
//!
//! - Operations that the page cache can serve (writes of buffered files, cached reads) are done on the caller's thread.
//! - On a thread inside a [`blocking_scope`], everything is done on the caller's thread.
//! - Reads that must wait for the disk are submitted at call time to the [`Backend`]: io_uring, or worker threads.
//! - Direct and synced writes, syncs, and calls on names (open, rename, …) go to worker threads in any case.
#![allow(
    clippy::disallowed_methods,
    reason = "this is where the machine's clock, threads and files are handed in from"
)]

mod blocking;
mod choose;
mod clock;
mod completion;
mod device;
mod file;
mod fs;
mod idle;
mod lock;
mod memory;
mod open;
mod options;
mod precedence;
mod spawn;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
#[cfg_attr(not(feature = "uring"), path = "uring_absent.rs")]
mod uring;
mod volume;

pub use blocking::{BlockingScope, block_on, blocking_scope};
pub use choose::Choice;
pub use clock::RealClock;
pub use fs::RealFs;
pub use idle::IdleTime;
pub use memory::forgo_huge_pages;
pub use options::{Backend, RealFsOptions};
pub use precedence::{be_nice, be_prompt};
pub use spawn::RealSpawn;
pub use transfer::COPY_BYTES_MAX;
