//! One RocksDB for each partition, in one process, as a service that gives every tenant a tree of its own would run
//! them.
//!
//! They share an `Env` with as many flush threads as stores, a few compaction threads, and one block cache. This is the
//! fairest set-up: with fewer flush threads, waiting for one of them would by itself make the cliff that is to be
//! measured.
//!
//! RocksDB by itself never syncs a log of 512 KiB (`wal_bytes_per_sync` leaves the last megabyte alone), so the kernel
//! would write it back some day and charge nobody. A thread for each partition syncs the log with `rocksdb_flush_wal`
//! as often as Weir's logs are synced, off the writers' path. So a power cut takes as much from either, and rewriting
//! the last page costs either the same.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use weir_lsm::TreeOptions;
use weir_scenario::outcome::Bytes;

use super::api::{Api, Handle, checked};
use super::journal::{JobBytes, Journal};
use super::opened::{Opened, version};
use super::settings;
use super::syncers::Syncers;
use crate::disk::fleet::{Fleet, Flow, State};
use crate::meter::Account;
use crate::{Failure, Result};

/// Header of a log record, of a batch and of its one entry.
const RECORD_BYTES: u64 = 7 + 12 + 5;
const PAGE: u64 = 4096;

/// The settings of the stores.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// Sizes and thresholds.
    pub tree: TreeOptions,
    /// Bytes of the cache that all stores share.
    pub cache_bytes: usize,
    /// Compaction threads that all stores share.
    pub compaction_threads: usize,
    /// Use RocksDB's auto-tuned rate limiter, one for each store, with this upper bound in bytes a second.
    pub auto_tuned: Option<u64>,
    /// Whether memtables are merged before they are flushed, there are more of them, and flushed blocks are cached: see
    /// [`settings::MERGING`].
    pub merging: bool,
    /// Logs are written, and synced this often if there is something new; `None` = no log.
    pub log_synced: Option<Duration>,
}

/// The stores of all partitions.
///
/// Invariant: every handle came from this API and is destroyed exactly once, in `drop`, after the threads that use it
/// have ended.
pub struct RocksFleet {
    /// Declared before the stores, so that its threads have ended when the stores are closed.
    #[expect(dead_code, reason = "it ends its threads when it is dropped")]
    syncers: Option<Syncers>,
    stores: Arc<Stores>,
    journals: Mutex<Vec<Journal>>,
    before: Account,
    version: String,
    remarks: String,
    /// How often logs are synced, in words.
    synced: String,
}

struct Stores {
    api: Api,
    env: Handle,
    cache: Handle,
    read: Handle,
    write: Handle,
    each: Vec<Store>,
}

struct Store {
    db: Handle,
    options: Handle,
    /// Bytes of log records so far.
    appended: AtomicU64,
    /// How many of these bytes are synced.
    synced: AtomicU64,
    /// Device bytes of its log so far.
    log_bytes: AtomicU64,
    /// Why a sync failed, if one did.
    failed: Mutex<Option<String>>,
}

// SAFETY: rocksdb_t, and options that nobody changes any more, may be used from any thread (c.h, options.h).
unsafe impl Send for Stores {}
// SAFETY: as above.
unsafe impl Sync for Stores {}

impl RocksFleet {
    /// Opens (creates if missing) `partitions` databases below `dir`.
    pub fn open(library: &Path, dir: &Path, partitions: usize, options: &FleetOptions) -> Result<Self> {
        // Before anything is opened, because RocksDB's own logs begin there, too: what is flushed and compacted while
        // stores open is in both accounts.
        let before = Account::now()?;
        let api = Api::load(library)?;
        // SAFETY: handles are used as c.h says: created, passed on, destroyed once.
        let (env, cache, read, write) = unsafe {
            let env = (api.create_default_env)();
            (api.env_set_background_threads)(env, options.compaction_threads as i32);
            (api.env_set_high_priority_background_threads)(env, partitions as i32);
            let cache = settings::cache(&api, options.cache_bytes);
            let write = (api.writeoptions_create)();
            (api.writeoptions_disable_WAL)(write, i32::from(options.log_synced.is_none()));
            (env, cache, (api.readoptions_create)(), write)
        };
        let words = option_string(options);
        let synced = in_words(options.log_synced);
        let remarks = format!("{partitions} flush threads, log synced {synced}, {words}");
        let mut stores = Stores { api, env, cache, read, write, each: Vec::new() };
        let dirs: Vec<PathBuf> = (0..partitions).map(|index| dir.join(format!("{index:04}"))).collect();
        for dir in &dirs {
            std::fs::create_dir_all(dir)?;
            stores.open(dir, &words, options)?;
        }
        let stores = Arc::new(stores);
        let syncers = options.log_synced.map(|interval| {
            let stores = Arc::clone(&stores);
            Syncers::start(partitions, interval, move |index| stores.sync(index))
        });
        let version = format!("rocksdb {}", dirs.first().and_then(|dir| version(dir)).unwrap_or_default());
        let journals = Mutex::new(dirs.iter().map(|dir| Journal::new(dir)).collect());
        Ok(Self { stores, syncers, journals, before, version, remarks, synced })
    }
}

