//! Units that were not used lately (XS-25). Large queries and what is paid afterwards are paid from them, so that the
//! units of the current second are there for short commands.

use std::collections::VecDeque;

use weir_io::Nanos;

const SECOND: Nanos = 1_000_000_000;

/// Unused units by the second in which they were not used. A pure function of its inputs, and exact: units that were
/// not used are there for `window` seconds after their own second, and no longer.
#[derive(Clone, Debug)]
pub(super) struct Savings {
    /// Seconds for which unused units are kept; 0 keeps nothing.
    window: u64,
    /// Units that come in a second.
    rate: u64,
    /// The number of each second and what is left of its units, the oldest first.
    seconds: VecDeque<(u64, u64)>,
    sum: u64,
    /// The time until which the use is known, and in `used` the most that was used in all: what is given back
    /// afterwards pays for what is used next.
    at: Nanos,
    used: u64,
    /// Units that were used before they came, and have not come since: a debt is paid by the seconds that follow, and
    /// nothing of those seconds is unused.
    owed: u128,
}

impl Savings {
    /// Nothing is saved up at `now`, when `used` units had been used in all.
    pub(super) fn new(rate: u64, window: u32, now: Nanos, used: u64) -> Self {
        Self { window: window.into(), rate, seconds: VecDeque::new(), sum: 0, at: now, used, owed: 0 }
    }

    /// Turns the knobs. What was saved up under the old ones stays, as far as it is within the window.
    pub(super) fn set(&mut self, rate: u64, window: u32, now: Nanos, used: u64) {
        self.look(now, used);
        (self.rate, self.window) = (rate, window.into());
        self.forget(now / SECOND);
    }

    /// What is saved up at `now`, when `used` units have been used in all, not counting those that were taken from
    /// here.
    pub(super) fn available(&mut self, now: Nanos, used: u64) -> u64 {
        self.look(now, used);
        self.sum
    }

    /// Takes up to `units`, the oldest first, and gives how many that were.
    pub(super) fn take(&mut self, units: u64, now: Nanos, used: u64) -> u64 {
        self.look(now, used);
        let taken = units.min(self.sum);
        let mut left = taken;
        while left > 0
            && let Some((_, there)) = self.seconds.front_mut()
        {
            let part = left.min(*there);
            *there -= part;
            left -= part;
            if *there == 0 {
                self.seconds.pop_front();
            }
        }
        self.sum -= taken;
        taken
    }

    /// Puts back `units` that were taken and are not used: into the oldest second, with which they are gone.
    pub(super) fn put_back(&mut self, units: u64, now: Nanos, used: u64) {
        self.look(now, used);
        if self.window == 0 || self.rate == 0 {
            return;
        }
        // No more than could have been saved up: the knobs may have been turned meanwhile.
        let most = self.rate.saturating_mul(self.window + 1);
        let units = units.min(most.saturating_sub(self.sum));
        match self.seconds.front_mut() {
            Some((_, there)) => *there = there.saturating_add(units),
            None => self.seconds.push_back((self.at / SECOND, units)),
        }
        self.sum = self.sum.saturating_add(units);
    }

    /// Books the units that were not used since the last look, evenly over the time since then.
    fn look(&mut self, now: Nanos, used: u64) {
        if self.window == 0 || self.rate == 0 {
            (self.at, self.used, self.owed) = (now.max(self.at), used, 0);
            return;
        }
        if now <= self.at {
            return;
        }
        let came = u128::from(self.rate) * u128::from(now - self.at) / u128::from(SECOND);
        if came == 0 {
            // The time is too short: it is looked at together with the time that follows.
            return;
        }
        // Only up to when the last whole unit came: the part of a unit that has come since is not lost, however often
        // one looks.
        let span = (came * u128::from(SECOND)).div_ceil(self.rate.into());
        let now = self.at + u64::try_from(span).unwrap_or(now - self.at);
        let owed = self.owed + u128::from(used.saturating_sub(self.used));
        let unused = came.saturating_sub(owed);
        self.owed = owed.saturating_sub(came);
        let last = now / SECOND;
        // Units that are older than the window are gone already.
        let first = (self.at / SECOND).max(last.saturating_sub(self.window));
        for second in first..=last {
            let from = self.at.max(second * SECOND);
            let to = now.min((second + 1) * SECOND);
            let share = unused * u128::from(to.saturating_sub(from)) / span;
            self.add(second, u64::try_from(share).unwrap_or(u64::MAX));
        }
        (self.at, self.used) = (now, used.max(self.used));
        self.forget(last);
    }

