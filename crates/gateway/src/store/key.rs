//! A key as it is stored.

use std::ops::Deref;

/// Longer keys than this cost an allocation.
const SHORT_BYTES: usize = 127;

/// A user's key behind the number of its database.
pub(super) enum StoredKey {
    Short([u8; SHORT_BYTES], usize),
    Long(Vec<u8>),
}

impl StoredKey {
    pub(super) fn new(database: u8, key: &[u8]) -> Self {
        let len = key.len() + 1;
        if len > SHORT_BYTES {
            let mut bytes = Vec::with_capacity(len);
            bytes.push(database);
            bytes.extend_from_slice(key);
            return Self::Long(bytes);
        }
        let mut bytes = [0; SHORT_BYTES];
        bytes[0] = database;
        bytes[1..len].copy_from_slice(key);
        Self::Short(bytes, len)
    }
}

impl Deref for StoredKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..*len],
            Self::Long(bytes) => bytes,
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
            assert_eq!(StoredKey::new(3, &key)[..], [&[3], &key[..]].concat());
        }
    }
}
