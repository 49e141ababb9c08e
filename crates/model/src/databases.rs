//! The number under which the keys of each database of a tenant are stored: `SWAPDB` exchanges two of them.

use crate::DATABASES;

/// For each name of a database (the one that `SELECT` takes) the number that stands in front of its keys; every number
/// occurs once. Each takes four bits, name 0 the lowest, so that the mapping is read and replaced as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Databases(u64);

impl Default for Databases {
    fn default() -> Self {
        Self::AS_NAMED
    }
}

impl Databases {
    /// Every database has the number that is its name.
    pub const AS_NAMED: Self = Self(0xfedc_ba98_7654_3210);

    /// The reverse of [`Databases::bits`]; `None` if a number is missing or occurs twice.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let databases = Self(bits);
        let found = (0..DATABASES).fold(0_u16, |found, name| found | 1 << databases.number(name));
        (found == u16::MAX).then_some(databases)
    }

    /// The same for bits that are known to be right: they are not checked.
    #[inline]
    pub fn from_known_bits(bits: u64) -> Self {
        debug_assert!(Self::from_bits(bits).is_some());
        Self(bits)
    }

    /// The mapping as one number.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The number of the database called `name`. A name that is no database stays as it is.
    #[inline]
    pub fn number(self, name: u8) -> u8 {
        if name < DATABASES { (self.0 >> (4 * name)) as u8 & 15 } else { name }
    }

    /// The name of the database with `number`.
    pub fn name(self, number: u8) -> u8 {
        (0..DATABASES).find(|&name| self.number(name) == number).unwrap_or(number)
    }

    /// The mapping with the databases called `one` and `other` exchanged.
    #[must_use]
    pub fn swapped(self, one: u8, other: u8) -> Self {
        if one >= DATABASES || other >= DATABASES {
            return self;
        }
        let difference = u64::from(self.number(one) ^ self.number(other));
        Self(self.0 ^ (difference << (4 * one)) ^ (if one == other { 0 } else { difference << (4 * other) }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_database_begins_under_its_own_number() {
        assert!((0..=u8::MAX).all(|name| Databases::AS_NAMED.number(name) == name));
        assert!((0..=u8::MAX).all(|number| Databases::AS_NAMED.name(number) == number));
    }

    proptest! {
        #[test]
        fn swaps_are_those_of_a_list(swaps in proptest::collection::vec((0..16_u8, 0..16_u8), 0..40)) {
            let (mut databases, mut list) = (Databases::AS_NAMED, (0..16_u8).collect::<Vec<_>>());
            for (one, other) in swaps {
                databases = databases.swapped(one, other);
                list.swap(one.into(), other.into());
            }
            for name in 0..16 {
                prop_assert_eq!(databases.number(name), list[usize::from(name)]);
                prop_assert_eq!(databases.name(databases.number(name)), name);
            }
            prop_assert_eq!(Databases::from_bits(databases.bits()), Some(databases));
        }

        #[test]
        fn only_every_number_once_is_read(bits: u64) {
            let mut numbers: Vec<u64> = (0..16).map(|name| bits >> (4 * name) & 15).collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(Databases::from_bits(bits).is_some(), numbers.len() == 16);
        }
    }
}
