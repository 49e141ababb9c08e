//! Keys and payloads: hashed, unique, incompressible, and all drawn from the seed.

use std::ops::Deref;

use weir_io::Rng;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// Bytes of a key as YCSB makes it.
pub const YCSB_KEY_BYTES: usize = 24;

/// A key that belongs to no item: each partition writes it once before the load, as clients that come to a running
/// store find its log open.
pub const WARM_KEY: [u8; KEY_BYTES] = [0; KEY_BYTES];

/// The key of item `number`: neighbours in number are strangers in the order of keys.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
    // The number itself makes the key unique.
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The key of item `number` as YCSB makes it: `user` and a hash of the number, with zeros in front of the hash, so that
/// all keys have the same length.
pub fn ycsb_key(number: u64) -> [u8; YCSB_KEY_BYTES] {
    let mut key = *b"user00000000000000000000";
    let mut rest = fnv(number);
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// YCSB's hash of a number: FNV-1a over its eight bytes, the lowest first, without the sign.
pub fn fnv(number: u64) -> u64 {
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hashed = number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, hash);
    (hashed as i64).unsigned_abs()
}

/// A key of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// See [`key`].
    Plain([u8; KEY_BYTES]),
    /// See [`ycsb_key`].
    Ycsb([u8; YCSB_KEY_BYTES]),
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Key::Plain(bytes) => bytes,
            Key::Ycsb(bytes) => bytes,
        }
    }
}

/// Fills `payload` with bytes that no other call gives and that no compressor makes shorter.
pub fn fill(payload: &mut [u8], rng: &mut Rng) {
    for chunk in payload.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

/// What items are like: their keys, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Every item has this many bytes, its key included.
    Same(u32),
    /// Items have this many bytes on average: see [`MIX`].
    Mixed(u32),
    /// Every item has this many bytes, under one of YCSB's keys.
    Ycsb(u32),
}

/// How many of ten items have which multiple of the mean size.
pub const MIX: [(u64, f64); 3] = [(6, 0.25), (3, 1.0), (1, 5.5)];

impl Sizes {
    /// The key of item `number`.
    pub fn key(self, number: u64) -> Key {
        match self {
            Sizes::Same(_) | Sizes::Mixed(_) => Key::Plain(key(number)),
            Sizes::Ycsb(_) => Key::Ycsb(ycsb_key(number)),
        }
    }

    fn key_bytes(self) -> usize {
        match self {
            Sizes::Same(_) | Sizes::Mixed(_) => KEY_BYTES,
            Sizes::Ycsb(_) => YCSB_KEY_BYTES,
        }
    }

    /// Bytes of the value of `item`, the same at every write.
    pub fn value_bytes(self, item: u64) -> usize {
        let bytes = match self {
            Sizes::Same(bytes) | Sizes::Ycsb(bytes) => bytes as usize,
            Sizes::Mixed(bytes) => {
                // Sizes do not depend on where keys are, or on which items are written often.
                let drawn = Rng::new(item ^ 0x6d69_7865_6400).below(10);
                let mut below = 0;
                let class = MIX.iter().find(|&&(share, _)| {
                    below += share;
                    drawn < below
                });
                (f64::from(bytes) * class.map_or(1.0, |&(_, times)| times)) as usize
            }
        };
        bytes.saturating_sub(self.key_bytes())
    }

    /// Bytes of the longest value.
    pub fn value_bytes_max(self) -> usize {
        match self {
            Sizes::Same(_) | Sizes::Ycsb(_) => self.value_bytes(0),
            Sizes::Mixed(bytes) => MIX.iter().map(|&(_, times)| (f64::from(bytes) * times) as usize).max().unwrap_or(0),
        }
    }

    /// Capacity units that an item takes on average; `units` gives the units of an item of that many bytes.
    pub fn units(self, units: fn(u64) -> u64) -> f64 {
        match self {
            Sizes::Same(bytes) | Sizes::Ycsb(bytes) => units(bytes.into()) as f64,
            Sizes::Mixed(bytes) => {
                let of = |(share, times): (u64, f64)| (share * units((f64::from(bytes) * times) as u64)) as f64;
                MIX.into_iter().map(of).sum::<f64>() / 10.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_admission::cost::write_units;

    use super::*;

    #[test]
    fn mixed_sizes_have_their_mean_and_an_item_keeps_its_own() {
        let (same, mixed) = (Sizes::Same(1024), Sizes::Mixed(1024));
        let mean = (0..100_000).map(|item| mixed.value_bytes(item) + KEY_BYTES).sum::<usize>() / 100_000;
        assert!((1000..1050).contains(&mean), "{mean}");
        assert_eq!(mixed.value_bytes(7), mixed.value_bytes(7));
        assert!((0..1000).all(|item| mixed.value_bytes(item) <= mixed.value_bytes_max()));
        assert_eq!((same.value_bytes(7), same.value_bytes_max()), (1008, 1008));
        // 0.6 x 1 + 0.3 x 1 + 0.1 x 6.
        assert_eq!((same.units(write_units), mixed.units(write_units)), (1.0, 1.5));
    }

    #[test]
    fn keys_are_unique_and_spread() {
        let keys: BTreeSet<_> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        let low = (0..10_000).filter(|&number| key(number)[0] < 128).count();
        assert!((4_700..5_300).contains(&low), "{low} of 10000 in the lower half");
    }

    #[test]
    fn ycsb_keys_are_as_long_as_they_say_and_spread() {
        let sizes = Sizes::Ycsb(1024);
        assert_eq!(sizes.value_bytes(3), 1000);
        let keys: BTreeSet<_> = (0..10_000).map(|number| sizes.key(number)).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.len() == 24 && key.starts_with(b"user0") && key[4..].is_ascii()));
        // YCSB itself calls these two user6284781860667377211 and user8517097267634966620.
        assert_eq!([&*sizes.key(0), &*sizes.key(1)], [b"user06284781860667377211", b"user08517097267634966620"]);
    }
}
