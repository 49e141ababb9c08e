//! What each tenant holds and how it is served: bytes on disk, connections, the times of its replies; and what was sold
//! to all of them.
//!
//! Thousands of tenants must not make thousands of series. So each metric shows only the [`TENANTS_MAX`] tenants for
//! which it matters most.
//!
//! Times are a classic histogram, not a summary: quantiles since the start of a process say nothing about the last
//! minutes, and cannot be combined over nodes. Its twelve bounds are bounds of the finer buckets that are counted
//! anyway ([`latency`]), so nothing is estimated. They are powers of two where most replies are, and then powers of
//! four.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_node::{DiskUse, Node, Tenant};

use super::ledger::TENANTS_MAX;
use super::{Sheet, alone};
use crate::auth::Refusal;
use crate::latency;
use crate::listener::Observer;
use crate::store::Store;
use crate::tenant::account::TenantConnections;

/// Bounds of the histogram, in microseconds.
const BOUNDS_MICROS: [u64; 12] =
    [1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];

pub(super) fn write<S: Store>(gateway: &Observer<S>, node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let tenants = node.tenants();
    let disks = tenants.iter().map(|tenant| Disk {
        name: tenant.name().as_str(),
        used: tenant.disk_use(),
        max: tenant.settings().disk_bytes_max,
    });
    disk(sheet, &fullest(disks.collect()))?;
    memory(sheet, &tenants)?;
    connections(sheet, &most_crowded(gateway.connections_by_tenant()))?;
    logins(sheet, gateway.logins_refused())?;
    replies(sheet, &gateway.busiest_latencies(TENANTS_MAX))?;
    sold(sheet, node)
}

