//! How much space an engine takes, and how much of it lives.

use super::Deadlines;

/// The space of an engine, in bytes. Dead bytes are known or estimated from facts, not by looking at the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in files, and bytes that will go into files.
    pub stored_bytes: u64,
    /// How many of these are dead.
    pub dead_bytes: u64,
    /// When more of them will be dead, in bytes of the files.
    pub deadlines: Deadlines,
}

impl Space {
    /// The dead bytes at a later time, if nothing changes the engine meanwhile.
    pub fn dead_bytes_at(&self, now_ms: u64) -> u64 {
        self.dead_bytes.saturating_add(self.deadlines.expired_bytes(now_ms)).min(self.stored_bytes)
    }
}
