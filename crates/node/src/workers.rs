//! Workers: slots for background jobs, shared by all partitions.
//!
//! A flush may always run, one per partition; compactions share `compaction_slots`. Slots bound memory and CPU; the gates bound the disk.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use parking_lot::Mutex;
use weir_io::{ErrorKind, Nanos, Result, Spawn, sleep_until};
use weir_log::WriteAheadLog;
use weir_lsm::{Job, JobReport, Stall, StallCause};

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
            let Some(job) = self.tree.next_compaction() else { return };
            self.start(job, Some(slot));
        }
    }

    fn start(self: &Arc<Self>, job: Job, slot: Option<Slot>) {
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move {
            let partition = background.partition();
            let facts = job.facts();
            let outcome = partition.run_unless_closing(job).await;
            drop(slot);
            let Some(outcome) = outcome else { return };
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
                    partition.pause(RETRY_AFTER).await;
                }
            }
            partition.progress.notify();
            partition.kick();
        });
    }

    /// Runs `job`. When the partition is closed it is cancelled at its next wait, with `None`, unless it has begun to commit.
    ///
    /// While writes are stopped for want of a write buffer, a compaction is parked: the flush that makes room has the disk and the
    /// processor to itself (SI-6). On a disk a hundred times too slow that is the difference between seconds and half a minute.
    async fn run_unless_closing(&self, job: Job) -> Option<Result<JobReport>> {
        let control = job.control();
        let gives_way = job.facts().level.is_some();
        let (mut run, mut closing) = (pin!(job.run()), pin!(self.closing_begun()));
        let mut parked = None;
        poll_fn(|cx| {
            if gives_way && !control.is_committing() && (parked.is_some() || self.is_flush_urgent()) {
                let wait = || Box::pin(self.progress.wait(|| (!self.is_flush_urgent()).then_some(())));
                if parked.get_or_insert_with(wait).as_mut().poll(cx).is_pending() {
                    return closing.as_mut().poll(cx).map(|()| None);
                }
                parked = None;
            }
            match run.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending if control.is_committing() => Poll::Pending,
                Poll::Pending => closing.as_mut().poll(cx).map(|()| None),
            }
        })
        .await
    }

    /// Whether writes wait for nothing but a flush. Where jobs fail (a full disk), compactions go on: they may free space.
    fn is_flush_urgent(&self) -> bool {
        self.tree.stall() == Stall::Stop(StallCause::Memtables) && self.job_failure.lock().is_none()
    }

    /// Sleeps, but not into the closing of the partition.
    async fn pause(&self, nanos: Nanos) {
        let (mut sleep, mut closing) =
            (pin!(sleep_until(&self.clock, self.clock.now() + nanos)), pin!(self.closing_begun()));
        poll_fn(|cx| match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => closing.as_mut().poll(cx),
        })
        .await;
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
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move {
            let partition = background.partition();
            while let (Some(failure), false) = (partition.log.failure(), partition.is_closing()) {
                tracing::warn!(owner = ?partition.owner, error = %failure, "the log failed: flushing, then replacing it");
                let last = partition.seal_all();
                let drained = || partition.tree.persisted() >= last || partition.is_closing();
                partition.progress.wait(|| drained().then_some(())).await;
                if partition.is_closing() {
                    break;
                }
                match partition.log.replace(partition.tree.persisted()).await {
                    Ok(()) => {
                        Counters::add(&partition.counters.log_replacements, 1);
                        tracing::info!(owner = ?partition.owner, "the log was replaced, writes go on");
                    }
                    Err(error) => {
                        let full = error.kind() == ErrorKind::NoSpace;
                        tracing::warn!(owner = ?partition.owner, %error, full, "cannot replace the log yet");
                        partition.pause(RETRY_AFTER).await;
                    }
                }
            }
            partition.repairing.store(false, Ordering::Release);
            partition.progress.notify();
        });
    }
}
