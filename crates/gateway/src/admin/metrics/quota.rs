//! Capacity units by tenant: what was charged, and what waited or was refused because of the tenant's own limits.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit as Measure;
use weir_node::{Node, Unit, UnitStats};

use super::Sheet;
use super::ledger::TENANTS_MAX;

pub(super) struct QuotaMetrics(pub(super) Arc<Node>);

impl fmt::Debug for QuotaMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuotaMetrics")
    }
}

type Cell<'a> = ([(&'static str, &'a str); 2], UnitStats);

impl Collector for QuotaMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let tenants = self.0.tenants();
        let mut cells = Vec::new();
        for tenant in &tenants {
            for (name, unit) in [("read", Unit::Read), ("write", Unit::Write)] {
                cells.push(([("tenant", tenant.name().as_str()), ("unit", name)], tenant.quota().stats(unit)));
            }
        }
        by_tenant(&mut Sheet(encoder), &most_throttled(cells))
    }
}

/// Who was charged at all, those first that waited longest and were refused most. So many are shown; the others are on
/// their own pages.
fn most_throttled(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'_>> {
    cells.retain(|(_, stats)| *stats != UnitStats::default());
    cells.sort_by_key(|(_, stats)| Reverse((stats.delayed_ns, stats.refused, stats.units)));
    cells.truncate(TENANTS_MAX);
    cells
}

fn by_tenant(sheet: &mut Sheet<'_>, cells: &[Cell<'_>]) -> fmt::Result {
    let column = |value: fn(&UnitStats) -> u64| -> Vec<_> {
        cells.iter().map(|(labels, stats)| (&labels[..], value(stats))).collect()
    };
    let units = column(|stats| stats.units);
    sheet.counter("weir_tenant_units", "Capacity units charged while there was a limit", None, &units)?;
    let delayed = column(|stats| stats.delayed);
    sheet.counter(
        "weir_tenant_delayed_commands",
        "Commands that waited for the tenant's own limits",
        None,
        &delayed,
    )?;
    let refused = column(|stats| stats.refused);
    sheet.counter("weir_tenant_refused_commands", "Commands refused by the tenant's own limits", None, &refused)?;
    let seconds = cells.iter().map(|(labels, stats)| (&labels[..], ConstCounter::new(stats.delayed_ns as f64 / 1e9)));
    sheet.samples("weir_tenant_delayed", "How long they waited in all", Some(&Measure::Seconds), seconds)
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
