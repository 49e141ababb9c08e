//! The parts of a node that all its tenants share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::lock::Mutex as AsyncMutex;
use weir_admission::{Gate, GatedFs, Ledger, NodeUnits, OwnGate, PartitionGate, Pool, Sharers};
use weir_io::{Error, ErrorKind, Fs, FsLock, Nanos, Owner, Result, Volume, sleep_until};
use weir_log::{SharedLog, SyncMode};
use weir_model::TenantId;

use crate::cache_shares::{KeptBlocks, measure};
use crate::catalogue::{Catalogue, CatalogueEdit, commit};
use crate::config::{Machine, NodeConfig};
use crate::control::Control;
use crate::engines::{BlockCache, EngineChoice};
use crate::flush_queue::FlushQueue;
use crate::group_sync::GroupSync;
use crate::layout;
use crate::log_kind::LogKind;
use crate::log_toll::LogToll;
use crate::memory::{WriteMemory, keep};
use crate::metrics::Counters;
use crate::partition::{Leave, Opening, Partition, Settle};
use crate::removal;
use crate::reserve::{self, Reserve};
use crate::shared_log::{self, LogWriters, NodeLog};
use crate::tenant::TermsBook;
use crate::tenant_clock::TenantClock;
use crate::tick::{self, Ticked, Ticker};
use crate::witnessed::Witnessed;
use crate::workers::Workers;
use crate::write_shares::WriteShares;

/// Partitions that are opened at a time. Each replays at the speed of one core; opening more would only delay all of
/// them.
const WAKES_MAX: u64 = 4;

/// The node's hold on its directory.
pub(crate) struct Directory {
    /// The lock against other processes.
    pub lock: Arc<dyn FsLock>,
    /// The directory's file system, if all of it can be synced at once.
    pub volume: Option<Arc<dyn Volume>>,
}

/// What all tenants of a node share: the catalogue, gates, workers, memory, cache and shared log.
pub(crate) struct NodeShared {
    pub config: NodeConfig,
    pub machine: Machine,
    /// The disk for the node's own work, booked to tenant 0.
    pub own_fs: Arc<dyn Fs>,
    pub gate: Arc<Gate>,
    pub ledger: Arc<Ledger>,
    /// Request units for all tenants.
    pub units: Arc<NodeUnits>,
    pub cache: Arc<BlockCache>,
    pub kept_blocks: Arc<KeptBlocks>,
    pub memory: Arc<WriteMemory>,
    pub workers: Arc<Workers>,
    /// The terms of tenants about their shares.
    pub terms: Arc<TermsBook>,
    pub ticker: Arc<Ticker>,
    pub control: Arc<Control>,
    pub catalogue: Arc<AsyncMutex<Catalogue>>,
    /// The log of tenants that share one.
    pub node_log: Arc<NodeLog>,
    /// The space that the catalogue may use where the disk is full.
    reserve: Arc<Reserve>,
    /// A unit for each partition that is being opened.
    wakes: Arc<Pool>,
    openings: AtomicU64,
    lock: Arc<dyn FsLock>,
}

