//! Latches: keys that a read-modify-write is reading from the device.

use std::collections::BTreeSet;

use weir_model::StoredKey;

/// The latched keys. Guarded by the order lock.
#[derive(Debug, Default)]
pub struct Latches(BTreeSet<Box<[u8]>>);

impl Latches {
    /// Whether any of `keys` is latched.
    pub fn any<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        !self.0.is_empty() && keys.any(|key| self.0.contains(key))
    }

    /// Whether no key is latched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Latches `keys`, none of which may be latched.
    pub fn insert(&mut self, keys: &[StoredKey]) {
        self.0.extend(keys.iter().map(|key| Box::from(&key[..])));
    }

    /// Releases `keys`.
    pub fn remove(&mut self, keys: &[StoredKey]) {
        for key in keys {
            self.0.remove(&key[..]);
        }
    }
}
