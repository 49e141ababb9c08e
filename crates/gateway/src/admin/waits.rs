//! What a tenant's requests waited for.

use weir_node::waits::Waits;
use weir_node::{Booked, Tenant, Unit, Wait};

/// Nanoseconds since the start; `booked` is the tenant's entry in the ledger.
pub fn waits(tenant: &Tenant, booked: &Booked) -> Waits {
    let quota = Unit::ALL.map(|unit| tenant.quota().stats(unit).delayed_ns);
    let stalls = tenant.partitions().iter().flat_map(|slot| slot.stalls());
    let stalled = stalls.map(|times| times.slowed_nanos + times.stopped_nanos).sum();
    [quota.iter().sum(), tenant.quota().queued_ns(), stalled, booked.waited(Wait::Partition), booked.waited(Wait::Node)]
}
