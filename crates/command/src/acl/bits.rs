//! A set of numbers, one bit each.

/// A set of numbers, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The numbers from 0 up to `count`, which is not included.
    pub(super) fn first(count: usize) -> Self {
        let mut bits = Self(vec![u64::MAX; count / 64]);
        (count / 64 * 64..count).for_each(|number| bits.set(number, true));
        bits
    }

    #[inline]
    pub(super) fn has(&self, number: usize) -> bool {
        self.word(number / 64) >> (number % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, number: usize, is_in: bool) {
        let word = number / 64;
        if self.0.len() <= word {
            if !is_in {
                return;
            }
            self.0.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        if is_in {
            self.0[word] |= bit;
            return;
        }
        self.0[word] &= !bit;
        // Without zeros at the end, equal sets are equal values.
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// How many numbers are in both sets, and how many only in the other.
    pub(super) fn compare(&self, other: &Self) -> (u32, u32) {
        let words = other.0.iter().enumerate();
        words.fold((0, 0), |(both, alone), (place, &other)| {
            let own = self.word(place);
            (both + (own & other).count_ones(), alone + (other & !own).count_ones())
        })
    }

    /// The numbers that are in both sets.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().enumerate().map(|(place, word)| word & other.word(place)).collect())
    }

    fn word(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_a_set(numbers: Vec<(u8, bool)>, others: Vec<u8>) {
            let (mut bits, mut other) = (Bits::none(), Bits::none());
            let mut set = std::collections::BTreeSet::new();
            for (number, is_in) in numbers {
                bits.set(number.into(), is_in);
                if is_in { set.insert(number) } else { set.remove(&number) };
            }
            others.iter().for_each(|&number| other.set(number.into(), true));
            let others: std::collections::BTreeSet<u8> = others.into_iter().collect();
            let expected = (others.intersection(&set).count() as u32, others.difference(&set).count() as u32);
            prop_assert_eq!(bits.compare(&other), expected);
            let both = bits.and(&other);
            for number in 0..=255 {
                prop_assert_eq!(bits.has(number.into()), set.contains(&number));
                prop_assert_eq!(both.has(number.into()), set.contains(&number) && others.contains(&number));
            }
        }

        #[test]
        fn the_first_numbers_are_those_below(count in 0_usize..200) {
            let bits = Bits::first(count);
            prop_assert!((0..256).all(|number| bits.has(number) == (number < count)));
        }
    }
}
