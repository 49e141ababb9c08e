//! Writing to a partition: stall, order lock, log, tree.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use weir_admission::Direction;
use weir_command::events::{Classes, KeyEvent};
use weir_io::{Error, ErrorKind, Result};
use weir_log::record::HEADER_BYTES;
use weir_log::{SyncMode, TAG_BYTES};
use weir_model::Batch;
use weir_model::engine::Stall;
use weir_model::parts::is_part;

use super::covers::may_end_lives;
use super::latch::Latches;
use super::{Commit, Partition};
use crate::memory::Room;
use crate::metrics::Counters;
use crate::stall::StallCause;

/// What a record of the shared log takes in addition to its batch.
const RECORD_FRONT_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// The outcome of a blind write.
enum Attempt {
    Written(Commit),
    /// Some key is latched.
    Busy,
    /// Some row may have many parts: it has to be looked at.
    EndsLives,
}

/// What is told together with a write: first of rows that had expired, then what the command tells. That may be
/// millions of events, so they are not copied behind the others.
pub(super) type Events = [Vec<KeyEvent>; 2];

/// For whom a write counts, beside those who read its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// For those who watch its rows, and those who keep values of them: somebody has changed the rows.
    Change,
    /// For those who keep values of its rows: it deletes rows that had expired.
    Burial,
    /// For nobody: it is [quiet](weir_command::Draft::is_quiet).
    Quiet,
}

impl Partition {
    /// Applies `batch` as one. When this returns, every later read sees it (and waits for its commit where it must).
    /// Acknowledge the write when the [`Commit`] is done. An empty batch is refused.
    ///
    /// # Errors
    /// The log failed and is being replaced: try again later. `Closed` if the partition is being closed, `OutOfMemory`
    /// if the tenant's memory has no room for the batch: nothing was written.
    pub async fn write(self: &Arc<Self>, batch: &Batch) -> Result<Commit> {
        if self.must_wait() {
            self.wait_out_stall(batch.as_bytes().len()).await?;
        }
        let _room = self.room(batch.as_bytes().len()).await?;
        loop {
            match self.try_write(batch)? {
                Attempt::Written(commit) => return Ok(commit),
                Attempt::EndsLives => return self.write_with_covers(batch).await,
                Attempt::Busy => {}
            }
            let free = || !self.order.lock().any(batch.as_ref().iter().map(|change| change.key()));
            self.progress.wait(|| free().then_some(())).await;
        }
    }

    /// Applies `batch`, which `writers` writers have gathered, as one if nothing is in the way. Gives the commit, of
    /// which each writer may have [another](Commit::another). `None` if the write would have to wait, or is refused.
    /// Nothing was written then, and each writer is to write its own part.
    pub fn try_write_together(self: &Arc<Self>, batch: &Batch, writers: usize) -> Option<Commit> {
        if self.must_wait() || self.memory.is_short() {
            return None;
        }
        let Ok(Attempt::Written(commit)) = self.try_write(batch) else { return None };
        self.account.book_user_together(Direction::Write, 0, writers.saturating_sub(1) as u64);
        Some(commit)
    }

