//! Values without copies: a value keeps alive the memory that holds its bytes.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Longer copies are vectors. With the two counters of an `Arc` this makes 64 bytes.
const COPIED_BYTES_MAX: usize = 48;

/// Keeps the bytes of a [`Value`] alive: a memtable, a block, a buffer. Nobody uses it; it is only dropped.
pub trait Holder: Send + Sync {}

impl<T: Send + Sync> Holder for T {}

/// The bytes of a value, borrowed from the memtable, block or buffer that holds them. That stays in memory as long as
/// the value does. Cloning copies no bytes.
#[derive(Clone)]
pub struct Value {
    /// Start of the bytes. Invariant: together with `len`, they lie inside memory that `_holder` keeps alive and that
    /// never changes.
    start: *const u8,
    len: usize,
    /// `None` for the empty value.
    _holder: Option<Arc<dyn Holder>>,
}

// SAFETY: a value is a shared borrow of bytes that nobody changes, and its holder is Send + Sync itself.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// No bytes, no holder.
    pub const fn empty() -> Self {
        Value { start: std::ptr::NonNull::dangling().as_ptr(), len: 0, _holder: None }
    }

    /// `bytes`, which live in `holder`.
    ///
    /// # Safety
    /// `bytes` must stay where they are and never change as long as `holder` has an owner.
    pub unsafe fn held<H: Holder + 'static>(holder: Arc<H>, bytes: *const [u8]) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Value { start: bytes.cast(), len: bytes.len(), _holder: Some(holder) }
    }

    /// A copy of `bytes`. A short copy costs one allocation, a shared vector two.
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() > COPIED_BYTES_MAX {
            return Self::from(bytes.to_vec());
        }
        if bytes.is_empty() {
            return Self::empty();
        }
        let mut copy = [0; COPIED_BYTES_MAX];
        copy[..bytes.len()].copy_from_slice(bytes);
        let holder = Arc::new(copy);
        let copied = &raw const holder[..bytes.len()];
        // SAFETY: a shared array cannot be changed through the `Arc`, and does not move.
        unsafe { Self::held(holder, copied) }
    }
}

impl From<&Arc<Vec<u8>>> for Value {
    /// Shares the bytes.
    fn from(bytes: &Arc<Vec<u8>>) -> Self {
        // SAFETY: a shared vector cannot be changed through the `Arc`, and its bytes do not move.
        unsafe { Self::held(Arc::clone(bytes), &raw const bytes[..]) }
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(&Arc::new(bytes))
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `len` lie inside memory that `_holder` keeps alive (invariant), or are a dangling empty
        // slice; the bytes never change or move.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_shares_its_bytes_and_lets_them_go() {
        let bytes = Arc::new(b"abc".to_vec());
        let value = Value::from(&bytes);
        let clone = value.clone();
        assert_eq!((&value[..], clone.as_ptr(), Arc::strong_count(&bytes)), (&b"abc"[..], bytes.as_ptr(), 3));
        drop((value, clone));
        assert_eq!(Arc::strong_count(&bytes), 1);
        for len in [0, 1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1] {
            let bytes: Vec<u8> = (0..len as u8).collect();
            assert_eq!(Value::copy_of(&bytes)[..], bytes);
        }
        assert_eq!((Value::empty(), Value::from(Vec::new())[..].len()), (Value::from(Vec::new()), 0));
    }
}
