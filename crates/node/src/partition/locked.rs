//! Read-modify-write: atomic on its rows, holding no thread while it waits.
//!
//! A command that reads and then writes is a future that is polled once inside the order lock. If it ends there (all
//! that it reads is in memory), its batch is appended and applied under the same lock. If not, its rows are latched,
//! the lock is released, and the future goes on. Meanwhile writes to latched rows wait, and all others do not.
//!
//! A command of many rows is not polled inside the lock: its rows are [latched in turns](latched) before it begins.

mod latched;
mod rows;
mod transacted;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll};

use parking_lot::MutexGuard;
use weir_command::error::Outcome;
use weir_command::events::{Classes, KeyEvent};
use weir_command::{Args, Call, Command, Context, Draft, Host, TURN_KEYS, Transaction};
use weir_io::plant::{Plant, is_planted};
use weir_io::{Result, Yield};
use weir_log::SyncMode;
use weir_model::engine::Seq;
use weir_model::{Batch, Change, Row, StoredKey};

use self::latched::Latched;
use self::rows::LockedRows;
use super::covers::{Elsewhere, Whole, with_covers};
use super::latch::Latches;
use super::write::{Events, WriteKind};
use super::{Commit, Partition};

impl LockedRows<'_> {
    /// The batch to apply for a command that has come to `answer`, with the covers of the rows that the batch ends.
    async fn decided<T>(&self, answer: T, (batch, events): (Batch, Vec<KeyEvent>)) -> Result<Decided<T>> {
        let whole = with_covers(&*self.partition.engine, batch, self).await?;
        Ok(Decided { answer, whole, events, kind: WriteKind::Change })
    }

    /// The same for what commands want written.
    async fn drafted<T>(&self, answer: T, draft: Draft) -> Result<Decided<T>> {
        let kind = if draft.is_quiet() { WriteKind::Quiet } else { WriteKind::Change };
        Ok(Decided { kind, ..self.decided(answer, draft.into_parts()).await? })
    }

    /// Runs `transaction` and gives what is to be applied for it.
    async fn decided_by(&self, transaction: &mut dyn Transaction) -> Result<Decided<()>> {
        let draft = transaction.run(self).await?;
        self.drafted((), draft).await
    }
}

/// The rows of a command, to be latched if it has to wait, or if there are many.
struct ToLatch<'k> {
    /// About how many there are.
    count: usize,
    rows: &'k (dyn Fn() -> Vec<StoredKey> + Sync),
    /// How others are served while many rows are latched or released.
    yields: Yield,
}

/// How far a command came without waiting.
enum Attempt<'p, T> {
    Done(Done<T>),
    /// It has to wait for something. What it latches is given here.
    Waits(Latched<'p>),
}

/// What is latched for a command that has to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latching {
    /// Its rows: it goes on.
    Rows,
    /// Its rows, unless it [misses](LockedRows::misses) something. Then nothing is latched and the command is dropped.
    UnlessMissing,
}

/// The decision of a command: its answer, and what is to be applied.
struct Decided<T> {
    answer: T,
    whole: Whole,
    /// Events to be told when the batch is applied.
    events: Vec<KeyEvent>,
    /// For whom the changes count.
    kind: WriteKind,
}

/// The result of a command.
struct Done<T> {
    answer: T,
    commit: Option<Commit>,
    written_bytes: usize,
}

impl Partition {
    /// Runs `command` on its rows, with no other write to them in between. The answer may be sent when the commit, if
    /// there is one, is done. The commit covers what the command has written, and changes that it has seen and that are
    /// not published yet.
    ///
    /// # Errors
    /// As [`Partition::write`]. After `Closed` nothing was written, whatever is in the answer.
    pub async fn execute(
        self: &Arc<Self>,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Commit>)> {
        let (database, databases, yields) = (call.database, call.databases, host.yields());
        let rows = LockedRows::new(self);
        // Pinned here: it has room for the largest handler, and is not to be moved.
        let run = pin!(async {
            let context = Context::locked(&rows, host, call, Draft::default());
            let mut finished = weir_command::run(command, context, args).await;
            // A command of many members writes the same parts again and again.
            finished.draft.settle(|_, change| call.bill.left_out(&change));
            rows.drafted(finished.outcome, finished.draft).await
        });
        let (mut count, mut key_bytes) = (0, 0);
        for key in command.keys_in(args) {
            count += 1;
            key_bytes += key.len();
        }
        let keys = || weir_command::rows_of(command, args, database, databases);
        self.run_locked(&rows, key_bytes, &ToLatch { count, rows: &keys, yields }, run).await
    }

