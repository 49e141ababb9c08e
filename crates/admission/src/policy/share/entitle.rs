//! How much of a pool every tenant is entitled to: the positions of the pool's knobs (DF-2, DF-3, U-14, U-15).
//!
//! Under a promise one common reserve is kept for all tenants below their share. It is as large as the
//! [law](super::delta) says for the [hardest](rushes) k of them, and the tenant that asks first takes from it. Where
//! more than k ask at a time, nothing is promised. A grain more is kept for tenants within their share that take and
//! give back by turns: otherwise the reserve would never be whole.

use std::fmt;

use weir_io::Nanos;

use super::delta::{fair_share, shortfall};
use super::mode::ShareMode;
use super::refill::Refill;
use super::rush::{Claimant, rushes};
use super::terms::Delay;
use crate::pool::{Share, Shares};

/// No more than one half of a pool is kept, except for quotas (U-14).
const KEPT_MAX: u64 = 2;

/// A pool. All figures are in units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The size of the pool.
    pub capacity: u64,
    /// Reserves are multiples of this.
    pub grain: u64,
    /// How fast units come back while somebody waits.
    pub refill: Refill,
}

/// The positions of a pool's knobs, and the promise that they do not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entitlements {
    /// The knobs.
    pub shares: Shares,
    /// Why the promise cannot be kept.
    pub broken: Option<Broken>,
}

/// A promise that would take more than half of the pool. `Display` shows the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    k: u32,
    delta: Nanos,
    burst: u64,
    back: u64,
    grain: u64,
    capacity: u64,
}

impl Broken {
    /// Units that would have to be kept.
    pub fn wanted(&self) -> u64 {
        kept(self.burst, self.back, self.grain)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { k, delta, burst, back, grain, capacity } = *self;
        let (wanted, most) = (self.wanted(), capacity / KEPT_MAX);
        let per_sec = u128::from(back) * 1_000_000_000 / u128::from(delta.max(1));
        write!(
            f,
            "tenants, {k} at a time, may claim up to {burst}, of which {back} come back within {} ms, at {per_sec} a \
             second. The rest, rounded up, and a grain of {grain} make {wanted}, which would have to be kept: more \
             than half of {capacity}, which is {most}",
            delta / 1_000_000,
        )
    }
}

/// What is kept in common so that `burst` units are there in time, where `back` units come back until then: the law's
/// reserve, and a grain more unless that reserve is zero.
fn kept(burst: u64, back: u64, grain: u64) -> u64 {
    match shortfall(burst, back, grain) {
        0 => 0,
        reserve => reserve + grain,
    }
}

/// How much of `resource` the `claimants` are entitled to under `mode`.
pub fn entitle(mode: ShareMode, resource: &Resource, claimants: &[Claimant]) -> Entitlements {
    let Resource { capacity, grain, ref refill } = *resource;
    let weights = claimants.iter().map(|claimant| u64::from(claimant.terms.weight)).sum();
    let share = |claimant: &Claimant| fair_share(capacity, claimant.terms.weight.into(), weights);
    let all = |is_quota: bool, is_prompt: &dyn Fn(&Claimant) -> bool| {
        let one = |claimant: &Claimant| {
            let units = share(claimant);
            let reserve = if is_quota { units } else { 0 };
            (claimant.tenant, Share { units, reserve, is_prompt: is_prompt(claimant) })
        };
        claimants.iter().map(one).collect()
    };
    match mode {
        ShareMode::Quarter => {
            Entitlements { shares: Shares { common: capacity / 4, ..Shares::default() }, broken: None }
        }
        ShareMode::Quota => Entitlements { shares: Shares { common: 0, tenants: all(true, &|_| true) }, broken: None },
        ShareMode::Fair => Entitlements { shares: Shares { common: 0, tenants: all(false, &|_| false) }, broken: None },
        ShareMode::Delta(promise) => {
            let rushes = rushes(promise, claimants).into_iter().map(|rush| {
                let (burst, back) = (fair_share(capacity, rush.weight, weights), refill.within(rush.delta));
                Broken { k: promise.k, delta: rush.delta, burst, back, grain, capacity }
            });
            let hardest = rushes.max_by_key(Broken::wanted);
            let (wanted, most) = (hardest.as_ref().map_or(0, Broken::wanted), capacity / KEPT_MAX);
            let tenants = all(false, &|claimant| claimant.terms.delay != Delay::Endless);
            let broken = hardest.filter(|_| wanted > most);
            Entitlements { shares: Shares { common: wanted.min(most), tenants }, broken }
        }
    }
}

