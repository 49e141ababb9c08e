//! A store in memory that can be made slow, asleep or broken.

use std::collections::BTreeMap;
use std::future::{Ready, pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use weir_command::error::Outcome;
use weir_command::events::{KeyEvent, Witness};
use weir_command::{
    Args, Call, Command, Context, Draft, Host, Page, PartPage, PartRange, Rows, Transaction, Waiting, run,
};
use weir_gateway::store::Store;
use weir_io::{Clock, Error, ErrorKind, Result, yield_now};
use weir_model::engine::Passed;
use weir_model::parts::{Head, Part, tally_space};
use weir_model::{Batch, Change, Row, StoredKey, Value};
use weir_node::{NodeUnits, Quota, RowWatch, UnitLimits, WatchedRows};

use super::TestClock;

/// A page ends after this many bytes of entries.
const PAGE_BYTES_MAX: u64 = 256 << 10;

/// Reading this key panics.
pub const PANIC_KEY: &[u8] = b"panic-please";

/// This key is not in memory.
pub const DISTANT_KEY: &[u8] = b"distant";

type Map = BTreeMap<Vec<u8>, Entry>;

/// What a step holds until its end.
type Held = Box<dyn Send>;

/// A value, or the bytes of a head, and when it expires.
struct Entry {
    value: Arc<Vec<u8>>,
    is_head: bool,
    expire_at_ms: Option<u64>,
}

impl Entry {
    fn row(&self, now_ms: u64) -> Option<Row> {
        self.expire_at_ms.is_none_or(|at| at > now_ms).then(|| match self.is_head {
            false => Row::string(Value::from(&self.value), self.expire_at_ms),
            true => {
                let head = Head::decode(&self.value).expect("a head");
                Row::of_parts(head, self.expire_at_ms)
            }
        })
    }
}

/// A tenant's map. Cloning shares it.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<TestClock>,
    map: Arc<Mutex<Map>>,
    /// Held so that commands that read and write go one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Writes are applied, but their commits fail.
    pub fail_commits: Arc<AtomicBool>,
    /// While this is set, commands and transactions that may write run and are then refused: nothing is applied.
    pub refuses_writes: Arc<AtomicBool>,
    /// A write group is not written at once, so each of its members must write its own part.
    pub refuses_groups: Arc<AtomicBool>,
    /// Counts of sorted sets are gone, as if the disk had lost them.
    pub has_lost_counts: Arc<AtomicBool>,
    /// Sizes of the batches written, in changes.
    pub batches: Arc<Mutex<Vec<usize>>>,
    /// Bytes of entries that were gone through.
    pub scanned_bytes: Arc<AtomicU64>,
    /// Writes wait until nobody holds a value, as if the values kept alive the memory for which writes wait.
    pub writes_wait_for_readers: Arc<AtomicBool>,
    /// While this is set, a write that was applied waits for ever before its writer is told, as if it had to wait for
    /// room for what it has written.
    pub writers_pay: Arc<AtomicBool>,
    /// While this is `Some`, a step that empties the tenant goes on for ever, also without its caller: what it holds is
    /// kept here.
    pub emptying: Arc<Mutex<Option<Vec<Held>>>>,
    /// While this is set, reading [`DISTANT_KEY`] takes for ever, and so does going through keys.
    pub disk_is_stuck: Arc<AtomicBool>,
    /// Going through keys must not happen, because the store sleeps.
    pub is_asleep: Arc<AtomicBool>,
    /// Nanoseconds of the clock that a read, or a page of keys, takes its thread.
    pub read_nanos: Arc<AtomicU64>,
    /// The thread that read or changed something last.
    pub read_by: Arc<Mutex<String>>,
    /// Unlimited, until a test sets a limit.
    pub quota: Arc<Quota>,
    /// The units of its node.
    pub units: Arc<NodeUnits>,
    /// The version given out last.
    versions: Arc<AtomicU64>,
    watched: Arc<WatchedRows>,
    witness: Arc<Mutex<Option<Weak<dyn Witness>>>>,
}

