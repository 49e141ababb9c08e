//! The engine that keeps all rows in memory, ordered by key, each with the versions that readers need.
//!
//! Start at [`Store`]. It is durable by the same log as the LSM tree, and by snapshots: a job writes all rows as of one
//! moment into a new file, and the log before that moment can go. The store owns no threads, timers or log; see
//! `docs/architecture.md`.

mod atomic_arc;
mod bytes;
pub mod check;
mod covers;
mod files;
mod index;
mod job;
mod key;
pub mod manifest;
mod mortal;
mod options;
pub mod repair;
mod running;
mod scan;
mod short;
pub mod snapshot;
mod stale;
mod store;
mod version;

pub use bytes::Budget;
pub use options::StoreOptions;
pub use store::{Env, Store};
