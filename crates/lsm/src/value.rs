//! Values without copies: a value keeps what holds its bytes alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::entry::{Kind, Seq, is_expired};

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
    /// `None` for the empty value. Never looked at, only dropped.
    _holder: Option<Arc<dyn Send + Sync>>,
}

// SAFETY: a value is a shared borrow of bytes that nobody changes, and its holders are Send + Sync themselves.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// No bytes, no holder.
    pub const fn empty() -> Self {
        Value { start: std::ptr::NonNull::dangling().as_ptr(), len: 0, _holder: None }
    }

    /// `bytes`, which `holder` keeps where they are and never changes: a memtable with its arena, or a block.
    pub(crate) fn held<H: Send + Sync + 'static>(bytes: *const [u8], holder: &Arc<H>) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Value { start: bytes.cast(), len: bytes.len(), _holder: Some(Arc::clone(holder) as Arc<dyn Send + Sync>) }
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
