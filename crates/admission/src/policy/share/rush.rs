//! The tenants that are the hardest to give their shares if they ask at the same moment. What is kept in common must be
//! enough for any k of the tenants whose delay has an end (U-15), and each of them may have a delay of its own.
//!
//! The tenant that asks first takes from the reserve, not the one in the greatest hurry. So the shares of all that ask
//! must be there within the shortest of their delays. Then no tenant has a weaker promise because another one can wait
//! longer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_io::Nanos;

use super::mode::Promise;
use super::terms::ShareTerms;

/// A tenant that may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its number.
    pub tenant: u32,
    /// Its settings.
    pub terms: ShareTerms,
}

/// Tenants that ask for their shares at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rush {
    /// The sum of their weights.
    pub weight: u64,
    /// The shortest of their delays, in nanoseconds.
    pub delta: Nanos,
}

/// The hardest of all rushes of up to k of `claimants`: for each claimant, the rush of it together with the heaviest of
/// the tenants that are in no greater hurry. Whatever is enough for all of these rushes is enough for every other one.
pub fn rushes(promise: Promise, claimants: &[Claimant]) -> Vec<Rush> {
    let finite = claimants.iter().filter_map(|claimant| {
        let Claimant { terms: ShareTerms { weight, delay }, .. } = *claimant;
        Some((Reverse(delay.within(promise.delta)?), u64::from(weight)))
    });
    let mut finite: Vec<(Reverse<Nanos>, u64)> = finite.collect();
    // The most patient first. Among equals the heaviest is the last, with all others before it.
    finite.sort_unstable();
    let (mut others, mut sum) = (BinaryHeap::new(), 0);
    let rush = |(Reverse(delta), weight): (Reverse<Nanos>, u64)| {
        let rush = Rush { weight: sum + weight, delta };
        others.push(Reverse(weight));
        sum += weight;
        if others.len() >= promise.k as usize
            && let Some(Reverse(lightest)) = others.pop()
        {
            sum -= lightest;
        }
        rush
    };
    finite.into_iter().map(rush).collect()
}

#[cfg(test)]
mod tests {
    use super::super::terms::Delay;
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn who_can_wait_longer_asks_with_those_who_cannot_and_the_endless_never() {
        let claimant = |weight, delay| Claimant { tenant: 0, terms: ShareTerms { weight, delay } };
        let claimants = [
            claimant(10, Delay::Ms(500)),
            claimant(1, Delay::Ms(0)),
            claimant(3, Delay::OfNode),
            claimant(1000, Delay::Endless),
        ];
        let rush = |weight, ms| Rush { weight, delta: ms * MS };
        let of = |k| rushes(Promise { delta: 350 * MS, k }, &claimants);
        assert_eq!(of(1), [rush(10, 500), rush(3, 350), rush(1, 0)]);
        assert_eq!(of(2), [rush(10, 500), rush(13, 350), rush(11, 0)]);
        assert_eq!(of(9), [rush(10, 500), rush(13, 350), rush(14, 0)]);
    }

    fn delay() -> impl Strategy<Value = Delay> {
        prop_oneof![Just(Delay::OfNode), (0_u32..4).prop_map(|step| Delay::Ms(step * 200)), Just(Delay::Endless)]
    }

    proptest! {
        /// For every set of up to k tenants there is a rush with at least its weight that is in the same hurry or a
        /// greater one, and each rush is one of these sets.
        #[test]
        fn every_set_of_tenants_is_in_a_rush_and_every_rush_is_one(
            terms in prop::collection::vec((1_u16..9, delay()), 0..9), k in 1_u32..6,
        ) {
            let promise = Promise { delta: 400 * MS, k };
            let claimants: Vec<Claimant> = (0..)
                .zip(&terms)
                .map(|(tenant, &(weight, delay))| Claimant { tenant, terms: ShareTerms { weight, delay } })
                .collect();
            let rushes = rushes(promise, &claimants);
            let mut sets = Vec::new();
            for bits in 1_u32..1 << claimants.len() {
                let set: Vec<_> = claimants.iter().filter(|claimant| bits >> claimant.tenant & 1 == 1).collect();
                let delays: Option<Vec<Nanos>> = set.iter().map(|one| one.terms.delay.within(promise.delta)).collect();
                let Some(delta) = delays.and_then(|delays| delays.into_iter().min()) else { continue };
                if set.len() <= k as usize {
                    sets.push(Rush { weight: set.iter().map(|one| u64::from(one.terms.weight)).sum(), delta });
                }
            }
            for set in &sets {
                let covers = |rush: &Rush| rush.weight >= set.weight && rush.delta <= set.delta;
                prop_assert!(rushes.iter().any(covers), "{set:?} in {rushes:?}");
            }
            for rush in &rushes {
                prop_assert!(sets.contains(rush), "{rush:?} among {sets:?}");
            }
        }
    }
}
