//! Tenants that are asked now and then: their partitions sleep meanwhile, if nobody asks them for long enough.

use std::collections::BTreeSet;

use weir_io::{Nanos, Rng};

use crate::choice::Choice;
use crate::trace::Trace;

/// Seconds of a visit: a tenant that is asked for longer has several in a row.
pub const VISIT: u64 = 10;
/// Seconds at the end of a load in which nobody asks, so that all queues can end: a request that is not answered by
/// then was starved.
pub const SILENCE: u64 = 60;

/// How tenants are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// Tenants that are asked at the same time.
    pub at_once: u16,
    /// A partition that nobody has asked for this long falls asleep, in nanoseconds.
    pub asleep_after: Nanos,
}

/// Which of `tenants` are visited in `seconds`: in each step as many as `visits` says, drawn by Zipf's law from `seed`.
/// The first tenants are asked all the time, most tenants seldom. Whoever is asked asks for all that it bought.
pub fn trace(visits: Visits, tenants: usize, seconds: u64, seed: u64) -> Trace {
    let mut rng = Rng::new(seed ^ 0x7669_7369_7473);
    let popular = Choice::zipf(tenants as u64);
    let visited_steps = (seconds.saturating_sub(SILENCE) / VISIT) as usize;
    let asked: Vec<BTreeSet<u64>> = (0..visited_steps)
        .map(|_| {
            let mut asked = BTreeSet::new();
            while asked.len() < tenants.min(visits.at_once.into()) {
                asked.insert(popular.draw(&mut rng));
            }
            asked
        })
        .collect();
    let all_steps = seconds.div_ceil(VISIT) as usize;
    let load_of = |tenant: usize, step: usize| {
        let is_asked = asked.get(step).is_some_and(|asked| asked.contains(&(tenant as u64)));
        if is_asked { (1.0, 1.0) } else { (0.0, 0.0) }
    };
    let steps = (0..tenants).map(|tenant| (0..all_steps).map(|step| load_of(tenant, step)).collect()).collect();
    Trace::of(VISIT, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_asked_often_and_nobody_at_the_end() {
        let visits = Visits { at_once: 4, asleep_after: 1 };
        let trace = trace(visits, 100, 1_000, 7);
        let asked = |tenant: usize| trace.steps(tenant, false).filter(|&share| share > 0.0).count();
        assert_eq!((trace.tenants(), trace.seconds()), (100, 1_000));
        assert_eq!((0..100).map(asked).sum::<usize>(), 94 * 4, "four in each step but the last six");
        assert!(asked(0) > 40 && (50..100).map(asked).max() < Some(24), "{} of the most popular", asked(0));
        let silent = |tenant: usize| trace.steps(tenant, true).skip(94).all(|share| share == 0.0);
        assert!((0..100).all(silent));
    }
}
