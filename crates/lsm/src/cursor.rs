//! Cursors: one way to walk memtables, tables and merges of them.
//!
//! The hot path is synchronous: moving inside what is in memory is a plain function call. Only when a block is missing
//! does a move answer [`Step::Load`]; the caller then awaits [`Cursor::load`], which fetches the block and *completes
//! the interrupted move*. Nested async functions for every entry would cost more than the merge itself.

use weir_io::Result;

use weir_model::engine::{Entry, Seq};

/// How a move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The move is complete: the cursor stands on an entry, or past either end.
    Ready,
    /// A block is missing: await [`Cursor::load`] until it says `Ready`.
    Load,
}

/// A position in a sorted sequence of entries.
///
/// After a move that answered `Load`, only `load` may be called, or a new `seek*`, which abandons the interrupted move.
pub trait Cursor: Send {
    /// The entry under the cursor; `None` before the first seek and past either end.
    fn entry(&self) -> Option<Entry<'_>>;
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Step;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Step;
    /// Moves to the first entry at or after (`key`, `seq`) in the tree's order.
    fn seek(&mut self, key: &[u8], seq: Seq) -> Step;
    /// Moves to the last entry before (`key`, `seq`) in the tree's order.
    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step;
    /// Moves one entry on. The cursor must stand on an entry.
    fn next(&mut self) -> Step;
    /// Moves one entry back. The cursor must stand on an entry.
    fn prev(&mut self) -> Step;
    /// Fetches the block that an interrupted move lacks, and completes the move. A move may need several blocks: loop
    /// while this answers `Load`.
    fn load(&mut self) -> impl Future<Output = Result<Step>> + Send;
}
