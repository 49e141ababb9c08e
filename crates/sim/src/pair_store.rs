//! A tree behind a log, as plainly as it can be put together: background work runs one job after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_io::{BoxFuture, Clock, Owner, Result, Rng, Spawn, sleep_until};
use weir_log::{Log, LogOptions, SyncMode, WriteAheadLog};
use weir_lsm::cache::BlockCache;
use weir_lsm::pick::Scope;
use weir_lsm::table::Compression;
use weir_lsm::{Env, Lookup, Range, Snapshot, Tree, TreeOptions};
use weir_model::{Batch, BatchRef};

use crate::model::Visible;
use crate::store::{Span, Store, World};

/// How the pair is opened.
#[derive(Clone, Debug)]
pub struct PairOptions {
    /// When writes are acknowledged.
    pub sync: SyncMode,
    /// The tree's shape.
    pub tree: TreeOptions,
    /// Bytes of block cache.
    pub cache_bytes: usize,
    /// Size of a log segment.
    pub segment_bytes: u64,
}

impl PairOptions {
    /// Sizes of kilobytes: a few hundred writes fill four levels.
    pub fn small(sync: SyncMode) -> Self {
        let tree = TreeOptions {
            write_buffer_bytes: 8 << 10,
            l0_trigger: 2,
            level1_bytes: 12 << 10,
            level_factor: 2,
            table_bytes: 4 << 10,
            block_bytes: 512,
            io_bytes: 4096,
            ..TreeOptions::default()
        };
        Self { sync, tree, cache_bytes: 64 << 10, segment_bytes: 16 << 10 }
    }

    /// Options drawn at random, from sizes of kilobytes to a megabyte, every compression, with and without cache and filter.
    pub fn draw(rng: &mut Rng, sync: SyncMode) -> Self {
        let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd];
        let tree = TreeOptions {
            write_buffer_bytes: pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]) as usize,
            write_buffers_max: pick(&[2, 4]) as usize,
            flush_memtables_max: pick(&[1, 4]) as usize,
            l0_trigger: pick(&[1, 2, 4]) as usize,
            level1_bytes: pick(&[8 << 10, 64 << 10, 1 << 20]),
            level_factor: pick(&[2, 4, 10]),
            table_bytes: pick(&[4 << 10, 32 << 10, 1 << 20]),
            block_bytes: pick(&[128, 512, 4096]) as usize,
            filter_bits_per_key: pick(&[0, 10]) as u32,
            compression: std::array::from_fn(|_| compression[pick(&[0, 1, 2]) as usize]),
            io_bytes: pick(&[4096, 65536]) as usize,
            ..TreeOptions::default()
        };
        Self { sync, tree, cache_bytes: pick(&[0, 16 << 10, 1 << 20]) as usize, segment_bytes: 256 << 10 }
    }
}

/// See the module.
pub struct PairStore {
    log: Log,
    tree: Arc<Tree>,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
    order: Mutex<()>,
    working: AtomicBool,
    /// No more background work: somebody else is about to open the directory.
    closing: AtomicBool,
    me: std::sync::Weak<Self>,
}

impl PairStore {
    /// Starts the background task unless it runs.
    fn kick(&self) {
        if self.working.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(me) = self.me.upgrade() else { return };
        self.spawn.spawn(Box::pin(async move {
            me.work().await;
            me.working.store(false, Ordering::Relaxed);
        }));
    }

    fn finish(&self, lookup: Lookup) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let now = clock.unix_ms();
            let living = lookup.await?.filter(|found| !found.is_expired(now));
            Ok(living.map(|found| found.value.to_vec()))
        })
    }

    async fn work(&self) {
        loop {
            let job = self.tree.next_flush().or_else(|| self.tree.next_compaction(Scope::All));
            let Some(job) = job.filter(|_| !self.closing.load(Ordering::Relaxed)) else { return };
            let done = job.run().await.map(drop);
            let done = match done {
                Ok(()) => self.log.truncate(self.tree.persisted()).await,
                failed => failed,
            };
            if done.is_err() {
                sleep_until(&self.clock, self.clock.now() + 100_000_000).await;
                if self.me.strong_count() < 2 {
                    return;
                }
            }
        }
    }
}

