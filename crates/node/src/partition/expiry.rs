//! While somebody is told what happens to keys, keys that expire are deleted and told in time, even if nobody asks for
//! them.
//!
//! Whoever writes a row puts it into a [queue](ExpiryQueue) by its deadline. Rows that were there before are found by a
//! *survey*, which goes over all rows, behind I/O that others wait for. A task waits, with a timer, for rows that are
//! due within a second; a round of the control loop checks whether such a task is needed. Rows that have expired are
//! deleted as by a read that finds them. That looks again, so a queue that is wrong about a row does no harm.
//!
//! The queue is in memory only, and bounded. Without a witness there is no queue, and a write costs one more load.

use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::select;
use parking_lot::{Mutex, MutexGuard};
use weir_command::events::Classes;
use weir_io::{Event, Nanos, Result, sleep_until, yield_now};
use weir_model::engine::Range;
use weir_model::parts::is_part;
use weir_model::{Batch, Change, DATABASES};

use super::{Background, Partition};
use crate::expiry_queue::ExpiryQueue;

/// A task waits for rows that are due within this many milliseconds: more than a round of the control loop takes.
const SOON_MS: u64 = 1_000;
/// Pause between two deletions: rows that expire meanwhile are deleted together.
const PAUSE_NANOS: Nanos = 20_000_000;
/// A row that another command is working on is looked at again after this time.
const AGAIN_MS: u64 = 50;
/// Rows that are looked at and deleted under the order lock at once: tens of microseconds.
const DUE_AT_ONCE: usize = 64;
/// A survey looks at this many rows, or bytes of them, before others get a turn.
const PAGE_ROWS: usize = 1_000;
const PAGE_BYTES: u64 = 256 << 10;
/// After a survey there is none for this many times as long as it took, and at least a second.
const REST_FACTOR: u64 = 10;
const REST_NANOS_MIN: Nanos = 1_000_000_000;

/// Nothing expires.
const NEVER: u64 = u64::MAX;

/// The queue of rows that expire, and the survey that fills it. Lock order: behind the order lock of the partition.
pub(super) struct Expiry {
    /// Something was put into the queue, or a survey was begun, since the queue was given up.
    is_used: AtomicBool,
    /// When the first row of the queue expires.
    first_ms: AtomicU64,
    /// A task waits for that row.
    is_awaited: AtomicBool,
    is_surveying: AtomicBool,
    /// The first deadline may be earlier than it was.
    earlier: Event,
    state: Mutex<KnownExpiries>,
}

#[derive(Default)]
struct KnownExpiries {
    queue: ExpiryQueue,
    /// The queue has all rows that were there before, as far as it has room.
    is_surveyed: bool,
    /// No survey begins before this time.
    next_survey: Nanos,
    /// Counts how often the queue was given up: a survey that was begun before does not count.
    life: u64,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            first_ms: AtomicU64::new(NEVER),
            is_awaited: AtomicBool::new(false),
            is_surveying: AtomicBool::new(false),
            earlier: Event::default(),
            state: Mutex::default(),
        }
    }
}

impl Expiry {
    /// Changes the queue; gives whether the first deadline has changed.
    fn alter(&self, alter: impl FnOnce(&mut ExpiryQueue)) -> bool {
        let mut state = self.state.lock();
        alter(&mut state.queue);
        self.is_used.store(true, Ordering::SeqCst);
        self.note_first(&state)
    }

    /// Takes out rows that are due.
    fn take_due(&self, now_ms: u64) -> Vec<Arc<[u8]>> {
        let mut state = self.state.lock();
        let due = state.queue.take_due(now_ms, DUE_AT_ONCE);
        self.note_first(&state);
        due
    }

    fn note_first(&self, state: &MutexGuard<'_, KnownExpiries>) -> bool {
        let first_ms = state.queue.first_ms().unwrap_or(NEVER);
        self.first_ms.swap(first_ms, Ordering::SeqCst) != first_ms
    }

