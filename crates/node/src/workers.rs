//! Workers: where background jobs run, and the one place that decides when a job begins and advances.
//!
//! A flush may always run, one per partition (C-14), and so may dropping what is dead as a whole, which moves no data;
//! other compactions share `compaction_slots`, and [`WorkerSlots`] says whose turn it is when one is free. Slots bound
//! memory and CPU; the gates bound the disk. What begun compactions do when the scope changes is [`crate::parking`]'s
//! business.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;

use parking_lot::Mutex;
use weir_io::{Class, Clock, ErrorKind, Nanos, Owner, Spawn, sleep_until};
use weir_log::SyncMode;
use weir_model::engine::{Job, Stall, StallCause, Urgency};

use crate::metrics::Counters;
use crate::parking::Ended;
use crate::partition::Partition;
use crate::worker_slots::WorkerSlots;

/// How long a failed job waits before it is tried again, in nanoseconds.
const RETRY_AFTER: Nanos = 100_000_000;

/// The node's workers.
pub struct Workers {
    spawn: Arc<dyn Spawn>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    slots: WorkerSlots,
    /// Those that wait in `slots`.
    waiting: BTreeMap<Owner, Weak<Partition>>,
}

impl Workers {
    /// `compaction_slots` compactions at a time, on `spawn`.
    pub fn new(spawn: Arc<dyn Spawn>, clock: Arc<dyn Clock>, compaction_slots: usize) -> Arc<Self> {
        let state = State { slots: WorkerSlots::new(compaction_slots), waiting: BTreeMap::new() };
        Arc::new(Self { spawn, clock, state: Mutex::new(state) })
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn.spawn(Box::pin(future));
    }

    /// Compactions under way, and trees that wait for a slot.
    pub fn compactions(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.slots.running(), state.slots.waiting())
    }

    fn slot(self: &Arc<Self>, owner: Owner, is_spare: bool) -> Slot {
        Slot { workers: Arc::clone(self), tenant: owner.tenant, since: self.clock.now(), is_spare }
    }

    fn try_take(self: &Arc<Self>, owner: Owner) -> Option<Slot> {
        let mut state = self.state.lock();
        let taken = state.slots.try_take(owner);
        if taken {
            state.waiting.remove(&owner);
        }
        drop(state);
        taken.then(|| self.slot(owner, false))
    }

    fn wait(&self, partition: &Arc<Partition>, class: Class) {
        let mut state = self.state.lock();
        state.slots.wait(partition.owner, class);
        state.slots.set_short(partition.owner, partition.engine.urgency() > Urgency::Idle);
        state.waiting.insert(partition.owner, Arc::downgrade(partition));
    }

    /// `owner` wants no slot any more.
    pub(crate) fn leave(&self, owner: Owner) {
        let mut state = self.state.lock();
        state.slots.leave(owner);
        state.waiting.remove(&owner);
    }

    /// Gives free slots to those that wait, as long as there are both.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let next = state.slots.next().map(|owner| (owner, false));
            let Some((owner, is_spare)) = next.or_else(|| Some((state.slots.next_spare()?, true))) else { return };
            let partition = state.waiting.remove(&owner);
            drop(state);
            let slot = self.slot(owner, is_spare);
            if let Some(partition) = partition.and_then(|partition| partition.upgrade()) {
                let is_due = partition.compact_in(slot);
                partition.queue(is_due);
            }
        }
    }
}

