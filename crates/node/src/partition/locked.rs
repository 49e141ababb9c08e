//! Read-modify-write: atomic on its rows, holding no thread while it waits.
//!
//! A command that reads and then writes is a future that is polled once inside the order lock. If it ends there (all
//! that it reads is in memory), its batch is appended and applied under the same lock. If not, its rows are latched,
//! the lock is released, and the future goes on. Meanwhile writes to latched rows wait, and all others do not.
//!
//! Several commands that run as one have many rows, and would read them one after the other. So they are first stopped
//! with nothing latched, the rows that they are known to read are read into memory all at a time, and they begin again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::iter::once;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context as Task, Poll};

use parking_lot::{Mutex, MutexGuard};
use weir_admission::Direction;
use weir_command::error::Outcome;
use weir_command::events::{Classes, KeyEvent};
use weir_command::{
    Args, Call, Command, Context, Draft, Host, Page, PartPage, PartRange, Read, Rows, Transaction, Waiting,
};
use weir_io::Result;
use weir_io::plant::{Plant, is_planted};
use weir_log::SyncMode;
use weir_model::engine::{Found, Kind, Lookup, Seq};
use weir_model::{Batch, Change, Row, StoredKey};

use super::covers::{Elsewhere, Lives, Whole, with_covers};
use super::expired::is_mortal;
use super::latch::Latches;
use super::part_page::{PageUnderWay, scan_range};
use super::{Commit, Partition};

/// A command that has looked at about this many parts under the order lock, living or dead, goes on without the lock.
const PARTS_IN_ORDER_MAX: usize = 2_000;
/// How many heads are remembered: they are searched one by one.
const HEADS_MAX: usize = 16;
/// Beginning a scan takes as long as looking at this many parts.
const SCAN_PARTS: usize = 16;
/// This many bytes of dead entries, or of older versions, count as one part.
const PASSED_PART_BYTES: u64 = 64;

/// A row that was found expired.
struct Expired {
    key: Vec<u8>,
    /// The sequence number at which it was written.
    seq: Seq,
    /// What the row has elsewhere.
    elsewhere: Elsewhere,
}