impl NodeShared {
    pub fn new(
        config: NodeConfig,
        machine: Machine,
        own_fs: Arc<dyn Fs>,
        gate: Arc<Gate>,
        ledger: Arc<Ledger>,
        catalogue: Catalogue,
        directory: Directory,
    ) -> Arc<Self> {
        let Directory { lock, volume } = directory;
        let (clock, terms) = (Arc::clone(&machine.clock), Arc::<TermsBook>::default());
        let shares = WriteShares::new(config.write_memory_bytes, config.write_memory_shares, Arc::clone(&terms));
        let memory = WriteMemory::new(config.write_memory_bytes, shares, clock, &gate);
        let cache = BlockCache::new(config.cache_bytes, CACHE_SHARDS);
        let queue = |shares| FlushQueue::new(shares, Arc::clone(&terms), Arc::clone(&machine.clock));
        let flushes = config.flush_slots.map(queue);
        let kept_blocks = KeptBlocks::new(config.cache_shares, Arc::clone(&terms), &cache, &gate);
        let caches = (&cache, &kept_blocks);
        let ticker = Ticker::new(&config, &gate, &memory, caches, &ledger, flushes.clone());
        let (spawn, clock) = (Arc::clone(&machine.spawn), Arc::clone(&machine.clock));
        let slots = (config.compaction_slots, config.profile.preempts());
        let workers = Workers::new(spawn, clock, slots, flushes);
        workers.spawn(tick::run(Arc::downgrade(&ticker), Arc::clone(&machine.clock)));
        workers.spawn(keep(Arc::downgrade(&memory), Arc::clone(&machine.clock)));
        if config.cache_shares.promise().is_some() {
            workers.spawn(measure(Arc::downgrade(&kept_blocks), Arc::clone(&machine.clock)));
        }
        let reserve = Arc::clone(catalogue.reserve());
        workers.spawn(reserve::keep(Arc::downgrade(&reserve), Arc::clone(&machine.clock)));
        let books = Arc::clone(&ticker);
        let log_time = Box::new(move |interval| books.log_time(interval));
        let group_sync = GroupSync::new(volume, config.sync_interval, log_time);
        let control =
            Control::new(Arc::clone(&machine.clock), config.sync_interval, Arc::clone(&machine.spawn), group_sync);
        let promises = (config.sync, config.shared_log_bytes);
        let writers = Arc::<LogWriters>::default();
        let (raw, sharers) = (Arc::clone(&machine.fs), Arc::clone(&writers) as Arc<dyn Sharers>);
        let log_fs = GatedFs::shared(raw, shared_log::OWNER, Arc::clone(&gate), &ledger, sharers);
        let (log_lock, clock) = (Arc::clone(&lock), Arc::clone(&machine.clock));
        let node_log = NodeLog::new(log_fs, &config.dir, promises, writers, log_lock, clock);
        Arc::new(Self {
            node_log,
            own_fs,
            ticker,
            gate,
            ledger,
            units: NodeUnits::new(Arc::clone(&machine.clock)),
            cache,
            kept_blocks,
            memory,
            workers,
            terms,
            control,
            reserve,
            catalogue: Arc::new(AsyncMutex::new(catalogue)),
            wakes: Pool::new(WAKES_MAX),
            openings: AtomicU64::new(0),
            lock,
            config,
            machine,
        })
    }

    /// Opens the partition of `slot`, whose number and tenant are `owner`'s, when it is its turn: tenants take turns,
    /// however many partitions each has.
    pub async fn open_partition(
        self: &Arc<Self>,
        slot: &Arc<dyn Ticked>,
        owner: Owner,
        engine: &EngineChoice,
        (counters, witnessed): (Arc<Counters>, Arc<Witnessed>),
    ) -> Result<Arc<Partition>> {
        let number = owner.partition;
        // Before it is this partition's turn: partitions that have logs of their own do not wait until a long log is
        // read.
        let shared_log = match self.log_of(TenantId(owner.tenant)).await {
            LogKind::Own => None,
            LogKind::Shared => Some(self.shared_log().await?),
        };
        let _permit = self.wakes.acquire(owner.tenant, 1).await;
        let (fs, dir) = (&self.own_fs, &self.config.dir);
        let (was_used, doubt) = {
            let mut catalogue = self.catalogue.lock().await;
            (catalogue.listings().used.contains(&number), self.doubt(&mut catalogue, number).await)
        };
        if was_used && !layout::has_tree(fs, dir, number).await? {
            // Serving an empty one instead would hide the loss.
            return Err(layout::lost(dir, number));
        }
        let path = match was_used {
            // The directory of a partition that the catalogue calls used is durable.
            true => layout::partition_path(dir, number),
            false => layout::partition_dir(fs, dir, number).await?,
        };
        let (gated, gates) = self.gated(slot, owner);
        let account = self.ledger.account(owner);
        let toll = shared_log.as_ref().and_then(|_| {
            self.node_log.writers().admit(number, &account);
            let gate = OwnGate::new(Arc::clone(gates.as_ref()?), Arc::clone(&self.gate), &self.ledger);
            Some(LogToll::new(gate, self.config.sync != SyncMode::Always))
        });
        let opening = Opening {
            fs: gated,
            gates,
            dir: &path,
            owner,
            config: &self.config,
            engine,
            cache: Arc::clone(&self.cache),
            clock: TenantClock::new(&self.machine.clock, &witnessed),
            workers: Arc::clone(&self.workers),
            memory: Arc::clone(&self.memory),
            control: Arc::clone(&self.control),
            salt: self.salt(),
            identity: self.identity(),
            shared_log,
            toll,
            was_used,
            account,
            lock: Arc::clone(&self.lock),
            counters,
            witnessed,
            doubt,
            settle: self.settle(number),
        };
        let partition = Partition::open(opening).await?;
        if !was_used && let Err(error) = self.mark_used(number).await {
            partition.leave(Leave::Discard).await;
            return Err(error);
        }
        Ok(partition)
    }

