//! A hasher for keys that are good hashes themselves.

use std::hash::Hasher;

/// Returns the one number that it was given.
#[derive(Debug, Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key hashes as one number");
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