    /// Nobody is told any more.
    fn give_up(&self) {
        if self.is_used.load(Ordering::SeqCst) {
            let mut state = self.state.lock();
            *state = KnownExpiries { next_survey: state.next_survey, life: state.life + 1, ..KnownExpiries::default() };
            self.is_used.store(false, Ordering::SeqCst);
            self.note_first(&state);
        }
    }
}

/// The row that `change` writes, and when it expires.
fn deadline<'b>(change: &Change<'b>) -> Option<(&'b [u8], Option<u64>)> {
    match *change {
        Change::Put { key, expire_at_ms, .. } | Change::Head { key, expire_at_ms, .. } => Some((key, expire_at_ms)),
        Change::Delete { key } => Some((key, None)),
        Change::Cover { .. } => None,
    }
    .filter(|(key, _)| !is_part(key))
}

impl Partition {
    /// Whether rows that are due may be deleted now, although nobody asks for them.
    fn may_expire_unasked(&self) -> bool {
        self.may_bury() && !self.witnessed.expirations.are_waiting_to_be_asked()
    }

    /// Whether somebody is told what expires.
    fn tells_expiry(&self) -> bool {
        self.witnessed.wants().has(Classes::EXPIRED.and(Classes::CHANGED))
    }

    /// `batch` is applied. The caller holds the order lock.
    pub(super) fn note_deadlines(self: &Arc<Self>, batch: &Batch, wants: Classes) {
        if !wants.has(Classes::EXPIRED.and(Classes::CHANGED)) {
            return self.expiry.give_up();
        }
        let is_new = self.expiry.alter(|queue| {
            let rows = batch.as_ref().iter().filter_map(|change| deadline(&change));
            rows.for_each(|(row, deadline_ms)| queue.set(row, deadline_ms));
        });
        if is_new {
            self.await_expiry();
        }
    }

    /// Nobody is told what is written.
    #[inline]
    pub(super) fn note_no_deadlines(&self) {
        self.expiry.give_up();
    }

    /// The row was due and is not gone: a command is working on it, or it expires later than the queue knew.
    pub(super) fn look_again(self: &Arc<Self>, row: &[u8], deadline_ms: Option<u64>) {
        if self.expiry.is_used.load(Ordering::SeqCst) {
            let again_ms = deadline_ms.unwrap_or_else(|| self.clock.unix_ms() + AGAIN_MS);
            if self.expiry.alter(|queue| queue.add(row, again_ms)) {
                self.await_expiry();
            }
        }
    }

    /// Whether a listener is to be told of a row that will expire.
    pub(crate) fn has_to_tell(&self) -> bool {
        self.expiry.first_ms.load(Ordering::SeqCst) != NEVER && self.witnessed.is_heard()
    }

    /// Called once in each round, and when somebody wants to be told.
    pub(crate) fn look_after_expiry(self: &Arc<Self>) {
        if !self.tells_expiry() {
            return self.expiry.give_up();
        }
        self.survey();
        self.await_expiry();
    }

    /// When the first row expires, if that is soon.
    fn due_soon(&self) -> Option<u64> {
        let first_ms = self.expiry.first_ms.load(Ordering::SeqCst);
        (first_ms != NEVER && first_ms <= self.clock.unix_ms().saturating_add(SOON_MS)).then_some(first_ms)
    }

    /// Makes sure that a task waits for what is due soon.
    fn await_expiry(self: &Arc<Self>) {
        if self.due_soon().is_none() || !self.may_expire_unasked() {
            return;
        }
        if self.expiry.is_awaited.swap(true, Ordering::SeqCst) {
            return self.expiry.earlier.notify();
        }
        match self.background() {
            None => self.expiry.is_awaited.store(false, Ordering::SeqCst),
            Some(background) => self.workers.spawn(async move { expire_in_time(&background).await }),
        }
    }

    /// Waits until the row that expires at `first_ms`, or an earlier one, is due.
    async fn wait_until_due(&self, first_ms: u64) {
        let wait_ms = first_ms.saturating_sub(self.clock.unix_ms());
        let is_due = || {
            let next_ms = self.expiry.first_ms.load(Ordering::SeqCst);
            (next_ms < first_ms || next_ms <= self.clock.unix_ms()).then_some(())
        };
        let timer = sleep_until(&self.clock, self.clock.now() + wait_ms * 1_000_000);
        self.unless_closing(select(pin!(timer), pin!(self.expiry.earlier.wait(is_due)))).await;
    }

