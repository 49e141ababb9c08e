//! When a partition's jobs begin: flushes and drops as soon as they are due, compactions as they get slots.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{Either, select};
use weir_io::{Class, Owner};
use weir_model::engine::{Job, JobFacts, JobKind, Stall, StallCause, Urgency};

use super::Partition;
use super::parking::Ended;
use super::retries::Retry;
use crate::flush_queue::FlushSlot;
use crate::metrics::Counters;
use crate::workers::{Slot, SlotTaker};

impl SlotTaker for Partition {
    fn owner(&self) -> Owner {
        self.owner
    }

    fn is_short_of_space(&self) -> bool {
        self.engine.urgency() > Urgency::Idle
    }

    fn take_slot(self: Arc<Self>, slot: Slot) {
        let is_due = self.compact_in(slot);
        self.queue(is_due);
    }

    fn give_way(&self) {
        self.progress.notify();
    }
}

impl Partition {
    /// Starts every job that is due and has a slot, and queues for another slot if there is more to do.
    pub(crate) fn kick(self: &Arc<Self>) {
        if self.is_closing() {
            return;
        }
        self.note_urgency();
        self.adjust_throttle();
        if !self.retries.is_pausing(Class::Flush, self.clock.now())
            && let Some(job) = self.engine.next_flush()
        {
            self.start(job, None);
        }
        if !self.retries.are_drops_pausing(self.clock.now())
            && let Some(job) = self.engine.next_drop()
        {
            self.start(job, None);
        }
        self.clear_the_way();
        let mut is_due = true;
        while is_due && let Some(slot) = self.workers.try_take(self.owner) {
            is_due = self.compact_in(slot);
        }
        self.queue(is_due);
        // A slot may have become free before this tree was in the queue, or one was taken here in vain.
        self.workers.dispatch();
    }

    /// Lets flushes rush while writes would soon stall without them (U-11). Memtables become full and empty only where
    /// [`Partition::kick`] follows; every tick sees how full the active one is.
    pub(crate) fn note_urgency(&self) {
        if let Some(gates) = &self.gates {
            gates.set_flush_is_urgent(self.engine.is_flush_urgent());
        }
    }

    /// Waits for a slot, if a compaction is due. Not while compactions of its class pause: at the end of the pause the
    /// tree is kicked.
    fn queue(self: &Arc<Self>, is_due: bool) {
        let due = || match self.resumable() {
            Some(Class::CompactL0) => Some(Class::CompactL0),
            resumable => [resumable, self.compaction_due()].into_iter().flatten().min(),
        };
        match is_due.then(due).flatten() {
            Some(class) => self.workers.wait(self.clone(), class),
            None => self.workers.leave(self.owner),
        }
        if self.is_closing() {
            self.workers.leave(self.owner);
        }
    }

    /// Lets a parked compaction go on, or else starts the most urgent one that is due. A compaction that relieves level
    /// 0 goes before a parked one that is deeper, which may have been parked for that.
    fn compact_in(self: &Arc<Self>, slot: Slot) -> bool {
        if self.is_closing() {
            return false;
        }
        let goes_on = |parked| self.compaction_due().is_none_or(|due| parked <= due);
        let slot = match self.resumable().is_some_and(goes_on) {
            true => self.resume_in(slot),
            false => Some(slot),
        };
        let Some(slot) = slot else { return true };
        // Where nothing pauses this is not asked, because the answer costs as much as the job.
        if self.retries.is_any_pausing(self.clock.now()) && self.compaction_due().is_none() {
            return false;
        }
        let Some(job) = self.engine.next_compaction() else { return false };
        self.start(job, Some(slot));
        true
    }

    /// The class of the compaction that is due; `None` also while compactions of its class pause, because one has
    /// failed.
    fn compaction_due(&self) -> Option<Class> {
        self.engine.compaction_due().filter(|&class| !self.retries.is_pausing(class, self.clock.now()))
    }