/// Rows that nobody else writes to while they are read. A read sees changes that are not yet committed, so the answer
/// waits for their commit.
struct LockedRows<'p> {
    partition: &'p Arc<Partition>,
    /// The newest version that was read.
    newest_seen: AtomicU64,
    expired: Mutex<Vec<Expired>>,
    /// Heads that were read, with what their rows have elsewhere: the first [`HEADS_MAX`].
    heads: Mutex<Vec<(StoredKey, Elsewhere)>>,
    /// The order lock is held. Nothing may be read from the device then, because some threads do their I/O right where
    /// they ask for it.
    is_in_order: AtomicBool,
    /// About how many parts scans have looked at so far.
    parts_in_order: AtomicUsize,
    /// Something was asked for by its key that is not in memory.
    misses: AtomicBool,
    /// How many rows and parts were read, and their bytes. They are booked together in the end.
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl<'p> LockedRows<'p> {
    fn new(partition: &'p Arc<Partition>) -> Self {
        Self {
            partition,
            newest_seen: AtomicU64::new(0),
            expired: Mutex::default(),
            heads: Mutex::default(),
            is_in_order: AtomicBool::new(false),
            parts_in_order: AtomicUsize::new(0),
            misses: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }

    /// Whether something was asked for by its key that is not in memory.
    fn misses(&self) -> bool {
        self.misses.load(Ordering::Relaxed)
    }

    fn saw(&self, seq: Seq) {
        // One task uses this at a time: no need for an exchange.
        self.newest_seen.store(seq.max(self.newest_seen.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The row that a user asked for, to be booked as read.
    fn counted(&self, row: Option<Row>) -> Option<Row> {
        let bytes = row.as_ref().map_or(0, |row| row.bytes() as u64);
        self.reads.store(self.reads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.read_bytes.store(self.read_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        row
    }

    /// The row, if it lives at `now_ms`, or by the clock if no time is given.
    fn judge(&self, key: &[u8], found: Option<Found>, now_ms: Option<u64>) -> Result<Option<Row>> {
        let Some(found) = found else { return Ok(self.counted(None)) };
        self.saw(found.seq);
        if found.kind == Kind::Head {
            let mut heads = self.heads.lock();
            if heads.len() < HEADS_MAX {
                heads.push((StoredKey::of(key), Elsewhere::found(key, &found)?));
            }
        }
        let mortal = is_mortal(Some(&found)).then(|| found.clone());
        let row = self.partition.living(key, Some(found), now_ms)?;
        if let Some(found) = mortal.filter(|_| row.is_none()) {
            let elsewhere = Elsewhere::found(key, &found)?;
            self.expired.lock().push(Expired { key: key.to_vec(), seq: found.seq, elsewhere });
        }
        Ok(self.counted(row))
    }

    /// Whether the expired row is certainly still there, and not latched by another command. The caller holds the order
    /// lock. A command may read keys that are not its rows; others may write to those keys once it has released the
    /// lock and has its own rows `latched` instead.
    fn is_still(&self, found: &Expired, order: &Latches, latched: Option<&BTreeSet<&[u8]>>) -> bool {
        if latched.is_some_and(|rows| rows.contains(&found.key[..])) {
            return true;
        }
        if order.any(once(&found.key[..])) {
            return false;
        }
        if latched.is_none() {
            return true;
        }
        match self.partition.engine.get_latest(&found.key) {
            Lookup::Ready(now) => matches!(now, Some(Ok(Some(now))) if now.seq == found.seq),
            Lookup::Pending(_) => false,
        }
    }

    /// The batch to apply for a command that has come to `answer`, with the covers of the rows that the batch ends.
    async fn decided<T>(&self, answer: T, (batch, events): (Batch, Vec<KeyEvent>)) -> Result<Decided<T>> {
        let whole = with_covers(&*self.partition.engine, batch, self).await?;
        Ok(Decided { answer, whole, events })
    }

    /// Runs `transaction` and gives what is to be applied for it.
    async fn decided_by(&self, transaction: &mut dyn Transaction) -> Result<Decided<()>> {
        let draft = transaction.run(self).await?;
        self.decided((), draft.into_parts()).await
    }

    /// The rows that were found expired and are to be deleted, each row once.
    fn to_bury<'a>(
        &self,
        expired: &'a [Expired],
        order: &Latches,
        latched: Option<&[StoredKey]>,
    ) -> BTreeMap<&'a [u8], Elsewhere> {
        let latched: Option<BTreeSet<&[u8]>> = latched.map(|rows| rows.iter().map(|row| &row[..]).collect());
        let still = expired.iter().filter(|found| self.is_still(found, order, latched.as_ref()));
        still.map(|found| (&found.key[..], found.elsewhere)).collect()
    }

    /// Waits until the order lock is released. No waker is called for it: whoever releases the lock goes on with this
    /// future at once.
    fn out_of_order(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|_| if self.is_in_order.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) })
    }

    fn read<'a>(&'a self, key: impl Deref<Target = [u8]> + Send + 'a, now_ms: Option<u64>) -> Read<'a> {
        match self.partition.engine.get_latest(&key) {
            Lookup::Ready(found) => {
                let found = found.expect("looked at once");
                Read::Ready(found.and_then(|found| self.judge(&key, found, now_ms)))
            }
            lookup @ Lookup::Pending(_) => {
                self.misses.store(true, Ordering::Relaxed);
                Read::Pending(Box::pin(async move {
                    self.out_of_order().await;
                    let found = self.partition.timed(lookup).await?;
                    self.judge(&key, found, now_ms)
                }))
            }
        }
    }
}

impl Drop for LockedRows<'_> {
    fn drop(&mut self) {
        let (reads, bytes) = (*self.reads.get_mut(), *self.read_bytes.get_mut());
        if reads > 0 {
            self.partition.account.book_user_together(Direction::Read, bytes, reads);
        }
    }
}

