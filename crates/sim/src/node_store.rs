//! The real thing under test: a node with the partition of its first tenant.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_io::{BoxFuture, Clock, Nanos, Result, Rng, sleep_until};
use weir_log::SyncMode;
use weir_lsm::table::Compression;
use weir_lsm::{PickerKind, TreeOptions};
use weir_model::Batch;
use weir_model::engine::{Lookup, Range, Snapshot};
use weir_node::{Commit, EngineKind, LogKind, Machine, Node, NodeConfig, Partition, StoreOptions};

use crate::model::Visible;
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// The node's directory on the simulated disk.
pub(crate) const DIR: &str = "weir";

/// Sizes of kilobytes: a few hundred writes fill four levels.
pub fn small(sync: SyncMode) -> NodeConfig {
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
    NodeConfig {
        tree,
        store: StoreOptions { snapshot_log_bytes: 8 << 10, ..StoreOptions::default() },
        sync,
        cache_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        shared_log_bytes: 128 << 10,
        sync_interval: SYNC_EVERY,
        ..NodeConfig::new(DIR)
    }
}

/// Like [`small`], with rows kept in `engine`.
pub fn small_on(engine: EngineKind, sync: SyncMode) -> NodeConfig {
    NodeConfig { engine, ..small(sync) }
}

/// How often a log in mode `Interval` is synced.
pub const SYNC_EVERY: Nanos = 50_000_000;

/// Settings drawn at random: either engine, either log, sizes from kilobytes to a megabyte, every compression, with and
/// without cache and filter.
pub fn draw(rng: &mut Rng, sync: SyncMode) -> NodeConfig {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let compression = [Compression::None, Compression::Lz4, Compression::Zstd];
    let tree = TreeOptions {
        write_buffer_bytes: pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]) as usize,
        write_buffers_max: pick(&[2, 4]) as usize,
        flush_memtables_max: pick(&[1, 4]) as usize,
        picker: if pick(&[0, 1, 1]) == 1 { PickerKind::Leveled } else { PickerKind::SpLsm },
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
    let (cache_bytes, compaction_slots) = (pick(&[0, 16 << 10, 1 << 20]) as usize, pick(&[1, 3]) as usize);
    let write_memory_bytes = pick(&[128 << 10, 1 << 30, 1 << 30]);
    let snapshot_log_bytes = pick(&[2 << 10, 16 << 10, 1 << 20]);
    let engine = if pick(&[0, 0, 1]) == 1 { EngineKind::Memory } else { EngineKind::Lsm };
    let log = LogKind::ALL[pick(&[0, 1]) as usize];
    NodeConfig {
        engine,
        log,
        store: StoreOptions { snapshot_log_bytes, ..StoreOptions::default() },
        tree,
        write_memory_bytes,
        cache_bytes,
        compaction_slots,
        gates: pick(&[0, 1]) == 1,
        segment_bytes: 256 << 10,
        ..small(sync)
    }
}

/// The first partition of a node as a [`Store`].
pub struct NodeStore {
    node: Arc<Node>,
    partition: Arc<Partition>,
    clock: Arc<dyn Clock>,
}

impl NodeStore {
    /// The store of a partition whose node is open already.
    pub(crate) fn of(node: Arc<Node>, partition: Arc<Partition>, clock: Arc<dyn Clock>) -> Self {
        Self { node, partition, clock }
    }

    pub(crate) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    fn finish(&self, lookup: Lookup) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let now = clock.unix_ms();
            Ok(lookup.await?.filter(|found| !found.is_expired(now)).map(|found| found.value.to_vec()))
        })
    }
}

/// A batch on its way. Without a stall it has its place in the order at the first poll. With a stall, or where rows
/// must be read from the device first, the caller must wait before it sends the next batch.
pub(crate) fn placed(mut placing: BoxFuture<Result<Commit>>) -> Sent {
    match Pin::new(&mut placing).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(commit)) => Sent { done: Box::pin(commit), placed: true },
        Poll::Ready(Err(error)) => Sent { done: Box::pin(async { Err(error) }), placed: true },
        Poll::Pending => Sent { done: Box::pin(async move { placing.await?.await }), placed: false },
    }
}

impl Store for NodeStore {
    type Options = NodeConfig;
    type Snapshot = Snapshot;

    async fn open(world: World, config: NodeConfig) -> Result<Arc<Self>> {
        let clock = Arc::clone(&world.clock);
        let machine = Machine { fs: world.fs, clock: world.clock, spawn: world.spawn, salt: world.salt };
        let node = Arc::new(Node::open(&config, machine).await?);
        let partition = node.default_partition().await?;
        Ok(Arc::new(Self { node, partition, clock }))
    }

    fn write(&self, batch: &Batch) -> Sent {
        let (partition, batch) = (Arc::clone(self.partition()), batch.clone());
        placed(Box::pin(async move { partition.write(&batch).await }))
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let (partition, key) = (Arc::clone(self.partition()), key.to_vec());
        Box::pin(async move { Ok(partition.get(&key).await?.and_then(|record| Some(record.value()?.to_vec()))) })
    }

    fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.finish(self.partition().engine().get(key, Some(snapshot)))
    }

    fn scan(&self, span: &Span, snapshot: Option<&Snapshot>) -> BoxFuture<Result<Visible>> {
        let range = Range { from: span.from.clone(), to: span.to.clone(), reverse: span.reverse };
        let limit = span.limit;
        let frozen = snapshot.map(|snapshot| self.partition().engine().scan(range.clone(), Some(snapshot)));
        let partition = Arc::clone(self.partition());
        Box::pin(async move {
            let mut scan = match frozen {
                Some(scan) => scan,
                None => partition.scan(range).await?,
            };
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
        Some(self.partition().engine().snapshot())
    }

    fn seal(&self) {
        self.partition().seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        Box::pin(async move {
            self.node.close().await?;
            // Jobs end at their next step; only then may another process open the directory.
            while self.partition().engine().facts().jobs_running > 0 {
                sleep_until(&self.clock, self.clock.now() + 1_000_000).await;
            }
            Ok(())
        })
    }
}
