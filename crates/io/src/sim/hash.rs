//! An order-sensitive hash of a sequence of numbers: the fingerprint of a run.

/// Folds numbers, one multiplication each. Not for secrets, and the same on every machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold(u64);

impl Fold {
    pub(super) const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn add(&mut self, value: u64) -> &mut Self {
        let product = u128::from(self.0 ^ value) * 0xa076_1d64_78bd_642f;
        // The rotation keeps a product of zero from wiping out earlier numbers.
        self.0 = self.0.rotate_left(23) ^ (product as u64) ^ ((product >> 64) as u64);
        self
    }

    pub(super) fn add_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(padded));
        }
        self.add(bytes.len() as u64)
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }
}