    fn add(&mut self, second: u64, units: u64) {
        if units == 0 {
            return;
        }
        self.sum = self.sum.saturating_add(units);
        match self.seconds.back_mut() {
            Some((number, there)) if *number == second => *there = there.saturating_add(units),
            _ => self.seconds.push_back((second, units)),
        }
    }

    fn forget(&mut self, last: u64) {
        while let Some(&(second, there)) = self.seconds.front()
            && second + self.window < last
        {
            self.sum = self.sum.saturating_sub(there);
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_of_thirty_seconds_units_runs_after_thirty_idle_seconds() {
        // XS-25.
        let mut savings = Savings::new(100, 60, 0, 0);
        assert_eq!(savings.available(29 * SECOND, 0), 2900);
        assert_eq!(savings.take(3000, 30 * SECOND, 0), 3000);
        assert_eq!(savings.available(30 * SECOND, 0), 0);
        // Half of what comes is used from now on.
        assert_eq!(savings.available(40 * SECOND, 500), 500);
    }

    #[test]
    fn what_is_older_than_the_window_is_gone() {
        let mut savings = Savings::new(100, 60, 0, 0);
        assert_eq!(savings.available(1000 * SECOND, 0), 6000);
        // Everything is used: what was saved up expires second by second.
        let used = |seconds: u64| 100 * seconds;
        assert_eq!(savings.available(1030 * SECOND, used(30)), 3000);
        assert_eq!(savings.available(1100 * SECOND, used(100)), 0);
        savings.set(100, 0, 1100 * SECOND, used(100));
        assert_eq!(savings.available(1200 * SECOND, used(100)), 0, "nothing is kept");
    }

    #[test]
    fn a_debt_is_paid_by_what_comes_and_that_is_not_saved_up() {
        let mut savings = Savings::new(100, 60, 0, 0);
        // Ten seconds' units at once, looked at each second.
        for second in 1..=10 {
            assert_eq!(savings.available(second * SECOND, 1000), 0, "in second {second}");
        }
        assert_eq!(savings.available(12 * SECOND, 1000), 200);
    }

    #[test]
    fn looking_often_loses_nothing() {
        let mut savings = Savings::new(1000, 60, 0, 0);
        // Each time nearly two units have come.
        for look in 1..=1000 {
            savings.available(look * 1_999_999, 0);
        }
        assert_eq!(savings.available(1000 * 1_999_999, 0), 1999);
    }

    #[test]
    fn what_is_given_back_is_used_again_before_anything_is_missing() {
        let mut savings = Savings::new(100, 60, 0, 0);
        // Charged, given back, charged again: 60 were used.
        assert_eq!(savings.available(SECOND, 60), 40);
        assert_eq!(savings.available(SECOND, 0), 40);
        assert_eq!(savings.available(2 * SECOND, 60), 140);
    }

    proptest! {
        /// However often one looks, there is never more than came within the window, nor more than was not used.
        #[test]
        fn it_never_has_more_than_was_not_used(
            rate in 1_u64..100_000, window in 1_u32..90,
            steps in prop::collection::vec((1_u64..5_000_000_000, 0_u64..200_000, 0_u64..100_000), 1..80),
        ) {
            let (mut savings, mut now, mut used, mut taken) = (Savings::new(rate, window, 0, 0), 0, 0, 0_u128);
            for (step, uses, wants) in steps {
                now += step;
                used += uses;
                let there = u128::from(savings.available(now, used));
                let came = u128::from(rate) * u128::from(now) / u128::from(SECOND);
                prop_assert!(there <= u128::from(rate) * u128::from(window + 1));
                // What is used at once may be more than came; the units that come next pay for that.
                prop_assert!(there + taken <= came);
                prop_assert!(there + taken + u128::from(savings.used) <= came + savings.owed);
                taken += u128::from(savings.take(wants, now, used));
            }
        }
    }
}
