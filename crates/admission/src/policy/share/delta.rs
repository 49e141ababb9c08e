//! The law of Delayed Fair Sharing: how much of a resource must be kept so that a tenant that asks for its fair share
//! has it within its delay, whatever the others hold (DF-1, DF-5).
//!
//! While a resource is full, `refill` units of it come back in a second. If `k` tenants ask for their shares at the
//! same moment, they want `burst` = k f units. Within their delay `delta`, `delta x refill` units come back. The rest
//! must lie ready:
//!
//! ```text
//!     reserve = max(0, burst - delta x refill), rounded up to the grain
//! ```
//!
//! A delay of 0 keeps all of the burst; for all tenants at a time that is a static quota. An infinite delay keeps
//! nothing, which is plain fair sharing (DF-3).

use weir_io::Nanos;

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// A fair share: the part of `capacity` units that `weight` is of `weights`, the sum over all tenants (DF-2). It is
/// rounded down, so that all shares together fit.
pub fn fair_share(capacity: u64, weight: u64, weights: u64) -> u64 {
    (u128::from(capacity) * u128::from(weight) / u128::from(weights.max(1))) as u64
}

/// Units that come back within `delta` nanoseconds, where `refill` units come back in a second.
pub fn refilled(delta: Nanos, refill: u64) -> u64 {
    u64::try_from(u128::from(delta) * u128::from(refill) / SECOND).unwrap_or(u64::MAX)
}

/// Units to be kept for all tenants together, so that `burst` units asked for at once are there within `delta`
/// nanoseconds, where `refill` units come back in a second; rounded up to `grain` units (DF-5).
pub fn reserve(burst: u64, delta: Nanos, refill: u64, grain: u64) -> u64 {
    shortfall(burst, refilled(delta, refill), grain)
}

/// Units that are missing of `burst`, where `back` units come back in time; rounded up to `grain` units.
pub fn shortfall(burst: u64, back: u64, grain: u64) -> u64 {
    burst.saturating_sub(back).next_multiple_of(grain.max(1))
}

/// The same for a resource that can only be kept for one tenant, such as cached blocks: the part of its `share` that
/// the reserve is of the burst, 1 - delta R / (k f), rounded up (DF-5).
pub fn own_reserve(share: u64, burst: u64, delta: Nanos, refill: u64) -> u64 {
    let kept = reserve(burst, delta, refill, 1);
    u64::try_from((u128::from(share) * u128::from(kept)).div_ceil(u128::from(burst.max(1)))).unwrap_or(share)
}

/// Slots to be kept of a pool whose jobs take `job` nanoseconds each, so that `burst` of them are available within
/// `delta` nanoseconds: all or none. A slot is given back when its job ends and not before (DF-17), and all slots may
/// have been taken at the same moment: then none is given back for the length of a whole job. The paper keeps the
/// fewest of M slots with (burst - reserve) / M <= delta, for jobs of a second, which is true on average (DF-9, U-14).
pub fn reserve_slots(burst: u64, job: Nanos, delta: Nanos) -> u64 {
    if job > delta { burst } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: u64 = 1_000_000;
    const MS: Nanos = 1_000_000;

    /// The paper's write buffer: 2 GB for 16 writers, two of which ramp up, and the reserve as a percentage of the
    /// buffer. The paper's table gives 12.5, 9.4, 6.3, 3.1 and 0 %.
    #[test]
    fn table_2_of_the_paper() {
        let (capacity, grain) = (2048 * MB, 64 * MB);
        let burst = 2 * fair_share(capacity, 1, 16);
        // No refill rate outside these gives all five rows.
        for refill in [384 * MB, 390 * MB, 430 * MB, 511 * MB] {
            let kept = |delta| reserve(burst, delta, refill, grain) as f64 / capacity as f64 * 100.0;
            let rows = [0, 200 * MS, 350 * MS, 500 * MS, Nanos::MAX].map(kept);
            assert_eq!(rows, [12.5, 9.375, 6.25, 3.125, 0.0], "{refill}");
        }
    }

    /// The paper's cache, at 750 ms: its table gives 25, 62.5, 75, 81.25, 85 and 87.5 % for k from 1 to 6.
    #[test]
    fn table_3_of_the_paper() {
        let share = 320 * MB;
        let rows = (1..=6).map(|k| own_reserve(share, k * share, 750 * MS, share) as f64 / share as f64 * 100.0);
        assert_eq!(rows.collect::<Vec<_>>(), [25.0, 62.5, 75.0, 81.25, 85.0, 87.5]);
        // What the text says of 500 ms.
        assert_eq!(own_reserve(share, share, 500 * MS, share), 160 * MB);
    }

    /// Two slots, half of the pool at once: the paper keeps one of them for delays of up to half a second. It saw
    /// longer waits than that where a flush of 800 ms had just begun; here one slot is kept then, too.
    #[test]
    fn flush_slots_of_the_paper() {
        let kept = [0, 500 * MS, 800 * MS, Nanos::MAX].map(|delta| reserve_slots(1, 800 * MS, delta));
        assert_eq!(kept, [1, 1, 0, 0]);
        assert_eq!(reserve_slots(4, 50 * MS, 100 * MS), 0, "short jobs need none");
    }

    #[test]
    fn shares_follow_weights() {
        // DF-2.
        assert_eq!([1, 2, 1].map(|weight| fair_share(400, weight, 4)), [100, 200, 100]);
        assert_eq!(fair_share(400, 1, 0), 400, "nobody else is there");
    }

    proptest! {
        /// What is kept and what comes back make up the burst, and a grain less would not be enough.
        #[test]
        fn the_reserve_is_enough_and_the_least(
            burst in 0_u64..1 << 40, delta in 0..10_000 * MS, refill in 0_u64..1 << 34, grain in 1_u64..1 << 26,
        ) {
            let kept = reserve(burst, delta, refill, grain);
            prop_assert!(kept + refilled(delta, refill) >= burst && kept.is_multiple_of(grain));
            prop_assert!(kept == 0 || kept - grain + refilled(delta, refill) < burst);
        }

        /// The part that is kept of a share is the part that is kept of the burst.
        #[test]
        fn own_reserves_are_in_proportion(
            share in 1_u64..1 << 40, k in 1_u64..64, delta in 0..10_000 * MS, refill in 0_u64..1 << 34,
        ) {
            let kept = own_reserve(share, k * share, delta, refill);
            prop_assert!(kept <= share);
            prop_assert_eq!(kept, reserve(k * share, delta, refill, 1).div_ceil(k));
        }
    }
}
