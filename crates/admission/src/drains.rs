//! How often a bucket was found empty.

use weir_io::Nanos;

/// Counts the periods in which somebody waited, each once: what RocksDB's limiter calls a drain.
#[derive(Debug)]
pub(crate) struct Drains {
    /// Length of a period, in nanoseconds. The first begins at time 0.
    period: Nanos,
    /// Set while somebody waits: periods before this moment are counted.
    since: Option<Nanos>,
    /// The first period that is not counted yet.
    next: u64,
    count: u64,
}

impl Drains {
    /// The length of a period at first, in nanoseconds.
    pub(crate) const PERIOD: Nanos = 10_000_000;

    pub(crate) fn new(period: Nanos) -> Self {
        Self { period: period.max(1), since: None, next: 0, count: 0 }
    }

    /// Sets the length of periods from now on. What was counted remains.
    pub(crate) fn set_period(&mut self, period: Nanos, now: Nanos) {
        let period = period.max(1);
        if period != self.period {
            self.count(now);
            (self.period, self.next) = (period, now.div_ceil(period));
        }
    }

    /// Takes in whether somebody waits from `now` on.
    pub(crate) fn observe(&mut self, waits: bool, now: Nanos) {
        if waits != self.since.is_some() {
            self.count(now);
            self.since = waits.then_some(now);
        }
    }

    /// How many such periods there were, including one that has only begun.
    pub(crate) fn count(&mut self, now: Nanos) -> u64 {
        if let Some(since) = &mut self.since {
            let from = (*since / self.period).max(self.next);
            let until = now / self.period + 1;
            self.count += until.saturating_sub(from);
            (*since, self.next) = (now.max(*since), self.next.max(until));
        }
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_counts_once_however_often_somebody_waits_in_it() {
        let mut drains = Drains::new(10);
        for at in [12, 14, 16] {
            drains.observe(true, at);
            drains.observe(false, at + 1);
        }
        assert_eq!(drains.count(100), 1);
        drains.observe(true, 25);
        assert_eq!([drains.count(25), drains.count(29), drains.count(30)], [2, 2, 3]);
        drains.observe(false, 59);
        assert_eq!(drains.count(1000), 5, "the periods from 20 to 59, and the one at 10");
    }

    #[test]
    fn periods_of_another_length_begin_when_they_are_set() {
        let mut drains = Drains::new(10);
        drains.observe(true, 0);
        drains.set_period(100, 35);
        assert_eq!([drains.count(99), drains.count(100), drains.count(299)], [4, 5, 6]);
    }
}