    /// Deletes and tells what is due; `false` if nothing may be written now.
    async fn expire_due(self: &Arc<Self>) -> bool {
        loop {
            if !self.may_expire_unasked() {
                // A round looks again.
                return false;
            }
            let due = self.expiry.take_due(self.clock.unix_ms());
            if due.is_empty() {
                return true;
            }
            self.bury(&due.iter().map(|row| &row[..]).collect::<Vec<_>>());
            yield_now().await;
        }
    }

    /// Goes over all rows, if a survey is due.
    fn survey(self: &Arc<Self>) {
        let is_due = {
            let state = self.expiry.state.lock();
            (!state.is_surveyed || state.queue.lacks()) && self.clock.now() >= state.next_survey
        };
        if !is_due || self.expiry.is_surveying.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.background() {
            None => self.expiry.is_surveying.store(false, Ordering::SeqCst),
            Some(background) => self.workers.spawn(async move { survey(&background).await }),
        }
    }

    /// Puts all rows that expire into the queue, as long as the queue has the `life`; gives whether that was so to the
    /// end.
    async fn survey_rows(self: &Arc<Self>, life: u64) -> Result<bool> {
        // A writer that found no witness holds the order lock until its change is applied: the survey must see that
        // change.
        self.pass_order();
        self.publish_all().await;
        let mut from = Some(Vec::new());
        while let Some(next) = from {
            let to = Bound::Excluded(vec![DATABASES]);
            let range = Range { from: Bound::Included(next), to, reverse: false };
            let mut scan = self.engine.scan_in_background(range);
            scan.set_budget(PAGE_ROWS, PAGE_BYTES);
            let mut mortal = Vec::new();
            while let Some(entry) = scan.next().await? {
                if entry.expire_at_ms != 0 {
                    mortal.push((entry.key.to_vec(), entry.expire_at_ms));
                }
            }
            from = scan.stopped_at();
            if self.is_closing() || self.expiry.state.lock().life != life {
                return Ok(false);
            }
            let add = |queue: &mut ExpiryQueue| mortal.iter().for_each(|(row, at_ms)| queue.add(row, *at_ms));
            if !mortal.is_empty() && self.expiry.alter(add) {
                self.await_expiry();
            }
            yield_now().await;
        }
        Ok(true)
    }
}

async fn expire_in_time(background: &Background) {
    let partition = background.partition();
    let expiry = &partition.expiry;
    loop {
        let mut goes_on = true;
        while goes_on && let Some(first_ms) = partition.due_soon() {
            partition.wait_until_due(first_ms).await;
            goes_on = partition.expire_due().await;
            partition.pause(PAUSE_NANOS).await;
        }
        expiry.is_awaited.store(false, Ordering::SeqCst);
        // Whoever has seen that somebody waits relies on it.
        if !goes_on || partition.due_soon().is_none() || expiry.is_awaited.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

async fn survey(background: &Background) {
    let partition = background.partition();
    let (clock, expiry) = (&partition.clock, &partition.expiry);
    let began = clock.now();
    let life = {
        let mut state = expiry.state.lock();
        state.queue.complete();
        expiry.is_used.store(true, Ordering::SeqCst);
        state.life
    };
    let is_whole = match partition.survey_rows(life).await {
        Ok(is_whole) => is_whole,
        Err(error) => {
            tracing::debug!(owner = ?partition.owner, %error, "cannot look for rows that will expire");
            false
        }
    };
    {
        let mut state = expiry.state.lock();
        if state.life == life {
            state.is_surveyed = is_whole;
        }
        let took = clock.now() - began;
        state.next_survey = clock.now() + took.saturating_mul(REST_FACTOR).max(REST_NANOS_MIN);
    }
    expiry.is_surveying.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests;
