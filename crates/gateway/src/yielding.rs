//! How the tasks of an event loop let others run.

use std::pin::pin;

use weir_io::Yield;

/// Ends a turn in the way that tokio's own tasks do. The event loop then looks for new input of other connections,
/// which it does not do for a task that only goes to the end of its queue.
pub(crate) const YIELD: Yield = Yield::new(|task| {
    // Not awaited: its first poll arranges the wake-up.
    let _ = pin!(tokio::task::yield_now()).poll(task);
});