impl MemoryStore {
    pub fn new(clock: &Arc<TestClock>) -> Self {
        let units = NodeUnits::new(clock.clone());
        Self {
            clock: Arc::clone(clock),
            map: Arc::default(),
            turn: Arc::default(),
            fail_commits: Arc::default(),
            refuses_writes: Arc::default(),
            refuses_groups: Arc::default(),
            has_lost_counts: Arc::default(),
            batches: Arc::default(),
            scanned_bytes: Arc::default(),
            writes_wait_for_readers: Arc::default(),
            writers_pay: Arc::default(),
            emptying: Arc::default(),
            disk_is_stuck: Arc::default(),
            is_asleep: Arc::default(),
            read_nanos: Arc::default(),
            read_by: Arc::default(),
            quota: Quota::on_node(clock.clone(), &UnitLimits::default(), Arc::clone(&units)),
            units,
            versions: Arc::default(),
            watched: Arc::default(),
            witness: Arc::default(),
        }
    }

    fn apply(&self, batch: &Batch) -> Ready<Result<()>> {
        let mut map = self.map.lock().expect("no panic");
        self.watched.changed(batch);
        for change in batch.as_ref().iter() {
            match change {
                Change::Put { key, value, expire_at_ms } | Change::Head { key, head: value, expire_at_ms } => {
                    let is_head = matches!(change, Change::Head { .. });
                    map.insert(key.to_vec(), Entry { value: Arc::new(value.to_vec()), is_head, expire_at_ms });
                }
                Change::Delete { key } => drop(map.remove(key)),
                Change::Cover { .. } => unreachable!("commands write no covers"),
            }
        }
        self.batches.lock().expect("no panic").push(batch.len());
        ready(if self.fail_commits.load(Ordering::Relaxed) {
            Err(Error::new(ErrorKind::NoSpace, "write", "log", "planned"))
        } else {
            Ok(())
        })
    }

    fn accept(&self) -> Result<()> {
        match self.refuses_writes.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::NoSpace, "write", "log", "planned")),
            false => Ok(()),
        }
    }

    fn apply_and_tell(&self, batch: &Batch, events: Vec<KeyEvent>) -> Option<Ready<Result<()>>> {
        let commit = (!batch.is_empty()).then(|| self.apply(batch));
        if let Some(witness) = self.witness.lock().expect("no panic").as_ref().and_then(Weak::upgrade) {
            witness.tell(events);
        }
        commit
    }

    fn work(&self) {
        let nanos = self.read_nanos.load(Ordering::Relaxed);
        if nanos > 0 {
            self.clock.advance_nanos(nanos);
        }
        *self.read_by.lock().expect("no panic") = std::thread::current().name().unwrap_or_default().to_owned();
    }

    async fn disk(&self) {
        while self.disk_is_stuck.load(Ordering::Relaxed) {
            yield_now().await;
        }
    }

    async fn paid(&self) {
        while self.writers_pay.load(Ordering::Relaxed) {
            yield_now().await;
        }
    }

    /// Whether somebody holds the value of `key`.
    pub fn is_held(&self, key: &str) -> bool {
        let map = self.map.lock().expect("no panic");
        map.get(&StoredKey::new(0, key.as_bytes())[..]).is_some_and(|entry| Arc::strong_count(&entry.value) > 1)
    }

    async fn readers_gone(&self) {
        let is_held = |map: &Map| map.values().any(|entry| Arc::strong_count(&entry.value) > 1);
        while self.writes_wait_for_readers.load(Ordering::Relaxed) && is_held(&self.map.lock().expect("no panic")) {
            yield_now().await;
        }
    }

    /// Runs `transaction` on the rows that it reads.
    pub async fn transact_on(
        &self,
        rows: &dyn Rows,
        transaction: &mut dyn Transaction,
    ) -> Result<Option<Ready<Result<()>>>> {
        self.readers_gone().await;
        let turn = self.turn.lock().await;
        let (batch, events) = transaction.run(rows).await?.into_parts();
        self.accept()?;
        let commit = self.apply_and_tell(&batch, events);
        transaction.ended();
        drop(turn);
        self.paid().await;
        Ok(commit)
    }

    /// Runs `command` on the rows that it reads, one command after the other.
    pub async fn execute_on(
        &self,
        rows: &dyn Rows,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Ready<Result<()>>>)> {
        self.readers_gone().await;
        let turn = self.turn.lock().await;
        let context = Context::locked(rows, host, call, Draft::default());
        let finished = run(command, context, args).await;
        let (batch, events) = finished.draft.into_parts();
        self.accept()?;
        let commit = self.apply_and_tell(&batch, events);
        drop(turn);
        self.paid().await;
        Ok((finished.outcome, commit))
    }
}

