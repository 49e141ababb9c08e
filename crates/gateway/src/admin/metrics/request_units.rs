//! Request units by tenant: what its commands have cost, whether or not they are limited.

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
    let costs = costliest(gateway.costs().into_values().collect());
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

/// The tenants whose commands cost most; the others are on the bill.
fn costliest(mut costs: Vec<Costs>) -> Vec<Costs> {
    costs.retain(|cost| cost.price.milli_units > 0);
    costs.sort_by_key(|cost| Reverse(cost.price.milli_units));
    costs.truncate(TENANTS_MAX);
    costs
}
