//! Values without copies: a value keeps what holds its bytes alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::entry::{Kind, Seq, is_expired};
use crate::memtable::Memtable;
use crate::table::Block;

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

/// The bytes of a value, borrowed from the memtable or block that they live in, which stays in memory as long as the value does.
/// Cloning copies no bytes.
#[derive(Clone)]
pub struct Value {
    /// Start of the bytes. Invariant: with `len`, lies inside what `_holder` keeps alive and never changes.
    start: *const u8,
    len: usize,
    _holder: Holder,
}

/// What keeps the bytes alive; never looked at, only dropped.
#[derive(Clone)]
#[expect(dead_code, reason = "held for their drop")]
enum Holder {
    /// The empty value.
    Nothing,
    Memtable(Arc<Memtable>),
    Block(Arc<Block>),
}

// SAFETY: a value is a shared borrow of bytes that nobody changes, and its holders are Send + Sync themselves.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// No bytes, no holder.
    pub const fn empty() -> Self {
        Value { start: std::ptr::NonNull::dangling().as_ptr(), len: 0, _holder: Holder::Nothing }
    }

    /// `bytes`, which live in the arena of `memtable`: entries are immutable and the arena goes with the memtable.
    pub(crate) fn in_memtable(memtable: &Arc<Memtable>, bytes: *const [u8]) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Value { start: bytes.cast(), len: bytes.len(), _holder: Holder::Memtable(Arc::clone(memtable)) }
    }

    /// The `len` bytes at `start` of the block's content.
    pub(crate) fn in_block(block: &Arc<Block>, start: usize, len: usize) -> Self {
        if len == 0 {
            return Self::empty();
        }
        let bytes = &block.content()[start..start + len];
        Value { start: bytes.as_ptr(), len, _holder: Holder::Block(Arc::clone(block)) }
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `len` lie inside what `_holder` keeps alive (invariant), or are a dangling empty slice; blocks and
        // memtable entries never change or move once they can be seen.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes: {}", self.len, self[..self.len.min(32)].escape_ascii())
    }
}
