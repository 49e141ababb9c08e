//! The result of a point read.

use super::{Kind, Seq, is_expired};
use crate::Value;

/// The newest version of a key that a read may see, as found in one memtable or table.
#[derive(Clone, Debug)]
pub struct Found {
    /// When it was written.
    pub seq: Seq,
    /// Put or delete.
    pub kind: Kind,
    /// First millisecond since 1970 at which the value no longer exists; 0 = lives for ever.
    pub expire_at_ms: u64,
    /// Empty for a tombstone.
    pub value: Value,
}

impl Found {
    /// Whether the value is gone at the wall-clock time `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        is_expired(self.expire_at_ms, now_ms)
    }
}