    /// Reads `keys`, lets `change` decide on their living rows (in the same order) and applies the batch that it fills,
    /// with no other write to these keys in between. `change` may only write to `keys`, and to parts of their rows.
    /// There is no commit to wait for if the batch is empty and `change` saw no unpublished change.
    ///
    /// # Errors
    /// As [`Partition::write`] and [`Partition::get`].
    pub async fn update<R>(
        self: &Arc<Self>,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Row>], &mut Batch) -> R,
    ) -> Result<(R, Option<Commit>)> {
        let rows = LockedRows::new(self);
        let run = pin!(async {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.push(rows.read(*key, None).wait().await?);
            }
            let mut batch = Batch::new();
            let answer = change(&found, &mut batch);
            rows.decided(answer, (batch, Vec::new())).await
        });
        let key_bytes = keys.iter().map(|key| key.len()).sum();
        let stored = || keys.iter().map(|key| StoredKey::of(key)).collect();
        let to_latch = ToLatch { count: keys.len(), rows: &stored, yields: Yield::PLAIN };
        self.run_locked(&rows, key_bytes, &to_latch, run).await
    }

    /// Applies `batch`, which may end rows of many parts, together with their covers. The caller waits for the engine
    /// and for room.
    ///
    /// # Errors
    /// As [`Partition::write`], and those of reads.
    pub(super) async fn write_with_covers(self: &Arc<Self>, batch: &Batch) -> Result<Commit> {
        let rows = LockedRows::new(self);
        let run = pin!(rows.decided((), (batch.clone(), Vec::new())));
        let keys = || batch.as_ref().iter().map(|change| StoredKey::of(change.key())).collect();
        let to_latch = ToLatch { count: batch.len(), rows: &keys, yields: Yield::PLAIN };
        let done = self.decided(&rows, &to_latch, run).await?;
        Ok(done.commit.expect("the batch is not empty"))
    }

    async fn run_locked<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        key_bytes: usize,
        to_latch: &ToLatch<'_>,
        run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
    ) -> Result<(T, Option<Commit>)> {
        let done = self.admitted(key_bytes, self.decided(rows, to_latch, run)).await?;
        Ok((done.answer, done.commit))
    }

    /// Awaits `decided` when there is room for its keys, and then waits for room for what it has written.
    async fn admitted<T>(
        self: &Arc<Self>,
        key_bytes: usize,
        decided: impl Future<Output = Result<Done<T>>>,
    ) -> Result<Done<T>> {
        if self.must_wait() {
            self.wait_out_stall(key_bytes).await?;
        }
        let room = self.room(key_bytes).await?;
        let done = decided.await?;
        drop(room);
        if done.written_bytes > 0 {
            self.pay_for(done.written_bytes.saturating_sub(key_bytes)).await;
        }
        Ok(done)
    }

    /// Waits for room for what was written beyond the keys, before the writer is answered and comes again. Nobody knew
    /// that size before the write was decided. So the write memory may be exceeded by what all writers change at the
    /// same moment.
    async fn pay_for(self: &Arc<Self>, bytes: usize) {
        if self.must_wait() {
            self.wait_for_throttle(bytes).await;
        }
        if let Err(error) = self.room(bytes).await {
            // Waiting has no end in sight. The write is done all the same, and the next one will be refused.
            tracing::debug!(owner = ?self.owner, %error, "no room for what an update has written");
        }
    }

    async fn decided<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        to_latch: &ToLatch<'_>,
        mut run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
    ) -> Result<Done<T>> {
        let latched = if to_latch.count > TURN_KEYS {
            // Boxed: every connection has room for what it may wait for, and most commands have few rows.
            Box::pin(Latched::in_turns(self, (to_latch.rows)(), to_latch.yields)).await
        } else {
            match self.attempted(rows, to_latch.rows, run.as_mut(), Latching::Rows).await? {
                Attempt::Done(done) => return Ok(done),
                Attempt::Waits(latched) => latched,
            }
        };
        self.finished(rows, run, latched, to_latch.yields).await
    }

    /// Runs `run`, whose rows are `latched`, to its end.
    async fn finished<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
        latched: Latched<'_>,
        yields: Yield,
    ) -> Result<Done<T>> {
        let decided = run.await?;
        let done = self.conclude(rows, decided, self.order.lock(), Some(latched.rows()));
        latched.release(yields).await;
        done
    }

    /// Runs `run` inside the order lock as far as it comes, when nobody else has latched its rows.
    async fn attempted<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        keys: &(dyn Fn() -> Vec<StoredKey> + Sync),
        mut run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
        latching: Latching,
    ) -> Result<Attempt<'_, T>> {
        loop {
            let attempt = poll_fn(|task| Poll::Ready(self.attempt(rows, keys, run.as_mut(), (task, latching))));
            if let Some(attempt) = attempt.await? {
                return Ok(attempt);
            }
            let keys = keys();
            let free = || !self.order.lock().any(keys.iter().map(|key| &key[..]));
            self.progress.wait(|| free().then_some(())).await;
        }
    }

    /// The part inside the order lock: the whole command, if nothing has to be waited for. `None` if another command
    /// has latched one of its keys.
    fn attempt<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        keys: &dyn Fn() -> Vec<StoredKey>,
        run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
        (task, latching): (&mut Task<'_>, Latching),
    ) -> Result<Option<Attempt<'_, T>>> {
        let mut order = self.order.lock();
        if !order.is_empty() && order.any(keys().iter().map(|key| &key[..])) {
            return Ok(None);
        }
        rows.is_in_order.store(true, Ordering::Relaxed);
        let polled = run.poll(task);
        rows.is_in_order.store(false, Ordering::Relaxed);
        match polled {
            Poll::Ready(decided) => self.conclude(rows, decided?, order, None).map(Attempt::Done).map(Some),
            Poll::Pending => {
                let latches = latching == Latching::Rows || !rows.misses();
                let latches = latches && !is_planted(Plant::RowsNotLatched);
                let keys = if latches { keys() } else { Vec::new() };
                Ok(Some(Attempt::Waits(Latched::at_once(self, &keys, &mut order))))
            }
        }
    }

    fn conclude<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        Decided { answer, whole: Whole { mut batch, due_ms }, mut events, kind }: Decided<T>,
        order: MutexGuard<'_, Latches>,
        latched: Option<&[Arc<[u8]>]>,
    ) -> Result<Done<T>> {
        self.refuse_if_closing()?;
        if is_planted(Plant::RecordSplit) && batch.len() > 1 {
            let (first, rest) = halves(&batch);
            drop(self.write_in_order(order, &first, Events::default(), WriteKind::Change)?);
            let rest = Decided { answer, whole: Whole { batch: rest, due_ms }, events, kind };
            return self.conclude(rows, rest, self.order.lock(), latched);
        }
        let expired = rows.expired.lock();
        if !batch.is_empty() {
            let (mut ended, mut told) = (0, Vec::new());
            if !expired.is_empty() {
                (ended, told) = self.end_expired(&rows.to_bury(&expired, &order, latched), &mut batch);
            }
            let commit = Some(self.write_in_order(order, &batch, [told, events], kind)?);
            if ended > 0 {
                self.witnessed.expirations.count(ended);
            }
            // After the write: whoever looks at the agenda either sees the entry, or is told here that there is one.
            self.fields_due(due_ms);
            return Ok(Done { answer, commit, written_bytes: batch.as_bytes().len() });
        }
        // The answer tells of changes that the loss of the machine could still take back, so it waits for their commit.
        let newest_seen: Seq = rows.newest_seen.load(Ordering::Relaxed);
        let unpublished = self.sync != SyncMode::None && newest_seen > self.engine.published();
        let commit = unpublished.then(|| Commit::new(self, self.log.last(), self.engine.applied_seq()));
        if !expired.is_empty() && self.may_bury() {
            let buried = rows.to_bury(&expired, &order, latched);
            buried.iter().for_each(|(key, elsewhere)| elsewhere.bury(&mut batch, key));
            let count = buried.len();
            let told = self.expired_events(buried.into_keys());
            // If the write fails, nothing of it is told; but what clients keep has to be known all the same.
            self.tell(events.extract_if(.., |event| event.class == Classes::KEPT).collect());
            self.bury_in_order(order, &batch, count, [told, events]);
        } else {
            self.tell(events);
        }
        Ok(Done { answer, commit, written_bytes: 0 })
    }

    /// Where somebody is told what happens to keys, rows that a command has found expired are deleted together with its
    /// writes, unless the command has written over them, and are told in front of its events. Gives how many rows end
    /// with this batch, and what is told of them.
    fn end_expired(&self, found: &BTreeMap<&[u8], Elsewhere>, batch: &mut Batch) -> (usize, Vec<KeyEvent>) {
        let known = |change: Change<'_>| found.get_key_value(change.key()).map(|(key, _)| *key);
        let written: BTreeSet<&[u8]> = batch.as_ref().iter().filter_map(known).collect();
        let told = self.expired_events(found.keys().copied());
        if told.is_empty() {
            return (written.len(), told);
        }
        let left = found.iter().filter(|(key, _)| !written.contains(**key));
        left.for_each(|(key, elsewhere)| elsewhere.bury(batch, key));
        (found.len(), told)
    }
}

/// The first change of `batch`, and the others: a planted mistake writes them one by one.
#[cold]
fn halves(batch: &Batch) -> (Batch, Batch) {
    let (mut first, mut rest) = (Batch::new(), Batch::new());
    for (at, change) in batch.as_ref().iter().enumerate() {
        if at == 0 { first.push(change) } else { rest.push(change) }
    }
    (first, rest)
}

#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod tests;
