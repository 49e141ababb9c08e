//! The log that tenants share, if one of them has used it.

use std::fmt;

use prometheus_client::registry::Unit;
use weir_node::Node;

use super::{Sheet, alone};

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let Some(seen) = node.shared_log() else { return Ok(()) };
    let help = "Bytes in use of the log that tenants share";
    sheet.gauge("weir_shared_log", help, Some(&Unit::Bytes), alone(seen.log.live_bytes))?;
    let help = "Partitions that have the shared log open, or unflushed records in it";
    sheet.gauge("weir_shared_log_members", help, None, alone(seen.members as u64))?;
    let help = "Partitions whose records were carried out of the shared log because they could not flush or be opened";
    sheet.gauge("weir_shared_log_carried", help, None, alone(seen.carried as u64))?;
    let help = "Times that the partitions that keep the shared log long had to flush";
    sheet.counter("weir_shared_log_cascades", help, None, alone(seen.cascades))
}
