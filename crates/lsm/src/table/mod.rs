//! Tables: immutable sorted files. The bytes are described in `docs/format/table.md`.
//!
//! 1. A [`TableWriter`] cuts ascending entries into blocks of about a page, and appends a filter, an index and a
//!    footer.
//! 2. A [`Table`] keeps filter and index in memory; a point read asks the filter, finds *the* block in the index, and
//!    finds the key in the block: one block per table at most, even where a key's versions spread over several blocks.
//! 3. A [`TableCursor`] walks the blocks either way, and fetches ahead of itself when it is used sequentially.

mod block;
mod covers;
mod cursor;
mod extent;
pub mod filter;
mod format;
mod index;
mod readahead;
mod reader;
mod span;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use block::Block;
pub(crate) use block::Hint;
pub use covers::CoverPoint;
pub use cursor::TableCursor;
pub use extent::Extent;
pub use format::{BlockAddress, Compression, TableOptions, TableSummary};
pub(crate) use index::common_prefix;
pub use readahead::{Caching, CursorOptions};
pub use reader::{Fresh, Table, TableGet};
pub use writer::TableWriter;