/// Why `claimants` cannot all be promised their shares, if that is known already and was not as bad with the claimants
/// `before`. Where nothing is known yet, the best is assumed.
pub fn worsened(mode: ShareMode, resource: Resource, before: &[Claimant], claimants: &[Claimant]) -> Option<Broken> {
    let hoped = Resource { refill: resource.refill.hopeful(), ..resource };
    let broken = |claimants| entitle(mode, &hoped, claimants).broken;
    let was = broken(before).map_or(0, |broken| broken.wanted());
    broken(claimants).filter(|broken| broken.wanted() > was)
}

#[cfg(test)]
mod tests {
    use super::super::mode::Promise;
    use super::super::terms::ShareTerms;
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    fn pool() -> Resource {
        Resource { capacity: 1600, grain: 10, refill: Refill::cautious([(10 * MS, 100)]) }
    }

    fn equals(count: u32) -> Vec<Claimant> {
        (0..count).map(|tenant| Claimant { tenant, terms: ShareTerms::default() }).collect()
    }

    fn delta(delta: Nanos, k: u32) -> ShareMode {
        ShareMode::Delta(Promise { delta, k })
    }

    #[test]
    fn a_delay_of_nothing_for_everybody_is_a_quota_and_an_endless_one_is_fair_sharing() {
        // DF-3.
        let quota = entitle(ShareMode::Quota, &pool(), &equals(16)).shares;
        assert!(quota.common == 0 && quota.tenants.values().all(|share| (share.units, share.reserve) == (100, 100)));
        let fair = entitle(ShareMode::Fair, &pool(), &equals(16)).shares;
        assert!(fair.common == 0 && fair.tenants.values().all(|share| (share.units, share.reserve) == (100, 0)));
        let endless = entitle(delta(100_000 * MS, 2), &pool(), &equals(16)).shares;
        assert_eq!(endless.common, 0);
        let mut patient = equals(16);
        patient.iter_mut().for_each(|claimant| claimant.terms.delay = Delay::Endless);
        assert_eq!(entitle(delta(0, 2), &pool(), &patient).shares, fair, "nobody is in a hurry");
        assert_eq!(
            entitle(ShareMode::Quarter, &pool(), &equals(16)).shares,
            Shares { common: 400, ..Shares::default() }
        );
    }

    #[test]
    fn shares_of_a_quota_follow_weights() {
        // DF-2.
        let mut three = equals(3);
        three[1].terms.weight = 2;
        let quota = entitle(ShareMode::Quota, &pool(), &three).shares;
        assert_eq!([0, 1, 2].map(|tenant| quota.tenants[&tenant].reserve), [400, 800, 400]);
    }

    #[test]
    fn the_common_reserve_is_for_the_k_largest_of_those_who_are_in_a_hurry() {
        let mut claimants = equals(14);
        claimants[0].terms.weight = 3;
        assert_eq!(entitle(delta(0, 1), &pool(), &claimants).shares.common, 310);
        assert_eq!(entitle(delta(0, 2), &pool(), &claimants).shares.common, 410);
        assert_eq!(entitle(delta(500 * MS, 2), &pool(), &claimants).shares.common, 360);
        claimants[0].terms.delay = Delay::Endless;
        let shares = entitle(delta(0, 2), &pool(), &claimants).shares;
        assert_eq!((shares.common, shares.tenants[&0].is_prompt, shares.tenants[&1].is_prompt), (210, false, true));
    }

    #[test]
    fn a_delay_of_a_tenants_own_counts_for_its_own_share() {
        let mut claimants = equals(14);
        claimants[0].terms = ShareTerms { weight: 3, delay: Delay::Ms(3_000) };
        claimants[1].terms.delay = Delay::Ms(0);
        // One at a time: the heavy one has its 300 after three seconds without a reserve, the others need 50 less than
        // their 100, and one needs all of its 100.
        assert_eq!(entitle(delta(500 * MS, 1), &pool(), &claimants).shares.common, 110);
        // Together with the heavy one it wants 400 at once: the heavy one may have come first.
        assert_eq!(entitle(delta(500 * MS, 2), &pool(), &claimants).shares.common, 410);
    }

