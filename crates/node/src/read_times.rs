//! How long a partition's reads waited for the device, between two ticks of the policies (U-23).
//!
//! Reads that memory answers are not timed and cost nothing here. Reads that go to the device cost two looks at the
//! clock and two additions. Times are counted in buckets that divide each power of two into quarters, from a
//! microsecond on, so a percentile is accurate to a fifth.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_io::Nanos;

/// Up to 8 s; the last bucket has all longer times.
const BUCKETS: usize = 4 * 23;
/// Fewer reads say nothing about the slowest in a hundred.
const READS_MIN: u32 = 100;

/// A histogram of the times of reads from the device.
#[derive(Debug)]
pub(crate) struct ReadTimes {
    reads: AtomicU32,
    buckets: [AtomicU32; BUCKETS],
}

impl Default for ReadTimes {
    fn default() -> Self {
        Self { reads: AtomicU32::new(0), buckets: [const { AtomicU32::new(0) }; BUCKETS] }
    }
}

impl ReadTimes {
    /// A read waited for `nanos` nanoseconds.
    pub fn add(&self, nanos: Nanos) {
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        // After its bucket: whoever sees enough reads here finds them in the buckets, except for a few that count next
        // time.
        self.reads.fetch_add(1, Ordering::Release);
    }

    /// The time that 99 of 100 reads since the last call did not exceed, in nanoseconds, rounded up to the end of a
    /// bucket. `None` if there were fewer than 100 reads; they are kept for the next call. For one caller.
    pub fn take_p99(&self) -> Option<Nanos> {
        if self.reads.load(Ordering::Acquire) < READS_MIN {
            return None;
        }
        self.reads.store(0, Ordering::Relaxed);
        let counts = self.buckets.each_ref().map(|bucket| bucket.swap(0, Ordering::Relaxed));
        let all: u64 = counts.iter().copied().map(u64::from).sum();
        let mut above = all / 100;
        let slowest = counts.iter().rposition(|&count| match above.checked_sub(u64::from(count)) {
            Some(rest) => {
                above = rest;
                false
            }
            None => true,
        });
        slowest.map(upper_end)
    }
}

/// The bucket of a time. The first bucket is everything below a microsecond and a quarter.
fn bucket(nanos: Nanos) -> usize {
    let micros = (nanos / 250).max(4);
    let power = micros.ilog2() - 2;
    // The two bits below the highest.
    (4 * power as usize + (micros >> power & 3) as usize).min(BUCKETS - 1)
}

/// The upper end of a bucket, in nanoseconds.
fn upper_end(bucket: usize) -> Nanos {
    ((5 + bucket as u64 % 4) << (bucket / 4)) * 250
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_right_to_a_quarter_of_a_power_of_two() {
        for nanos in [1, 999, 1_250, 1_500, 2_000, 90_000, 100_000, 12_345_678, 5_000_000_000] {
            let times = ReadTimes::default();
            (0..99).for_each(|_| times.add(nanos));
            assert_eq!(times.take_p99(), None, "too few to say");
            times.add(3 * nanos);
            let p99 = times.take_p99().expect("a hundred");
            assert!(p99 > nanos && p99 <= (nanos + nanos / 4).max(1_250), "{nanos} ns became {p99}");
            assert_eq!(times.take_p99(), None, "they are taken");
        }
    }

    #[test]
    fn two_slow_ones_of_a_hundred_are_seen() {
        let times = ReadTimes::default();
        (0..98).for_each(|_| times.add(100_000));
        (0..2).for_each(|_| times.add(9_000_000));
        assert!(times.take_p99().is_some_and(|p99| p99 > 9_000_000));
        (0..100).for_each(|_| times.add(Nanos::MAX));
        assert_eq!(times.take_p99(), Some(upper_end(BUCKETS - 1)), "whatever it is");
    }
}
