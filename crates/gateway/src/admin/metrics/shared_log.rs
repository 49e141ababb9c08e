//! The log that tenants share, where one of them has used it.

use std::fmt;

use prometheus_client::registry::Unit;
use weir_node::Node;

use super::{Sheet, alone};

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let Some(seen) = node.shared_log() else { return Ok(()) };
    let help = "What is in use of the log that tenants share";
    sheet.gauge("weir_shared_log", help, Some(&Unit::Bytes), alone(seen.log.live_bytes))?;
    let help = "Partitions that have the shared log open, or something unflushed in it";
    sheet.gauge("weir_shared_log_members", help, None, alone(seen.members as u64))?;
    let help = "Partitions of which something was carried out of the shared log, as they could not flush";
    sheet.gauge("weir_shared_log_carried", help, None, alone(seen.carried as u64))?;
    let help = "Times that those who keep the shared log long had to flush";
    sheet.counter("weir_shared_log_cascades", help, None, alone(seen.cascades))
}
