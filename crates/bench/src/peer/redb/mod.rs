//! One redb for each partition, in one process: a B-tree beside the log-structured trees, as CruiseDB's authors have
//! WiredTiger (CR-E2).
//!
//! A redb is as durable as the others: a put commits without a sync (`Durability::None`), and a thread for each store
//! commits with one (`Durability::Immediate`) as often as Weir syncs its logs. After a crash a redb has what the last
//! such commit left, just as the others have what their last sync left. Because redb has no log, such a commit writes
//! once more every page that changed, and the pages that lead to it.
//!
//! Its writers take turns, because a redb has one write transaction at a time; its readers do not wait for them.

mod direct;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::{Map, Value};
use weir_io::Rng;
use weir_scenario::data::fill;
use weir_scenario::outcome::Bytes;
use weir_scenario::plan::Plan;

use self::direct::DirectFile;
use super::syncers::Syncers;
use crate::Result;
use crate::disk::fleet::{Fleet, Flow, State};
use crate::meter::Account;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
/// Rows of a transaction that fills a store.
const FILL_ROWS: usize = 10_000;

/// The stores of all partitions.
pub struct RedbFleet {
    syncers: Option<Syncers>,
    stores: Vec<Arc<Store>>,
    before: Account,
    cache_bytes: usize,
    interval: Duration,
}

struct Store {
    db: Database,
    /// Why a sync failed, if one did.
    failed: Mutex<Option<String>>,
}

impl Store {
    /// Stores `rows` in one transaction.
    fn put(&self, rows: &[(&[u8], &[u8])], durability: Durability) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(durability)?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in rows {
                table.insert(key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Syncs what was put, and returns whether that succeeded.
    fn sync(&self) -> bool {
        let synced = self.put(&[], Durability::Immediate);
        if let Err(error) = &synced {
            *self.failed.lock() = Some(error.to_string());
        }
        synced.is_ok()
    }
}

impl RedbFleet {
    /// Opens (creates if missing) a store for each partition of `plan` below `dir`. Their caches have as much memory as
    /// Weir has for blocks and memtables.
    pub fn open(dir: &Path, plan: &Plan) -> Result<Self> {
        let before = Account::now()?;
        let partitions = usize::from(plan.args.partitions);
        let cache_bytes = plan.cache_bytes() + plan.write_memory_bytes() as usize;
        let interval = Duration::from_nanos(plan.sync_interval());
        let mut stores = Vec::new();
        for index in 0..partitions {
            let path = dir.join(format!("{index:04}.redb"));
            let db = Database::builder()
                .set_cache_size(cache_bytes / partitions)
                .create_with_backend(DirectFile::open(&path)?)?;
            let store = Store { db, failed: Mutex::default() };
            // Makes the table.
            store.put(&[], Durability::Immediate)?;
            stores.push(Arc::new(store));
        }
        let synced: Vec<Arc<Store>> = stores.clone();
        let syncers = Some(Syncers::start(partitions, interval, move |index| synced[index].sync()));
        Ok(Self { stores, syncers, before, cache_bytes, interval })
    }

    /// Writes the data that is there before the load, in the order of item numbers: in the order of keys that is
    /// everywhere at once, as YCSB's load phase does it.
    pub fn fill(self, plan: &Plan) -> Result<()> {
        for (partition, store) in self.stores.iter().enumerate() {
            let mut rng = Rng::new(plan.args.seed ^ (partition as u64) << 32);
            let items: Vec<u64> = (0..plan.items()).collect();
            for items in items.chunks(FILL_ROWS) {
                let row = |&item: &u64| {
                    let mut value = vec![0; plan.sizes().value_bytes(item)];
                    fill(&mut value, &mut rng);
                    (plan.sizes().key(item), value)
                };
                let mut rows: Vec<_> = items.iter().map(row).collect();
                rows.sort_unstable();
                let rows: Vec<(&[u8], &[u8])> = rows.iter().map(|(key, value)| (&**key, &value[..])).collect();
                store.put(&rows, Durability::None)?;
            }
            store.put(&[], Durability::Immediate)?;
        }
        Ok(())
    }

    /// An error if some store could not be synced: then what was put since is not durable.
    fn check_syncs(&self) -> Result<()> {
        let failed = self.stores.iter().find_map(|store| store.failed.lock().clone());
        failed.map_or(Ok(()), |error| Err(format!("redb could not sync: {error}").into()))
    }
}

impl Fleet for RedbFleet {
    fn version(&self) -> String {
        "redb 4.6".to_owned()
    }

    fn remarks(&self) -> String {
        format!("direct I/O, cache {}, every put a transaction", self.cache_bytes)
    }

    fn params(&self) -> Map<String, Value> {
        let sync = format!("every {} ms, without a log", self.interval.as_millis());
        [("sync".to_owned(), sync.into())].into_iter().collect()
    }

    fn put(&self, partition: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.stores[partition].put(&[(key, value)], Durability::None)
    }

    fn get(&self, partition: usize, key: &[u8]) -> Result<bool> {
        let table = self.stores[partition].db.begin_read()?.open_table(TABLE)?;
        Ok(ReadableTable::get(&table, key)?.is_some())
    }

    fn scan(&self, partition: usize, from: &[u8], limit: u64) -> Result<u64> {
        let table = self.stores[partition].db.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for row in ReadableTable::range::<&[u8]>(&table, from..)?.take(limit as usize) {
            row?;
            found += 1;
        }
        Ok(found)
    }

    fn settle(&self, partition: usize) -> Result<()> {
        self.stores[partition].put(&[], Durability::Immediate)
    }

    fn state(&self, _partition: usize) -> State {
        // Nothing is put off, so nothing stalls, except for taking turns.
        State { flow: Flow::Free, ..State::default() }
    }

    fn why(&self, _partition: usize) -> String {
        String::new()
    }

    fn bytes(&self) -> Result<Bytes> {
        self.check_syncs()?;
        let now = Account::now()?;
        Ok(Bytes { read: now.read - self.before.read, other: now.written - self.before.written, ..Bytes::default() })
    }

    fn shape(&self) -> String {
        "a B-tree".to_owned()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.syncers = None;
        self.check_syncs()
    }
}
