//! Snapshot files: all living rows as of one sequence number, in order. Bytes in `docs/format/memory.md`.

mod block;
mod meta;
pub(crate) mod reader;
mod record;
pub(crate) mod writer;

pub use block::{BlockId, decode as decode_block};
pub use meta::SnapshotMeta;
pub use record::{Decoder, End};

/// The name of the snapshot file with this number.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:06}.snap")
}

/// The number in the name of a snapshot file; `None` for other files.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".snap")?.parse().ok()?;
    (name == file_name(number)).then_some(number)
}
