//! Chooses the next number to try where more is worse (tenants of a machine, a ratio of what is sold): half as many
//! more until one breaks, a third less until one holds, and then numbers between the two.

/// What is known so far. More is taken to be worse: if one number holds, all smaller ones hold as well.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    from: u32,
    max: u32,
    /// How far apart the two numbers below may be in the end, as a share of the lower.
    precision: f64,
    /// The largest number that was served.
    holds: Option<u32>,
    /// The smallest number that was not served.
    breaks: Option<u32>,
}

impl Search {
    /// Begins at `from`, goes no further than `max`, and ends within `precision` (a share).
    pub fn new(from: u32, max: u32, precision: f64) -> Self {
        Self { from: from.clamp(1, max), max, precision, holds: None, breaks: None }
    }

    /// The number to try; `None` = the answer is known.
    pub fn next(&self) -> Option<u32> {
        match (self.holds, self.breaks) {
            (None, None) => Some(self.from),
            (Some(holds), None) => (holds < self.max).then(|| holds.saturating_add(holds.div_ceil(2)).min(self.max)),
            (None, Some(breaks)) => (breaks > 1).then(|| (breaks - breaks.div_ceil(3)).max(1)),
            (Some(holds), Some(breaks)) => {
                let apart = breaks.saturating_sub(holds);
                let is_close = f64::from(apart) <= (f64::from(holds) * self.precision).max(1.0);
                (!is_close).then(|| holds + apart / 2)
            }
        }
    }

    /// Notes that `number` was tried.
    pub fn note(&mut self, number: u32, are_served: bool) {
        if are_served {
            self.holds = self.holds.max(Some(number));
        } else {
            self.breaks = Some(self.breaks.map_or(number, |breaks| breaks.min(number)));
        }
    }

    /// The largest number that was served; `None` = not even one.
    pub fn holds(&self) -> Option<u32> {
        self.holds
    }

    /// The smallest number that was not served; `None` = all that were tried were served.
    pub fn breaks(&self) -> Option<u32> {
        self.breaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer where `limit` fits, and how many numbers were tried.
    fn find(limit: u32, from: u32, precision: f64) -> (Option<u32>, u32) {
        let (mut search, mut tried) = (Search::new(from, 1024, precision), 0);
        while let Some(number) = search.next() {
            search.note(number, number <= limit);
            tried += 1;
        }
        (search.holds(), tried)
    }

    #[test]
    fn every_limit_is_found_as_close_as_asked_for() {
        for from in [1, 16, 1000] {
            for limit in 0..=1024 {
                let (answer, tried) = find(limit, from, 0.05);
                let answer = answer.unwrap_or(0);
                assert!(answer <= limit && f64::from(limit - answer) <= (f64::from(answer) * 0.05).max(1.0), "{limit}");
                assert!(tried <= 26, "{from} {limit}: {tried}");
                assert_eq!(find(limit, from, 0.0).0.unwrap_or(0), limit);
            }
        }
        assert_eq!(find(u32::MAX, 16, 0.05).0, Some(1024));
        assert_eq!(find(0, 16, 0.05).0, None);
    }

    #[test]
    fn a_typical_answer_takes_few_runs() {
        assert!((20..100).all(|limit| find(limit, 16, 0.05).1 <= 10));
    }
}
