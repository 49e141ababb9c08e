//! What clients saw of a load.

use hdrhistogram::Histogram;
use weir_admission::cost::{read_units, write_units};
use weir_io::Nanos;

use crate::by_kind::ByKind;
use crate::by_state::ByState;
use crate::data::Sizes;
use crate::outcome::{Latency, Operations, Second, Stalls, TenantRow};
use crate::pattern::SECOND;
use crate::preload::tenant;

/// A write that is done within this time is *normally served*. This is stricter than U-21, which does not count time
/// that passes before the write path.
pub const NORMAL: Nanos = 1_000_000;
/// A read answered within this time is in time. A scaled device takes milliseconds for a page, so this cannot be a
/// millisecond.
pub const IN_TIME: Nanos = 100_000_000;

/// What clients saw, counted as it happens.
pub struct Tally {
    /// Latencies of writes, in nanoseconds.
    pub writes: Histogram<u64>,
    /// Latencies of reads, in nanoseconds.
    pub reads: Histogram<u64>,
    /// Latencies of writes in the second under way.
    pub writes_now: Histogram<u64>,
    /// Latencies of reads in the second under way.
    pub reads_now: Histogram<u64>,
    /// Writes done in the second under way, and how many of them were normally served.
    pub done_now: (u64, u64),
    /// For each partition: writes that were to be sent, and how many of them were normally served.
    pub partitions: Vec<(u64, u64)>,
    /// Reads answered in the second under way.
    pub reads_done_now: u64,
    /// For each partition: reads that were to be sent, and how many of them were answered in time ([`IN_TIME`]).
    pub partition_reads: Vec<(u64, u64)>,
    /// Reads that failed or could not be sent.
    pub reads_failed: u64,
    /// Every operation once, by kind, in the seconds that count.
    pub by_kind: ByKind,
    /// Reads, and writes of queues, by whether their partition was awake when they were sent.
    pub by_state: ByState,
    /// What each partition's clients saw.
    of_each: Vec<OfOne>,
    /// Seconds that have ended.
    seconds: u64,
}

/// What one partition's clients saw: to 1 %, because there may be a thousand partitions.
struct OfOne {
    done: Operations,
    writes: Histogram<u64>,
    reads: Histogram<u64>,
    /// The second in which an operation was answered late for the first time.
    first_late: Option<u64>,
}

impl OfOne {
    fn new() -> Self {
        // Histograms that grow with what they hold.
        let growing = || Histogram::new(2).expect("a constant precision is valid");
        Self { done: Operations::default(), writes: growing(), reads: growing(), first_late: None }
    }

    fn note_late(&mut self, second: u64) {
        self.first_late.get_or_insert(second);
    }
}

impl Tally {
    /// A tally of nothing yet. How even the service is counts after `warm_up` seconds.
    pub fn new(partitions: usize, warm_up: u64) -> Self {
        Self {
            writes: histogram(3),
            reads: histogram(3),
            writes_now: histogram(2),
            reads_now: histogram(2),
            done_now: (0, 0),
            partitions: vec![(0, 0); partitions],
            reads_done_now: 0,
            partition_reads: vec![(0, 0); partitions],
            reads_failed: 0,
            by_kind: ByKind::new(warm_up),
            by_state: ByState::default(),
            of_each: (0..partitions).map(|_| OfOne::new()).collect(),
            seconds: 0,
        }
    }

    /// Notes a write of `partition` that was answered `waited` after it was to be sent; if not `done`, it was given up
    /// then.
    pub fn wrote(&mut self, partition: usize, waited: Nanos, done: bool) {
        let normal = done && waited <= NORMAL;
        self.writes.saturating_record(waited);
        let (all, served) = &mut self.partitions[partition];
        *all += 1;
        *served += u64::from(normal);
        let one = &mut self.of_each[partition];
        record(&mut one.writes, waited);
        one.done.writes += u64::from(done);
        if !normal {
            one.note_late(self.seconds);
        }
        if done {
            self.writes_now.saturating_record(waited);
            self.done_now.0 += 1;
            self.done_now.1 += u64::from(normal);
        }
    }

    /// Notes a read of `partition` that was answered `waited` after it was to be sent.
    pub fn read(&mut self, partition: usize, waited: Nanos) {
        self.reads.saturating_record(waited);
        self.reads_now.saturating_record(waited);
        self.reads_done_now += 1;
        let one = &mut self.of_each[partition];
        record(&mut one.reads, waited);
        one.done.reads += 1;
        let is_in_time = waited <= IN_TIME;
        if !is_in_time {
            one.note_late(self.seconds);
        }
        self.partition_reads[partition].1 += u64::from(is_in_time);
    }

