//! The share that each owner has of a class at a gate (C-8).

use std::collections::BTreeMap;

use weir_io::Owner;

use crate::order::Rank;

/// The weight where no owner has one set. It is larger than what a policy gives to flushes that wait for their turn: an
/// owner that has no weight before the next tick does not wait for all of them.
const ALONE: u64 = 1 << 20;

/// Reserved bandwidth by owner, in bytes per second. An owner that has none set weighs as much as the others do on
/// average: beside tenants with large reservations, a fixed weight would give an owner that bought no fixed part the
/// smallest share of all.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    of: BTreeMap<Owner, u64>,
    sum: u128,
    /// Weights among flushes, where these are set, by owner.
    of_flushes: BTreeMap<Owner, u64>,
}

impl Weights {
    /// Sets the weight of `owner`; `None` forgets it.
    pub(crate) fn set(&mut self, owner: Owner, weight: Option<u64>) {
        let weight = weight.map(|weight| weight.max(1));
        let before = match weight {
            Some(weight) => self.of.insert(owner, weight),
            None => self.of.remove(&owner),
        };
        self.sum = self.sum + u128::from(weight.unwrap_or(0)) - u128::from(before.unwrap_or(0));
    }

    /// Sets what flushes of `owner` weigh; `None` = as much as its other I/O.
    pub(crate) fn set_of_flushes(&mut self, owner: Owner, weight: Option<u64>) {
        match weight {
            Some(weight) => self.of_flushes.insert(owner, weight.max(1)),
            None => self.of_flushes.remove(&owner),
        };
    }

    /// What an I/O of `rank` weighs: at least 1.
    pub(crate) fn of(&self, owner: Owner, rank: Rank) -> u64 {
        let average = || self.sum.checked_div(self.of.len() as u128).map_or(ALONE, |average| average as u64);
        let of_flushes = self.of_flushes.get(&owner).filter(|_| rank == Rank::Flush);
        of_flushes.or_else(|| self.of.get(&owner)).copied().unwrap_or_else(average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_may_have_weights_of_their_own() {
        let owner = |partition| Owner { tenant: 1, partition };
        let mut weights = Weights::default();
        weights.set(owner(1), Some(3));
        weights.set_of_flushes(owner(1), Some(8));
        weights.set_of_flushes(owner(2), Some(0));
        let of = |weights: &Weights, rank| [1, 2].map(|who| weights.of(owner(who), rank));
        assert_eq!([of(&weights, Rank::Flush), of(&weights, Rank::CompactL0)], [[8, 1], [3, 3]]);
        weights.set_of_flushes(owner(1), None);
        assert_eq!(of(&weights, Rank::Flush), [3, 1]);
    }

    #[test]
    fn who_has_none_weighs_as_much_as_the_others_do() {
        let owner = |partition| Owner { tenant: 1, partition };
        let mut weights = Weights::default();
        assert_eq!(weights.of(owner(1), Rank::Foreground), ALONE);
        weights.set(owner(1), Some(u64::MAX));
        weights.set(owner(2), Some(0));
        assert_eq!([1, 2, 3].map(|who| weights.of(owner(who), Rank::Foreground)), [u64::MAX, 1, 1 << 63]);
        weights.set(owner(1), Some(3));
        assert_eq!([1, 2, 3].map(|who| weights.of(owner(who), Rank::Foreground)), [3, 1, 2]);
        weights.set(owner(1), None);
        assert_eq!([1, 2, 3].map(|who| weights.of(owner(who), Rank::Foreground)), [1, 1, 1]);
    }
}
