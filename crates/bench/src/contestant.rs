//! What a work asks from an engine.

use crate::Result;

/// An open store. Every method may be called from many threads.
pub trait Contestant: Send + Sync {
    /// Name and version, for the table.
    fn version(&self) -> String;

    /// What the engine was told beyond [`Settings`](crate::settings::Settings), or reports by itself: one line for the
    /// record.
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

    /// The store's rows of many parts; `None` if it has none.
    fn rows(&self) -> Option<&dyn Rows> {
        None
    }

    /// Closes in good order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a work asks from rows of many parts, in a store that has them.
pub trait Rows: Send + Sync {
    /// Stores `parts`, subkeys and values, in the row `name`, as one write; makes the row if it is missing.
    fn put_parts(&self, name: &[u8], parts: &[(&[u8], &[u8])]) -> Result<()>;

    /// Whether the row is there.
    fn has(&self, name: &[u8]) -> Result<bool>;

    /// Deletes the row, and returns when the deletion is as durable as a put.
    fn delete(&self, name: &[u8]) -> Result<()>;

    /// What the log has taken so far.
    fn logged(&self) -> Logged;
}

/// What a log has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Records.
    pub records: u64,
    /// Bytes of these, without their frames.
    pub bytes: u64,
}
