//! What tenants use of the threads that serve clients, and which of them therefore go behind the others.

use std::cmp::Reverse;
use std::fmt;

use super::Sheet;
use super::ledger::TENANTS_MAX;
use crate::noisy_neighbour::ProcessorUse;

/// The tenants that used anything: noisy ones first, then by how much they used.
pub(super) fn busiest(mut tenants: Vec<ProcessorUse>) -> Vec<ProcessorUse> {
    tenants.retain(|used| used.nanos > 0);
    tenants.sort_by_key(|used| Reverse((used.is_noisy, used.nanos)));
    tenants.truncate(TENANTS_MAX);
    tenants
}

pub(super) fn write(sheet: &mut Sheet<'_>, tenants: &[ProcessorUse]) -> fmt::Result {
    let rows = || tenants.iter().map(|used| ([("tenant", &*used.name)], used));
    let noisy = rows().map(|(labels, used)| (labels, u64::from(used.is_noisy)));
    let help = "1 while the tenant keeps threads busy that others want, and is served behind these others";
    sheet.gauge("weir_tenant_noisy", help, None, noisy)?;
    let help = "Processor time of the threads that serve clients, by tenant";
    sheet.seconds("weir_tenant_gateway_processor", help, rows().map(|(labels, used)| (labels, used.nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_noisy_is_shown_first_then_who_used_most() {
        let used = |name: &str, nanos, is_noisy| ProcessorUse { name: name.into(), nanos, is_noisy };
        let some = vec![used("light", 5, false), used("idle", 0, false), used("noisy", 3, true), used("old", 9, false)];
        let shown: Vec<_> = busiest(some).into_iter().map(|used| used.name.to_string()).collect();
        assert_eq!(shown, ["noisy", "old", "light"]);
        let many = (1..200).map(|nanos| used("t", nanos, false));
        assert_eq!(busiest(many.collect()).len(), TENANTS_MAX);
    }
}
