//! One log-structured merge tree.
//!
//! Start at [`Tree`]. The folders follow the data: `memtable`, `table`, `version`, `read`, `pick`, `job`. The tree owns
//! no threads, timers or log, and knows no tenant; see `docs/architecture.md` for the lives of a write, a read and a
//! compaction.
//!
//! To embed it: `examples/embed.rs` joins a tree and a log to a small store that survives crashes.

pub mod cache;
pub mod check;
pub mod cursor;
mod files;
pub mod job;
mod knobs;
pub mod memtable;
mod options;
mod pending;
pub mod pick;
pub mod read;
pub mod repair;
mod slowdown;
mod stall;
pub mod table;
pub mod tree;
pub mod version;

pub use options::{PickerKind, TreeOptions};
pub use tree::{Env, Tree};