    #[test]
    fn a_promise_that_would_take_more_than_half_is_refused_with_the_arithmetic() {
        // U-14.
        let asked = entitle(delta(1_100 * MS, 9), &pool(), &equals(16));
        assert_eq!((asked.shares.common, asked.broken), (800, None), "900 less 110 that come back, and a grain");
        let asked = entitle(delta(500 * MS, 9), &pool(), &equals(16));
        let broken = asked.broken.expect("860 are more than 800");
        assert_eq!((asked.shares.common, broken.wanted()), (800, 860));
        assert_eq!(
            broken.to_string(),
            "tenants, 9 at a time, may claim up to 900, of which 50 come back within 500 ms, at 100 a second. The rest, \
             rounded up, and a grain of 10 make 860, which would have to be kept: more than half of 1600, which is 800"
        );
    }

    #[test]
    fn what_is_known_to_become_too_much_is_refused_and_nothing_else() {
        // U-14.
        let (before, mode) = (equals(16), delta(500 * MS, 1));
        let with = |weight, delay| {
            let mut claimants = before.clone();
            claimants[0].terms = ShareTerms { weight, delay };
            claimants
        };
        let refused = |resource, claimants: &[Claimant]| worsened(mode, resource, &before, claimants).is_some();
        let unknown = || Resource { refill: Refill::cautious([]), ..pool() };
        let heavy = |delay| with(20, delay);
        assert!(refused(pool(), &heavy(Delay::OfNode)), "20 of 35 parts");
        assert!(!refused(pool(), &heavy(Delay::Ms(2_000))), "914 less 200 that come back");
        assert!(!refused(pool(), &heavy(Delay::Endless)));
        assert!(!refused(unknown(), &heavy(Delay::OfNode)), "what comes back nobody knows yet");
        assert!(refused(unknown(), &heavy(Delay::Ms(0))), "nothing comes back in no time");
        let (bad, better) = (heavy(Delay::Ms(0)), with(18, Delay::Ms(0)));
        assert!(entitle(mode, &pool(), &better).broken.is_some());
        assert_eq!(worsened(mode, pool(), &bad, &better), None, "who makes it less bad is let");
    }

    proptest! {
        /// Whatever is asked for, shares and reserves fit, and quotas use all but what rounding leaves.
        #[test]
        fn reserves_fit(
            weights in prop::collection::vec(1_u16..100, 1..40),
            capacity in 1_u64..1 << 40,
            (k, ms, refill) in (1_u32..50, 0_u64..2_000, 0_u64..1 << 34),
        ) {
            let terms = |weight| ShareTerms { weight, ..ShareTerms::default() };
            let claimants: Vec<_> =
                (0..).zip(&weights).map(|(tenant, &weight)| Claimant { tenant, terms: terms(weight) }).collect();
            let refill = Refill::cautious([(MS, refill)]);
            let resource = Resource { capacity, grain: (capacity / 32).max(1), refill };
            for mode in [ShareMode::Quarter, ShareMode::Quota, ShareMode::Fair, delta(ms * MS, k)] {
                let shares = entitle(mode, &resource, &claimants).shares;
                let kept: u64 = shares.tenants.values().map(|share| share.reserve).sum();
                prop_assert!(shares.common + kept <= capacity);
                prop_assert!(mode == ShareMode::Quota || shares.common + kept <= capacity / 2);
                if mode == ShareMode::Quota {
                    prop_assert!(capacity - kept <= claimants.len() as u64);
                }
            }
        }

        /// A tenant that can wait longer makes nobody's promise weaker. With it, or with a longer delay of its own, no
        /// less is kept for the others than without it, while their shares are the same.
        #[test]
        fn who_can_wait_longer_takes_nothing_from_the_others_promise(
            delays in prop::collection::vec(prop_oneof![Just(Delay::OfNode), (0_u32..2_000).prop_map(Delay::Ms)], 1..12),
            (k, own) in (1_u32..6, 0_u32..4_000),
        ) {
            let claimants: Vec<_> = (1..)
                .zip(&delays)
                .map(|(tenant, &delay)| Claimant { tenant, terms: ShareTerms { weight: 1, delay } })
                .collect();
            let with = |delay| {
                let one = Claimant { tenant: 0, terms: ShareTerms { weight: 5, delay } };
                let claimants: Vec<_> = [one].into_iter().chain(claimants.iter().copied()).collect();
                entitle(delta(350 * MS, k), &pool(), &claimants)
            };
            let wanted = |it: &Entitlements| it.broken.map_or(it.shares.common, |broken| broken.wanted());
            let (without, with_own) = (wanted(&with(Delay::Endless)), wanted(&with(Delay::Ms(own))));
            prop_assert!(with_own >= without);
            prop_assert!(wanted(&with(Delay::Ms(own + 100))) <= with_own, "and who is in a greater hurry costs more");
        }
    }
}
