//! What a server holds in memory while something is done to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::child_server::ChildServer;
use crate::scrape::sum;

/// Time between two looks: a page of metrics costs the server work, too.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the thread that looks checks whether to end.
const STEP: Duration = Duration::from_millis(20);

/// Memory of a server, in bytes: what it was before, and the most that was seen.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Held {
    /// Resident memory before.
    pub resident_before: u64,
    /// The most resident memory.
    pub resident_max: u64,
    /// Memory besides memtables, rows in memory and cached blocks, before.
    pub beside_before: u64,
    /// The most of that.
    pub beside_max: u64,
    /// The most memory in memtables of the tenant.
    pub memtables_max: u64,
    /// The most open connections of the tenant.
    pub connections_max: u64,
}

impl Held {
    /// How much more than before the server held besides memtables, rows in memory and cached blocks.
    pub fn grown(&self) -> u64 {
        self.beside_max.saturating_sub(self.beside_before)
    }
}

/// One look.
struct Look {
    resident: u64,
    beside: u64,
    memtables: u64,
    connections: u64,
}

fn look(server: &ChildServer, tenant: &str) -> Result<Look> {
    let page = server.metrics()?;
    let resident = server.rss_bytes();
    let of_tenant = |metric: &str| sum(&page, metric, &[("tenant", tenant)]) as u64;
    let counted = ["weir_write_memory_bytes", "weir_cache_bytes", "weir_resident_bytes"];
    let counted: u64 = counted.iter().map(|metric| sum(&page, metric, &[]) as u64).sum();
    Ok(Look {
        resident,
        beside: resident.saturating_sub(counted),
        memtables: of_tenant("weir_tenant_write_memory_bytes"),
        connections: of_tenant("weir_tenant_connections"),
    })
}

/// What `server` holds now, before something is done to it.
pub fn before(server: &ChildServer, tenant: &str) -> Result<Held> {
    let now = look(server, tenant)?;
    Ok(Held {
        resident_before: now.resident,
        resident_max: now.resident,
        beside_before: now.beside,
        beside_max: now.beside,
        memtables_max: now.memtables,
        connections_max: now.connections,
    })
}

/// Looks again and again until `stop`, and returns the most that was seen, `before` included.
pub fn watch(server: &ChildServer, tenant: &str, before: Held, stop: &AtomicBool) -> Result<Held> {
    let mut held = before;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() < next {
            thread::sleep(STEP);
            continue;
        }
        next = Instant::now() + LOOK_EVERY;
        let now = look(server, tenant)?;
        held.resident_max = held.resident_max.max(now.resident);
        held.beside_max = held.beside_max.max(now.beside);
        held.memtables_max = held.memtables_max.max(now.memtables);
        held.connections_max = held.connections_max.max(now.connections);
    }
    Ok(held)
}