    /// Notes how a job ended, for the jobs that come after it. Gives what follows if it has failed.
    fn note_end(&self, facts: &JobFacts, ended: &Ended) -> Option<Retry> {
        let Ended::Done(outcome) = ended else { return None };
        *self.job_failure.lock() = outcome.as_ref().err().cloned();
        match outcome {
            Ok(_) => {
                self.retries.succeeded(facts);
                None
            }
            Err(error) => Some(self.retries.failed(facts, error, self.clock.now())),
        }
    }

    fn start(self: &Arc<Self>, job: Job, mut slot: Option<Slot>) {
        let Some(background) = self.background() else { return };
        let facts = job.facts();
        // The sweep of an engine in memory has no level either, but does no I/O and brings nothing to disk.
        let is_flush = facts.kind() == JobKind::Flush;
        self.workers.spawn(async move {
            let partition = background.partition();
            // A job that is not polled does not run.
            let mut flush_slot = if is_flush { partition.flush_slot().await } else { None };
            partition.is_flushing.fetch_or(is_flush, Ordering::Relaxed);
            let ended = partition.run_or_park(job, &mut slot).await;
            if is_flush {
                partition.is_flushing.store(false, Ordering::Relaxed);
            }
            if let (Some(flush_slot), false) = (&mut flush_slot, matches!(ended, Ended::Done(Ok(_)))) {
                flush_slot.failed();
            }
            drop(flush_slot);
            let retry = partition.note_end(&facts, &ended);
            if facts.level.is_some() {
                match &ended {
                    Ended::Done(Ok(_)) => {}
                    // Its class pauses. Nobody may come by before the end of that for a job of another class.
                    Ended::Done(Err(_)) => partition.queue(true),
                    Ended::Closed | Ended::Released => partition.workers.leave(partition.owner),
                }
                drop(slot);
                partition.workers.dispatch();
            }
            let mut expired_keys = Vec::new();
            match ended {
                Ended::Closed => return,
                Ended::Released => {}
                Ended::Done(Ok(report)) => {
                    Counters::add(&partition.counters.jobs, 1);
                    partition.counters.reclaimed(&facts, &report);
                    tracing::debug!(owner = ?partition.owner, ?facts, ?report, "job done");
                    expired_keys = report.expired_keys;
                    if is_flush {
                        partition.memory.flush_succeeded(partition.owner);
                        // First whoever waits for memory, and the next flush: making the anchor durable takes a sync.
                        partition.progress.notify();
                        partition.kick();
                        partition.truncate_log().await;
                    }
                }
                Ended::Done(Err(error)) => {
                    Counters::add(&partition.counters.job_errors, 1);
                    partition.job_failures.fetch_add(1, Ordering::Relaxed);
                    if is_flush {
                        partition.memory.flush_failed(partition.owner, &error);
                    }
                    if retry.is_some_and(|retry| retry.is_news) {
                        tracing::warn!(
                            owner = ?partition.owner,
                            ?facts,
                            %error,
                            "a flush or a compaction failed, and will be tried again until it succeeds"
                        );
                    } else {
                        tracing::debug!(owner = ?partition.owner, ?facts, %error, "a job failed again");
                    }
                    partition.progress.notify();
                    partition.pause(retry.map_or(0, |retry| retry.pause)).await;
                }
            }
            partition.progress.notify();
            partition.kick();
            partition.bury_found(&expired_keys);
        });
    }

    /// A slot to flush in, if the number of flushes is bounded. No slot is needed any more when the partition is being
    /// closed.
    async fn flush_slot(&self) -> Option<FlushSlot> {
        let slot = pin!(self.workers.flushes()?.slot(self.owner.tenant));
        match select(slot, pin!(self.closing_begun())).await {
            Either::Left((slot, _)) => Some(slot),
            Either::Right(_) => None,
        }
    }

    /// Whether writes wait for nothing but a flush that is under way. If jobs fail (a full disk), compactions go on,
    /// because they may free space. They also go on if no flush runs: in a tree without level 0 the flush may wait for
    /// one of them.
    pub(crate) fn is_flush_urgent(&self) -> bool {
        self.engine.stall() == Stall::Stop(StallCause::Memtables)
            && self.is_flushing.load(Ordering::Relaxed)
            && self.job_failure.lock().is_none()
    }
}
