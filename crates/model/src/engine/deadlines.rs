//! When the values of a table expire: a few exact points of the form "this many bytes are gone by then".
//!
//! A table of a million values has a million times of expiry. [`Counter`] sorts them into buckets, which are narrow
//! near the time of writing and wide far from it, in constant time each. [`Deadlines`] keeps at most [`POINTS_MAX`] of
//! the buckets' ends. Between two points nothing is known, so the answer is the earlier point's: never more bytes than
//! have really expired.

use super::is_expired;
use crate::varint;

/// Most points of one table.
pub const POINTS_MAX: usize = 16;

/// A bucket is a sixteenth of the power of two that it belongs to.
const SUB_BITS: u32 = 4;

/// At `at_ms`, and not before, these bytes have expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    /// First millisecond since 1970 at which the values are gone.
    pub at_ms: u64,
    /// Bytes of keys and values that are gone then, those of earlier points included.
    pub bytes: u64,
}

/// The points of a table. Times ascend strictly, bytes do not fall. The last point is the last value to expire, with
/// the bytes of all values that expire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlines(Box<[Deadline]>);

impl Deadlines {
    /// The points.
    pub fn points(&self) -> &[Deadline] {
        &self.0
    }

    /// Bytes of keys and values that have certainly expired at `now_ms`.
    pub fn expired_bytes(&self, now_ms: u64) -> u64 {
        let expired = self.0.partition_point(|point| is_expired(point.at_ms, now_ms));
        expired.checked_sub(1).map_or(0, |last| self.0[last].bytes)
    }

    /// Whether every value that expires at all has expired at `now_ms`.
    pub fn all_expired(&self, now_ms: u64) -> bool {
        self.0.last().is_none_or(|last| is_expired(last.at_ms, now_ms))
    }

    /// Appends the points: their number, then for each its differences from the one before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.0.len() as u64);
        let mut before = Deadline::default();
        for point in &self.0 {
            varint::put(out, point.at_ms - before.at_ms);
            varint::put(out, point.bytes - before.bytes);
            before = *point;
        }
    }

    /// The reverse of [`Deadlines::encode`]; `None` if `bytes` does not begin with encoded points.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let count = varint::take(bytes)?;
        if count > POINTS_MAX as u64 {
            return None;
        }
        let mut before = Deadline::default();
        let mut points = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let later = varint::take(bytes).filter(|&later| later > 0)?;
            let at_ms = before.at_ms.checked_add(later)?;
            before = Deadline { at_ms, bytes: before.bytes.checked_add(varint::take(bytes)?)? };
            points.push(before);
        }
        Some(Self(points.into()))
    }
}

/// Counts value by value. Takes no memory before the first value that expires, and never more than 16 KiB.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// The time around which the buckets are narrowest: when counting began, in milliseconds since 1970.
    from_ms: u64,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// The latest time of expiry in the bucket.
    last_ms: u64,
    bytes: u64,
}

impl Counter {
    /// An empty counter; `from_ms` is the wall clock.
    pub fn new(from_ms: u64) -> Self {
        Self { from_ms, buckets: Vec::new() }
    }

    fn bucket(&self, at_ms: u64) -> usize {
        // All values that have expired already share one bucket.
        let distance = at_ms.saturating_sub(self.from_ms);
        let exponent = (distance >> SUB_BITS).checked_ilog2().map_or(0, |log| log + 1);
        let shift = exponent.saturating_sub(1);
        ((exponent as usize) << SUB_BITS) + ((distance >> shift) & ((1 << SUB_BITS) - 1)) as usize
    }

