//! What happens per second: the difference of two counts.

use std::collections::BTreeMap;

use clap::ValueEnum;
use weir_gateway::admin::wire::{Top, TopTenant};
use weir_gateway::latency::{self, percentile};
use weir_node::waits::Waits;

/// What one tenant does, per second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its state: active, noisy, asleep, suspended.
    pub state: &'static str,
    /// Keys read.
    pub reads: u64,
    /// Batches written.
    pub writes: u64,
    /// Bytes that its clients read.
    pub read_bytes: u64,
    /// Bytes that its clients wrote.
    pub written_bytes: u64,
    /// Device bytes, read and written, in the order of [`CAUSES`].
    pub device: [u64; CAUSES.len()],
    /// Milliseconds that its requests waited, summed over all of them, in the order of
    /// [`Cause::NAMES`](weir_node::waits::Cause::NAMES).
    pub waited_ms: Waits,
    /// Half of the replies took at most this many microseconds, as clients see it; `None` if there were no replies.
    pub p50_micros: Option<u64>,
    /// The same for 99 of a hundred replies.
    pub p99_micros: Option<u64>,
    /// Processor time of the threads that serve clients, in hundredths of one processor.
    pub processor_percent: u64,
    /// Requests delayed by its own limit.
    pub delayed: u64,
    /// Requests refused by its own limit.
    pub refused: u64,
}

const NANOS_OF_SECOND: u64 = 1_000_000_000;

/// The causes of device I/O, as the server calls them.
pub const CAUSES: [&str; 6] = ["read", "log", "flush", "l0", "deep", "maintenance"];

/// All tenants, per second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Open connections.
    pub connections: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Blocks found in the cache, of a hundred looked for; `None` if none was looked for.
    pub cache_hit_percent: Option<u64>,
    /// What the tenants have bought, in hundredths of the device, if it is known what the device gives.
    pub sold_percent: Option<u64>,
    /// Tenants that exist.
    pub tenants: usize,
    /// One row for each tenant.
    pub rows: Vec<Row>,
}

/// What rows are sorted by, the largest first (names: in the order of the alphabet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The tenant's name
    Name,
    /// Reads and writes
    #[default]
    Ops,
    /// Device bytes, all causes
    Device,
    /// Time that requests waited
    Waits,
    /// Processor time
    Processor,
    /// Delays and refusals
    Throttles,
}

impl Sort {
    /// The next one; after the last one the first.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|&sort| sort == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Ops => "ops",
            Sort::Device => "device",
            Sort::Waits => "waits",
            Sort::Processor => "processor",
            Sort::Throttles => "throttles",
        }
    }
}

impl Row {
    /// Milliseconds that its requests waited, for all causes.
    pub fn waited(&self) -> u64 {
        sum(&self.waited_ms)
    }

    /// What its requests waited for most, as one word; `None` if they did not wait.
    pub fn waited_for(&self) -> Option<&'static str> {
        let words = ["units", "queue", "stall", "share", "disk"];
        let most = self.waited_ms.iter().zip(words).max_by_key(|(ms, _)| **ms);
        most.filter(|(ms, _)| **ms > 0).map(|(_, word)| word)
    }

    fn weight(&self, sort: Sort) -> u64 {
        match sort {
            Sort::Name => 0,
            Sort::Ops => self.reads.saturating_add(self.writes),
            Sort::Device => sum(&self.device),
            Sort::Waits => self.waited(),
            Sort::Processor => self.processor_percent,
            Sort::Throttles => self.delayed.saturating_add(self.refused),
        }
    }
}

/// Figures come from a server: a sum of senseless ones must be a large number, not a panic.
fn sum(figures: &[u64]) -> u64 {
    figures.iter().copied().fold(0, u64::saturating_add)
}

