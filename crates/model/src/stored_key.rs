//! Keys in the form that engines use.

use std::ops::Deref;

/// Longer keys than this cost an allocation.
const SHORT_BYTES: usize = 127;

/// A user's key in the form that engines use: behind one byte with the number of its database. Short keys cost no
/// allocation.
#[derive(Clone)]
pub struct StoredKey(Bytes);

#[derive(Clone)]
enum Bytes {
    Short([u8; SHORT_BYTES], usize),
    Long(Vec<u8>),
}

impl StoredKey {
    /// The stored form of the user's key `key` in `database`.
    #[inline]
    pub fn new(database: u8, key: &[u8]) -> Self {
        Self::joined([&[database], key])
    }

    /// A key that is in its stored form already.
    pub fn of(stored: &[u8]) -> Self {
        Self::joined([&[], stored])
    }

    #[inline]
    pub(crate) fn joined([front, back]: [&[u8]; 2]) -> Self {
        let len = front.len() + back.len();
        if len > SHORT_BYTES {
            return Self(Bytes::Long([front, back].concat()));
        }
        let mut bytes = [0; SHORT_BYTES];
        bytes[..front.len()].copy_from_slice(front);
        bytes[front.len()..len].copy_from_slice(back);
        Self(Bytes::Short(bytes, len))
    }
}

impl Deref for StoredKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(bytes, len) => &bytes[..*len],
            Bytes::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_stand_behind_their_database() {
        for len in [0, 1, SHORT_BYTES - 1, SHORT_BYTES, 1000] {
            let key = vec![7; len];
            let stored = [&[3], &key[..]].concat();
            assert_eq!(StoredKey::new(3, &key)[..], stored);
            assert_eq!(StoredKey::of(&stored)[..], stored);
        }
    }
}
