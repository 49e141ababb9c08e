//! Keys as the index holds them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use weir_model::prefetch::prefetch;

/// Longer keys than this cost an allocation. With the length and the tag of the enum that makes 24 bytes.
const INLINE_BYTES: usize = 22;

/// A key. Short ones are stored where the index compares them: otherwise a look-up in a large index would wait for a
/// pointer with each comparison. Cloning a long one copies no bytes: the index clones keys when its nodes split.
#[derive(Clone)]
pub(crate) struct Key(Bytes);

#[derive(Clone)]
enum Bytes {
    Short(u8, [u8; INLINE_BYTES]),
    Long(Arc<[u8]>),
}

impl Key {
    /// Copies `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE_BYTES {
            return Self(Bytes::Long(bytes.into()));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Self(Bytes::Short(bytes.len() as u8, inline))
    }

    /// Has the processor fetch its bytes, where they are elsewhere.
    #[inline]
    pub fn prefetch(&self) {
        if let Bytes::Long(bytes) = &self.0 {
            prefetch(bytes.as_ptr());
        }
    }

    /// Bytes that a key of `len` bytes takes beside its place in the index: two counters and itself.
    pub const fn heap_bytes(len: usize) -> usize {
        if len > INLINE_BYTES { 2 * size_of::<usize>() + len.next_multiple_of(8) } else { 0 }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl Hash for Key {
    /// Hashes like the key's bytes, for a table of keys is searched by bytes.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_keep_their_bytes_and_their_order() {
        assert_eq!(size_of::<Key>(), 24, "what a row costs is counted by this");
        let mut keys: Vec<Vec<u8>> = (0..40).map(|len| vec![7; len]).collect();
        keys.extend((0..40).map(|len| [&vec![7; len][..], &[0]].concat()));
        for a in &keys {
            assert_eq!(&*Key::new(a), a.as_slice());
            for b in &keys {
                assert_eq!(Key::new(a).cmp(&Key::new(b)), a.cmp(b));
                assert_eq!(Key::new(a) == Key::new(b), a == b);
            }
        }
    }
}
