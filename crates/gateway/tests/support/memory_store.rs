//! A store in memory, which can be told to be slow, asleep or broken.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_command::error::Outcome;
use weir_command::{Args, Call, Command, Context, Host, Page, Rows, Waiting, run};
use weir_gateway::store::Store;
use weir_io::{Clock, Error, ErrorKind, Result, yield_now};
use weir_model::{Batch, Change, Row, StoredKey, Value};
use weir_node::{Quota, UnitLimits};

use super::TestClock;

/// After so many bytes of entries a page ends.
const PAGE_BYTES_MAX: u64 = 256 << 10;

/// Reading it panics.
pub const PANIC_KEY: &[u8] = b"panic-please";

/// It is not in memory.
pub const DISTANT_KEY: &[u8] = b"distant";

type Map = BTreeMap<Vec<u8>, Entry>;

/// A value and when it ends.
struct Entry {
    value: Arc<Vec<u8>>,
    expire_at_ms: Option<u64>,
}

/// A tenant's map. Cloning shares it.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<TestClock>,
    map: Arc<Mutex<Map>>,
    /// Commands that read and write go one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Writes are applied, but their commits fail.
    pub fail_commits: Arc<AtomicBool>,
    /// Sizes of the batches written, in changes.
    pub batches: Arc<Mutex<Vec<usize>>>,
    /// Bytes of entries that were gone through.
    pub scanned_bytes: Arc<AtomicU64>,
    /// Writes wait until nobody has a value in hand, as where those keep the memory alive that writes wait for.
    pub writes_wait_for_readers: Arc<AtomicBool>,
    /// To read [`DISTANT_KEY`] takes for ever, as long as this is set, and so does going through keys.
    pub disk_is_stuck: Arc<AtomicBool>,
    /// Nothing may be gone through: it sleeps.
    pub is_asleep: Arc<AtomicBool>,
    /// Nanoseconds of the clock that a read, or a page of keys, takes its thread.
    pub read_nanos: Arc<AtomicU64>,
    /// The thread that read or changed something last.
    pub read_by: Arc<Mutex<String>>,
    /// Unlimited, until a test turns it.
    pub quota: Arc<Quota>,
}

impl MemoryStore {
    pub fn new(clock: &Arc<TestClock>) -> Self {
        Self {
            clock: Arc::clone(clock),
            map: Arc::default(),
            turn: Arc::default(),
            fail_commits: Arc::default(),
            batches: Arc::default(),
            scanned_bytes: Arc::default(),
            writes_wait_for_readers: Arc::default(),
            disk_is_stuck: Arc::default(),
            is_asleep: Arc::default(),
            read_nanos: Arc::default(),
            read_by: Arc::default(),
            quota: Quota::new(clock.clone(), &UnitLimits::default()),
        }
    }

    fn apply(&self, batch: &Batch) -> Ready<Result<()>> {
        let mut map = self.map.lock().expect("no panic");
        for change in batch.as_ref().iter() {
            match change {
                Change::Put { key, value, expire_at_ms } => {
                    map.insert(key.to_vec(), Entry { value: Arc::new(value.to_vec()), expire_at_ms });
                }
                Change::Delete { key } => drop(map.remove(key)),
                Change::Head { .. } | Change::Cover { .. } => unreachable!("this store has strings only"),
            }
        }
        self.batches.lock().expect("no panic").push(batch.len());
        ready(if self.fail_commits.load(Ordering::Relaxed) {
            Err(Error::new(ErrorKind::NoSpace, "write", "log", "planned"))
        } else {
            Ok(())
        })
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

    /// Whether somebody has the value of `key` in hand.
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

    /// Runs `command` on what it reads of `rows`, one after the other.
    pub async fn execute_on(
        &self,
        rows: &dyn Rows,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Ready<Result<()>>>)> {
        self.readers_gone().await;
        let _turn = self.turn.lock().await;
        let context = Context::locked(rows, host, call, Batch::new());
        let finished = run(command, context, args).await;
        let commit = (!finished.batch.is_empty()).then(|| self.apply(&finished.batch));
        Ok((finished.outcome, commit))
    }
}

impl Rows for MemoryStore {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> weir_command::Read<'a> {
        assert_ne!(key, PANIC_KEY, "planned");
        let read = move || {
            self.work();
            let map = self.map.lock().expect("no panic");
            let entry = map.get(&StoredKey::new(database, key)[..]);
            let entry = entry.filter(|entry| entry.expire_at_ms.is_none_or(|at| at > now_ms));
            Ok(entry.map(|entry| Row::string(Value::from(&entry.value), entry.expire_at_ms)))
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
            let (mut keys, mut passed_bytes) = (Vec::new(), 0);
            while keys.len() < limit
                && passed_bytes < PAGE_BYTES_MAX
                && let Some((key, entry)) = range.next()
            {
                passed_bytes += (key.len() - 1 + entry.value.len()) as u64;
                if entry.expire_at_ms.is_none_or(|at| at > now_ms) {
                    keys.push(key[1..].to_vec());
                }
            }
            self.scanned_bytes.fetch_add(passed_bytes, Ordering::Relaxed);
            Ok(Page { keys, next: range.next().map(|(key, _)| key[1..].to_vec()), passed_bytes, ..Page::default() })
        })
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

    async fn execute(
        &self,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Self::Commit>)> {
        self.execute_on(self, command, args, host, call).await
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
