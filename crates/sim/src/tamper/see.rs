//! What `check` reports of a directory, and what a node makes of it.

use std::collections::BTreeSet;

use weir_io::sim::{DiskImage, Keep};
use weir_io::{Error, ErrorKind, Rng};
use weir_model::Batch;
use weir_node::Node;

use super::history::{DIR, History, World, pause};
use super::read::{Depth, ShardRead, read_tenant};

/// What a node made of a directory.
pub struct Seen {
    /// The tenants, in the order of the beliefs; or why the node was refused.
    pub opened: Result<Vec<TenantSeen>, String>,
    /// Tenants that are there and should not be.
    pub revenants: Vec<String>,
    /// The disk after it was read.
    pub left: DiskImage,
    /// The disk after writes and an orderly end, if it came to that.
    pub closed: Option<DiskImage>,
    /// Errors of writing and closing.
    pub complaints: Vec<String>,
}

/// What a directory is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// To be read.
    Read,
    /// To be written to as well.
    Write,
}

/// What was seen of a tenant.
pub enum TenantSeen {
    /// The node does not know the tenant.
    Gone,
    /// The tenant is there.
    There { disk_bytes_max: u64, reads: Vec<ShardRead> },
}

/// The key that is written to every partition after it was read.
pub const AFTER: &[u8] = b"~after";

impl History {
    /// All that `check` complains of.
    pub fn check(&self, seed: u64, image: &DiskImage) -> Vec<String> {
        let world = World::new(seed, image, self.unix_ms);
        let fs = world.fs();
        match world.sim.block_on(weir_node::check(&fs, DIR.as_ref(), |_, _| ())) {
            Err(error) => vec![error.to_string()],
            Ok(found) => found.all_problems().map(ToString::to_string).collect(),
        }
    }

    /// Opens a node on `image` and reads it. For [`Use::Write`] it also writes to each partition that it has read
    /// whole, and ends in good order.
    pub fn see(&self, seed: u64, image: &DiskImage, how: Use, depth: impl Fn(u32) -> Depth) -> Seen {
        let world = World::new(seed, image, self.unix_ms);
        let mut keep = Rng::new(seed);
        world.sim.block_on(async {
            let mut seen = Seen {
                opened: Ok(Vec::new()),
                revenants: Vec::new(),
                left: image.clone(),
                closed: None,
                complaints: Vec::new(),
            };
            let node = match Node::open(&self.config, world.machine(seed)).await {
                Ok(node) => node,
                Err(error) => {
                    seen.opened = Err(format!("opening the node: {error}"));
                    seen.left = world.disk.crash_keeping(Keep::All, &mut keep);
                    return seen;
                }
            };
            let mut tenants = Vec::new();
            for belief in &self.tenants {
                tenants.push(match node.tenant(&belief.name) {
                    None => TenantSeen::Gone,
                    Some(tenant) => {
                        let disk_bytes_max = tenant.settings().disk_bytes_max;
                        TenantSeen::There { disk_bytes_max, reads: read_tenant(&tenant, &belief.shards, &depth).await }
                    }
                });
            }
            seen.opened = Ok(tenants);
            let known: BTreeSet<_> = self.tenants.iter().map(|belief| belief.name.clone()).collect();
            let names = node.tenants().into_iter().map(|tenant| tenant.name().clone());
            seen.revenants = names.filter(|name| !known.contains(name)).map(|name| name.to_string()).collect();
            // Gives background work the time to happen.
            pause(&world.sim.clock(), 500).await;
            seen.left = world.disk.crash_keeping(Keep::All, &mut keep);
            if how == Use::Write {
                seen.complaints = write_and_close(&node, &depth).await;
                pause(&world.sim.clock(), 100).await;
                seen.closed = Some(world.disk.crash_keeping(Keep::All, &mut keep));
            }
            seen
        })
    }
}

/// Writes to every partition that opens and was read whole, and ends in good order. Returns the errors.
async fn write_and_close(node: &Node, depth: impl Fn(u32) -> Depth) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut batch = Batch::new();
    batch.put(AFTER, b"written after");
    for tenant in node.tenants() {
        for slot in tenant.partitions().iter().filter(|slot| depth(slot.owner().partition) == Depth::Whole) {
            // A partition that does not open has been reported before.
            let Ok(partition) = slot.partition().await else { continue };
            let written = async { partition.write(&batch).await?.await };
            let written: Result<(), Error> = written.await;
            complaints.extend(written.err().map(|error| format!("writing: {error}")));
        }
    }
    if let Err(error) = node.close().await
        && error.kind() != ErrorKind::Closed
    {
        complaints.push(format!("closing: {error}"));
    }
    complaints
}
