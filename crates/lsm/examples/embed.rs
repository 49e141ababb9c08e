//! A small durable store made of a tree and a log, in a real directory. It shows what an engineer needs to embed Weir's
//! engine without its server.
//!
//! ```text
//! cargo run --release -p weir-lsm --example embed -- DIRECTORY            writes, reads, closes
//! cargo run --release -p weir-lsm --example embed -- DIRECTORY --crash    ends without closing, as if it were killed
//! cargo run --release -p weir-lsm --example embed -- DIRECTORY            finds everything, and goes on
//! ```
//!
//! The tree knows no log, and the log knows no tree: the store joins them by the index that the log gives to each
//! record.
//!
//! 1. A write is appended to the log, applied to the tree under the index it got, and published when the log has
//!    committed it.
//! 2. A flush makes tables of memtables. The log need not keep records that are in tables.
//! 3. Opening reads the tree, and replays every record of the log after the last one that is in tables.

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::real::{RealClock, RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Clock, Error, Fs, FsLock, Op, Owner, Result, Unbooked};
use weir_log::{Log, LogOptions, SyncMode, WriteAheadLog};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::engine::{Facts, Files, Jobs, Kind, Range, Reads, Records, Stall};
use weir_model::{Batch, BatchRef};

/// The owner to whom all I/O is booked; a program with one store has one owner.
const OWNER: Owner = Owner { tenant: 0, partition: 0 };
/// Keys that one run of the example writes: enough for some flushes and compactions at the sizes below.
const KEYS: u64 = 5_000;
/// Keys of a batch: each batch is a record of the log, and waits for the device once.
const BATCH_KEYS: u64 = 50;

/// A tree and its log.
pub struct Store {
    tree: Arc<Tree>,
    log: Log,
    clock: Arc<dyn Clock>,
    /// Log and tree see all writes in the same order.
    order: Mutex<()>,
    /// Records that were found in the log and not in tables when the store was opened.
    pub replayed: u64,
    /// Keeps other processes out; freed by the kernel when this one ends, however it ends.
    _lock: Box<dyn FsLock>,
}

impl Store {
    /// Opens the store in `dir`, or makes it. `salt` is a number that no opening before had.
    ///
    /// # Errors
    /// `Locked` by another process; `Corruption` with file and offset; I/O.
    pub async fn open(dir: &Path, salt: u64) -> Result<Self> {
        let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
        let clock: Arc<dyn Clock> = RealClock::new();
        let tag = weir_io::Tag::new(OWNER, weir_io::Class::Maintenance);
        fs.create_dir_all(dir, tag).await?;
        let lock = fs.lock(&dir.join("LOCK")).await?;
        let env = Env {
            fs: Arc::clone(&fs),
            dir: dir.join("tree"),
            owner: OWNER,
            cache: BlockCache::new(8 << 20, 4),
            clock: Arc::clone(&clock),
            memory: Arc::new(Unbooked),
            salt: 7,
        };
        // Small, so that the example flushes and compacts. The defaults are for tables of gigabytes.
        let options = TreeOptions {
            write_buffer_bytes: 64 << 10,
            level1_bytes: 256 << 10,
            table_bytes: 128 << 10,
            ..TreeOptions::default()
        };
        let tree = Tree::open(env, options).await?;

        let options = LogOptions { sync: SyncMode::Always, segment_bytes: 1 << 20, ..LogOptions::new(OWNER, salt) };
        let (replayed, replaying) = (Arc::new(Mutex::new(0)), Arc::clone(&tree));
        let count = Arc::clone(&replayed);
        let mut replay = move |index, record: &[u8]| -> Op<()> {
            let batch = match BatchRef::decode(record) {
                Ok(batch) => batch,
                Err(error) => return Op::ready(Err(Error::corruption("log", 0, format!("record {index}: {error}")))),
            };
            let applied = replaying.apply(index, batch);
            replaying.publish(applied.last_seq);
            *count.lock() += 1;
            // A log that is much longer than memory is flushed as it is replayed: see `run_jobs`.
            let tree = Arc::clone(&replaying);
            match tree.stall() {
                Stall::Stop(_) => Op::pending(async move { run_jobs(&tree).await }),
                _ => Op::ready(Ok(())),
            }
        };
        let (log, _) = Log::open(fs, &dir.join("log"), options, tree.persisted(), &mut replay).await?;
        let replayed = *replayed.lock();
        Ok(Self { tree, log, clock, order: Mutex::default(), replayed, _lock: lock })
    }

