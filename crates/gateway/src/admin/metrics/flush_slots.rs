//! Waits for flush slots, on nodes that bound how many flushes run at a time.

use std::cmp::Reverse;
use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_node::Node;

use super::ledger::TENANTS_MAX;
use super::{Sheet, alone};

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let Some(seen) = node.flush_waits() else { return Ok(()) };
    sheet.gauge("weir_flush_slots", "Flushes that may run at the same time", None, alone(seen.shares.slots))?;
    let help = "Flush slots that are kept for tenants below their share";
    sheet.gauge("weir_flush_slots_kept", help, None, alone(seen.reserved))?;
    let help = "Flushes that have a slot";
    sheet.gauge("weir_flush_slots_taken", help, None, alone(seen.running))?;
    let help = "Flushes that wait for a slot";
    sheet.gauge("weir_flush_slots_waiting", help, None, alone(seen.waiting as u64))?;
    if let Some(time) = seen.time {
        let help = "How long 95 % of flushes take in their slots at most";
        let time = alone(ConstGauge::new(time as f64 / 1e9));
        sheet.samples("weir_flush_slot_time", help, Some(&Unit::Seconds), time)?;
    }
    if seen.shares.mode.promise().is_some() {
        let help = "1 where more than half of the flush slots would have to be kept so that flush_slot_shares keeps \
                    its promise";
        sheet.gauge("weir_flush_slots_promise_broken", help, None, alone(u64::from(seen.is_broken)))?;
    }
    let tenants = node.tenants();
    let waits = tenants.iter().filter_map(|tenant| Some((tenant.name().as_str(), *seen.longest.get(&tenant.id().0)?)));
    let mut waits: Vec<(&str, u64)> = waits.collect();
    waits.sort_by_key(|(_, longest)| Reverse(*longest));
    waits.truncate(TENANTS_MAX);
    let most = waits.iter().map(|(name, longest)| ([("tenant", *name)], ConstGauge::new(*longest as f64 / 1e9)));
    let help = "The longest wait of the tenant's flushes for a slot";
    sheet.samples("weir_tenant_flush_slot_wait_max", help, Some(&Unit::Seconds), most)
}
