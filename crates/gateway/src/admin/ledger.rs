//! The ledger for spreadsheets and bills, with one line for each tenant.

use std::fmt::Write;

use weir_io::{Class, Owner};
use weir_model::TenantId;
use weir_node::{Booked, Direction, Node};

const DIRECTIONS: [(&str, Direction); 2] = [("read", Direction::Read), ("written", Direction::Write)];

/// Every tenant's bytes since the start by cause, as CSV with a header line: what its users read and wrote, what the
/// device read and wrote for that, and the quotients (empty before a user did anything). Tenant 0 is the node itself. A
/// last line without a number sums up the dropped tenants, so that all lines together are what the device moved.
pub fn csv(node: &Node) -> String {
    let mut text = header();
    let books = node.ledger().books();
    for (tenant, booked) in &books.tenants {
        push_line(&mut text, &tenant.to_string(), &name_of(node, *tenant), booked);
    }
    if books.dropped != Booked::default() {
        push_line(&mut text, "", DROPPED, &books.dropped);
    }
    text
}

/// The name for all dropped tenants together.
pub(super) const DROPPED: &str = "(dropped)";

/// The name of a tenant on dashboards.
pub(super) fn name_of(node: &Node, tenant: u32) -> String {
    match node.tenant_by_id(TenantId(tenant)) {
        Some(tenant) => tenant.name().to_string(),
        None if tenant == Owner::default().tenant => "(node)".to_owned(),
        // The tenant was dropped a moment ago.
        None => format!("({tenant})"),
    }
}

fn header() -> String {
    let mut text = "tenant,name,user_reads,user_read_bytes,user_writes,user_written_bytes".to_owned();
    for class in Class::ALL {
        for (verb, _) in DIRECTIONS {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{}_{verb}_bytes", class.name());
        }
    }
    text + ",device_read_bytes,device_written_bytes,read_amplification,write_amplification\n"
}

/// Names of tenants need no quotes: they are lower-case letters, digits, `_` and `-`, or in parentheses.
fn push_line(text: &mut String, tenant: &str, name: &str, booked: &Booked) {
    let _ = write!(text, "{tenant},{name}");
    for (_, direction) in DIRECTIONS {
        let user = booked.user(direction);
        let _ = write!(text, ",{},{}", user.ops, user.bytes);
    }
    for class in Class::ALL {
        for (_, direction) in DIRECTIONS {
            let _ = write!(text, ",{}", booked[(class, direction)].bytes);
        }
    }
    for (_, direction) in DIRECTIONS {
        let _ = write!(text, ",{}", booked.total(direction).bytes);
    }
    for (_, direction) in DIRECTIONS {
        let _ = match booked.amplification(direction) {
            Some(factor) => write!(text, ",{factor:.3}"),
            None => write!(text, ","),
        };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_columns_of_the_header() {
        let mut text = header();
        push_line(&mut text, "7", "shop", &Booked::default());
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [24, 24]);
        assert!(text.ends_with(",0,0,,\n"), "{text}");
    }
}
