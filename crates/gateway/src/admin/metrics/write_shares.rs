//! How the write memory is shared between tenants, and how long tenants below their share waited for it.

use std::cmp::Reverse;
use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_node::{Node, ShareWaits};

use super::ledger::TENANTS_MAX;
use super::{Sheet, alone};

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let seen = node.write_memory_shares();
    let own: u64 = seen.shares.tenants.values().map(|share| share.reserve).sum();
    let help = "The part of the write memory that is kept for tenants below their share";
    sheet.gauge("weir_write_memory_kept", help, Some(&Unit::Bytes), alone(seen.shares.common + own))?;
    let help = "The least that comes back from tenants above their share, in bytes a second";
    sheet.gauge("weir_write_memory_refill", help, None, alone(seen.refill))?;
    if seen.mode.promise().is_some() {
        let help =
            "1 where more than half of the memory would have to be kept so that write_memory_shares keeps its promise";
        sheet.gauge("weir_write_memory_promise_broken", help, None, alone(u64::from(seen.broken.is_some())))?;
    }
    let tenants = node.tenants();
    let waits = tenants.iter().filter_map(|tenant| Some((tenant.name().as_str(), *seen.waits.get(&tenant.id().0)?)));
    let waits = longest(waits.collect());
    let labels = |name| [("tenant", name)];
    let count = waits.iter().map(|(name, waits)| (labels(*name), waits.waits));
    let help = "Writes that waited for memory although their tenant was below its share";
    sheet.counter("weir_tenant_write_memory_waits", help, None, count)?;
    let late = waits.iter().map(|(name, waits)| (labels(*name), waits.late));
    let help = "Writes that waited for memory longer than write_memory_shares promises a tenant below its share";
    sheet.counter("weir_tenant_write_memory_late_waits", help, None, late)?;
    let most = waits.iter().map(|(name, waits)| (labels(*name), ConstGauge::new(waits.longest as f64 / 1e9)));
    let help = "The longest wait of a write for memory while its tenant was below its share";
    sheet.samples("weir_tenant_write_memory_wait_max", help, Some(&Unit::Seconds), most)
}

/// The tenants that waited longest first.
fn longest(mut waits: Vec<(&str, ShareWaits)>) -> Vec<(&str, ShareWaits)> {
    waits.sort_by_key(|(_, waits)| Reverse(waits.longest));
    waits.truncate(TENANTS_MAX);
    waits
}