    async fn log_of(&self, tenant: TenantId) -> LogKind {
        let catalogue = self.catalogue.lock().await;
        catalogue.listings().tenants.get(&tenant).map_or(LogKind::Own, |listing| listing.log)
    }

    /// The log of tenants that share one, opened if need be.
    ///
    /// # Errors
    /// It is damaged; I/O.
    pub async fn shared_log(&self) -> Result<SharedLog> {
        if let Some(log) = self.node_log.get() {
            return Ok(log.clone());
        }
        let members = self.catalogue.lock().await.listings().sharing_a_log();
        let log = self.node_log.open(&members, (self.salt(), self.identity())).await?;
        if let Some(watch) = self.node_log.take_watch() {
            self.workers.spawn(watch);
        }
        Ok(log)
    }

    /// The partitions that have something unflushed in the shared log. The log is shortened by what nobody needs: by
    /// all of it, if the last tenant that shared it was dropped.
    pub async fn unflushed_in_shared_log(&self) -> BTreeSet<u32> {
        let is_used = match self.catalogue.lock().await.listings().sharing_a_log().is_empty() {
            true => self.node_log.exists().await.unwrap_or_default(),
            false => true,
        };
        if !is_used {
            return BTreeSet::new();
        }
        // The reason why it cannot be opened was logged, and is told to whoever asks for one of its partitions.
        let Ok(log) = self.shared_log().await else { return BTreeSet::new() };
        if let Err(error) = log.truncate().await {
            tracing::warn!(%error, "cannot truncate the shared log yet");
        }
        log.unflushed()
    }

    /// The partition's files exist durably, and nothing is acknowledged yet. From now on it is a loss if they are
    /// missing.
    async fn mark_used(&self, number: u32) -> Result<()> {
        let mut catalogue = self.catalogue.lock().await;
        commit(&mut catalogue, CatalogueEdit { used: vec![number], ..CatalogueEdit::default() }).await
    }

    /// Why partition `number` must not be written to: what is acknowledged in it must not be lost with an edit that
    /// gave the partition up after all.
    async fn doubt(&self, catalogue: &mut Catalogue, number: u32) -> Option<Error> {
        if !catalogue.is_in_doubt(number) {
            return None;
        }
        let cause = catalogue.settle().await.err()?;
        let message = format!(
            "dropping or emptying this tenant failed half-way; it takes writes again once the catalogue can be \
             written: {cause}"
        );
        Some(Error::new(cause.kind(), "write to", "the tenant", message))
    }

    /// Ends the doubt about partition `number`, if there is any.
    fn settle(self: &Arc<Self>, number: u32) -> Settle {
        let shared = Arc::downgrade(self);
        Box::new(move || {
            let shared = shared.clone();
            Box::pin(async move {
                let Some(shared) = shared.upgrade() else {
                    return Err(Error::new(ErrorKind::Closed, "change", "the catalogue", "the node is shutting down"));
                };
                let mut catalogue = shared.catalogue.lock().await;
                if catalogue.is_in_doubt(number) { catalogue.settle().await } else { Ok(()) }
            })
        })
    }

