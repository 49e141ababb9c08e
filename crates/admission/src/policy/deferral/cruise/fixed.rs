//! The plain baseline (CR-22): the rate of writes in the first whole minute without a limit is the limit for good.

use super::Seen;

/// The limit of one partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// Bytes per second; `None` until there is a limit.
    rate: Option<f64>,
}

impl Fixed {
    /// Bytes per second that users may write from now on; `None` = as they like.
    pub fn step(&mut self, seen: &Seen) -> Option<f64> {
        self.rate = self.rate.or(seen.minute.filter(|&rate| rate > 0.0));
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_minute_is_the_limit_for_good() {
        let mut limiter = Fixed::default();
        let of = |minute| Seen { minute, ..Seen::default() };
        assert_eq!([None, Some(0.0)].map(|minute| limiter.step(&of(minute))), [None; 2]);
        assert_eq!([Some(3e6), Some(2e6), Some(9e6)].map(|minute| limiter.step(&of(minute))), [Some(3e6); 3]);
    }
}
