//! Which register an element belongs to: `MurmurHash64A`, as Redis seeds it.

use super::REGISTERS;

const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// How many bits of a hash give the register; the others give the rank.
const INDEX_BITS: u32 = REGISTERS.trailing_zeros();

fn mixed(word: u64) -> u64 {
    let word = word.wrapping_mul(FACTOR);
    (word ^ word >> SHIFT).wrapping_mul(FACTOR)
}

fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let start = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut hash =
        words.iter().fold(start, |hash, word| (hash ^ mixed(u64::from_le_bytes(*word))).wrapping_mul(FACTOR));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// The register of `element`, and its rank: the number of zeros that the rest of its hash ends in, plus one.
pub(super) fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    // A one behind the last bit limits the zeros.
    let rest = hash >> INDEX_BITS | 1 << (u64::BITS - INDEX_BITS);
    (hash as usize & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}
