//! What every tenant is entitled to of a pool: positions of the pool's knobs (DF-2, DF-3, U-14, U-15).
//!
//! Under a promise one reserve is kept for all tenants below their share together, as large as the [law](super::delta)
//! says for k of them: whoever asks first takes from it. Where more than k ask at a time, nothing is promised. A grain
//! more is kept for tenants within their share that take and give back by turns: else the reserve would never be whole.

use std::fmt;

use weir_io::Nanos;

use super::delta::{fair_share, refilled, reserve};
use super::mode::{Promise, ShareMode};
use crate::pool::{Share, Shares};

/// No more than this part of a pool is kept, but for quotas: a half (U-14).
const KEPT_MAX: u64 = 2;

/// A tenant that may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its number.
    pub tenant: u32,
    /// Its share in proportion to others'; anything positive.
    pub weight: u64,
    /// Its delay is infinite: nothing is kept for it.
    pub is_patient: bool,
}

/// A pool, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// In all.
    pub capacity: u64,
    /// Reserves are multiples of this.
    pub grain: u64,
    /// What comes back in a second while somebody waits; 0 if that is not known.
    pub refill: u64,
}

/// Positions of a pool's knobs, and the promise that they do not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entitlements {
    /// The knobs.
    pub shares: Shares,
    /// Why the promise cannot be kept.
    pub broken: Option<Broken>,
}

/// A promise that would take more than half of the pool. Shown, it is the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    promise: Promise,
    burst: u64,
    resource: Resource,
}

impl Broken {
    /// Units that would have to be kept.
    pub fn wanted(&self) -> u64 {
        kept(self.burst, self.promise.delta, self.resource)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise: Promise { delta, k }, burst, resource } = *self;
        let (wanted, back, most) = (self.wanted(), refilled(delta, resource.refill), resource.capacity / KEPT_MAX);
        write!(
            f,
            "the largest {k} shares at a time are {burst}; {back} of it come back within {} ms, at {} a second; the \
             rest, rounded up, and a grain of {} make {wanted}, which would have to be kept: more than half of {}, {most}",
            delta / 1_000_000,
            resource.refill,
            resource.grain,
            resource.capacity
        )
    }
}

/// What is kept in common so that `burst` units are there within `delta` nanoseconds: the law's reserve, and a grain
/// where that is not nothing.
pub fn kept(burst: u64, delta: Nanos, resource: Resource) -> u64 {
    match reserve(burst, delta, resource.refill, resource.grain) {
        0 => 0,
        reserve => reserve + resource.grain,
    }
}