/// A compaction slot, held while a job runs. Whoever gives one back must [`Workers::dispatch`].
pub(crate) struct Slot {
    workers: Arc<Workers>,
    tenant: u32,
    since: Nanos,
    is_spare: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let nanos = self.workers.clock.now().saturating_sub(self.since);
        let mut state = self.workers.state.lock();
        if self.is_spare {
            state.slots.give_back_spare();
        } else {
            state.slots.give_back(self.tenant, nanos);
        }
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
        if let Some(job) = self.engine.next_flush() {
            self.start(job, None);
        }
        if let Some(job) = self.engine.next_drop() {
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

    /// Lets flushes rush while all memtables but two are full (U-11). Memtables become full and empty only where
    /// [`Partition::kick`] follows.
    fn note_urgency(&self) {
        if let Some(gates) = &self.gates {
            gates.set_flush_is_urgent(self.engine.is_flush_urgent());
        }
    }

    /// Waits for a slot, if a compaction is due. Not where jobs fail: that tree tries again when it is next kicked, not
    /// at once.
    fn queue(self: &Arc<Self>, is_due: bool) {
        let may_run = is_due && self.job_failure.lock().is_none();
        let due = || self.resumable().or_else(|| self.engine.compaction_due());
        match may_run.then(due).flatten() {
            Some(class) => self.workers.wait(self, class),
            None => self.workers.leave(self.owner),
        }
        if self.is_closing() {
            self.workers.leave(self.owner);
        }
    }

    /// Lets a parked compaction go on, or else starts the most urgent one, if one is due.
    fn compact_in(self: &Arc<Self>, slot: Slot) -> bool {
        if self.is_closing() {
            return false;
        }
        let Some(slot) = self.resume_in(slot) else { return true };
        let Some(job) = self.engine.next_compaction() else { return false };
        self.start(job, Some(slot));
        true
    }

    fn start(self: &Arc<Self>, job: Job, mut slot: Option<Slot>) {
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move {
            let partition = background.partition();
            let facts = job.facts();
            let ended = partition.run_or_park(job, &mut slot).await;
            if let Ended::Done(outcome) = &ended {
                *partition.job_failure.lock() = outcome.as_ref().err().cloned();
            }
            if facts.level.is_some() {
                if !matches!(ended, Ended::Done(Ok(_))) {
                    partition.workers.leave(partition.owner);
                }
                drop(slot);
                partition.workers.dispatch();
            }
            match ended {
                Ended::Closed => return,
                Ended::Released => {}
                Ended::Done(Ok(report)) => {
                    Counters::add(&partition.counters.jobs, 1);
                    partition.counters.reclaimed(&facts, &report);
                    tracing::debug!(owner = ?partition.owner, ?facts, ?report, "job done");
                    if facts.level.is_none() {
                        // Who waits for memory and the next flush first: making the anchor durable takes a sync.
                        partition.progress.notify();
                        partition.kick();
                        partition.truncate_log().await;
                    }
                }
                Ended::Done(Err(error)) => {
                    Counters::add(&partition.counters.job_errors, 1);
                    if facts.level.is_none() {
                        partition.memory.flush_failed(&error);
                    }
                    tracing::warn!(owner = ?partition.owner, ?facts, %error, "job failed, will be tried again");
                    partition.progress.notify();
                    partition.pause(RETRY_AFTER).await;
                }
            }
            partition.progress.notify();
            partition.kick();
        });
    }

    /// Whether writes wait for nothing but a flush. Where jobs fail (a full disk), compactions go on: they may free
    /// space.
    pub(crate) fn is_flush_urgent(&self) -> bool {
        self.engine.stall() == Stall::Stop(StallCause::Memtables) && self.job_failure.lock().is_none()
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
        let persisted = self.engine.persisted();
        // A log that is never synced would not miss, after a power cut, what an older manifest has forgotten.
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
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move {
            let partition = background.partition();
            while let (Some(failure), false) = (partition.log.failure(), partition.is_closing()) {
                tracing::warn!(owner = ?partition.owner, error = %failure, "the log failed: flushing, then replacing it");
                let last = partition.seal_all();
                let drained = || partition.engine.persisted() >= last || partition.is_closing();
                partition.progress.wait(|| drained().then_some(())).await;
                if partition.is_closing() {
                    break;
                }
                match partition.replace_log().await {
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
