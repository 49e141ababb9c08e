//! The log, as the engine and the control loop look after it: truncated after flushes, replaced if it has failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::ErrorKind;
use weir_log::SyncMode;

use super::Partition;
use super::retries::RETRY_AFTER;
use crate::metrics::Counters;

impl Partition {
    pub(crate) async fn truncate_log(&self) {
        let persisted = self.engine.persisted();
        // After a power cut, a log that is never synced would not show that an older manifest lacks something.
        let is_only_in_tables = self.sync == SyncMode::None || self.log.would_truncate(persisted);
        if is_only_in_tables && let Err(error) = self.hold_anchor().await {
            tracing::warn!(owner = ?self.owner, %error, "cannot write the anchor: the log is not truncated");
            return;
        }
        if let Err(error) = self.log.truncate(persisted).await {
            // The segments stay and are tried again after the next flush.
            tracing::warn!(owner = ?self.owner, %error, "cannot truncate the log");
        }
    }

    /// Replaces a failed log: everything applied goes to tables, then a new segment takes over. Reads go on all the
    /// while.
    pub(crate) fn kick_repair(self: &Arc<Self>) {
        if self.is_closing() || self.log.failure().is_none() || self.repairing.swap(true, Ordering::Acquire) {
            return;
        }
        let Some(background) = self.background() else { return self.repairing.store(false, Ordering::Release) };
        self.workers.spawn(async move {
            let partition = background.partition();
            // A full disk may last for hours: the log of the process says once that it failed, and each new reason why
            // it cannot be replaced.
            let (mut is_known, mut told) = (false, None);
            while let (Some(failure), false) = (partition.log.failure(), partition.is_closing()) {
                if !std::mem::replace(&mut is_known, true) {
                    tracing::warn!(
                        owner = ?partition.owner,
                        error = %failure,
                        "the log failed: the partition is flushed, then the log is replaced"
                    );
                }
                let last = partition.seal_all();
                // A shared log may go on before this partition has flushed: then the partition's records in it were
                // carried.
                let goes_on = || partition.log.failure().is_none();
                let drained = || partition.engine.persisted() >= last || partition.is_closing() || goes_on();
                partition.progress.wait(|| drained().then_some(())).await;
                if partition.is_closing() || goes_on() {
                    break;
                }
                match partition.replace_log().await {
                    Ok(()) => {
                        (is_known, told) = (false, None);
                        Counters::add(&partition.counters.log_replacements, 1);
                        tracing::info!(owner = ?partition.owner, "the log was replaced: writes go on");
                    }
                    Err(error) => {
                        if told.replace(error.kind()) != Some(error.kind()) {
                            let full = error.kind() == ErrorKind::NoSpace;
                            tracing::warn!(owner = ?partition.owner, %error, full, "cannot replace the log yet");
                        }
                        partition.pause(RETRY_AFTER).await;
                    }
                }
            }
            // Writes that were refused count now. They were told when they were applied, and reads since then have left
            // them out.
            partition.witnessed.log_was_replaced();
            partition.repairing.store(false, Ordering::Release);
            partition.progress.notify();
        });
    }
}
