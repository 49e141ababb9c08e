//! What a tenant's requests waited for.

use weir_node::{Booked, Tenant, Unit, Wait};

/// In the order in which a request meets them: its tenant's own units, flush or compaction, its share of the disk, the disk.
pub const CAUSES: [&str; 4] = ["quota", "stall", "partition_gate", "node_gate"];

/// Nanoseconds, in the order of [`CAUSES`].
pub type Waits = [u64; CAUSES.len()];

/// Since the start; `booked` is the tenant's in the ledger.
pub fn waits(tenant: &Tenant, booked: &Booked) -> Waits {
    let quota = [Unit::Read, Unit::Write].map(|unit| tenant.quota().stats(unit).delayed_ns);
    let stalls = tenant.partitions().iter().flat_map(|home| home.stalls());
    let stalled = stalls.map(|times| times.slowed_nanos + times.stopped_nanos).sum();
    [quota.iter().sum(), stalled, booked.waited(Wait::Partition), booked.waited(Wait::Node)]
}
