//! Keys and values to store, the same for every contestant.

use weir_io::Rng;

/// Bytes of every key.
pub const KEY_BYTES: usize = 16;

/// The key of `item`: sixteen decimal digits, so that byte order is the order of the numbers.
pub fn key(item: u64) -> [u8; KEY_BYTES] {
    let mut digits = [b'0'; KEY_BYTES];
    let mut rest = item;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// The number in `key`, if it is one of ours.
pub fn item(key: &[u8]) -> Option<u64> {
    if key.len() != KEY_BYTES || !key.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(key.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Every number in `0..items` once, in an order drawn from `rng` (Fisher-Yates).
pub fn permutation(items: u32, rng: &mut Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..items).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

/// Values that do not compress and differ from each other: a stamp (item number and length), then a slice of a noise
/// pool at a place that depends on the item. The stamp lets every read check that it got its own value. The pool makes
/// a value far cheaper to make than to store.
pub struct Values {
    noise: Vec<u8>,
    bytes: usize,
}

/// Bytes of the stamp at the start of a value, if the value is that long.
const STAMP: usize = 8;
const NOISE_BYTES: usize = 4 << 20;

impl Values {
    /// Values of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let mut rng = Rng::new(0x7765_6972);
        let mut noise = Vec::with_capacity(NOISE_BYTES + bytes + 8);
        while noise.len() < NOISE_BYTES + bytes {
            noise.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        Self { noise, bytes }
    }

    /// Puts the value of `item` into `out`.
    pub fn fill(&self, item: u64, out: &mut Vec<u8>) {
        let start = Rng::new(item).below(NOISE_BYTES as u64) as usize;
        out.clear();
        out.extend_from_slice(&self.noise[start..start + self.bytes]);
        if self.bytes >= STAMP {
            out[..STAMP].copy_from_slice(&item.to_le_bytes());
        }
    }

    /// Whether `value` has the length and the stamp of `item`'s value.
    pub fn is_of(&self, item: u64, value: &[u8]) -> bool {
        value.len() == self.bytes && (self.bytes < STAMP || value[..STAMP] == item.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_their_numbers_and_read_back() {
        let numbers = [0, 1, 9, 10, 99, 1_999_999, 9_999_999_999_999_999];
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        assert!(keys.is_sorted());
        assert!(keys.iter().map(|key| item(key)).eq(numbers.iter().map(|number| Some(*number))));
        assert_eq!(item(b"12345"), None);
        assert_eq!(item(b"00000000000000x1"), None);
    }

    #[test]
    fn a_permutation_has_every_number_once_and_is_not_the_identity() {
        let order = permutation(10_000, &mut Rng::new(7));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000));
        let fixed = order.iter().enumerate().filter(|(place, number)| *place == **number as usize).count();
        assert!(fixed < 20, "{fixed} numbers stayed in place");
        assert_eq!(order, permutation(10_000, &mut Rng::new(7)));
    }

    #[test]
    fn values_differ_and_are_known_again() {
        let values = Values::new(1000);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        values.fill(1, &mut one);
        values.fill(2, &mut two);
        assert!(values.is_of(1, &one) && values.is_of(2, &two));
        assert!(!values.is_of(2, &one) && !values.is_of(1, &one[..999]));
        assert_ne!(one[STAMP..], two[STAMP..]);
    }

    #[test]
    fn short_values_have_no_stamp_but_a_length() {
        let values = Values::new(4);
        let mut value = Vec::new();
        values.fill(3, &mut value);
        assert!(values.is_of(3, &value));
        assert!(!values.is_of(3, b"12345"));
    }
}
