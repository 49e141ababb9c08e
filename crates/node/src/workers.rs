//! Workers: slots for background jobs, shared by all partitions.
//!
//! A flush may always run, one per partition; compactions share `compaction_slots`. Slots bound memory and CPU; the gates bound the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use weir_io::{ErrorKind, Nanos, Spawn, sleep_until};
use weir_log::WriteAheadLog;
use weir_lsm::Job;
use weir_lsm::pick::Scope;

use crate::metrics::Counters;
use crate::partition::Partition;

/// How long a failed job waits before it is tried again, in nanoseconds.
const RETRY_AFTER: Nanos = 100_000_000;

/// The node's slots.
pub struct Workers {
    spawn: Arc<dyn Spawn>,
    compaction_slots: usize,
    running: Mutex<usize>,
}

impl Workers {
    /// `compaction_slots` compactions at a time, on `spawn`.
    pub fn new(spawn: Arc<dyn Spawn>, compaction_slots: usize) -> Arc<Self> {
        Arc::new(Self { spawn, compaction_slots, running: Mutex::new(0) })
    }

    fn take_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut running = self.running.lock();
        (*running < self.compaction_slots).then(|| {
            *running += 1;
            Slot(Arc::clone(self))
        })
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn.spawn(Box::pin(future));
    }
}

/// A compaction slot, held while a job runs.
struct Slot(Arc<Workers>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
    }
}

impl Partition {
    /// Starts every job that is due and has a slot.
    pub(crate) fn kick(self: &Arc<Self>) {
        if self.is_closing() {
            return;
        }
        if let Some(job) = self.tree.next_flush() {
            self.start(job, None);
        }
        while let Some(slot) = self.workers.take_slot() {
            let Some(job) = self.tree.next_compaction(Scope::All) else { return };
            self.start(job, Some(slot));
        }
    }

    fn start(self: &Arc<Self>, job: Job, slot: Option<Slot>) {
        let partition = Arc::clone(self);
        self.workers.spawn(async move {
            let facts = job.facts();
            let outcome = job.run().await;
            drop(slot);
            match outcome {
                Ok(report) => {
                    Counters::add(&partition.counters.jobs, 1);
                    *partition.job_failure.lock() = None;
                    tracing::debug!(owner = ?partition.owner, ?facts, ?report, "job done");
                    if facts.level.is_none() {
                        partition.truncate_log().await;
                    }
                }
                Err(error) => {
                    Counters::add(&partition.counters.job_errors, 1);
                    tracing::warn!(owner = ?partition.owner, ?facts, %error, "job failed, will be tried again");
                    *partition.job_failure.lock() = Some(error);
                    partition.progress.notify();
                    sleep_until(&partition.clock, partition.clock.now() + RETRY_AFTER).await;
                }
            }
            partition.progress.notify();
            partition.kick();
        });
    }

    async fn truncate_log(&self) {
        if let Err(error) = self.log.truncate(self.tree.persisted()).await {
            // The segments stay and are tried again after the next flush.
            tracing::warn!(owner = ?self.owner, %error, "cannot truncate the log");
        }
    }

    /// Replaces a failed log: everything applied goes to tables, then a new segment takes over. Reads go on all the while.
    pub(crate) fn kick_repair(self: &Arc<Self>) {
        if self.is_closing() || self.log.failure().is_none() || self.repairing.swap(true, Ordering::Acquire) {
            return;
        }
        let partition = Arc::clone(self);
        self.workers.spawn(async move {
            while let (Some(failure), false) = (partition.log.failure(), partition.is_closing()) {
                tracing::warn!(owner = ?partition.owner, error = %failure, "the log failed: flushing, then replacing it");
                partition.seal();
                let last = partition.log.last();
                let drained = || partition.tree.persisted() >= last || partition.is_closing();
                partition.progress.wait(|| drained().then_some(())).await;
                match partition.log.replace(partition.tree.persisted()).await {
                    Ok(()) => {
                        Counters::add(&partition.counters.log_replacements, 1);
                        tracing::info!(owner = ?partition.owner, "the log was replaced, writes go on");
                    }
                    Err(error) => {
                        let full = error.kind() == ErrorKind::NoSpace;
                        tracing::warn!(owner = ?partition.owner, %error, full, "cannot replace the log yet");
                        sleep_until(&partition.clock, partition.clock.now() + RETRY_AFTER).await;
                    }
                }
            }
            partition.repairing.store(false, Ordering::Release);
            partition.progress.notify();
        });
    }
}
