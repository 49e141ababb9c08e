//! Token buckets: the one primitive under every limit.

use weir_io::Nanos;

/// A rate that never makes anybody wait.
pub const UNLIMITED: u64 = u64::MAX;

/// Level units per token. The level counts token-nanoseconds, so that `elapsed x rate` needs no division: nothing is
/// rounded, and a bucket that is read a million times a second holds the same as one that is read once a day.
const PER_TOKEN: i128 = 1_000_000_000;

/// Tokens that arrive at `rate` per second. At most as many are kept as arrive in `burst` nanoseconds (house rule 6: a
/// burst is a time). The bucket is refilled by timestamp whenever it is looked at (U-8).
///
/// A demand larger than the burst could never be met. So it is met when the bucket is full, and leaves a debt that
/// later demands wait out. The long-run rate is exact either way.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Tokens per second; [`UNLIMITED`] switches the bucket off.
    rate: u64,
    /// The burst: the tokens of at most this much time are kept, in nanoseconds.
    burst: Nanos,
    /// Token-nanoseconds at `at`; negative while in debt.
    level: i128,
    at: Nanos,
    /// Token-nanoseconds that were lent to a reserve: they have left the level, and still count against the capacity.
    lent: i128,
}

impl Bucket {
    /// A full bucket of `rate` tokens per second. It holds at most `burst` nanoseconds' worth of tokens, and at least
    /// one token.
    pub fn new(rate: u64, burst: Nanos, now: Nanos) -> Self {
        let mut bucket = Self { rate, burst, level: 0, at: now, lent: 0 };
        bucket.level = bucket.capacity();
        bucket
    }

    /// Token-nanoseconds when full. At least one token, otherwise a slow bucket would only ever serve into debt.
    fn capacity(&self) -> i128 {
        if self.rate == 0 {
            return 0;
        }
        (i128::from(self.rate) * i128::from(self.burst.min(i64::MAX as u64))).max(PER_TOKEN)
    }

    fn settle(&mut self, now: Nanos) {
        if now <= self.at || self.rate == UNLIMITED {
            return;
        }
        let elapsed = i128::from((now - self.at).min(i64::MAX as u64));
        // Both factors are below 2^64 and 2^63: the product fits.
        self.level = (self.level.saturating_add(elapsed * i128::from(self.rate))).min(self.capacity() - self.lent);
        self.at = now;
    }

    /// Whether the bucket is at least half full.
    pub(crate) fn is_half_full(&mut self, now: Nanos) -> bool {
        self.settle(now);
        self.rate == UNLIMITED || self.level >= self.capacity() / 2
    }

    /// Tokens that may be lent: an eighth of the capacity, as long as half of the capacity remains. 0 if there is
    /// nothing to spare.
    pub(crate) fn spare(&mut self, now: Nanos) -> u64 {
        if self.rate == UNLIMITED {
            return UNLIMITED;
        }
        self.settle(now);
        let (eighth, half) = (self.capacity() / 8, self.capacity() / 2);
        if self.level < half + eighth { 0 } else { u64::try_from(eighth / PER_TOKEN).unwrap_or(UNLIMITED) }
    }

    /// Moves `tokens`, no more than [`Bucket::spare`] says, into a reserve. They must be taken back before anything
    /// else is asked of the bucket.
    pub(crate) fn lend(&mut self, tokens: u64) {
        if self.rate != UNLIMITED {
            self.lent = i128::from(tokens) * PER_TOKEN;
            self.level -= self.lent;
        }
    }

    /// Takes back the `left` tokens of those that were lent. The rest is spent.
    pub(crate) fn take_back(&mut self, left: u64, now: Nanos) {
        if self.lent > 0 {
            self.settle(now);
            self.lent = 0;
            self.level += i128::from(left) * PER_TOKEN;
        }
    }

    /// Turns the knobs. What accrued until `now` accrued at the old rate. A smaller capacity clips it (U-8). A debt
    /// stays.
    pub fn set(&mut self, rate: u64, burst: Nanos, now: Nanos) {
        self.settle(now);
        let was_unlimited = self.rate == UNLIMITED;
        self.rate = rate;
        self.burst = burst;
        self.at = self.at.max(now);
        self.level = if was_unlimited { self.capacity() } else { self.level.min(self.capacity()) };
    }

    /// Tokens per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Whole tokens held when full.
    #[cfg(test)]
    fn burst_tokens(&self) -> u64 {
        if self.rate == UNLIMITED {
            return UNLIMITED;
        }
        u64::try_from(self.capacity() / PER_TOKEN).unwrap_or(UNLIMITED)
    }

