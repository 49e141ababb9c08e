//! The control loop of a partition: what must happen now and then, whether or not somebody writes.

use std::sync::{Arc, Weak};

use weir_io::{Clock, Nanos, sleep_until};
use weir_log::{SyncMode, WriteAheadLog};

use crate::partition::Partition;

/// Syncs the log every `interval` (in [`SyncMode::Interval`]), prepares its next segment, removes unneeded files, retries failed
/// jobs. Ends with the partition.
pub async fn run(partition: Weak<Partition>, clock: Arc<dyn Clock>, interval: Nanos) {
    let mut synced = 0;
    loop {
        sleep_until(&clock, clock.now() + interval).await;
        let Some(background) = partition.upgrade().and_then(|partition| partition.background()) else { return };
        let partition = background.partition();
        let last = partition.log.last();
        if partition.sync == SyncMode::Interval && last != synced {
            match partition.log.sync().await {
                Ok(()) => synced = last,
                Err(error) => {
                    tracing::warn!(owner = ?partition.owner, %error, "cannot sync the log");
                    partition.kick_repair();
                }
            }
        }
        if let Err(error) = partition.log.maintain().await {
            tracing::debug!(owner = ?partition.owner, %error, "cannot prepare the next log segment yet");
        }
        if let Err(error) = partition.tree.tidy().await {
            tracing::debug!(owner = ?partition.owner, %error, "cannot remove unneeded files yet");
        }
        partition.kick();
        partition.kick_repair();
    }
}
