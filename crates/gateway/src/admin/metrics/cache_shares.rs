//! How the block cache is shared between tenants.

use std::fmt;

use prometheus_client::registry::Unit;
use weir_node::Node;

use super::{Sheet, alone};

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let seen = node.cache_shares();
    let kept: u64 = seen.shares.tenants.values().map(|share| share.reserve).sum();
    let help = "The part of the cache that is kept for tenants within their reserves";
    sheet.gauge("weir_cache_kept", help, Some(&Unit::Bytes), alone(kept))?;
    if seen.mode.promise().is_some() {
        let help = "The least that tenants that come back can put into the cache, in bytes a second";
        sheet.gauge("weir_cache_refill", help, None, alone(seen.refill))?;
        let help = "1 where more than half of the cache would have to be kept so that cache_shares keeps its promise";
        sheet.gauge("weir_cache_promise_broken", help, None, alone(u64::from(seen.broken.is_some())))?;
    }
    Ok(())
}