    /// Whole tokens at `now`; negative while in debt.
    pub fn tokens(&mut self, now: Nanos) -> i64 {
        if self.rate == UNLIMITED {
            return i64::MAX;
        }
        self.settle(now);
        self.level.div_euclid(PER_TOKEN).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The level at which a demand of `tokens` is met.
    fn needed(&self, tokens: u64) -> i128 {
        (i128::from(tokens) * PER_TOKEN).min(self.capacity())
    }

    /// Whether `tokens` would be given at `now`.
    pub fn is_ready(&mut self, tokens: u64, now: Nanos) -> bool {
        if tokens == 0 || self.rate == UNLIMITED {
            return true;
        }
        self.settle(now);
        self.rate != 0 && self.level >= self.needed(tokens)
    }

    /// The level at which a demand of `tokens` is met if half of what the bucket can hold is to be left to others.
    fn needed_beside(&self, tokens: u64) -> i128 {
        let half = self.capacity() / 2;
        (i128::from(tokens) * PER_TOKEN).min(self.capacity() - half) + half
    }

    /// The first instant at or after `now` when `tokens` are there in addition to half of what the bucket can hold;
    /// `None` if never (rate 0).
    pub(crate) fn next_ready_beside(&mut self, tokens: u64, now: Nanos) -> Option<Nanos> {
        if tokens == 0 || self.rate == UNLIMITED {
            return Some(now);
        }
        self.settle(now);
        self.when(self.needed_beside(tokens), now)
    }

    /// Whether taking `tokens` at `now` would leave a debt of at most `debt` nanoseconds' worth.
    pub(crate) fn is_ready_in_debt(&mut self, tokens: u64, debt: Nanos, now: Nanos) -> bool {
        if self.is_ready(tokens, now) {
            return true;
        }
        self.level + i128::from(self.rate) * i128::from(debt) >= i128::from(tokens) * PER_TOKEN
    }

    /// Takes `tokens` if they are there, and says whether it did. A full bucket serves any demand, into debt.
    pub fn try_take(&mut self, tokens: u64, now: Nanos) -> bool {
        let ready = self.is_ready(tokens, now);
        if ready {
            self.take(tokens, now);
        }
        ready
    }

    /// Takes `tokens` whatever the level is, into debt if need be.
    pub fn take(&mut self, tokens: u64, now: Nanos) {
        if self.rate == UNLIMITED {
            return;
        }
        self.settle(now);
        self.level = self.level.saturating_sub(i128::from(tokens) * PER_TOKEN);
    }

    /// Takes `tokens`, into a debt of at most `debt` nanoseconds' worth. A debt that is larger already stays.
    pub(crate) fn take_into_debt(&mut self, tokens: u64, debt: Nanos, now: Nanos) {
        if self.rate == UNLIMITED {
            return;
        }
        self.settle(now);
        let least = self.level.min(-i128::from(self.rate) * i128::from(debt));
        self.level = self.level.saturating_sub(i128::from(tokens) * PER_TOKEN).max(least);
    }

    /// The most tokens that [`Bucket::take_into_debt`] takes with this `debt`: from a full bucket.
    pub(crate) fn most_into_debt(&self, debt: Nanos) -> u64 {
        let most = self.capacity().saturating_add(i128::from(self.rate) * i128::from(debt));
        u64::try_from(most / PER_TOKEN).unwrap_or(UNLIMITED)
    }

    /// Gives back `tokens` that were taken and not used. The level never rises above the capacity.
    pub fn refund(&mut self, tokens: u64) {
        if self.rate == UNLIMITED {
            return;
        }
        self.level = (self.level + i128::from(tokens) * PER_TOKEN).min(self.capacity());
    }

    /// The first instant at or after `now` when `tokens` are there; `None` if never (rate 0).
    pub fn next_ready_at(&mut self, tokens: u64, now: Nanos) -> Option<Nanos> {
        if self.is_ready(tokens, now) {
            return Some(now);
        }
        self.when(self.needed(tokens), now)
    }

    /// The first instant at or after `now` when the level is `needed`; `None` if never (rate 0). The level must be
    /// settled.
    fn when(&self, needed: i128, now: Nanos) -> Option<Nanos> {
        if self.rate == 0 {
            return None;
        }
        if self.level >= needed {
            return Some(now);
        }
        let rate = i128::from(self.rate);
        let wait = (needed - self.level + rate - 1) / rate;
        // The level is as of `at`, which a caller on another core may have moved past this `now`.
        Some(self.at.max(now).saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// When `tokens` are there after others have taken `ahead` tokens; `None` if never (rate 0).
    pub fn ready_after(&mut self, ahead: u64, tokens: u64, now: Nanos) -> Option<Nanos> {
        if self.rate == UNLIMITED {
            return Some(now);
        }
        self.settle(now);
        if self.rate == 0 {
            return None;
        }
        let missing = (i128::from(ahead) * PER_TOKEN + self.needed(tokens) - self.level).max(0);
        let rate = i128::from(self.rate);
        let wait = (missing + rate - 1) / rate;
        Some(self.at.max(now).saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;
    const SEC: Nanos = 1_000 * MS;

    /// Takes as much as possible, as early as possible, in pieces of `io` until `end`. Returns what it got.
    fn drain(bucket: &mut Bucket, io: u64, end: Nanos) -> u64 {
        let (mut now, mut got) = (0, 0);
        while now < end {
            if bucket.try_take(io, now) {
                got += io;
            } else {
                now = bucket.next_ready_at(io, now).expect("the rate is not 0");
            }
        }
        got
    }

    #[test]
    fn a_debt_beyond_all_numbers_is_no_credit() {
        let mut bucket = Bucket::new(100, SEC, 0);
        bucket.take(u64::MAX, 0);
        assert_eq!(bucket.tokens(0), i64::MIN);
    }

    #[test]
    fn ten_seconds_pass_ten_rates_and_a_burst() {
        // FX-6.
        for (rate, io) in [(50_000_000_u64, 4096_u64), (12_345_677, 3001), (2_000_000_000, 512 << 10), (1_000_003, 1)] {
            let mut bucket = Bucket::new(rate, 100 * MS, 0);
            let got = drain(&mut bucket, io, 10 * SEC) as f64;
            let wanted = (rate * 10 + rate / 10) as f64;
            assert!((got / wanted - 1.0).abs() < 0.01, "rate {rate} io {io}: {got} of {wanted}");
        }
    }

    #[test]
    fn oversize_goes_into_debt_and_the_debt_is_waited_out() {
        let mut bucket = Bucket::new(1000, 100 * MS, 0);
        assert_eq!(bucket.burst_tokens(), 100);
        assert!(bucket.try_take(600, 0), "a full bucket serves any demand");
        assert_eq!(bucket.tokens(0), -500);
        assert!(!bucket.try_take(1, 499 * MS));
        assert_eq!(bucket.next_ready_at(1, 499 * MS), Some(501 * MS));
        assert!(bucket.try_take(1, 501 * MS));
    }

    #[test]
    fn a_lower_rate_clips_what_is_stored_and_a_refund_never_overfills() {
        let mut bucket = Bucket::new(1000, SEC, 0);
        bucket.set(100, SEC, 0);
        assert_eq!(bucket.tokens(0), 100);
        bucket.take(30, 0);
        bucket.refund(50);
        assert_eq!(bucket.tokens(0), 100);
    }

    #[test]
    fn rate_zero_gives_nothing_and_says_never() {
        let mut bucket = Bucket::new(0, SEC, 0);
        assert!(!bucket.try_take(1, SEC));
        assert_eq!(bucket.next_ready_at(1, SEC), None);
        bucket.set(10, SEC, 2 * SEC);
        assert_eq!(bucket.next_ready_at(1, 2 * SEC), Some(2 * SEC + SEC / 10), "nothing accrued while the rate was 0");
    }

    #[test]
    fn unlimited_is_always_ready_and_keeps_no_debt() {
        let mut bucket = Bucket::new(UNLIMITED, SEC, 0);
        assert!(bucket.try_take(u64::MAX, 0));
        bucket.set(10, SEC, 0);
        assert_eq!(bucket.tokens(0), 10);
    }

    proptest! {
        /// A bucket that lends gives no more than one that does not, and at most as much less as it lends.
        #[test]
        fn lending_never_makes_more(rate in 1_000_u64..5_000_000, steps in prop::collection::vec((0_u64..30_000_000, 0_u64..4000), 1..200)) {
            let burst = 20 * MS;
            let mut lending = Bucket::new(rate, burst, 0);
            let mut plain = lending.clone();
            let (mut reserve, mut now) = (0, 0);
            let most = plain.burst_tokens() as i64 / 8;
            for (step, tokens) in steps {
                now += step;
                let tokens = tokens.min(plain.burst_tokens() / 2);
                if tokens <= reserve {
                    reserve -= tokens;
                    // What bucket and reserve could give together, for the bucket could have taken the reserve back.
                    prop_assert!(plain.try_take(tokens, now));
                } else {
                    lending.take_back(reserve, now);
                    let (ours, theirs) = (lending.tokens(now), plain.tokens(now));
                    prop_assert!(ours <= theirs && ours + most + 1 >= theirs, "{ours} of {theirs}, {most} lent at most");
                    if lending.try_take(tokens, now) {
                        prop_assert!(plain.try_take(tokens, now));
                    }
                    reserve = lending.spare(now);
                    lending.lend(reserve);
                }
            }
        }

        /// However often one looks, the level is the same as after a single look at the end: no drift.
        #[test]
        fn looking_often_changes_nothing(rate in 1_u64..5_000_000_000, steps in prop::collection::vec(1_u64..90_000_000, 1..200)) {
            let mut often = Bucket::new(rate, 200 * SEC, 0);
            let mut once = often.clone();
            often.take(rate * 100, 0);
            once.take(rate * 100, 0);
            let mut now = 0;
            for step in steps {
                now += step;
                often.tokens(now);
            }
            prop_assert_eq!(often.tokens(now), once.tokens(now));
        }

        /// `next_ready_at` is the first nanosecond at which the tokens are there, not just one of them.
        #[test]
        fn ready_exactly_when_promised(rate in 1_u64..5_000_000_000, burst in 1_u64..1_000_000_000, taken in 1_u64..10_000_000, wanted in 1_u64..10_000_000) {
            let mut bucket = Bucket::new(rate, burst, 0);
            bucket.take(taken, 0);
            let at = bucket.next_ready_at(wanted, 0).expect("the rate is not 0");
            prop_assert!(bucket.clone().is_ready(wanted, at));
            prop_assert!(at == 0 || !bucket.clone().is_ready(wanted, at - 1));
        }
    }
}
