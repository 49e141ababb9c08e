//! How much of the block cache is kept for each tenant (DF-3, DF-5, DF-8, U-14).
//!
//! Cached blocks cannot be kept in common as memory for writes is: what is kept for a tenant are blocks of its own,
//! which it finds when it comes back. So under a promise every tenant whose delay has an end has a reserve. It is a
//! part of its share as large as the [law](super::delta) says: what the tenant has lost beyond that can be read again
//! within its delay. That part is the same for all tenants with the same delay.

use std::fmt;
use std::str::FromStr;

use weir_io::Nanos;

use super::delta::{fair_share, own_reserve, refilled};
use super::mode::{Promise, ShareMode};
use super::rush::Claimant;
use super::terms::Delay;
use crate::pool::{Share, Shares};

const MS: Nanos = 1_000_000;

/// No more than one half of the cache is kept, except for quotas (U-14).
const KEPT_MAX: u64 = 2;

/// How the block cache is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Nothing is kept: the tenant that reads most has most (an infinite delay; DF-18).
    #[default]
    Fair,
    /// Every tenant keeps its fair share (a delay of 0 for all tenants at once; DF-18).
    Quota,
    /// Every tenant keeps as much as its delay needs ([`super::delta`]).
    Delta(Promise),
}

impl CacheMode {
    /// The promise of the word `delta` alone: 500 ms for one at a time (U-14).
    pub const PROMISE: Promise = Promise { delta: 500 * MS, k: 1 };

    /// The promise, if one is made that takes time.
    pub fn promise(self) -> Option<Promise> {
        match self {
            CacheMode::Delta(promise) => Some(promise),
            CacheMode::Quota | CacheMode::Fair => None,
        }
    }
}

impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CacheMode::Fair => ShareMode::Fair.fmt(f),
            CacheMode::Quota => ShareMode::Quota.fmt(f),
            CacheMode::Delta(promise) => ShareMode::Delta(promise).fmt(f),
        }
    }
}

impl FromStr for CacheMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "delta" {
            return Ok(CacheMode::Delta(Self::PROMISE));
        }
        match text.parse() {
            Ok(ShareMode::Fair) => Ok(CacheMode::Fair),
            Ok(ShareMode::Quota) => Ok(CacheMode::Quota),
            Ok(ShareMode::Delta(promise)) => Ok(CacheMode::Delta(promise)),
            Ok(ShareMode::Quarter) | Err(_) => Err(format!(
                "{text:?} is not a way to share a cache: write \"fair\", \"quota\", \"delta\", \"delta 500 ms\" or \
                 \"delta 500 ms for 2\" (2 tenants at a time)"
            )),
        }
    }
}

/// A block cache. All figures are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The size of the cache.
    pub capacity: u64,
    /// What the k tenants of a promise can together put into the cache in a second while the device is full; 0 if
    /// nobody knows.
    pub refill: u64,
}

/// What is kept for each tenant, and the promise that this does not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockReserves {
    /// Fair shares and reserves, in bytes. Nothing is kept in common.
    pub shares: Shares,
    /// Why the promise cannot be kept.
    pub broken: Option<BrokenReserves>,
}

/// A promise that would take more than half of the cache. `Display` shows the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenReserves {
    promise: Promise,
    burst: u64,
    blocks: Blocks,
    wanted: u64,
}

impl BrokenReserves {
    /// Bytes that would have to be kept.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }
}

impl fmt::Display for BrokenReserves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise: Promise { delta, k }, burst, blocks, wanted } = *self;
        write!(
            f,
            "the largest shares, {k} at a time, are {burst} bytes, of which {} can be read again within {} ms, at {} \
             a second. The rest, {} % of each share, would have to be kept: {wanted} bytes in total, more than half \
             of {}, which is {}",
            refilled(delta, blocks.refill),
            delta / MS,
            blocks.refill,
            own_reserve(100, burst, delta, blocks.refill),
            blocks.capacity,
            blocks.capacity / KEPT_MAX,
        )
    }
}