impl Stores {
    fn open(&mut self, dir: &Path, words: &str, told: &FleetOptions) -> Result<()> {
        let api = &self.api;
        let path = CString::new(dir.to_str().ok_or("the directory's name is not UTF-8")?)?;
        let create = || api.ratelimiter_create_auto_tuned.ok_or("this RocksDB has no auto-tuned limiter");
        let auto_tuned = told.auto_tuned.map(|rate| Ok::<_, Failure>((rate, create()?))).transpose()?;
        // SAFETY: as in `RocksFleet::open`. Cache, environment and limiter are shared with the options, which keep
        // their own references.
        unsafe {
            let (block_bytes, filter_bits) = (told.tree.block_bytes, told.tree.filter_bits_per_key);
            let options = settings::options(api, block_bytes, filter_bits, self.cache, words)?;
            (api.options_set_env)(options, self.env);
            if let Some((rate, create)) = auto_tuned {
                // 100 ms and fairness 10 are RocksDB's defaults.
                let limiter = create(rate as i64, 100_000, 10);
                (api.options_set_ratelimiter)(options, limiter);
                (api.ratelimiter_destroy)(limiter);
            }
            let store = |db| Store {
                db,
                options,
                appended: AtomicU64::new(0),
                synced: AtomicU64::new(0),
                log_bytes: AtomicU64::new(0),
                failed: Mutex::new(None),
            };
            match checked(api, |slot| (api.open)(options, path.as_ptr(), slot)) {
                Ok(db) => self.each.push(store(db)),
                Err(error) => {
                    self.each.push(store(null_mut()));
                    return Err(format!("{}: {error}", dir.display()).into());
                }
            }
        }
        Ok(())
    }

    /// Syncs a log that has something new, and returns whether that succeeded.
    fn sync(&self, index: usize) -> bool {
        let store = &self.each[index];
        let (appended, synced) = (store.appended.load(Ordering::Relaxed), store.synced.load(Ordering::Relaxed));
        if appended == synced {
            return true;
        }
        // SAFETY: `db` is open until the syncers have ended.
        let outcome = unsafe { checked(&self.api, |slot| (self.api.flush_wal)(store.db, 1, slot)) };
        if let Err(error) = outcome {
            *store.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            return false;
        }
        // The page where the last sync ended is written again.
        let pages = appended.div_ceil(PAGE) - synced / PAGE;
        store.log_bytes.fetch_add(pages * PAGE, Ordering::Relaxed);
        store.synced.store(appended, Ordering::Relaxed);
        true
    }

    fn store(&self, partition: usize) -> Opened<'_> {
        // SAFETY: the stores are closed when this is dropped.
        unsafe { Opened::of(&self.api, self.each[partition].db, [self.read, self.write]) }
    }
}

impl Fleet for RocksFleet {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn remarks(&self) -> String {
        self.remarks.clone()
    }

    fn params(&self) -> Map<String, Value> {
        [("sync".to_owned(), self.synced.clone().into())].into_iter().collect()
    }