fn sold(sheet: &mut Sheet<'_>, node: &Node) -> fmt::Result {
    let sold = node.sold();
    let units = [([("unit", "read")], sold.rcu), ([("unit", "write")], sold.wcu)];
    sheet.gauge("weir_sold_units", "Capacity units a second that tenants have bought", None, units)?;
    let help =
        "Device bytes a second that these capacity units would take, all used at once, before flushes and compactions";
    sheet.gauge("weir_sold", help, Some(&Unit::Bytes), alone(sold.bytes))?;
    if let (Some(there), Some(times)) = (sold.device_bytes, sold.times) {
        let help = "Bytes a second that the device gives";
        sheet.gauge("weir_device_bandwidth", help, Some(&Unit::Bytes), alone(there))?;
        sheet.samples("weir_sold_ratio", "How many times the device is sold", None, alone(ConstGauge::new(times)))?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Disk<'a> {
    name: &'a str,
    used: DiskUse,
    /// 0 = no limit.
    max: u64,
}

/// Sorts first by how much of its limit a tenant uses, then by its bytes.
fn fullest(mut disks: Vec<Disk<'_>>) -> Vec<Disk<'_>> {
    disks.retain(|disk| disk.used.stored > 0 || disk.max > 0);
    disks.sort_by_key(|disk| Reverse((share(disk.used.living, disk.max), disk.used.stored)));
    disks.truncate(TENANTS_MAX);
    disks
}

/// The used share in thousandths; 0 if there is no limit.
fn share(used: u64, max: u64) -> u128 {
    (u128::from(used) * 1000).checked_div(u128::from(max)).unwrap_or(0)
}

fn disk(sheet: &mut Sheet<'_>, disks: &[Disk<'_>]) -> fmt::Result {
    let rows = || disks.iter().map(|disk| ([("tenant", disk.name)], disk));
    let stored = rows().map(|(labels, disk)| (labels, disk.used.stored));
    let help = "Bytes of the tenant's tables and memtables, with deleted or expired data that is not merged away yet";
    sheet.gauge("weir_tenant_disk", help, Some(&Unit::Bytes), stored)?;
    let living = rows().map(|(labels, disk)| (labels, disk.used.living));
    let help = "The part of the tenant's bytes on disk that is not known to be dead, which counts against its limit";
    sheet.gauge("weir_tenant_disk_living", help, Some(&Unit::Bytes), living)?;
    let limits = rows().filter(|(_, disk)| disk.max > 0).map(|(labels, disk)| (labels, disk.max));
    sheet.gauge("weir_tenant_disk_max", "Living bytes that the tenant may hold on disk", Some(&Unit::Bytes), limits)
}

/// Bytes of tenants whose rows are in memory, the largest first.
fn memory(sheet: &mut Sheet<'_>, tenants: &[Arc<Tenant>]) -> fmt::Result {
    let used = |tenant: &Arc<Tenant>| tenant.memory_use();
    let mut used: Vec<_> = tenants.iter().filter_map(|tenant| Some((tenant, used(tenant)?))).collect();
    used.sort_by_key(|(_, used)| Reverse(*used));
    used.truncate(TENANTS_MAX);
    let rows = || used.iter().map(|(tenant, used)| ([("tenant", tenant.name().as_str())], (tenant, *used)));
    let bytes = rows().map(|(labels, (_, used))| (labels, used));
    let help = "Memory of the tenant's rows, if its engine keeps them in memory";
    sheet.gauge("weir_tenant_memory", help, Some(&Unit::Bytes), bytes)?;
    let limits = rows().map(|(labels, (tenant, _))| (labels, tenant.settings().memory_bytes_max));
    let limits = limits.filter(|(_, max)| *max > 0);
    let help = "Memory that the tenant's rows may take, if it has a limit";
    sheet.gauge("weir_tenant_memory_max", help, Some(&Unit::Bytes), limits)
}

type Connections = (Arc<str>, TenantConnections);

/// Sorts first by how much of its limit a tenant uses, then by refusals, then by connections.
fn most_crowded(mut tenants: Vec<Connections>) -> Vec<Connections> {
    tenants.retain(|(_, it)| it.open > 0 || it.refused > 0);
    tenants.sort_by_key(|(_, it)| Reverse((share(it.open, it.max), it.refused, it.open)));
    tenants.truncate(TENANTS_MAX);
    tenants
}

fn connections(sheet: &mut Sheet<'_>, tenants: &[Connections]) -> fmt::Result {
    let rows = || tenants.iter().map(|(name, it)| ([("tenant", &**name)], it));
    let open = rows().map(|(labels, it)| (labels, it.open));
    sheet.gauge("weir_tenant_connections", "Open connections of the tenant", None, open)?;
    let max = rows().filter(|(_, it)| it.max > 0).map(|(labels, it)| (labels, it.max));
    let help = "Connections that the tenant may have, if it has a limit of its own";
    sheet.gauge("weir_tenant_connections_max", help, None, max)?;
    let refused = rows().map(|(labels, it)| (labels, it.refused));
    let help = "Connections of the tenant that were refused because it had as many as it may have";
    sheet.counter("weir_tenant_connections_refused", help, None, refused)
}

fn logins(sheet: &mut Sheet<'_>, refused: [u64; Refusal::REASONS.len()]) -> fmt::Result {
    let refused = Refusal::REASONS.map(|reason| [("reason", reason)]).into_iter().zip(refused);
    sheet.counter("weir_logins_refused", "Logins and sessions refused, by reason", None, refused)
}

fn replies(sheet: &mut Sheet<'_>, tenants: &[(Arc<str>, Vec<u64>)]) -> fmt::Result {
    let samples = tenants.iter().map(|(name, counts)| ([("tenant", &**name)], Times::of(counts)));
    let help = "Time from a request's arrival until its reply was handed to the kernel";
    sheet.samples("weir_tenant_reply", help, Some(&Unit::Seconds), samples.filter(|(_, times)| times.count > 0))
}

/// A histogram of replies.
#[derive(Debug, PartialEq)]
struct Times {
    seconds: f64,
    count: u64,
    /// The upper bound of each bucket in seconds, and the number of replies in that bucket alone.
    buckets: Vec<(f64, u64)>,
}

impl Times {
    /// The histogram of replies as they are counted ([`latency`]). Their sum is computed from the middles of the fine
    /// buckets, so it is right to a tenth.
    fn of(counts: &[u64]) -> Self {
        let mut buckets: Vec<(f64, u64)> = BOUNDS_MICROS.iter().map(|&bound| (bound as f64 / 1e6, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        let (mut seconds, mut all) = (0.0, 0);
        for (bucket, &count) in counts.iter().enumerate() {
            let (lower, upper) = (latency::lower_micros(bucket), latency::upper_micros(bucket));
            let place = BOUNDS_MICROS.iter().position(|&bound| upper <= bound).unwrap_or(BOUNDS_MICROS.len());
            if let Some((_, sum)) = buckets.get_mut(place) {
                *sum += count;
            }
            seconds += count as f64 * (lower + upper) as f64 / 2e6;
            all += count;
        }
        Self { seconds, count: all, buckets }
    }
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.seconds, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_nearest_to_its_limit_is_shown_first() {
        let disk = |name, bytes, max| Disk { name, used: DiskUse { stored: bytes, living: bytes }, max };
        let some = vec![disk("large", 900, 0), disk("none", 0, 0), disk("full", 10, 10), disk("half", 50, 100)];
        assert_eq!(fullest(some).iter().map(|disk| disk.name).collect::<Vec<_>>(), ["full", "half", "large"]);
        let many = (1..200).map(|bytes| disk("t", bytes, 0));
        assert_eq!(fullest(many.collect()).len(), TENANTS_MAX);
        let tenant = |name: &str, open, max, refused| (Arc::from(name), TenantConnections { open, max, refused });
        let some = vec![
            tenant("many", 900, 0, 0),
            tenant("gone", 0, 5, 0),
            tenant("refused", 1, 0, 3),
            tenant("full", 5, 5, 0),
        ];
        let shown: Vec<_> = most_crowded(some).into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(shown, ["full", "refused", "many"]);
        let many = (1..200).map(|open| tenant("t", open, 0, 0));
        assert_eq!(most_crowded(many.collect()).len(), TENANTS_MAX);
    }

    #[test]
    fn every_bound_is_a_bound_of_what_is_counted() {
        for bound in BOUNDS_MICROS {
            assert!((0..latency::BUCKETS).any(|bucket| latency::upper_micros(bucket) == bound), "{bound}");
        }
    }

    #[test]
    fn replies_are_in_the_bucket_whose_bound_they_do_not_exceed() {
        let latency = latency::Latency::default();
        latency.add(100_000, 3);
        latency.add(1_000_000, 4);
        latency.add(3_600_000_000_000, 1);
        let mut counts = vec![0; latency::BUCKETS];
        latency.add_to(&mut counts);
        let times = Times::of(&counts);
        let full: Vec<_> = times.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!((times.count, full), (8, vec![(0.000_128, 3), (0.001_024, 4), (f64::INFINITY, 1)]));
        assert!((times.seconds - 3600.0).abs() < 400.0, "{}", times.seconds);
    }
}