/// What is kept of a cache for `claimants` under `mode`.
pub fn keep_blocks(mode: CacheMode, blocks: Blocks, claimants: &[Claimant]) -> BlockReserves {
    let weight = |claimant: &Claimant| u64::from(claimant.terms.weight);
    let weights = claimants.iter().map(weight).sum();
    let share = |claimant: &Claimant| fair_share(blocks.capacity, weight(claimant), weights);
    let is_patient = |claimant: &Claimant| claimant.terms.delay == Delay::Endless;
    let all = |reserve: &dyn Fn(&Claimant) -> u64| {
        let one = |claimant: &Claimant| {
            let kept = Share { units: share(claimant), reserve: reserve(claimant), is_prompt: !is_patient(claimant) };
            (claimant.tenant, kept)
        };
        Shares { common: 0, tenants: claimants.iter().map(one).collect() }
    };
    let (shares, broken) = match mode {
        CacheMode::Fair => (all(&|_| 0), None),
        CacheMode::Quota => (all(&share), None),
        CacheMode::Delta(promise) => {
            let hurried = || claimants.iter().filter(|claimant| !is_patient(claimant));
            let mut largest: Vec<u64> = hurried().map(share).collect();
            largest.sort_unstable_by(|one, other| other.cmp(one));
            let burst = largest.iter().take(promise.k as usize).sum();
            let reserve = |claimant: &Claimant| {
                let within = |delta| own_reserve(share(claimant), burst, delta, blocks.refill);
                claimant.terms.delay.within(promise.delta).map_or(0, within)
            };
            let (wanted, most) = (hurried().map(reserve).sum(), blocks.capacity / KEPT_MAX);
            let broken = (wanted > most).then_some(BrokenReserves { promise, burst, blocks, wanted });
            // Where half of the cache is not enough for all, all have the same part of what they need.
            let kept = |claimant: &Claimant| match reserve(claimant) {
                reserve if wanted > most => fair_share(most, reserve, wanted),
                reserve => reserve,
            };
            (all(&kept), broken)
        }
    };
    BlockReserves { shares, broken }
}

/// What the device gave to owners that waited for it all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Bytes that all of them were given together.
    pub bytes: u64,
    /// How many of them had more than their shares: these go on beside newcomers.
    pub others: u64,
    /// How many had not more than their shares: these are newcomers themselves.
    pub newcomers: u64,
    /// Bytes that the newcomers were given.
    pub newcomers_bytes: u64,
}

