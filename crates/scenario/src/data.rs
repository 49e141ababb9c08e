//! Keys and payloads: hashed, unique, incompressible, and all drawn from the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::Rng;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// A key that is no item's: each partition writes it once before the load, as clients that come to a running store find
/// its log open.
pub const WARM_KEY: [u8; KEY_BYTES] = [0; KEY_BYTES];

/// The key of item `number`: neighbours in number are strangers in the order of keys.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
    // The number itself makes it unique.
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of the item whose key is `key`.
pub fn item(key: &[u8; KEY_BYTES]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *key;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Fills `payload` with bytes that no two calls give alike and no compressor makes shorter.
pub fn fill(payload: &mut [u8], rng: &mut Rng) {
    for chunk in payload.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// An item has so many bytes, its key included.
    Same(u32),
    /// So many on average: see [`MIX`].
    Mixed(u32),
}

/// Of ten items, how many have which multiple of the mean.
pub const MIX: [(u64, f64); 3] = [(6, 0.25), (3, 1.0), (1, 5.5)];

impl Sizes {
    /// Bytes of the value of `item`, whenever it is written.
    pub fn value_bytes(self, item: u64) -> usize {
        let bytes = match self {
            Sizes::Same(bytes) => bytes as usize,
            Sizes::Mixed(bytes) => {
                // Sizes have nothing to do with where keys are, or with which items are written often.
                let drawn = Rng::new(item ^ 0x6d69_7865_6400).below(10);
                let mut below = 0;
                let class = MIX.iter().find(|&&(share, _)| {
                    below += share;
                    drawn < below
                });
                (f64::from(bytes) * class.map_or(1.0, |&(_, times)| times)) as usize
            }
        };
        bytes.saturating_sub(KEY_BYTES)
    }

    /// Of the longest value.
    pub fn value_bytes_max(self) -> usize {
        match self {
            Sizes::Same(_) => self.value_bytes(0),
            Sizes::Mixed(bytes) => MIX.iter().map(|&(_, times)| (f64::from(bytes) * times) as usize).max().unwrap_or(0),
        }
    }

    /// Capacity units that an item takes on average, where `units` says what one of so many bytes takes.
    pub fn units(self, units: fn(u64) -> u64) -> f64 {
        match self {
            Sizes::Same(bytes) => units(bytes.into()) as f64,
            Sizes::Mixed(bytes) => {
                let of = |(share, times): (u64, f64)| (share * units((f64::from(bytes) * times) as u64)) as f64;
                MIX.into_iter().map(of).sum::<f64>() / 10.0
            }
        }
    }
}

/// Which item comes next.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Each of so many alike.
    Uniform(u64),
    /// Few of them often, most of them seldom: Zipf's law with exponent 0.99, as YCSB has it.
    Zipf {
        /// How many there are.
        items: u64,
        /// Sum of all weights.
        zeta: f64,
    },
    /// The first that was never drawn, by anybody who has the same counter.
    Next(Arc<AtomicU64>),
}

/// YCSB's.
const THETA: f64 = 0.99;

impl Choice {
    /// Zipf's law over `items`.
    pub fn zipf(items: u64) -> Self {
        Choice::Zipf { items, zeta: (1..=items).map(|rank| (rank as f64).powf(-THETA)).sum() }
    }

    /// Draws one (Gray et al., SIGMOD 1994). Ranks are scattered over the keys, as keys are hashes of numbers.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Choice::Next(ref next) => next.fetch_add(1, Ordering::Relaxed),
            Choice::Uniform(items) => rng.below(items.max(1)),
            Choice::Zipf { items, zeta } => {
                let (drawn, second) = (rng.unit(), 0.5_f64.powf(THETA));
                let scaled = drawn * zeta;
                if scaled < 1.0 {
                    return 0;
                }
                if scaled < 1.0 + second {
                    return 1.min(items.saturating_sub(1));
                }
                let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - (1.0 + second) / zeta);
                let rank = items as f64 * (eta * drawn - eta + 1.0).powf(1.0 / (1.0 - THETA));
                (rank as u64).min(items.saturating_sub(1))
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
    fn few_items_are_read_often() {
        let (zipf, mut rng) = (Choice::zipf(10_000), Rng::new(1));
        let drawn: Vec<u64> = (0..100_000).map(|_| zipf.draw(&mut rng)).collect();
        assert!(drawn.iter().all(|&item| item < 10_000));
        // 1 / zeta, which is 10.2 here.
        let first = drawn.iter().filter(|&&item| item == 0).count();
        assert!((9_000..11_000).contains(&first), "{first}");
        let hot = drawn.iter().filter(|&&item| item < 100).count();
        assert!((45_000..60_000).contains(&hot), "{hot}");
    }

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
        assert!((0..10_000).all(|number| item(&key(number)) == number));
        let low = (0..10_000).filter(|&number| key(number)[0] < 128).count();
        assert!((4_700..5_300).contains(&low), "{low} of 10000 in the lower half");
    }
}