    /// Writes the changes of `batch`, all or none. They are on the device when this returns.
    ///
    /// # Errors
    /// Those of the log. Whether the batch was written is not known then.
    pub async fn write(&self, batch: &Batch) -> Result<()> {
        // A program with threads would run jobs on another one, and wait here only where the tree says stop.
        if self.tree.sealed() > 0 || self.tree.compaction_due().is_some() {
            run_jobs(&self.tree).await?;
            self.log.truncate(self.tree.persisted()).await?;
        }
        let (index, applied) = {
            let _order = self.order.lock();
            let index = self.log.append(batch.as_bytes())?;
            (index, self.tree.apply(index, batch.as_ref()))
        };
        self.log.commit(index).await?;
        self.tree.publish(applied.last_seq);
        Ok(())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Damaged data, I/O.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.tree.get(key, None).await?;
        let now = self.clock.unix_ms();
        let living = found.filter(|found| found.kind == Kind::Put && !found.is_expired(now));
        Ok(living.map(|found| found.value.to_vec()))
    }

    /// How many keys there are, by a scan.
    ///
    /// # Errors
    /// Damaged data, I/O.
    pub async fn count(&self) -> Result<u64> {
        let (mut scan, mut count) = (self.tree.scan(Range::all(), None), 0);
        while scan.next().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Puts everything into tables, so that the next opening has nothing to replay.
    ///
    /// # Errors
    /// I/O.
    pub async fn close(self) -> Result<()> {
        self.tree.seal();
        run_jobs(&self.tree).await?;
        self.log.truncate(self.tree.persisted()).await?;
        self.log.close().await
    }
}

/// Runs every flush and compaction that is due. Jobs are futures: polling one does its work.
async fn run_jobs(tree: &Arc<Tree>) -> Result<()> {
    loop {
        let job = tree.next_flush().or_else(|| tree.next_compaction());
        match job {
            Some(job) => drop(job.run().await?),
            // The tables that compactions have replaced.
            None => return tree.tidy().await,
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    format!("value of {number} ").repeat(6).into_bytes()
}

/// One run: checks what earlier runs left, writes more, and closes the store or drops it as a crash would. Says what it
/// did.
///
/// # Errors
/// Something is lost, or I/O.
pub fn run(dir: &Path, salt: u64, crash: bool) -> Result<String> {
    let _blocking = blocking_scope();
    block_on(async {
        let store = Store::open(dir, salt).await?;
        let before = store.count().await?;
        for number in 0..before {
            if store.get(&key(number)).await? != Some(value(number)) {
                return Err(Error::corruption(dir, 0, format!("key {number} of {before} is lost")));
            }
        }
        for first in (before..before + KEYS).step_by(BATCH_KEYS as usize) {
            let mut batch = Batch::new();
            for number in first..first + BATCH_KEYS {
                batch.put(&key(number), &value(number));
            }
            store.write(&batch).await?;
        }
        let said = format!(
            "found {before} keys, {} records replayed from the log; now there are {}",
            store.replayed,
            store.count().await?
        );
        if !crash {
            store.close().await?;
        }
        Ok(said)
    })
}

/// The command; a test runs [`run`] instead.
#[allow(dead_code, reason = "a test includes this file as a module")]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("which directory? embed DIRECTORY [--crash]")?;
    let crash = arguments.next().is_some_and(|argument| argument == "--crash");
    let salt = RealClock::new().unix_ms();
    println!("{}", run(Path::new(&dir), salt, crash)?);
    if crash {
        println!("and now it ends without closing");
        std::process::abort();
    }
    Ok(())
}
