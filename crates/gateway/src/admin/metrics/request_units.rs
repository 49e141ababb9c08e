//! Commands by tenant: how many there were, and what they have cost in request units, whether or not they are limited.

use std::cmp::Reverse;
use std::fmt;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit;
use weir_node::request_units::{Dimension, MILLI, THOUSAND};

use super::Sheet;
use super::ledger::TENANTS_MAX;
use crate::listener::Observer;
use crate::store::Store;
use crate::tenant::account::Costs;

pub(super) fn write<S: Store>(gateway: &Observer<S>, sheet: &mut Sheet<'_>) -> fmt::Result {
    let all: Vec<Costs> = gateway.costs().into_values().collect();
    let busiest = first(&all, |cost| cost.commands);
    let commands = busiest.iter().map(|cost| ([("tenant", &*cost.name)], cost.commands));
    let help = "Commands that the tenant's clients and scripts have called";
    sheet.counter("weir_tenant_commands", help, None, commands)?;
    let costs = first(&all, |cost| cost.price.milli_units);
    let units = costs.iter().map(|cost| {
        let units = cost.price.milli_units as f64 / MILLI as f64;
        ([("tenant", &*cost.name)], ConstCounter::new(units))
    });
    sheet.samples(
        "weir_tenant_request_units",
        "Request units of the tenant's commands, limited or not",
        None,
        units,
    )?;
    let processor = costs.iter().map(|cost| ([("tenant", &*cost.name)], cost.price.resources.whole(Dimension::Cpu)));
    let help = "Processor time of the tenant's commands, by the table of costs";
    sheet.seconds("weir_tenant_request_processor", help, processor)?;
    let bytes = costs.iter().flat_map(|cost| {
        let of = |dimension: Dimension| {
            ([("tenant", &*cost.name), ("dimension", dimension.name())], cost.price.resources[dimension] / THOUSAND)
        };
        [Dimension::Memory, Dimension::Io, Dimension::Network].map(of)
    });
    let help = "Bytes of memory, device and network that the tenant's commands took, by the table of costs";
    sheet.counter("weir_tenant_request", help, Some(&Unit::Bytes), bytes)
}

/// The tenants with the largest `amount`; the others are on the bill.
fn first(all: &[Costs], amount: fn(&Costs) -> u64) -> Vec<&Costs> {
    let mut costs: Vec<&Costs> = all.iter().filter(|cost| amount(cost) > 0).collect();
    costs.sort_by_key(|cost| Reverse(amount(cost)));
    costs.truncate(TENANTS_MAX);
    costs
}

#[cfg(test)]
mod tests {
    use weir_node::request_units::Price;

    use super::*;

    #[test]
    fn who_has_called_most_commands_is_shown_first_and_who_has_called_none_is_not() {
        let costs = |name: &str, commands| Costs { name: name.into(), commands, price: Price::default() };
        let all = [costs("few", 1), costs("none", 0), costs("many", 9)];
        let shown = first(&all, |cost| cost.commands);
        assert_eq!(shown.iter().map(|cost| &*cost.name).collect::<Vec<_>>(), ["many", "few"]);
        let all: Vec<Costs> = (1..200).map(|commands| costs("t", commands)).collect();
        assert_eq!(first(&all, |cost| cost.commands).len(), TENANTS_MAX);
    }
}