    fn put(&self, partition: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let (stores, store) = (&*self.stores, &self.stores.each[partition]);
        stores.store(partition).put(key, value)?;
        store.appended.fetch_add(RECORD_BYTES + (key.len() + value.len()) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn get(&self, partition: usize, key: &[u8]) -> Result<bool> {
        self.stores.store(partition).get(key, &mut |_| ())
    }

    fn scan(&self, partition: usize, from: &[u8], limit: u64) -> Result<u64> {
        let mut found = 0;
        self.stores.store(partition).scan(from, limit as usize, &mut |_, _| found += 1)?;
        Ok(found)
    }

    fn settle(&self, partition: usize) -> Result<()> {
        self.stores.store(partition).settle()
    }

    fn why(&self, _partition: usize) -> String {
        String::new()
    }

    fn state(&self, partition: usize) -> State {
        let store = self.stores.store(partition);
        let flow = if store.number(c"rocksdb.is-write-stopped") != 0 {
            Flow::Stopped
        } else if store.number(c"rocksdb.actual-delayed-write-rate") != 0 {
            Flow::Slow
        } else {
            Flow::Free
        };
        State {
            flow,
            l0: store.files_at(0) as u16,
            sealed: store.number(c"rocksdb.num-immutable-mem-table") as u16,
            stage: 0,
            memory: store.number(c"rocksdb.cur-size-all-mem-tables"),
        }
    }

    fn bytes(&self) -> Result<Bytes> {
        for store in &self.stores.each {
            if let Some(error) = &*store.failed.lock().unwrap_or_else(PoisonError::into_inner) {
                return Err(format!("RocksDB could not sync its log: {error}").into());
            }
        }
        let log = self.stores.each.iter().map(|store| store.log_bytes.load(Ordering::Relaxed)).sum();
        let mut jobs = JobBytes::default();
        for journal in self.journals.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            journal.follow()?;
            let of = journal.bytes;
            jobs.flush += of.flush;
            jobs.l0_read += of.l0_read;
            jobs.l0_written += of.l0_written;
            jobs.deep_read += of.deep_read;
            jobs.deep_written += of.deep_written;
        }
        let now = Account::now()?;
        // The log's dirty pages count as written when they are dirtied: once, however often they are synced.
        let written =
            (now.written - self.before.written).saturating_sub(jobs.flush + jobs.l0_written + jobs.deep_written);
        let read = (now.read - self.before.read).saturating_sub(jobs.l0_read + jobs.deep_read);
        Ok(Bytes {
            user: 0,
            log,
            flush: jobs.flush,
            l0: jobs.l0_read + jobs.l0_written,
            deep: jobs.deep_read + jobs.deep_written,
            read,
            other: written.saturating_sub(log),
        })
    }

    fn shape(&self) -> String {
        self.stores.store(0).shape()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        // SAFETY: the invariant of the fleet; the syncers have ended, for they hold the stores. `db` is null when
        // opening failed.
        unsafe {
            for store in &self.each {
                if !store.db.is_null() {
                    (self.api.close)(store.db);
                }
                (self.api.options_destroy)(store.options);
            }
            (self.api.readoptions_destroy)(self.read);
            (self.api.writeoptions_destroy)(self.write);
            (self.api.cache_destroy)(self.cache);
            (self.api.env_destroy)(self.env);
        }
    }
}

/// How often logs are synced, in words.
fn in_words(interval: Option<Duration>) -> String {
    interval.map_or_else(|| "never".to_owned(), |interval| format!("every {} ms", interval.as_millis()))
}

/// The options in RocksDB's own words. Everything else has the default of this version.
fn option_string(options: &FleetOptions) -> String {
    let tree = &options.tree;
    let (buffers, more) = match options.merging {
        true => (tree.write_buffers_max.max(settings::MERGING_BUFFERS), settings::MERGING),
        false => (tree.write_buffers_max, ""),
    };
    format!(
        "create_if_missing=true;write_buffer_size={};max_write_buffer_number={};\
         level0_file_num_compaction_trigger={};level0_slowdown_writes_trigger={};level0_stop_writes_trigger={};\
         soft_pending_compaction_bytes_limit={};hard_pending_compaction_bytes_limit={};\
         max_bytes_for_level_base={};max_bytes_for_level_multiplier={};target_file_size_base={};\
         level_compaction_dynamic_level_bytes=false;compression=kNoCompression;\
         use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;delayed_write_rate={};\
         writable_file_max_buffer_size={};compaction_readahead_size={};\
         max_background_flushes=1;max_background_compactions={};max_background_jobs={}{more}",
        tree.write_buffer_bytes,
        buffers,
        tree.l0_trigger,
        tree.l0_slow,
        tree.l0_stop,
        tree.pending_bytes_limits[0],
        tree.pending_bytes_limits[1],
        tree.level1_bytes,
        tree.level_factor,
        tree.table_bytes,
        tree.slow_bytes_per_sec[0],
        tree.io_bytes,
        tree.io_bytes,
        options.compaction_threads,
        options.compaction_threads + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_is_the_plain_set_up_with_three_settings_changed() {
        let tree = TreeOptions { write_buffers_max: 4, ..TreeOptions::default() };
        let told = |merging| {
            let options = FleetOptions {
                tree: tree.clone(),
                cache_bytes: 1,
                compaction_threads: 2,
                auto_tuned: None,
                merging,
                log_synced: Some(Duration::from_millis(100)),
            };
            option_string(&options)
        };
        let wanted =
            told(false).replace("max_write_buffer_number=4;", "max_write_buffer_number=12;") + settings::MERGING;
        assert_eq!(told(true), wanted);
    }
}
