//! One log-structured merge tree.
//!
//! Start at [`Tree`]. The folders follow the data: `memtable`, `table`, `version`, `read`, `pick`, `job`. The tree owns
//! no threads, timers or log, and knows no tenant; see `docs/architecture.md` for the lives of a write, a read and a
//! compaction.
//!
//! To embed it: `examples/embed.rs` joins a tree and a log to a small store that survives crashes.

pub mod cache;
pub mod check;
mod checkpoint;
pub mod cursor;
pub mod deadlines;
pub mod entry;
pub mod job;
mod knobs;
pub mod memtable;
mod options;
pub mod pick;
mod prefetch;
pub mod read;
pub mod repair;
pub mod shape;
pub mod snapshot;
pub mod stall;
pub mod table;
pub mod tree;
pub mod value;
pub mod version;

pub use checkpoint::Held;
pub use job::{Job, JobControl, JobFacts, JobKind, JobReport, MemtableBytes};
pub use knobs::TreeKnobs;
pub use options::TreeOptions;
pub use read::get::Lookup;
pub use read::scan::{Range, Scan};
pub use shape::Shape;
pub use snapshot::Snapshot;
pub use stall::{Stall, StallCause};
pub use tree::{Applied, Env, Space, Tree};
pub use value::Found;
