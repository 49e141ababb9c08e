//! The figures that an outcome is made of: shares, latencies, stalls, bytes, tails.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A share over all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// That of the worst partition.
    pub min: f64,
    /// The mean of all partitions.
    pub avg: f64,
    /// That of the best partition.
    pub max: f64,
}

impl Spread {
    /// The spread of some shares.
    pub fn of(shares: &[f64]) -> Self {
        let min = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let max = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if shares.is_empty() {
            return Self::default();
        }
        Self { min, avg: shares.iter().sum::<f64>() / shares.len() as f64, max }
    }
}

/// A latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub avg: f64,
    /// Half are faster.
    pub p50: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// The latency in `histogram`, whose values are nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let us = |nanos: u64| nanos as f64 / 1e3;
        Self {
            avg: if histogram.is_empty() { 0.0 } else { histogram.mean() / 1e3 },
            p50: us(histogram.value_at_quantile(0.5)),
            p99: us(histogram.value_at_quantile(0.99)),
            p999: us(histogram.value_at_quantile(0.999)),
            max: us(histogram.max()),
        }
    }
}

/// Writes that the tree slowed or stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// How long they waited, added up.
    pub seconds: f64,
}

/// Device bytes by cause; `user` is what clients wrote, keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Written by clients.
    pub user: u64,
    /// Written to logs.
    pub log: u64,
    /// Flushes of memtables to level 0.
    pub flush: u64,
    /// Level 0 to level 0 or 1, read and written.
    pub l0: u64,
    /// Compactions below level 0 to 1.
    pub deep: u64,
    /// Read for clients.
    pub read: u64,
    /// Everything else.
    pub other: u64,
}

impl Bytes {
    /// Flushes and compactions.
    pub fn background(&self) -> u64 {
        self.flush + self.l0 + self.deep
    }

    /// Everything that passed the device.
    pub fn device(&self) -> u64 {
        self.background() + self.log + self.read + self.other
    }

    /// The sum of these and `others`.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        Self {
            user: self.user + others.user,
            log: self.log + others.log,
            flush: self.flush + others.flush,
            l0: self.l0 + others.l0,
            deep: self.deep + others.deep,
            read: self.read + others.read,
            other: self.other + others.other,
        }
    }

    /// The bytes added since `earlier`; 0 for a cause that has become less. A peer tells what its jobs read and wrote
    /// only when they have ended, and until then it counts those bytes as something else.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            log: self.log.saturating_sub(earlier.log),
            flush: self.flush.saturating_sub(earlier.flush),
            l0: self.l0.saturating_sub(earlier.l0),
            deep: self.deep.saturating_sub(earlier.deep),
            read: self.read.saturating_sub(earlier.read),
            other: self.other.saturating_sub(earlier.other),
        }
    }
}

/// `part` of `whole`; 0 of nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The operations of the second that 99 of 100 seconds exceed; `per_sec` has those of each second (CR-1).
pub fn tail(per_sec: impl Iterator<Item = u64>) -> u64 {
    let mut done: Vec<u64> = per_sec.collect();
    done.sort_unstable_by(|a, b| b.cmp(a));
    done.get(done.len() * 99 / 100).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_496th_of_500_seconds() {
        // CR-1: of 500 values, index 495 from 0 in descending order.
        assert_eq!([tail(1..=500), tail(1..=100), tail([7].into_iter()), tail([].into_iter())], [5, 1, 7, 0]);
    }
}