impl Given {
    /// Bytes that `k` newcomers would have been given together if all take turns. Where there were newcomers that were
    /// given less than their turns, it is less by the same proportion.
    pub fn to_newcomers(self, k: u32) -> u64 {
        let turns = |newcomers: u64| fair_share(self.bytes, newcomers, self.others + newcomers);
        let (of_k, due) = (turns(u64::from(k)), turns(self.newcomers));
        if due == 0 { of_k } else { fair_share(of_k, self.newcomers_bytes.min(due), due) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::share::ShareTerms;
    use proptest::prelude::*;

    const MB: u64 = 1_000_000;
    /// The paper's cache: 32 tenants, each of whose shares can be read in a second.
    const SHARE: u64 = 320 * MB;
    const BLOCKS: Blocks = Blocks { capacity: 32 * SHARE, refill: SHARE };

    fn equals(count: u32) -> Vec<Claimant> {
        (0..count).map(|tenant| Claimant { tenant, terms: ShareTerms::default() }).collect()
    }

    fn delta(ms: u64, k: u32) -> CacheMode {
        CacheMode::Delta(Promise { delta: ms * MS, k })
    }

    fn reserve_percent(kept: &BlockReserves) -> f64 {
        kept.shares.tenants[&0].reserve as f64 * 100.0 / SHARE as f64
    }

    /// DF-E3 and DF-E4, as far as half of the cache is enough; the paper keeps more where it is not (U-14).
    #[test]
    fn reserves_are_the_papers_up_to_half_of_the_cache() {
        let kept = |ms, k| keep_blocks(delta(ms, k), BLOCKS, &equals(32));
        let rows = [kept(500, 1), kept(750, 1), kept(1_000, 1), kept(750, 2), kept(0, 1)];
        assert_eq!(rows.each_ref().map(reserve_percent), [50.0, 25.0, 0.0, 50.0, 50.0]);
        assert_eq!(rows.each_ref().map(|kept| kept.broken.is_some()), [false, false, false, true, true]);
        let wanted = (2..=6).map(|k| kept(750, k).broken.map(|broken| broken.wanted() * 100 / BLOCKS.capacity));
        assert_eq!(wanted.collect::<Vec<_>>(), [62, 75, 81, 85, 87].map(Some), "Table 3");
        assert_eq!(
            kept(750, 2).broken.expect("62.5 % are more than half").to_string(),
            "the largest shares, 2 at a time, are 640000000 bytes, of which 240000000 can be read again within 750 ms, at \
             320000000 a second. The rest, 63 % of each share, would have to be kept: 6400000000 bytes in total, more \
             than half of 10240000000, which is 5120000000"
        );
    }

    #[test]
    fn a_quota_keeps_a_share_for_each_and_fair_sharing_nothing() {
        // DF-3.
        let mut claimants = equals(4);
        claimants[1].terms.weight = 3;
        claimants[2].terms.delay = Delay::Endless;
        let blocks = Blocks { capacity: 600, refill: 0 };
        let kept = |mode| {
            let kept = keep_blocks(mode, blocks, &claimants).shares.tenants;
            kept.values().map(|share| share.reserve).collect::<Vec<_>>()
        };
        assert_eq!(kept(CacheMode::Quota), [100, 300, 100, 100]);
        assert_eq!(kept(CacheMode::Fair), [0; 4]);
        assert_eq!(kept(delta(100, 1)), [60, 180, 0, 60], "half, of what three of them would need: 500");
        let blocks = Blocks { capacity: 600, refill: 1_500 };
        let kept = keep_blocks(delta(100, 1), blocks, &claimants);
        assert_eq!(kept.broken, None);
        assert_eq!(kept.shares.tenants[&1], Share { units: 300, reserve: 150, is_prompt: true });
        assert_eq!(kept.shares.tenants[&2], Share { units: 100, reserve: 0, is_prompt: false });
        assert_eq!(keep_blocks(delta(0, 1), blocks, &[]), BlockReserves::default(), "nobody is awake");
        // A delay of its own counts for a tenant's own blocks only.
        claimants[0].terms.delay = Delay::Ms(150);
        let kept = keep_blocks(delta(100, 1), blocks, &claimants).shares.tenants;
        assert_eq!(kept.values().map(|share| share.reserve).collect::<Vec<_>>(), [25, 150, 0, 50]);
    }

    #[test]
    fn newcomers_take_turns_with_those_who_are_there() {
        let given = Given { bytes: 900, others: 2, ..Given::default() };
        assert_eq!((given.to_newcomers(1), given.to_newcomers(2)), (300, 450));
        let alone = Given { bytes: 900, newcomers: 3, newcomers_bytes: 900, ..Given::default() };
        assert_eq!(alone.to_newcomers(1), 900, "those who waited are the newcomers");
        assert_eq!(Given::default().to_newcomers(2), 0);
    }

    #[test]
    fn what_newcomers_are_given_less_than_their_turns_is_not_counted_on() {
        let given = |newcomers_bytes| Given { bytes: 900, others: 2, newcomers: 1, newcomers_bytes };
        assert_eq!(given(300).to_newcomers(1), 300);
        assert_eq!(given(240).to_newcomers(1), 240, "a fifth less");
        assert_eq!(given(240).to_newcomers(2), 360);
        assert_eq!(given(500).to_newcomers(1), 300, "more than its turn was luck");
        assert_eq!(given(0).to_newcomers(1), 0);
    }

    #[test]
    fn modes_are_read_as_they_are_shown() {
        for text in ["fair", "quota", "delta 0 ms", "delta 500 ms", "delta 250 ms for 2"] {
            assert_eq!(text.parse::<CacheMode>().map(|mode| mode.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("delta".parse(), Ok(CacheMode::Delta(Promise { delta: 500 * MS, k: 1 })));
        for text in ["", "quarter", "delta -1 ms", "delta 500 ms for 0"] {
            assert!(text.parse::<CacheMode>().is_err_and(|error| error.contains("\"quota\"")), "{text}");
        }
    }

    proptest! {
        /// Reserves fit into half of the cache, quotas into all of it. Patient tenants have no reserve. What is kept of
        /// a share is enough, unless the result says that it is not.
        #[test]
        fn reserves_fit(
            tenants in prop::collection::vec((1_u16..100, prop::bool::weighted(0.2)), 1..40),
            capacity in 1_u64..1 << 40,
            (k, ms, refill) in (1_u32..50, 0_u64..2_000, 0_u64..1 << 34),
        ) {
            let claimant = |(tenant, &(weight, is_patient))| {
                let delay = if is_patient { Delay::Endless } else { Delay::OfNode };
                Claimant { tenant, terms: ShareTerms { weight, delay } }
            };
            let claimants: Vec<_> = (0..).zip(&tenants).map(claimant).collect();
            let blocks = Blocks { capacity, refill };
            for mode in [CacheMode::Quota, CacheMode::Fair, delta(ms, k)] {
                let kept = keep_blocks(mode, blocks, &claimants);
                let shares = &kept.shares.tenants;
                let sum: u64 = shares.values().map(|share| share.reserve).sum();
                let most = if mode == CacheMode::Quota { capacity } else { capacity / 2 };
                prop_assert!(sum <= most);
                prop_assert!(shares.values().all(|share| share.reserve <= share.units));
                if let CacheMode::Delta(promise) = mode {
                    let patient = || claimants.iter().filter(|claimant| claimant.terms.delay == Delay::Endless);
                    prop_assert!(patient().all(|claimant| shares[&claimant.tenant].reserve == 0));
                    let hurried = shares.values().filter(|share| share.is_prompt);
                    let mut missing: Vec<u64> = hurried.map(|share| share.units - share.reserve).collect();
                    missing.sort_unstable_by(|one, other| other.cmp(one));
                    let missing: u64 = missing.iter().take(k as usize).sum();
                    prop_assert!(kept.broken.is_some() || missing <= refilled(promise.delta, refill));
                }
            }
        }
    }
}