impl Lives for LockedRows<'_> {
    fn known(&self, key: &[u8]) -> Option<Elsewhere> {
        let heads = self.heads.lock();
        heads.iter().find(|(known, _)| known[..] == *key).map(|(_, elsewhere)| *elsewhere)
    }

    fn elsewhere<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Elsewhere>> {
        Box::pin(async move {
            let found = match self.partition.engine.get_latest(key) {
                lookup @ Lookup::Ready(_) => lookup.await?,
                lookup @ Lookup::Pending(_) => {
                    self.out_of_order().await;
                    self.partition.timed(lookup).await?
                }
            };
            found.map_or(Ok(Elsewhere::default()), |found| Elsewhere::found(key, &found))
        })
    }
}

impl Rows for LockedRows<'_> {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.read(StoredKey::new(database, key), Some(now_ms))
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        self.read(part, Some(now_ms))
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartPage>> {
        Box::pin(async move {
            if self.parts_in_order.load(Ordering::Relaxed) >= PARTS_IN_ORDER_MAX {
                self.out_of_order().await;
            }
            let scan = self.partition.engine.scan_latest(scan_range(&range));
            let mut page = PageUnderWay::new(scan, range, limit);
            while !page.take() {
                self.out_of_order().await;
                self.partition.timed(page.load()).await?;
            }
            let (page, newest) = page.end(self.partition);
            let passed = (page.passed.bytes / PASSED_PART_BYTES) as usize;
            self.parts_in_order.fetch_add(page.parts.len() + passed + SCAN_PARTS, Ordering::Relaxed);
            self.saw(newest);
            Ok(page)
        })
    }

    fn new_version(&self) -> u64 {
        self.partition.new_version()
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(async move {
            self.out_of_order().await;
            self.partition.keys(database, from, limit).await
        })
    }
}

