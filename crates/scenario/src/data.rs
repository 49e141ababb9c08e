//! Keys and payloads: hashed, unique, incompressible, and all drawn from the seed.

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

/// Fills `payload` with bytes that no two calls give alike and no compressor makes shorter.
pub fn fill(payload: &mut [u8], rng: &mut Rng) {
    for chunk in payload.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
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
    fn keys_are_unique_and_spread() {
        let keys: BTreeSet<_> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        let low = (0..10_000).filter(|&number| key(number)[0] < 128).count();
        assert!((4_700..5_300).contains(&low), "{low} of 10000 in the lower half");
    }
}