impl Rates {
    /// What happened between `before` and `now`. Counters that went back (the server has been started again) count from
    /// 0.
    pub fn between(before: &Top, now: &Top, sort: Sort) -> Self {
        let nanos = now.at_nanos.saturating_sub(before.at_nanos).max(1);
        let per_second = |now: u64, before: u64| {
            let more = now.checked_sub(before).unwrap_or(now);
            u64::try_from(u128::from(more) * u128::from(NANOS_OF_SECOND) / u128::from(nanos)).unwrap_or(u64::MAX)
        };
        // By number: a tenant may have been dropped, and its name created again.
        let old: BTreeMap<u32, &TopTenant> = before.tenants.iter().map(|tenant| (tenant.id, tenant)).collect();
        let fresh = TopTenant::default();
        let row = |tenant: &TopTenant| {
            let old = old.get(&tenant.id).copied().unwrap_or(&fresh);
            let rate = |count: fn(&TopTenant) -> u64| per_second(count(tenant), count(old));
            let replies = replies(tenant, old);
            Row {
                name: tenant.name.clone(),
                state: state(tenant),
                reads: rate(|tenant| tenant.reads),
                writes: rate(|tenant| tenant.writes),
                read_bytes: rate(|tenant| tenant.read_bytes),
                written_bytes: rate(|tenant| tenant.written_bytes),
                device: CAUSES.map(|class| per_second(device(tenant, class), device(old, class))),
                waited_ms: std::array::from_fn(|cause| {
                    per_second(tenant.waited_nanos[cause], old.waited_nanos[cause]) / 1_000_000
                }),
                p50_micros: percentile(&replies, 50.0),
                p99_micros: percentile(&replies, 99.0),
                processor_percent: rate(|tenant| tenant.processor_nanos) / (NANOS_OF_SECOND / 100),
                delayed: rate(|tenant| tenant.delayed),
                refused: rate(|tenant| tenant.refused),
            }
        };
        let mut rows: Vec<Row> = now.tenants.iter().map(row).collect();
        rows.sort_by(|a, b| b.weight(sort).cmp(&a.weight(sort)).then_with(|| a.name.cmp(&b.name)));
        let more = |count: fn(&Top) -> u64| count(now).checked_sub(count(before));
        // Both count from 0 again if one went back: a short life may have had more of the other than the one before it.
        let (hits, misses) =
            more(|top| top.cache_hits).zip(more(|top| top.cache_misses)).unwrap_or((now.cache_hits, now.cache_misses));
        let looked_for = hits.saturating_add(misses);
        let hits_percent = (u128::from(hits) * 100).checked_div(u128::from(looked_for));
        Self {
            connections: now.connections,
            cache_bytes: now.cache_bytes,
            cache_hit_percent: hits_percent.and_then(|percent| u64::try_from(percent).ok()),
            sold_percent: now.sold_percent,
            tenants: now.tenants.len(),
            rows,
        }
    }

    /// The sum of all rows.
    pub fn total(&self) -> Row {
        let all = |figure: &dyn Fn(&Row) -> u64| self.rows.iter().map(figure).fold(0, u64::saturating_add);
        Row {
            name: "all".to_owned(),
            state: "",
            reads: all(&|row| row.reads),
            writes: all(&|row| row.writes),
            read_bytes: all(&|row| row.read_bytes),
            written_bytes: all(&|row| row.written_bytes),
            device: std::array::from_fn(|cause| all(&|row| row.device[cause])),
            waited_ms: std::array::from_fn(|cause| all(&|row| row.waited_ms[cause])),
            p50_micros: None,
            p99_micros: None,
            processor_percent: all(&|row| row.processor_percent),
            delayed: all(&|row| row.delayed),
            refused: all(&|row| row.refused),
        }
    }
}

fn state(tenant: &TopTenant) -> &'static str {
    match (tenant.suspended, tenant.is_noisy, tenant.awake) {
        (true, ..) => "suspended",
        (_, true, _) => "noisy",
        (.., 0) => "asleep",
        _ => "active",
    }
}

/// The replies since `before`, by how long they took.
fn replies(now: &TopTenant, before: &TopTenant) -> Vec<u64> {
    let mut counts = vec![0; latency::BUCKETS];
    let mut each = |tenant: &TopTenant, change: fn(u64, u64) -> u64| {
        for &[bucket, count] in &tenant.latency {
            if let Some(sum) = usize::try_from(bucket).ok().and_then(|bucket| counts.get_mut(bucket)) {
                *sum = change(*sum, count);
            }
        }
    };
    each(now, u64::saturating_add);
    // A server that was started again counts from nothing.
    each(before, |sum, count| if sum < count { sum } else { sum - count });
    counts
}

