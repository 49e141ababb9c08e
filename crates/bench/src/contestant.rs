//! What a work asks of an engine.

use crate::Result;

/// An open store. Every method may be called from many threads.
pub trait Contestant: Send + Sync {
    /// Name and version, for the table.
    fn version(&self) -> String;

    /// What it was told beyond [`Settings`](crate::settings::Settings), or tells by itself: one line for the record.
    fn remarks(&self) -> String;

    /// Stores one pair and returns when [`Settings::sync`](crate::settings::Settings::sync) is satisfied.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `see`; false if there is none.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows up to `limit` pairs from `from` on, in order, to `see`.
    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Flushes, and returns when no level wants compaction (every score at most 1).
    fn settle(&self) -> Result<()>;

    /// Files per level, such as `L0:1 L5:4 L6:28`.
    fn shape(&self) -> String;

    /// Closes in good order.
    fn close(self: Box<Self>) -> Result<()>;
}
