//! Which partitions may use the bandwidth that is left over while the node is short. What is put off may be more than
//! the load leaves of the device; but the load comes in lumps, or needs less than was feared, and a device that rests
//! helps nobody. So a few partitions at a time may compact everything again, as long as their level 0 is short.

use std::collections::BTreeSet;

use weir_io::{Nanos, Owner};

use super::ramp::Ramp;

/// Time constant of the used share, in seconds: flushes that gather come every twenty seconds.
const OVER: f64 = 20.0;
/// With less than this share of it in use, the device rests …
const RESTS: f64 = 0.50;
/// … and from this share on nothing is left over.
const NOTHING_OVER: f64 = 0.80;
/// With this many runs in level 0 the next merge out of it is close, and must not wait for one further down.
const RUNS_MAX: u64 = 8;

/// Lets a few partitions at a time compact everything while the device rests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The average share of the device that is used, in millionths; `None` before the first look.
    used: Option<u64>,
    ramp: Ramp,
    open: BTreeSet<Owner>,
}

/// A partition in stage one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOff {
    /// The partition.
    pub owner: Owner,
    /// Bytes that the compactions that were put off have still to move.
    pub deep_debt: u64,
    /// How many of its merges are parked.
    pub parked: u64,
    /// Runs in its level 0.
    pub l0_runs: u64,
}

impl Rest {
    /// Takes in the share of the device that was used in the last second, and the partitions that are in stage one.
    pub fn step(&mut self, now: Nanos, used: f64, put_off: &[PutOff]) {
        let used = used.min(1.0);
        let average = match self.used {
            Some(average) => average as f64 / 1e6 + (used - average as f64 / 1e6) / OVER,
            None => {
                // Slots grow from one, from now on.
                self.ramp.step(now, 0, 0, false);
                used
            }
        };
        self.used = Some((average * 1e6) as u64);
        let may = |one: &&PutOff| one.deep_debt > 0 && one.l0_runs < RUNS_MAX;
        let mut candidates: Vec<&PutOff> = put_off.iter().filter(may).collect();
        let before = std::mem::take(&mut self.open);
        let busy = candidates.iter().filter(|one| before.contains(&one.owner)).count();
        let waiting = if average < RESTS { candidates.len() - busy } else { 0 };
        let slots = self.ramp.step(now, waiting, busy, average >= NOTHING_OVER);
        if average >= NOTHING_OVER {
            return;
        }
        let most = if average < RESTS { slots } else { slots.min(busy) };
        candidates.sort_by_key(|one| (!before.contains(&one.owner), std::cmp::Reverse((one.parked, one.deep_debt))));
        self.open = candidates.into_iter().take(most).map(|one| one.owner).collect();
    }

    /// Whether `owner` may compact everything.
    pub fn is_open(&self, owner: Owner) -> bool {
        self.open.contains(&owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u32, deep_debt: u64, parked: u64, l0_runs: u64) -> PutOff {
        PutOff { owner: Owner { tenant: number, partition: number }, deep_debt, parked, l0_runs }
    }

    #[test]
    fn a_few_at_a_time_use_what_is_over_while_their_level_0_is_short() {
        let mut rest = Rest::default();
        let put_off = [one(1, 5, 0, 1), one(2, 9, 0, 8), one(3, 0, 0, 1), one(4, 7, 0, 7), one(5, 1, 1, 1)];
        let mut at = |second: u64, used: f64| {
            rest.step(second * 1_000_000_000, used, &put_off);
            (1..=5).filter(|&number| rest.is_open(Owner { tenant: number, partition: number })).collect::<Vec<_>>()
        };
        assert_eq!(at(100, 0.1), [5], "whose job is parked comes first");
        assert_eq!(
            [at(105, 0.1), at(109, 0.1)],
            [vec![4, 5], vec![4, 5]],
            "then who owes most, with fewer than eight runs"
        );
        assert_eq!(at(110, 0.1), [1, 4, 5]);
        let seconds = (111..=160).map(|second| at(second, 1.0).len()).collect::<Vec<_>>();
        let ended = seconds.iter().position(|&open| open == 0).expect("nothing is over");
        assert!((20..40).contains(&ended) && seconds[..ended].iter().all(|&open| open == 3), "{seconds:?}");
        let mut full = Rest::default();
        full.step(200_000_000_000, 1.0, &put_off);
        assert!(put_off.iter().all(|one| !full.is_open(one.owner)), "a device that is full rests at no time");
    }
}
