//! How much space an engine takes, and how much of that lives.

use super::Deadlines;

/// Bytes of an engine. What is dead is known or estimated from facts, not by looking at the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Files, and what will go into files.
    pub stored_bytes: u64,
    /// What of it is dead.
    pub dead_bytes: u64,
    /// When more of it will be, in bytes of the files.
    pub deadlines: Deadlines,
}

impl Space {
    /// The same space when time has passed and nobody has touched it.
    pub fn dead_bytes_at(&self, now_ms: u64) -> u64 {
        self.dead_bytes.saturating_add(self.deadlines.expired_bytes(now_ms)).min(self.stored_bytes)
    }
}
