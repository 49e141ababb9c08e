//! The ledger by tenant, and for comparison what the kernel says.

use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_io::Class;
use weir_node::{Amount, Booked, Direction};

use super::Sheet;
use crate::admin::kernel::Conservation;
use crate::admin::ledger::{DROPPED, name_of};

/// How many tenants have samples of their own: those that moved the most bytes since the start. All others together are
/// `other`, whose counters go down when one of them joins the first. For every tenant, read `/v1/ledger.csv`.
pub const TENANTS_MAX: usize = 50;

const OTHER: &str = "other";
const DIRECTIONS: [(&str, Direction); 2] = [("read", Direction::Read), ("write", Direction::Write)];

pub(super) fn write(conservation: &Conservation, sheet: &mut Sheet<'_>) -> fmt::Result {
    let sides: Vec<_> = DIRECTIONS
        .iter()
        .filter_map(|(name, direction)| Some(([("direction", *name)], conservation.bytes(*direction)?)))
        .collect();
    let kernel = sides.iter().map(|(labels, (_, kernel))| (labels, *kernel));
    let help = "Bytes that this process moved according to the kernel, since the ledger began to count";
    sheet.counter("weir_kernel", help, Some(&Unit::Bytes), kernel)?;
    let deviation = sides.iter().map(|(labels, (booked, kernel))| {
        (labels, ConstGauge::new((*booked as f64 - *kernel as f64) / (*kernel).max(1) as f64))
    });
    let help = "By how much the ledger's bytes exceed the kernel's, as a share of the kernel's";
    sheet.samples("weir_ledger_deviation", help, None, deviation)?;
    let node = conservation.node();
    let books = node.ledger().books();
    let tenants = books.tenants.into_iter().map(|(tenant, booked)| (name_of(node, tenant), booked));
    let dropped = Some((DROPPED.to_owned(), books.dropped)).filter(|(_, booked)| *booked != Booked::default());
    by_tenant(sheet, &most_active(tenants.chain(dropped).collect()))
}

/// The most active tenants by name, and the sum of the others.
fn most_active(mut tenants: Vec<(String, Booked)>) -> Vec<(String, Booked)> {
    let activity = |booked: &Booked| -> u64 {
        let bytes = |direction| booked.total(direction).bytes + booked.user(direction).bytes;
        bytes(Direction::Read) + bytes(Direction::Write)
    };
    tenants.sort_by_key(|(_, booked)| std::cmp::Reverse(activity(booked)));
    if tenants.len() > TENANTS_MAX {
        let mut other = Booked::default();
        tenants.drain(TENANTS_MAX..).for_each(|(_, booked)| other += &booked);
        tenants.push((OTHER.to_owned(), other));
    }
    tenants
}

fn by_tenant(sheet: &mut Sheet<'_>, tenants: &[(String, Booked)]) -> fmt::Result {
    let mut cells: Vec<([(&str, &str); 3], Amount)> = Vec::new();
    let mut users: Vec<([(&str, &str); 2], Amount)> = Vec::new();
    for (tenant, booked) in tenants {
        for (name, direction) in DIRECTIONS {
            users.push(([("tenant", tenant), ("direction", name)], booked.user(direction)));
            let labels = |class: Class| [("tenant", tenant.as_str()), ("class", class.name()), ("direction", name)];
            let causes = Class::ALL.iter().map(|&class| (labels(class), booked[(class, direction)]));
            cells.extend(causes.filter(|(_, amount)| amount.ops > 0));
        }
    }
    let bytes = cells.iter().map(|(labels, amount)| (labels, amount.bytes));
    let help = "Bytes read from and written to the device, by tenant and cause";
    sheet.counter("weir_tenant_device", help, Some(&Unit::Bytes), bytes)?;
    let ops = cells.iter().map(|(labels, amount)| (labels, amount.ops));
    sheet.counter("weir_tenant_device_operations", "Operations of the device, by tenant and cause", None, ops)?;
    let bytes = users.iter().map(|(labels, amount)| (labels, amount.bytes));
    let help = "Bytes of values read and batches written by the tenant's users";
    sheet.counter("weir_tenant_user", help, Some(&Unit::Bytes), bytes)?;
    let ops = users.iter().map(|(labels, amount)| (labels, amount.ops));
    sheet.counter("weir_tenant_user_operations", "Keys read and batches written by the tenant's users", None, ops)
}

#[cfg(test)]
mod tests {
    use weir_io::Owner;
    use weir_node::Ledger;

    use super::*;

    #[test]
    fn beyond_the_cap_tenants_are_summed_up() {
        let ledger = Ledger::new();
        for tenant in 1..=TENANTS_MAX as u32 + 10 {
            ledger.account(Owner { tenant, partition: tenant }).book_user(Direction::Write, u64::from(tenant));
        }
        let tenants = ledger.tenants().into_iter().map(|(tenant, booked)| (tenant.to_string(), booked));
        let shown = most_active(tenants.collect());
        assert_eq!(shown.len(), TENANTS_MAX + 1);
        assert_eq!(shown[0].0, "60", "the most active first");
        let (name, other) = &shown[TENANTS_MAX];
        assert_eq!((name.as_str(), other.user(Direction::Write)), (OTHER, Amount { bytes: 55, ops: 10 }));
    }
}