impl Store for PairStore {
    type Options = PairOptions;
    type Snapshot = Snapshot;

    async fn open(world: World, options: PairOptions) -> Result<Arc<Self>> {
        let cache = BlockCache::new(options.cache_bytes, 1);
        let env = Env {
            fs: Arc::clone(&world.fs),
            dir: PathBuf::from("tree"),
            owner: Owner::default(),
            cache,
            clock: Arc::clone(&world.clock),
        };
        let tree = Tree::open(env, options.tree.clone()).await?;
        let log_options = LogOptions {
            sync: options.sync,
            segment_bytes: options.segment_bytes,
            ..LogOptions::new(Owner::default(), world.salt)
        };
        let mut replay = |index, payload: &[u8]| {
            let batch = BatchRef::decode(payload).map_err(|error| {
                weir_io::Error::corruption("log", error.offset as u64, "a record of the log is not a batch")
            })?;
            tree.publish(tree.apply(index, batch).last_seq);
            Ok(())
        };
        let (log, _) =
            Log::open(Arc::clone(&world.fs), Path::new("log"), log_options, tree.persisted(), &mut replay).await?;
        let store = Arc::new_cyclic(|me| Self {
            log,
            tree,
            clock: Arc::clone(&world.clock),
            spawn: world.spawn,
            order: Mutex::new(()),
            working: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            me: me.clone(),
        });
        if options.sync == SyncMode::Interval {
            let (store, clock) = (Arc::downgrade(&store), world.clock);
            let spawn = Arc::clone(&store.upgrade().expect("just made").spawn);
            spawn.spawn(Box::pin(async move {
                loop {
                    sleep_until(&clock, clock.now() + crate::log_store::SYNC_EVERY).await;
                    let Some(store) = store.upgrade() else { return };
                    if store.log.sync().await.is_err() {
                        return;
                    }
                }
            }));
        }
        store.kick();
        Ok(store)
    }

    fn write(&self, batch: &Batch) -> BoxFuture<Result<()>> {
        let appended = {
            let _order = self.order.lock();
            self.log.append(batch.as_bytes()).map(|index| (index, self.tree.apply(index, batch.as_ref()).last_seq))
        };
        self.kick();
        let (log, tree) = (self.log.clone(), Arc::clone(&self.tree));
        Box::pin(async move {
            let (index, seq) = appended?;
            log.commit(index).await?;
            tree.publish(seq);
            Ok(())
        })
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.finish(self.tree.get(key, None))
    }

    fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.finish(self.tree.get(key, Some(snapshot)))
    }

    fn scan(&self, span: &Span, snapshot: Option<&Snapshot>) -> BoxFuture<Result<Visible>> {
        let range = Range { from: span.from.clone(), to: span.to.clone(), reverse: span.reverse };
        let (mut scan, limit) = (self.tree.scan(range, snapshot), span.limit);
        Box::pin(async move {
            let mut visible = Visible::new();
            while visible.len() < limit
                && let Some(entry) = scan.next().await?
            {
                visible.push((entry.key.to_vec(), entry.value.to_vec()));
            }
            Ok(visible)
        })
    }

    fn snapshot(&self) -> Option<Snapshot> {
        Some(self.tree.snapshot())
    }

    fn seal(&self) {
        let _order = self.order.lock();
        self.tree.seal();
        self.kick();
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let Some(me) = self.me.upgrade() else { return Box::pin(async { Ok(()) }) };
        Box::pin(async move {
            me.closing.store(true, Ordering::Relaxed);
            while me.working.load(Ordering::Relaxed) {
                // A sleep and no yield: a worker that waits out a failed job needs time to pass.
                sleep_until(&me.clock, me.clock.now() + 1_000_000).await;
            }
            me.log.close().await
        })
    }
}
