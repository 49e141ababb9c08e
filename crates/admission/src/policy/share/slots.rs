//! How many of a few slots are reserved, where each slot is taken for a whole job (DF-9, DF-17, U-14, U-15).
//!
//! Slots cannot be divided: the shares of the tenants that ask together are rounded up. The calculation is for the
//! worst case, in which all slots were taken at the same moment, and not for the average as in the paper
//! ([`reserve_slots`]).

use std::fmt;

use weir_io::Nanos;

use super::delta::reserve_slots;
use super::mode::ShareMode;
use super::rush::{Claimant, rushes};

/// No more than one half of the slots is reserved, except for quotas (U-14).
const KEPT_MAX: u64 = 2;

/// How many slots are reserved, and the promise that this does not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservedSlots {
    /// How many slots are reserved.
    pub reserved: u64,
    /// Why the promise cannot be kept.
    pub broken: Option<BrokenSlots>,
}

/// A promise that would take more than half of the slots. `Display` shows the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenSlots {
    k: u32,
    delta: Nanos,
    burst: u64,
    slots: u64,
    job: Option<Nanos>,
}

impl fmt::Display for BrokenSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { k, delta, burst, slots, job } = *self;
        let ms = delta / 1_000_000;
        write!(f, "tenants, {k} at a time, may claim up to {burst} of {slots} flush slots. A flush ")?;
        match job {
            Some(job) => write!(f, "takes {} ms, but a slot is promised within {ms} ms", job / 1_000_000)?,
            None => write!(f, "takes more than the {ms} ms within which a slot is promised")?,
        }
        write!(f, ": all {burst} slots would have to be kept, more than half of {slots}, which is {}", slots / KEPT_MAX)
    }
}

/// How many of `slots` are reserved for `claimants` under `mode`, where a job takes `job` nanoseconds. `None` = nobody
/// knows yet; then a job is taken to last for ever.
pub fn reserved_slots(mode: ShareMode, slots: u64, job: Option<Nanos>, claimants: &[Claimant]) -> ReservedSlots {
    let promise = match mode {
        ShareMode::Quarter | ShareMode::Fair => return ReservedSlots::default(),
        ShareMode::Quota => return ReservedSlots { reserved: slots, broken: None },
        ShareMode::Delta(promise) => promise,
    };
    let weights: u64 = claimants.iter().map(|claimant| u64::from(claimant.terms.weight)).sum();
    let rushes = rushes(promise, claimants).into_iter().map(|rush| {
        let burst = (u128::from(rush.weight) * u128::from(slots)).div_ceil(u128::from(weights.max(1))) as u64;
        let wanted = reserve_slots(burst, job.unwrap_or(Nanos::MAX), rush.delta);
        (wanted, BrokenSlots { k: promise.k, delta: rush.delta, burst, slots, job })
    });
    let Some((wanted, hardest)) = rushes.max_by_key(|(wanted, _)| *wanted) else { return ReservedSlots::default() };
    let most = slots / KEPT_MAX;
    ReservedSlots { reserved: wanted.min(most), broken: (wanted > most).then_some(hardest) }
}

/// Why `claimants` cannot all be promised their slots, if that is known already and was not so with the claimants
/// `before`. As long as nobody knows how long a job takes, it is assumed to take hardly any time.
pub fn worsened_slots(
    mode: ShareMode,
    slots: u64,
    job: Option<Nanos>,
    (before, claimants): (&[Claimant], &[Claimant]),
) -> Option<BrokenSlots> {
    let hoped = job.or(Some(1));
    let broken = |claimants| reserved_slots(mode, slots, hoped, claimants).broken;
    let was = broken(before).map_or(0, |broken| broken.burst);
    broken(claimants).filter(|broken| broken.burst > was).map(|broken| BrokenSlots { job, ..broken })
}

#[cfg(test)]
mod tests {
    use super::super::mode::Promise;
    use super::super::terms::{Delay, ShareTerms};
    use super::*;

    const MS: Nanos = 1_000_000;

    fn claimants(terms: &[(u16, Delay)]) -> Vec<Claimant> {
        let one = |(tenant, &(weight, delay))| Claimant { tenant, terms: ShareTerms { weight, delay } };
        (0..).zip(terms).map(one).collect()
    }

    fn delta(ms: u64, k: u32) -> ShareMode {
        ShareMode::Delta(Promise { delta: ms * MS, k })
    }

    #[test]
    fn the_shares_of_those_in_a_hurry_are_reserved_if_a_flush_takes_longer_than_they_can_wait() {
        let equals = claimants(&[(1, Delay::OfNode); 16]);
        let reserved = |mode, job, claimants: &[Claimant]| reserved_slots(mode, 8, job, claimants).reserved;
        assert_eq!(reserved(delta(500, 1), Some(800 * MS), &equals), 1);
        assert_eq!(reserved(delta(500, 3), Some(800 * MS), &equals), 2, "one and a half");
        assert_eq!(reserved(delta(500, 3), Some(500 * MS), &equals), 0);
        assert_eq!(reserved(delta(500, 3), None, &equals), 2, "nobody knows yet");
        assert_eq!(reserved(ShareMode::Quota, None, &equals), 8);
        assert_eq!(reserved(ShareMode::Fair, None, &equals), 0);
        let mut patient = claimants(&[(1, Delay::Endless); 16]);
        assert_eq!(reserved(delta(0, 3), None, &patient), 0, "they reserve nothing");
        patient[3].terms = ShareTerms { weight: 5, delay: Delay::Ms(100) };
        assert_eq!(reserved(delta(500, 1), Some(200 * MS), &patient), 2, "5 of 20 parts");
    }

    #[test]
    fn a_promise_of_more_than_half_is_told_with_the_arithmetic() {
        // U-14.
        let (before, after) =
            (claimants(&[(1, Delay::OfNode); 4]), claimants(&[(9, Delay::Ms(0)), (1, Delay::OfNode)]));
        let broken = reserved_slots(delta(500, 1), 4, Some(800 * MS), &after).broken.expect("all four");
        assert_eq!(
            broken.to_string(),
            "tenants, 1 at a time, may claim up to 4 of 4 flush slots. A flush takes 800 ms, but a slot is promised within \
             0 ms: all 4 slots would have to be kept, more than half of 4, which is 2"
        );
        let worsened = |before: &[Claimant], job| worsened_slots(delta(500, 1), 4, job, (before, &after));
        assert_eq!(worsened(&before, Some(800 * MS)), Some(broken));
        assert!(worsened(&before, None).is_some_and(|broken| broken.to_string().contains("more than the 0 ms")));
        assert_eq!(worsened(&after, Some(800 * MS)), None, "it is no worse than before");
        let fine = claimants(&[(9, Delay::OfNode), (1, Delay::OfNode)]);
        assert_eq!(worsened_slots(delta(500, 1), 4, None, (&before, &fine)), None, "a flush may take less");
    }
}
