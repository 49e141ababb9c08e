//! How long clients waited for their replies, in a bounded histogram. It costs one store on the path of a request.
//!
//! The time runs from the moment when the bytes of a request were read to the moment when its reply was handed to the
//! kernel. It includes the waits for the tenant's own units, for the disk, and for the commands in front of it in the
//! pipeline. Buckets are a quarter of a power of two wide, from a microsecond on, so that a percentile is right to
//! about 19 %. Counts only grow; the difference of two readings tells what happened between them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets: from 1 us to beyond 4,000 s.
pub const BUCKETS: usize = 4 * 32 + 1;

/// Replies of one thread. Only that thread adds.
pub(crate) struct Latency([AtomicU64; BUCKETS]);

impl Default for Latency {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Latency {
    /// Counts `replies` replies that took `nanos` each.
    #[inline]
    pub(crate) fn add(&self, nanos: u64, replies: u64) {
        let bucket = &self.0[bucket(nanos)];
        bucket.store(bucket.load(Ordering::Relaxed) + replies, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sums: &mut [u64]) {
        sums.iter_mut().zip(&self.0).for_each(|(sum, bucket)| *sum += bucket.load(Ordering::Relaxed));
    }
}

/// The first bucket is everything below a microsecond.
fn bucket(nanos: u64) -> usize {
    let micros = nanos / 1000;
    let Some(power) = micros.checked_ilog2() else { return 0 };
    // The two bits below the highest.
    let quarter = if power >= 2 { micros >> (power - 2) } else { micros << (2 - power) } & 3;
    (1 + 4 * power as usize + quarter as usize).min(BUCKETS - 1)
}

/// The lower end of a bucket, in microseconds.
pub(crate) fn lower_micros(bucket: usize) -> u64 {
    bucket.checked_sub(1).map_or(0, upper_micros)
}

/// The upper end of a bucket, in microseconds.
pub(crate) fn upper_micros(bucket: usize) -> u64 {
    let Some(bucket) = bucket.checked_sub(1) else { return 1 };
    ((5 + bucket as u64 % 4) << (bucket / 4)).div_ceil(4)
}

/// The microseconds that `percent` of the replies counted in `counts` did not exceed; `None` if there were none.
pub fn percentile(counts: &[u64], percent: f64) -> Option<u64> {
    let all: u64 = counts.iter().sum();
    let rank = ((all as f64 * percent / 100.0).ceil() as u64).clamp(1, all.max(1));
    let mut below = 0;
    let bucket = counts.iter().position(|count| {
        below += count;
        below >= rank
    });
    bucket.filter(|_| all > 0).map(upper_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_quarter_of_a_power_of_two() {
        for micros in [1_u64, 2, 3, 5, 9, 17, 100, 999, 12_345, 1_000_000, 3_000_000_000] {
            let latency = Latency::default();
            latency.add(micros * 1000, 3);
            let mut counts = vec![0; BUCKETS];
            latency.add_to(&mut counts);
            let found = percentile(&counts, 50.0).expect("counted");
            assert!(found >= micros && found as f64 <= micros as f64 * 1.26 + 1.0, "{micros} us became {found}");
        }
        let latency = Latency::default();
        latency.add(900, 1);
        latency.add(50_000, 98);
        latency.add(u64::MAX, 1);
        let mut counts = vec![0; BUCKETS];
        latency.add_to(&mut counts);
        assert_eq!((percentile(&counts, 0.5), percentile(&counts, 50.0)), (Some(1), Some(56)));
        assert_eq!(percentile(&counts, 99.0), Some(56));
        assert!(percentile(&counts, 99.9) > Some(1_000_000_000));
        assert_eq!(percentile(&[0; BUCKETS], 50.0), None);
    }
}