/// Releases the latched keys, whether the command ended, failed or was dropped.
struct Latched<'a> {
    partition: &'a Partition,
    keys: Vec<StoredKey>,
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        self.partition.order.lock().remove(&self.keys);
        self.partition.progress.notify();
    }
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
        let (database, databases) = (call.database, call.databases);
        let rows = LockedRows::new(self);
        // Pinned here: it has room for the largest handler, and is not to be moved.
        let run = pin!(async {
            let context = Context::locked(&rows, host, call, Draft::default());
            let mut finished = weir_command::run(command, context, args).await;
            // A command of many members writes the same parts again and again.
            finished.draft.settle(|_, change| call.bill.left_out(&change));
            rows.decided(finished.outcome, finished.draft.into_parts()).await
        });
        let key_bytes = command.keys_in(args).map(<[u8]>::len).sum();
        self.run_locked(&rows, key_bytes, &|| weir_command::rows_of(command, args, database, databases), run).await
    }

    /// Runs `transaction` on its rows, with no other write to them in between, and applies its changes as one batch.
    /// Otherwise as [`Partition::execute`].
    ///
    /// # Errors
    /// As [`Partition::execute`], and those of the transaction.
    pub async fn transact(self: &Arc<Self>, transaction: &mut dyn Transaction) -> Result<Option<Commit>> {
        let keys = transaction.rows();
        let key_bytes = keys.iter().map(|key| key.len()).sum();
        // Boxed, for it is large: every connection has room for what it may wait for, and most wait for nothing.
        let transacted = Box::pin(self.transacted(transaction, &keys));
        Ok(self.admitted(key_bytes, transacted).await?.commit)
    }

    async fn transacted(self: &Arc<Self>, transaction: &mut dyn Transaction, keys: &[StoredKey]) -> Result<Done<()>> {
        let keys_to_latch = || keys.to_vec();
        if transaction.may_begin_again() {
            {
                let rows = LockedRows::new(self);
                let mut run = pin!(rows.decided_by(transaction));
                match self.attempted(&rows, &keys_to_latch, run.as_mut(), Latching::UnlessMissing).await? {
                    Attempt::Done(done) => return Ok(done),
                    Attempt::Waits(latched) if !rows.misses() => return self.finished(&rows, run, latched).await,
                    Attempt::Waits(_) => {}
                }
            }
            self.read_ahead(keys, &transaction.members()).await;
        }
        let rows = LockedRows::new(self);
        let run = pin!(rows.decided_by(transaction));
        self.decided(&rows, &keys_to_latch, run).await
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
        self.run_locked(&rows, key_bytes, &|| keys.iter().map(|key| StoredKey::of(key)).collect(), run).await
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
        let done = self.decided(&rows, &keys, run).await?;
        Ok(done.commit.expect("the batch is not empty"))
    }

    async fn run_locked<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        key_bytes: usize,
        keys: &(dyn Fn() -> Vec<StoredKey> + Sync),
        run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
    ) -> Result<(T, Option<Commit>)> {
        let done = self.admitted(key_bytes, self.decided(rows, keys, run)).await?;
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
        keys: &(dyn Fn() -> Vec<StoredKey> + Sync),
        mut run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
    ) -> Result<Done<T>> {
        match self.attempted(rows, keys, run.as_mut(), Latching::Rows).await? {
            Attempt::Done(done) => Ok(done),
            Attempt::Waits(latched) => self.finished(rows, run, latched).await,
        }
    }

    /// Runs `run`, whose rows are `latched`, to its end.
    async fn finished<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        run: Pin<&mut impl Future<Output = Result<Decided<T>>>>,
        latched: Latched<'_>,
    ) -> Result<Done<T>> {
        let decided = run.await?;
        let done = self.conclude(rows, decided, self.order.lock(), Some(&latched.keys));
        drop(latched);
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
                order.insert(&keys);
                Ok(Some(Attempt::Waits(Latched { partition: self, keys })))
            }
        }
    }

    fn conclude<T>(
        self: &Arc<Self>,
        rows: &LockedRows<'_>,
        Decided { answer, whole: Whole { mut batch, due_ms }, mut events }: Decided<T>,
        order: MutexGuard<'_, Latches>,
        latched: Option<&[StoredKey]>,
    ) -> Result<Done<T>> {
        self.refuse_if_closing()?;
        if is_planted(Plant::RecordSplit) && batch.len() > 1 {
            let (first, rest) = halves(&batch);
            drop(self.write_in_order(order, &first, Vec::new())?);
            let rest = Decided { answer, whole: Whole { batch: rest, due_ms }, events };
            return self.conclude(rows, rest, self.order.lock(), latched);
        }
        let expired = rows.expired.lock();
        if !batch.is_empty() {
            let mut ended = 0;
            if !expired.is_empty() {
                ended = self.end_expired(&rows.to_bury(&expired, &order, latched), &mut batch, &mut events);
            }
            let commit = Some(self.write_in_order(order, &batch, events)?);
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
            let mut told = self.expired_events(buried.into_keys());
            // If the write fails, nothing of it is told; but what clients keep has to be known all the same.
            let (kept, mut events) = events.into_iter().partition(|event| event.class == Classes::KEPT);
            self.tell(kept);
            told.append(&mut events);
            self.bury_in_order(order, &batch, count, told);
        } else {
            self.tell(events);
        }
        Ok(Done { answer, commit, written_bytes: 0 })
    }

    /// Where somebody is told what happens to keys, rows that a command has found expired are deleted together with its
    /// writes, unless the command has written over them, and are told in front of its events. Gives how many rows end
    /// with this batch.
    fn end_expired(&self, found: &BTreeMap<&[u8], Elsewhere>, batch: &mut Batch, events: &mut Vec<KeyEvent>) -> usize {
        let known = |change: Change<'_>| found.get_key_value(change.key()).map(|(key, _)| *key);
        let written: BTreeSet<&[u8]> = batch.as_ref().iter().filter_map(known).collect();
        let mut told = self.expired_events(found.keys().copied());
        if told.is_empty() {
            return written.len();
        }
        let left = found.iter().filter(|(key, _)| !written.contains(**key));
        left.for_each(|(key, elsewhere)| elsewhere.bury(batch, key));
        told.append(events);
        *events = told;
        found.len()
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