    /// Counts a value of `bytes`, its key included, that expires at `at_ms`, which is not 0.
    #[inline]
    pub fn add(&mut self, at_ms: u64, bytes: u64) {
        let index = self.bucket(at_ms);
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, Bucket::default());
        }
        let bucket = &mut self.buckets[index];
        bucket.last_ms = bucket.last_ms.max(at_ms);
        bucket.bytes += bytes;
    }

    /// Takes back a value that was added with the same two numbers.
    pub fn remove(&mut self, at_ms: u64, bytes: u64) {
        let index = self.bucket(at_ms);
        if let Some(bucket) = self.buckets.get_mut(index) {
            bucket.bytes = bucket.bytes.saturating_sub(bytes);
        }
    }

    /// Bytes that have certainly expired at `now_ms`.
    pub fn expired_bytes(&self, now_ms: u64) -> u64 {
        let expired = self.buckets.iter().filter(|bucket| is_expired(bucket.last_ms, now_ms));
        expired.map(|bucket| bucket.bytes).sum()
    }

    /// The points, chosen so that about the same number of bytes expires between any two.
    pub fn finish(&self) -> Deadlines {
        let total: u64 = self.buckets.iter().map(|bucket| bucket.bytes).sum();
        let share = |bytes: u64| (u128::from(bytes) * (POINTS_MAX as u128 - 1) / u128::from(total.max(1))) as u64;
        let used: Vec<&Bucket> = self.buckets.iter().filter(|bucket| bucket.last_ms > 0).collect();
        let (mut points, mut bytes, mut shares) = (Vec::new(), 0, 0);
        for (index, bucket) in used.iter().enumerate() {
            bytes += bucket.bytes;
            let is_last = index + 1 == used.len();
            if is_last || (share(bytes) > shares && points.len() + 1 < POINTS_MAX) {
                shares = share(bytes);
                points.push(Deadline { at_ms: bucket.last_ms, bytes });
            }
        }
        Deadlines(points.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(from_ms: u64, values: &[(u64, u64)]) -> Counter {
        let mut counter = Counter::new(from_ms);
        values.iter().for_each(|&(at_ms, bytes)| counter.add(at_ms, bytes));
        counter
    }

    fn expired(values: &[(u64, u64)], now_ms: u64) -> u64 {
        values.iter().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, bytes)| bytes).sum()
    }

    #[test]
    fn a_steady_rate_of_one_lifetime_is_known_to_a_tenth() {
        // A value each second for a quarter of an hour, each living for a minute, merged when the last one is written.
        let values: Vec<(u64, u64)> = (0..900).map(|second| (1_000_000 + (second + 60) * 1000, 100)).collect();
        let deadlines = counted(1_000_000 + 900_000, &values).finish();
        for second in 900..960 {
            let now_ms = 1_000_000 + second * 1000;
            let (known, exact) = (deadlines.expired_bytes(now_ms), expired(&values, now_ms));
            assert!(known <= exact && exact - known <= 9_000, "second {second}: {known} of {exact}");
        }
        assert!(deadlines.all_expired(1_000_000 + 960_000) && !deadlines.all_expired(1_000_000 + 958_999));
    }

    proptest! {
        #[test]
        fn every_point_is_exact_and_nothing_is_called_expired_too_early(
            from_ms in 0_u64..100_000,
            values in proptest::collection::vec((1_u64..200_000, 0_u64..5_000), 0..200),
            far in proptest::collection::vec((any::<u64>().prop_map(|at| at.max(1)), 0_u64..5_000), 0..5),
            now_ms in 0_u64..250_000,
        ) {
            let values: Vec<(u64, u64)> = values.into_iter().chain(far).collect();
            let counter = counted(from_ms, &values);
            let deadlines = counter.finish();
            prop_assert!(deadlines.points().len() <= POINTS_MAX);
            for point in deadlines.points() {
                prop_assert_eq!(point.bytes, expired(&values, point.at_ms));
            }
            prop_assert_eq!(deadlines.points().last().map(|last| last.at_ms), values.iter().map(|(at, _)| *at).max());
            prop_assert!(deadlines.expired_bytes(now_ms) <= counter.expired_bytes(now_ms));
            prop_assert!(counter.expired_bytes(now_ms) <= expired(&values, now_ms));
            let mut bytes = Vec::new();
            deadlines.encode(&mut bytes);
            let mut rest = &bytes[..];
            prop_assert_eq!(Deadlines::decode(&mut rest), Some(deadlines));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            if let Some(deadlines) = Deadlines::decode(&mut rest) {
                let mut again = Vec::new();
                deadlines.encode(&mut again);
                prop_assert_eq!(Deadlines::decode(&mut &again[..]), Some(deadlines));
            }
        }

        #[test]
        fn what_is_taken_back_does_not_count(values in proptest::collection::vec((1_u64..9_000, 1_u64..99), 1..50)) {
            let mut counter = counted(500, &values);
            values.iter().for_each(|&(at_ms, bytes)| counter.remove(at_ms, bytes));
            prop_assert_eq!(counter.expired_bytes(u64::MAX), 0);
        }
    }
}