    /// The space that the catalogue may use where the disk is full.
    pub fn reserve(&self) -> &Arc<Reserve> {
        &self.reserve
    }

    /// The disk behind the node's gate, booked to `owner`, for a partition that nobody can use yet: it has no limits of
    /// its own.
    pub fn booked_to(&self, owner: Owner) -> Arc<dyn Fs> {
        let fs = Arc::clone(&self.machine.fs);
        if self.config.gates { GatedFs::node(fs, owner, Arc::clone(&self.gate), &self.ledger) } else { fs }
    }

    /// The disk behind the gates of `slot`, and those gates.
    fn gated(&self, slot: &Arc<dyn Ticked>, owner: Owner) -> (Arc<dyn Fs>, Option<Arc<PartitionGate>>) {
        let fs = Arc::clone(&self.machine.fs);
        if !self.config.gates {
            self.ticker.opened(owner, slot);
            return (fs, None);
        }
        let partition_gate = PartitionGate::new(owner, &self.machine.clock);
        slot.reservation().open(Arc::clone(&partition_gate));
        self.ticker.opened(owner, slot);
        let (gates, spawn) = (Arc::clone(&partition_gate), Arc::clone(&self.machine.spawn));
        let gated = GatedFs::partition(fs, partition_gate, Arc::clone(&self.gate), &self.ledger, spawn);
        (gated, Some(gates))
    }

    /// Different for every opening, because the contents of a recycled segment must not look like new records.
    pub(crate) fn salt(&self) -> u64 {
        let opening = self.openings.fetch_add(1, Ordering::Relaxed);
        self.machine.salt ^ opening.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// An identity for a partition that is made: no other partition has it.
    pub(crate) fn identity(&self) -> u64 {
        // Not the salt itself, which has another meaning.
        self.salt().rotate_left(32)
    }

    /// Removes what is left of condemned partitions, in the background. Where that fails, it is tried again until it is
    /// done or the node ends. In the latter case the next opening removes the rest.
    pub fn remove_partitions(self: &Arc<Self>, numbers: Vec<u32>) {
        if numbers.is_empty() {
            return;
        }
        let (fs, dir, catalogue) = (Arc::clone(&self.own_fs), self.config.dir.clone(), Arc::clone(&self.catalogue));
        let (clock, shared) = (Arc::clone(&self.machine.clock), Arc::downgrade(self));
        // Held while something is removed, but not while waiting for the next attempt.
        let mut held = Some((Arc::clone(&self.lock), Arc::clone(self.reserve())));
        let shared_log = self.node_log.get().cloned();
        self.workers.spawn(async move {
            if let Some(log) = shared_log {
                forget_members(&log, &numbers).await;
            }
            let mut left = numbers;
            while let Some((_lock, reserve)) = &held {
                match removal::remove(&fs, &dir, &catalogue, &left).await {
                    Ok(failed) => left = failed,
                    Err(error) => tracing::warn!(%error, "cannot remove dropped partitions yet"),
                }
                reserve.try_now();
                if left.is_empty() {
                    return;
                }
                drop(held.take());
                sleep_until(&clock, clock.now() + REMOVE_AGAIN_AFTER).await;
                held = shared.upgrade().map(|shared| (Arc::clone(&shared.lock), Arc::clone(shared.reserve())));
            }
        });
    }
}

/// The partitions `numbers` need nothing of the shared log any more, if they ever did.
async fn forget_members(log: &SharedLog, numbers: &[u32]) {
    for &number in numbers {
        if let Err(error) = log.forget(number).await {
            // The next flush of another member tries again.
            tracing::warn!(partition = number, %error, "cannot truncate the shared log yet");
        }
    }
}

/// How long a failed removal waits before it is tried again, in nanoseconds.
const REMOVE_AGAIN_AFTER: Nanos = 1_000_000_000;

/// Enough that two cores seldom meet. Each shard has a ghost queue, so there are no more than needed.
const CACHE_SHARDS: usize = 16;
