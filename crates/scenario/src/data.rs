//! Keys and payloads: hashed, unique, incompressible, and all drawn from the seed.

use weir_io::Rng;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// The key of item `number`: neighbours in number are strangers in the order of keys.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
    // The number itself makes it unique.
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Fills `payload` with bytes that no two calls give alike and no compressor makes shorter.
pub fn fill(payload: &mut [u8], rng: &mut Rng) {
    for chunk in payload.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_unique_and_spread() {
        let keys: BTreeSet<_> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        let low = (0..10_000).filter(|&number| key(number)[0] < 128).count();
        assert!((4_700..5_300).contains(&low), "{low} of 10000 in the lower half");
    }
}