/// Bytes that were moved to free the space of dead data count with the deep compactions, which they run beside.
fn device(tenant: &TopTenant, class: &str) -> u64 {
    let is_of = |of: &str| of == class || (class == "deep" && of == "reclaim");
    tenant
        .device
        .iter()
        .filter(|cause| is_of(&cause.class))
        .map(|cause| cause.read.saturating_add(cause.written))
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use weir_gateway::admin::wire::Cause;

    use super::*;

    fn top(at_nanos: u64, reads: u64, flushed: u64) -> Top {
        let device = vec![Cause { class: "flush".into(), read: 0, written: flushed }];
        let busy = TopTenant { name: "busy".into(), id: 2, awake: 1, reads, device, ..TopTenant::default() };
        let idle = TopTenant { name: "idle".into(), id: 3, ..TopTenant::default() };
        Top { at_nanos, cache_hits: reads, cache_misses: reads / 3, tenants: vec![idle, busy], ..Top::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = Rates::between(&top(0, 100, 0), &top(2_000_000_000, 400, 1000), Sort::Ops);
        let row = &rates.rows[0];
        assert_eq!((row.name.as_str(), row.reads, row.device[2], row.state), ("busy", 150, 500, "active"));
        assert_eq!((rates.rows[1].state, rates.cache_hit_percent), ("asleep", Some(75)));
        assert_eq!(rates.total().reads, 150);
        assert_eq!(Rates::between(&top(0, 1, 0), &top(1, 1, 0), Sort::Name).cache_hit_percent, None);
        assert_eq!(Rates::between(&top(0, 1, 0), &top(1, 1, 0), Sort::Name).rows[0].name, "busy");
    }

    #[test]
    fn who_goes_behind_is_marked_and_what_it_uses_is_parts_of_a_processor() {
        let with = |at_nanos, processor_nanos, suspended| {
            let noisy =
                TopTenant { name: "flood".into(), is_noisy: true, processor_nanos, suspended, ..TopTenant::default() };
            Top { at_nanos, tenants: vec![noisy], ..Top::default() }
        };
        let row = |suspended| {
            let rates =
                Rates::between(&with(0, 0, false), &with(2_000_000_000, 700_000_000, suspended), Sort::Processor);
            (rates.rows[0].state, rates.total().processor_percent)
        };
        assert_eq!((row(false), row(true)), (("noisy", 35), ("suspended", 35)));
    }

    #[test]
    fn percentiles_are_of_the_replies_in_between() {
        let with = |latency: &[[u64; 2]]| {
            let tenant = TopTenant { name: "t".into(), latency: latency.to_vec(), ..TopTenant::default() };
            Top { tenants: vec![tenant], ..Top::default() }
        };
        // Bucket 25 is 64 to 80 microseconds, 41 is 1,024 to 1,280.
        let before = with(&[[41, 1000]]);
        let row = |now: &Top| Rates::between(&before, now, Sort::Ops).rows[0].clone();
        let after = row(&with(&[[25, 98], [41, 1002], [9999, 5]]));
        assert_eq!((after.p50_micros, after.p99_micros), (Some(80), Some(1280)));
        assert_eq!(row(&before).p50_micros, None);
    }

    #[test]
    fn a_server_started_again_counts_from_nothing() {
        let rates = Rates::between(&top(5_000_000_000, 1000, 9), &top(6_000_000_000, 10, 1), Sort::Device);
        assert_eq!((rates.rows[0].reads, rates.rows[0].device[2]), (10, 1));
        let top = |cache_hits, cache_misses| Top { cache_hits, cache_misses, ..Top::default() };
        for before in [top(1000, 1000), top(1000, 3), top(3, 1000)] {
            let rates = Rates::between(&before, &top(90, 10), Sort::Ops);
            assert_eq!(rates.cache_hit_percent, Some(90), "{} {}", before.cache_hits, before.cache_misses);
        }
    }

    #[test]
    fn sorts_go_round() {
        assert_eq!(Sort::Throttles.next(), Sort::Name);
        assert_eq!(Sort::default().next().name(), "device");
    }
}
