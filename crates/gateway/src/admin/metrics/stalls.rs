//! Writes that waited for flushes and compactions, by tenant and cause; and how the memory in which writes gather is
//! shared.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::registry::Unit;
use weir_node::{Node, StallCause, StallTimes, Tenant};

use super::ledger::TENANTS_MAX;
use super::{Sheet, alone};

type Cell<'a> = ([(&'static str, &'a str); 2], StallTimes);

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let tenants = node.tenants();
    let cells = most_stalled(tenants.iter().flat_map(|tenant| cells(tenant)).collect());
    let count = cells.iter().map(|(labels, times)| (labels, times.slowed + times.stopped));
    let help = "Writes that waited for a flush, a compaction or write memory, by tenant and cause";
    sheet.counter("weir_tenant_stalled_writes", help, None, count)?;
    let nanos = cells.iter().map(|(labels, times)| (labels, times.slowed_nanos + times.stopped_nanos));
    let help = "How long writes waited for a flush, a compaction or write memory, in total, by tenant and cause";
    sheet.seconds("weir_tenant_stalled", help, nanos)?;
    let stats = node.write_memory().stats();
    let help = "Limit on the memory of the memtables of all tenants";
    sheet.gauge("weir_write_memory_max", help, Some(&Unit::Bytes), alone(stats.capacity))?;
    let help = "Memory of the memtables of all tenants";
    sheet.gauge("weir_write_memory", help, Some(&Unit::Bytes), alone(stats.used))?;
    let names: BTreeMap<u32, &str> = tenants.iter().map(|tenant| (tenant.id().0, tenant.name().as_str())).collect();
    let parts = node.write_memory().parts().into_iter();
    let used = largest(parts.filter_map(|(tenant, part)| Some((*names.get(&tenant)?, part.used))).collect());
    let used = used.into_iter().map(|(name, used)| ([("tenant", name)], used));
    sheet.gauge("weir_tenant_write_memory", "Memory of the tenant's memtables", Some(&Unit::Bytes), used)
}

fn cells(tenant: &Tenant) -> impl Iterator<Item = Cell<'_>> {
    let mut sums = [StallTimes::default(); StallCause::ALL.len()];
    for slot in tenant.partitions() {
        sums.iter_mut().zip(slot.stalls()).for_each(|(sum, times)| sum.add(&times));
    }
    let name = tenant.name().as_str();
    StallCause::ALL.iter().zip(sums).map(move |(cause, sum)| ([("tenant", name), ("cause", cause.name())], sum))
}

/// The tenants that waited at all, those that waited longest first.
fn most_stalled(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'_>> {
    cells.retain(|(_, times)| *times != StallTimes::default());
    cells.sort_by_key(|(_, times)| Reverse(times.slowed_nanos + times.stopped_nanos));
    cells.truncate(TENANTS_MAX);
    cells
}

fn largest(mut used: Vec<(&str, u64)>) -> Vec<(&str, u64)> {
    used.sort_by_key(|(_, used)| Reverse(*used));
    used.truncate(TENANTS_MAX);
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_longest_is_shown_and_who_never_did_is_not() {
        let cell = |(name, stopped_nanos): (&'static str, u64)| {
            ([("tenant", name), ("cause", "l0_runs")], StallTimes { stopped_nanos, ..StallTimes::default() })
        };
        let shown = most_stalled([("a", 5), ("idle", 0), ("b", 9)].map(cell).into());
        assert_eq!(shown.iter().map(|(labels, _)| labels[0].1).collect::<Vec<_>>(), ["b", "a"]);
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let used = largest(names.iter().zip(0..).map(|(name, used)| (name.as_str(), used)).collect());
        assert_eq!((used.len(), used[0]), (TENANTS_MAX, ("199", 199)));
    }
}
