//! The node's queues of requests (XS-27): how many requests wait there now, and how many have waited.

use std::fmt;

use weir_node::Node;

use super::Sheet;

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let queue = node.units().queue();
    let labels = ["read", "write"].map(|access| [("access", access)]);
    let (waiting, stats) = (queue.waiting(), queue.stats());
    let waiting = labels.into_iter().zip(waiting.map(|waiting| waiting as u64));
    sheet.gauge(
        "weir_node_queue_waiting_commands",
        "Commands that wait now for the node's request units",
        None,
        waiting,
    )?;
    let column = |of: [u64; 2]| labels.into_iter().zip(of);
    let help = "Commands that waited for the node's request units";
    sheet.counter("weir_node_queue_delayed_commands", help, None, column(stats.map(|stats| stats.delayed)))?;
    let help = "Commands refused because the node's request units did not come in time";
    sheet.counter("weir_node_queue_refused_commands", help, None, column(stats.map(|stats| stats.refused)))?;
    let help = "How long commands waited for the node's request units, in total";
    sheet.seconds("weir_node_queue_delayed", help, column(stats.map(|stats| stats.delayed_ns)))
}
