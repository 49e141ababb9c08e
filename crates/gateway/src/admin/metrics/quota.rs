//! Capacity units by tenant: what was charged, and which requests waited or were refused because of the tenant's own
//! limits.

use std::cmp::Reverse;
use std::fmt;

use weir_node::request_units::MILLI;
use weir_node::{Node, Unit, UnitStats};

use super::Sheet;
use super::ledger::TENANTS_MAX;

type Cell<'a> = ([(&'static str, &'a str); 2], UnitStats);

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let tenants = node.tenants();
    let mut cells = Vec::new();
    for tenant in &tenants {
        for (name, unit) in [("read", Unit::Read), ("write", Unit::Write), ("request", Unit::Request)] {
            let quota = tenant.quota();
            let mut stats = UnitStats { units: quota.units_total(unit), ..quota.stats(unit) };
            if unit == Unit::Request {
                stats.units /= MILLI;
            }
            cells.push(([("tenant", tenant.name().as_str()), ("unit", name)], stats));
        }
    }
    let cells = most_throttled(cells);
    let column = |value: fn(&UnitStats) -> u64| cells.iter().map(move |(labels, stats)| (labels, value(stats)));
    let help = "Units charged to the tenant while there was a limit";
    sheet.counter("weir_tenant_units", help, None, column(|stats| stats.units))?;
    let help = "Commands that waited for the tenant's own limits";
    sheet.counter("weir_tenant_delayed_commands", help, None, column(|stats| stats.delayed))?;
    let help = "Commands refused by the tenant's own limits";
    sheet.counter("weir_tenant_refused_commands", help, None, column(|stats| stats.refused))?;
    let help = "How long commands waited for the tenant's own limits, in total";
    sheet.seconds("weir_tenant_delayed", help, column(|stats| stats.delayed_ns))
}

/// The tenants that were charged at all, ordered by how long they waited and how much they were refused. Only the first
/// of these are shown; the others are on their own pages.
fn most_throttled(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'_>> {
    cells.retain(|(_, stats)| *stats != UnitStats::default());
    cells.sort_by_key(|(_, stats)| Reverse((stats.delayed_ns, stats.refused, stats.units)));
    cells.truncate(TENANTS_MAX);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_longest_is_shown_and_who_was_never_charged_is_not() {
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let cell = |(name, delayed_ns): (&'static str, u64)| {
            ([("tenant", name), ("unit", "read")], UnitStats { delayed_ns, ..UnitStats::default() })
        };
        let shown = most_throttled([("a", 5), ("idle", 0), ("b", 9)].map(cell).into());
        assert_eq!(shown.iter().map(|(labels, _)| labels[0].1).collect::<Vec<_>>(), ["b", "a"]);
        let many = names.iter().map(|name| {
            ([("tenant", name.as_str()), ("unit", "write")], UnitStats { units: 1, ..UnitStats::default() })
        });
        assert_eq!(most_throttled(many.collect()).len(), TENANTS_MAX);
    }
}
