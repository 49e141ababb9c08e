//! What clients waited for, by tenant and cause.

use std::cmp::Reverse;
use std::fmt;

use weir_node::Node;
use weir_node::waits::{Cause, Waits};

use super::Sheet;
use super::ledger::TENANTS_MAX;
use crate::admin::waits::waits;

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let (tenants, ledger) = (node.tenants(), node.ledger().tenants());
    let rows = tenants.iter().map(|tenant| {
        let booked = ledger.get(&tenant.id().0).copied().unwrap_or_default();
        (tenant.name().as_str(), waits(tenant, &booked))
    });
    let nanos = longest(rows.collect()).into_iter().flat_map(|(name, waits)| {
        let causes = Cause::NAMES.into_iter().zip(waits).filter(|(_, nanos)| *nanos > 0);
        causes.map(move |(cause, nanos)| ([("tenant", name), ("cause", cause)], nanos))
    });
    let help = "How long requests waited, by cause: the tenant's own units, the node's queue of requests, a flush or a \
                compaction, its share of the disk, the disk";
    sheet.seconds("weir_tenant_waited", help, nanos)
}

/// The tenants that waited at all, those that waited longest first.
fn longest(mut rows: Vec<(&str, Waits)>) -> Vec<(&str, Waits)> {
    let all = |waits: &Waits| waits.iter().sum::<u64>();
    rows.retain(|(_, waits)| all(waits) > 0);
    rows.sort_by_key(|(_, waits)| Reverse(all(waits)));
    rows.truncate(TENANTS_MAX);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_longest_over_all_causes_is_shown_first() {
        let shown = longest(vec![("a", [5, 0, 0, 0, 0]), ("idle", [0; 5]), ("b", [3, 0, 0, 0, 3])]);
        assert_eq!(shown.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["b", "a"]);
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let many = names.iter().map(|name| (name.as_str(), [0, 1, 0, 0, 0]));
        assert_eq!(longest(many.collect()).len(), TENANTS_MAX);
    }
}