    /// Moves what was counted in the second under way into `second`.
    pub fn end_second(&mut self, second: &mut Second) {
        self.seconds += 1;
        (second.served, second.normally) = std::mem::take(&mut self.done_now);
        second.reads = std::mem::take(&mut self.reads_done_now);
        second.write_us = percentiles(&mut self.writes_now);
        second.read_us = percentiles(&mut self.reads_now);
        second.operations = self.by_kind.end_second();
    }

    /// The rows of all tenants, whose items have `sizes`, without stalls and device bytes, which the tally does not
    /// know.
    pub fn rows(&self, sizes: Sizes) -> Vec<TenantRow> {
        let units = |done: u64, units: fn(u64) -> u64| (done as f64 * sizes.units(units)).round() as u64;
        let row = |(partition, one): (usize, &OfOne)| {
            let ((writes, served), (reads, in_time)) = (self.partitions[partition], self.partition_reads[partition]);
            TenantRow {
                tenant: tenant(partition).to_string(),
                partition,
                sent: Operations { writes, reads },
                done: one.done,
                units: Operations {
                    writes: units(one.done.writes, write_units),
                    reads: units(one.done.reads, read_units),
                },
                normally_served: share(writes, served),
                latency_us: Latency::of(&one.writes),
                reads_in_time: (reads > 0).then(|| share(reads, in_time)),
                read_latency_us: Latency::of(&one.reads),
                first_late_second: one.first_late,
                stalls: Stalls::default(),
                bytes: None,
            }
        };
        self.of_each.iter().enumerate().map(row).collect()
    }

    /// For each partition, the share of its writes that were normally served.
    pub fn shares(&self) -> Vec<f64> {
        shares(&self.partitions)
    }

    /// For each partition, the share of its reads that were answered in time.
    pub fn read_shares(&self) -> Vec<f64> {
        shares(&self.partition_reads)
    }
}

fn shares(counts: &[(u64, u64)]) -> Vec<f64> {
    counts.iter().map(|&(all, served)| share(all, served)).collect()
}

/// The share that was served; all, if there was nothing to serve.
fn share(all: u64, served: u64) -> f64 {
    if all == 0 { 1.0 } else { served as f64 / all as f64 }
}

/// The longest time that can be told from longer ones.
const LONGEST: Nanos = 600 * SECOND;

/// A histogram of nanoseconds up to ten minutes.
fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, digits).expect("constant bounds are valid")
}

/// Records by a call that lets the histogram grow; the call that saturates would not.
fn record(histogram: &mut Histogram<u64>, waited: Nanos) {
    histogram.record(waited.min(LONGEST)).expect("it grows up to ten minutes");
}

fn percentiles(histogram: &mut Histogram<u64>) -> [f64; 3] {
    let found = [0.5, 0.99, 0.999].map(|quantile| histogram.value_at_quantile(quantile) as f64 / 1e3);
    histogram.reset();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_has_a_row_of_what_its_own_clients_saw() {
        let mut tally = Tally::new(3, 0);
        tally.wrote(0, 500_000, true);
        tally.end_second(&mut Second::default());
        tally.wrote(0, 3_000_000_000, true);
        tally.end_second(&mut Second::default());
        tally.wrote(2, 700 * SECOND, true);
        tally.wrote(0, 5 * SECOND, false);
        tally.partition_reads[2].0 = 2;
        tally.read(2, 1_000_000);
        let rows = tally.rows(Sizes::Same(5_000));
        let of = |row: &TenantRow| (row.tenant.clone(), row.sent, row.done, row.units);
        let operations = |writes, reads| Operations { writes, reads };
        assert_eq!(of(&rows[0]), ("t0000".into(), operations(3, 0), operations(2, 0), operations(10, 0)));
        assert_eq!(of(&rows[1]), ("t0001".into(), operations(0, 0), operations(0, 0), operations(0, 0)));
        assert_eq!(of(&rows[2]), ("t0002".into(), operations(1, 2), operations(1, 1), operations(5, 2)));
        assert_eq!(rows.iter().map(|row| row.first_late_second).collect::<Vec<_>>(), [Some(1), None, Some(2)]);
        let shares: Vec<_> = rows.iter().map(|row| (row.normally_served, row.reads_in_time)).collect();
        assert_eq!(shares, [(1.0 / 3.0, None), (1.0, None), (0.0, Some(0.5))]);
        let about = |us: f64, nanos: u64| (us * 1e3 / nanos as f64 - 1.0).abs() < 0.01;
        let latencies =
            [rows[0].latency_us.p50, rows[0].latency_us.max, rows[2].latency_us.max, rows[2].read_latency_us.max];
        for (us, nanos) in latencies.into_iter().zip([3_000_000_000, 5_000_000_000, LONGEST, 1_000_000]) {
            assert!(about(us, nanos), "{us} us and not {nanos} ns");
        }
    }
}