    /// Whether a write may have to wait for the tree, or for the rate that a policy has set.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        self.engine.stall() != Stall::None || self.write_rate.load(Ordering::Relaxed) > 0
    }

    /// Writes if no key is latched, and no key may be that of a row of many parts.
    fn try_write(self: &Arc<Self>, batch: &Batch) -> Result<Attempt> {
        let order = self.order.lock();
        if order.any(batch.as_ref().iter().map(|change| change.key())) {
            return Ok(Attempt::Busy);
        }
        if may_end_lives(&*self.engine, batch) {
            return Ok(Attempt::EndsLives);
        }
        self.write_in_order(order, batch, Events::default(), WriteKind::Change).map(Attempt::Written)
    }

    /// Appends and applies `batch`, and hands on the events that go with it: in the order of the writes. The caller
    /// holds the order lock and has looked at the latches.
    pub(super) fn write_in_order(
        self: &Arc<Self>,
        order: MutexGuard<'_, Latches>,
        batch: &Batch,
        events: Events,
        kind: WriteKind,
    ) -> Result<Commit> {
        if kind == WriteKind::Change {
            // Also for a write that is refused: a log that is replaced may have it in the end.
            self.witnessed.watched.changed(batch);
        }
        self.refuse_if_closing()?;
        if batch.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "write to", "the partition", "the batch is empty"));
        }
        if !self.engine.has_room_for(batch.as_ref()) {
            let message = "the tenant's memory is full";
            return Err(Error::new(ErrorKind::OutOfMemory, "write to", "the partition", message));
        }
        let index = self.log.append(batch.as_bytes()).inspect_err(|_| {
            Counters::add(&self.counters.write_errors, 1);
            self.kick_repair();
        })?;
        let applied = self.engine.apply(index, batch.as_ref());
        if self.sync == SyncMode::None {
            self.engine.publish(applied.last_seq);
        }
        self.tell_written(batch, events, kind);
        drop(order);
        if let Some(toll) = &self.toll {
            toll.owe(index, (batch.as_bytes().len() + RECORD_FRONT_BYTES) as u64);
        }
        self.mark();
        self.account.book_user(Direction::Write, batch.as_bytes().len() as u64);
        if applied.is_job_due {
            self.kick();
        }
        Ok(Commit::new(self, index, applied.last_seq))
    }

    /// Hands on what has happened to the rows of `batch`. A listener may have come after the command began, which said
    /// nothing then: the rows that were written are told all the same, unless the batch is quiet.
    fn tell_written(self: &Arc<Self>, batch: &Batch, mut events: Events, kind: WriteKind) {
        let Some(witness) = self.witnessed.witness() else { return self.note_no_deadlines() };
        self.note_deadlines(batch, witness.wants());
        let is_told = |events: &Events| events.iter().flatten().any(|event| event.class == Classes::CHANGED);
        if kind != WriteKind::Quiet && witness.wants().has(Classes::CHANGED) && !is_told(&events) {
            let rows = batch.as_ref().iter().map(|change| change.key()).filter(|key| !is_part(key));
            events[1].extend(rows.flat_map(|row| KeyEvent::expired(row, Classes::CHANGED)));
        }
        events.into_iter().filter(|events| !events.is_empty()).for_each(|events| witness.tell(events));
    }

    /// Waits until whoever has the order lock releases it: what was written under the lock is applied then.
    pub(crate) fn pass_order(&self) {
        drop(self.order.lock());
    }

    /// Hands on what has happened. The caller holds the order lock.
    pub(super) fn tell(&self, events: Vec<KeyEvent>) {
        if !events.is_empty()
            && let Some(witness) = self.witnessed.witness()
        {
            witness.tell(events);
        }
    }

    /// To be called under the order lock: a write that gets past this is in the log before the partition is closed.
    pub(super) fn refuse_if_closing(&self) -> Result<()> {
        match self.is_closing() {
            true => Err(Error::new(ErrorKind::Closed, "write to", "the partition", "it is being closed")),
            false => Ok(()),
        }
    }

    /// Room in the node's write memory for a batch of `bytes` bytes, to be held until the batch is applied.
    #[inline]
    pub(super) async fn room(&self, bytes: usize) -> Result<Option<Room>> {
        if self.memory.is_short() { self.wait_for_room(bytes).await.map(Some) } else { Ok(None) }
    }

    async fn wait_for_room(&self, bytes: usize) -> Result<Room> {
        if let Some(room) = self.memory.try_room(self.owner.tenant, bytes) {
            return Ok(room);
        }
        let begin = self.clock.now();
        let outcome = self.memory.room(self.owner.tenant, bytes, || self.is_closing()).await;
        self.counters.stopped(StallCause::NodeMemory, self.clock.now() - begin);
        outcome
    }

    /// `None` while the tree says stop and its jobs make progress. If the jobs fail (a full disk), waiting has no end
    /// in sight: the write is refused and may be tried again.
    fn may_go_on(&self) -> Option<Result<()>> {
        let Stall::Stop(cause) = self.engine.stall() else { return Some(Ok(())) };
        if self.is_closing() {
            return Some(Ok(()));
        }
        let failure = self.job_failure.lock().clone();
        // Another job may have succeeded while those that would make room pause for long.
        failure.or_else(|| self.retries.lasting_failure(cause, self.clock.now())).map(Err)
    }

    /// Waits while the tree says stop, and for its turn while it says slow.
    pub(super) async fn wait_out_stall(self: &Arc<Self>, bytes: usize) -> Result<()> {
        self.wait_out_stop().await?;
        self.wait_for_throttle(bytes).await;
        // A tree that was only slow when the turn was asked for may have come to a stop.
        self.wait_out_stop().await
    }

    async fn wait_out_stop(self: &Arc<Self>) -> Result<()> {
        let Stall::Stop(cause) = self.engine.stall() else { return Ok(()) };
        let begin = self.clock.now();
        self.kick();
        let outcome = self.progress.wait(|| self.may_go_on()).await;
        self.counters.stopped(cause.into(), self.clock.now() - begin);
        outcome
    }
}