/// What `claimants` are entitled to of `resource` under `mode`.
pub fn entitle(mode: ShareMode, resource: Resource, claimants: &[Claimant]) -> Entitlements {
    let weights = claimants.iter().map(|claimant| claimant.weight).sum();
    let share = |claimant: &Claimant| fair_share(resource.capacity, claimant.weight, weights);
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
            Entitlements { shares: Shares { common: resource.capacity / 4, ..Shares::default() }, broken: None }
        }
        ShareMode::Quota => Entitlements { shares: Shares { common: 0, tenants: all(true, &|_| true) }, broken: None },
        ShareMode::Fair => Entitlements { shares: Shares { common: 0, tenants: all(false, &|_| false) }, broken: None },
        ShareMode::Delta(promise) => {
            let mut largest: Vec<u64> = claimants.iter().filter(|claimant| !claimant.is_patient).map(share).collect();
            largest.sort_unstable_by(|one, other| other.cmp(one));
            let burst = largest.iter().take(promise.k as usize).sum();
            let (wanted, most) = (kept(burst, promise.delta, resource), resource.capacity / KEPT_MAX);
            let broken = (wanted > most).then_some(Broken { promise, burst, resource });
            let tenants = all(false, &|claimant| !claimant.is_patient);
            Entitlements { shares: Shares { common: wanted.min(most), tenants }, broken }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;
    const POOL: Resource = Resource { capacity: 1600, grain: 10, refill: 100 };

    fn equals(count: u32) -> Vec<Claimant> {
        (0..count).map(|tenant| Claimant { tenant, weight: 1, is_patient: false }).collect()
    }

    fn delta(delta: Nanos, k: u32) -> ShareMode {
        ShareMode::Delta(Promise { delta, k })
    }

    #[test]
    fn a_delay_of_nothing_for_everybody_is_a_quota_and_an_endless_one_is_fair_sharing() {
        // DF-3.
        let quota = entitle(ShareMode::Quota, POOL, &equals(16)).shares;
        assert!(quota.common == 0 && quota.tenants.values().all(|share| (share.units, share.reserve) == (100, 100)));
        let fair = entitle(ShareMode::Fair, POOL, &equals(16)).shares;
        assert!(fair.common == 0 && fair.tenants.values().all(|share| (share.units, share.reserve) == (100, 0)));
        let endless = entitle(delta(100_000 * MS, 2), POOL, &equals(16)).shares;
        assert_eq!(endless.common, 0);
        assert_eq!(entitle(ShareMode::Quarter, POOL, &equals(16)).shares, Shares { common: 400, ..Shares::default() });
    }

    #[test]
    fn the_common_reserve_is_for_the_k_largest_of_those_who_are_in_a_hurry() {
        let mut claimants = equals(14);
        claimants[0].weight = 3;
        assert_eq!(entitle(delta(0, 1), POOL, &claimants).shares.common, 310);
        assert_eq!(entitle(delta(0, 2), POOL, &claimants).shares.common, 410);
        assert_eq!(entitle(delta(500 * MS, 2), POOL, &claimants).shares.common, 360);
        claimants[0].is_patient = true;
        let shares = entitle(delta(0, 2), POOL, &claimants).shares;
        assert_eq!((shares.common, shares.tenants[&0].is_prompt, shares.tenants[&1].is_prompt), (210, false, true));
    }

    #[test]
    fn a_promise_that_would_take_more_than_half_is_refused_with_the_arithmetic() {
        // U-14.
        let asked = entitle(delta(1_100 * MS, 9), POOL, &equals(16));
        assert_eq!((asked.shares.common, asked.broken), (800, None), "900 less 110 that come back, and a grain");
        let asked = entitle(delta(500 * MS, 9), POOL, &equals(16));
        let broken = asked.broken.expect("860 are more than 800");
        assert_eq!((asked.shares.common, broken.wanted()), (800, 860));
        assert_eq!(
            broken.to_string(),
            "the largest 9 shares at a time are 900; 50 of it come back within 500 ms, at 100 a second; the rest, \
             rounded up, and a grain of 10 make 860, which would have to be kept: more than half of 1600, 800"
        );
    }

    proptest! {
        /// Whatever is asked for: shares and reserves fit, and quotas use all but what rounding leaves.
        #[test]
        fn reserves_fit(
            weights in prop::collection::vec(1_u64..100, 1..40),
            capacity in 1_u64..1 << 40,
            (k, ms, refill) in (1_u32..50, 0_u64..2_000, 0_u64..1 << 34),
        ) {
            let claimants: Vec<_> =
                (0..).zip(&weights).map(|(tenant, &weight)| Claimant { tenant, weight, is_patient: false }).collect();
            let resource = Resource { capacity, grain: (capacity / 32).max(1), refill };
            for mode in [ShareMode::Quarter, ShareMode::Quota, ShareMode::Fair, delta(ms * MS, k)] {
                let shares = entitle(mode, resource, &claimants).shares;
                let kept: u64 = shares.tenants.values().map(|share| share.reserve).sum();
                prop_assert!(shares.common + kept <= capacity);
                prop_assert!(mode == ShareMode::Quota || shares.common + kept <= capacity / 2);
                if mode == ShareMode::Quota {
                    prop_assert!(capacity - kept <= claimants.len() as u64);
                }
            }
        }
    }
}