impl Rows for MemoryStore {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> weir_command::Read<'a> {
        assert_ne!(key, PANIC_KEY, "planned");
        let read = move || {
            self.work();
            let map = self.map.lock().expect("no panic");
            Ok(map.get(&StoredKey::new(database, key)[..]).and_then(|entry| entry.row(now_ms)))
        };
        if key == DISTANT_KEY {
            return weir_command::Read::Pending(Box::pin(async move {
                self.disk().await;
                read()
            }));
        }
        weir_command::Read::Ready(read())
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(async move {
            self.disk().await;
            self.work();
            let now_ms = self.clock.unix_ms();
            let map = self.map.lock().expect("no panic");
            let mut range = map.range(StoredKey::new(database, from).to_vec()..vec![database + 1]).peekable();
            let (mut keys, mut kinds, mut passed) = (Vec::new(), BTreeMap::new(), Passed::default());
            while keys.len() < limit
                && passed.bytes < PAGE_BYTES_MAX
                && let Some((key, entry)) = range.next()
            {
                passed.entries += 1;
                passed.bytes += (key.len() - 1 + entry.value.len()) as u64;
                if let Some(row) = entry.row(now_ms) {
                    kinds.extend(row.kind().map(|kind| (keys.len(), kind)));
                    keys.push(key[1..].to_vec());
                }
            }
            self.scanned_bytes.fetch_add(passed.bytes, Ordering::Relaxed);
            Ok(Page { keys, kinds, next: range.next().map(|(key, _)| key[1..].to_vec()), passed })
        })
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> weir_command::Read<'a> {
        let is_count = Part::parse(part).is_some_and(|part| part.space == tally_space(1));
        if is_count && self.has_lost_counts.load(Ordering::Relaxed) {
            return weir_command::Read::Ready(Ok(None));
        }
        let map = self.map.lock().expect("no panic");
        weir_command::Read::Ready(Ok(map.get(part).and_then(|entry| entry.row(now_ms))))
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartPage>> {
        let now_ms = self.clock.unix_ms();
        let map = self.map.lock().expect("no panic");
        let mut page = PartPage::default();
        let mut entries = map.range(range.from.clone()..range.to.clone());
        while let Some((key, entry)) = if range.reverse { entries.next_back() } else { entries.next() } {
            if page.parts.len() == limit {
                page.next = Some(match range.reverse {
                    true => PartRange { to: [&key[..], &[0]].concat(), ..range },
                    false => PartRange { from: key.clone(), ..range },
                });
                break;
            }
            page.passed.bytes += (key.len() + entry.value.len()) as u64;
            if let Some(row) = entry.row(now_ms).and_then(Row::into_string) {
                page.parts.push(key, &row.value);
            }
        }
        Box::pin(ready(Ok(page)))
    }

    fn new_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Store for MemoryStore {
    type Commit = Ready<Result<()>>;

    fn rows(&self) -> &dyn Rows {
        self
    }

    async fn write(&self, batch: &Batch) -> Result<Self::Commit> {
        self.readers_gone().await;
        Ok(self.apply(batch))
    }

    fn takes_groups(&self) -> bool {
        true
    }

    fn write_together(&self, batch: &Batch, writers: usize, commits: &mut Vec<Self::Commit>) -> bool {
        if self.refuses_groups.load(Ordering::Relaxed) {
            return false;
        }
        let commit = self.apply(batch);
        commits.extend((0..writers).map(|_| commit.clone()));
        true
    }

    async fn execute(
        &self,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Self::Commit>)> {
        self.execute_on(self, command, args, host, call).await
    }

    async fn transact(&self, _: &[u8], transaction: &mut dyn Transaction) -> Result<Option<Self::Commit>> {
        self.transact_on(self, transaction).await
    }

    async fn clear(&self, held: impl Send + 'static) -> Result<bool> {
        let is_emptying = match &mut *self.emptying.lock().expect("no panic") {
            Some(kept) => {
                kept.push(Box::new(held));
                true
            }
            None => false,
        };
        if is_emptying {
            pending::<()>().await;
        }
        Ok(false)
    }

    async fn watch(&self, database: u8, key: &[u8]) -> Result<RowWatch> {
        let watch = self.watched.watch(&StoredKey::new(database, key));
        // A writer that has found nothing watched holds the map until its change is applied.
        drop(self.map.lock().expect("no panic"));
        Ok(watch)
    }

    fn be_witnessed(&self, witness: Weak<dyn Witness>) {
        *self.witness.lock().expect("no panic") = Some(witness);
    }

    fn quota(&self) -> Option<&Arc<Quota>> {
        Some(&self.quota)
    }

    fn is_awake(&self) -> bool {
        !self.is_asleep.load(Ordering::Relaxed)
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        Vec::new()
    }
}
