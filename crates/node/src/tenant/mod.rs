//! A tenant: a name, settings, and the slots of its partitions.

mod all;
mod disk;
mod secret;
mod spec;
mod terms;
mod users;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use futures_util::lock::Mutex as AsyncMutex;
use weir_admission::Quota;
use weir_command::events::{Classes, Witness};
use weir_io::Result;
use weir_model::engine::EngineKind;
use weir_model::{Databases, StoredKey, TenantId, TenantName, partition_of};

pub(crate) use self::all::Tenants;
use self::disk::DiskGauge;
pub use self::disk::DiskUse;
pub use self::secret::{SECRET_BYTES_MAX, StoredSecret};
pub use self::spec::{PARTITIONS_MAX, TenantSettings, TenantSpec};
pub(crate) use self::terms::TermsBook;
pub(crate) use self::users::check as check_users;
pub use self::users::{StoredUser, USERS_BYTES_MAX, USERS_MAX};
use crate::bandwidth::Reservation;
use crate::catalogue::Listing;
use crate::engines::EngineChoice;
use crate::expirations::Expirations;
use crate::log_kind::LogKind;
use crate::partition_slot::PartitionSlot;
use crate::shared::NodeShared;
use crate::watched_rows::RowWatch;
use crate::witnessed::Witnessed;

/// A tenant of the node. A [`Tenant`] that somebody still holds after it was dropped refuses everything.
pub struct Tenant {
    id: TenantId,
    name: TenantName,
    engine: EngineChoice,
    log: LogKind,
    settings: ArcSwap<TenantSettings>,
    /// As the settings say. Every command asks for it.
    is_suspended: AtomicBool,
    /// See [`Databases::bits`].
    databases: AtomicU64,
    /// How often two of its databases were swapped since the node was opened.
    swaps: AtomicU64,
    quota: Arc<Quota>,
    slots: Box<[Arc<PartitionSlot>]>,
    disk: DiskGauge,
    witnessed: Arc<Witnessed>,
    terms: Arc<TermsBook>,
    /// One change at a time. Taken before the catalogue.
    pub(crate) changing: Arc<AsyncMutex<()>>,
}

impl Tenant {
    /// `used` are the partitions that have files, among them those of this tenant.
    pub(crate) fn new(shared: &Arc<NodeShared>, listing: Listing, used: &BTreeSet<u32>) -> Arc<Self> {
        let Listing { id, name, partitions, engine, log, databases, settings } = listing;
        let choice = EngineChoice::new(engine, settings.memory_bytes_max);
        let quota = Quota::on_node(Arc::clone(&shared.machine.clock), &settings.limits, Arc::clone(&shared.units));
        let reservation = || Reservation::new(settings.limits, partitions.len(), &quota);
        let witnessed = Arc::<Witnessed>::default();
        let slot = |&number: &u32| {
            let place = (number, used.contains(&number));
            PartitionSlot::new(shared, id, place, choice.clone(), reservation(), &witnessed)
        };
        let slots = partitions.iter().map(slot).collect();
        let disk = DiskGauge::new(Arc::clone(&shared.machine.clock), settings.disk_bytes_max);
        let terms = Arc::clone(&shared.terms);
        terms.set(id, settings.terms);
        let (databases, swaps, changing) = (AtomicU64::new(databases.bits()), AtomicU64::new(0), Arc::default());
        Arc::new(Self {
            id,
            name,
            engine: choice,
            log,
            is_suspended: AtomicBool::new(settings.suspended),
            settings: ArcSwap::from_pointee(settings),
            databases,
            swaps,
            quota,
            slots,
            disk,
            witnessed,
            terms,
            changing,
        })
    }

    /// Its number, which no other tenant ever had or gets.
    pub fn id(&self) -> TenantId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &TenantName {
        &self.name
    }

    /// The engine in which its partitions keep their rows.
    pub fn engine(&self) -> EngineKind {
        self.engine.kind()
    }

    /// Where its partitions write their logs.
    pub fn log(&self) -> LogKind {
        self.log
    }

    /// Bytes of memory that its rows take, if its engine keeps them in memory. Only partitions that are awake count.
    pub fn memory_use(&self) -> Option<u64> {
        self.engine.memory_use()
    }

    /// Its settings as of now.
    pub fn settings(&self) -> Arc<TenantSettings> {
        self.settings.load_full()
    }

    /// Whether its clients are refused. Costs a load.
    #[inline]
    pub fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Acquire)
    }

    /// Whether it was dropped, or the node is closed. Costs a load.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.slots.first().is_none_or(|slot| slot.is_gone())
    }

    /// Under which number each of its databases is stored. Costs a load. Whoever runs a command makes sure that no
    /// [swap](crate::Node::swap_databases) comes in between.
    #[inline]
    pub fn databases(&self) -> Databases {
        Databases::from_known_bits(self.databases.load(Ordering::Acquire))
    }

    /// Two of its databases were swapped.
    pub(crate) fn set_databases(&self, databases: Databases) {
        self.databases.store(databases.bits(), Ordering::Release);
        self.swaps.fetch_add(1, Ordering::Release);
    }

    /// How often two of its databases were swapped since the node was opened.
    pub(crate) fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Acquire)
    }

    pub(crate) fn set_settings(&self, settings: TenantSettings) {
        self.quota.set_limits(&settings.limits);
        self.limit_disk(settings.disk_bytes_max);
        self.engine.limit(settings.memory_bytes_max);
        self.slots.iter().for_each(|slot| slot.alter(settings.limits));
        self.terms.set(self.id, settings.terms);
        let is_suspended = settings.suspended;
        self.settings.store(Arc::new(settings));
        self.is_suspended.store(is_suspended, Ordering::Release);
    }

    /// Everything that the tenant had is gone.
    pub(crate) fn emptied(&self) {
        self.disk.forget();
    }

    /// From now on `witness` is told what happens to the tenant's keys, in the place of an earlier witness. Changes
    /// that it is not told of are seen by every read that begins after this.
    pub fn be_witnessed(&self, witness: Weak<dyn Witness>) {
        self.witnessed.set(witness);
        // A writer that found no witness, or one that wanted nothing, holds the order lock until its change is applied.
        for partition in self.slots.iter().filter_map(|slot| slot.awake().clone()) {
            partition.pass_order();
            partition.look_after_expiry();
        }
    }

    /// From now on `call` is called, in the place of an earlier one, whenever a failed log of a partition was replaced:
    /// writes that were refused, and that reads have left out, count then. It must not wait.
    pub fn on_log_replaced(&self, call: Arc<dyn Fn() + Send + Sync>) {
        self.witnessed.set_on_log_replaced(call);
    }

    /// Watches the row of `key` in the database with this number. Changes that are not counted are seen by every read
    /// that begins after this. If a read of the row leaves out a refused change, which may yet count, the watch counts
    /// it.
    ///
    /// # Errors
    /// Its partition cannot be opened.
    pub async fn watch(&self, database: u8, key: &[u8]) -> Result<RowWatch> {
        let watch = self.witnessed.watched.watch(&StoredKey::new(database, key));
        if let Some(partition) = self.slot_of(key).partition_to_read().await? {
            // A writer that found nothing watched holds the order lock until its change is applied.
            partition.pass_order();
        }
        Ok(watch)
    }

    /// The events of its keys that somebody wants to be told at the moment.
    pub fn wants(&self) -> Classes {
        self.witnessed.wants()
    }

    /// How its rows that have expired are deleted.
    pub fn expirations(&self) -> &Expirations {
        &self.witnessed.expirations
    }

    /// The capacity units that its requests are charged to.
    pub fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Where its partitions are, in the order of their hash slots.
    pub fn partitions(&self) -> &[Arc<PartitionSlot>] {
        &self.slots
    }

    /// The partition that `key`, as its user knows it, belongs to: its place in [`Tenant::partitions`].
    #[inline]
    pub fn index_of(&self, key: &[u8]) -> usize {
        partition_of(key, self.slots.len())
    }

    /// The slot of the partition that `key`, as its user knows it, belongs to.
    #[inline]
    pub fn slot_of(&self, key: &[u8]) -> &Arc<PartitionSlot> {
        &self.slots[self.index_of(key)]
    }

    /// The tenant as the catalogue has it, with these partitions.
    pub(crate) fn listing(&self, partitions: Vec<u32>, settings: TenantSettings) -> Listing {
        let (name, engine, log, databases) = (self.name.clone(), self.engine(), self.log, self.databases());
        Listing { id: self.id, name, partitions, engine, log, databases, settings }
    }

    pub(crate) fn partition_numbers(&self) -> Vec<u32> {
        self.slots.iter().map(|slot| slot.owner().partition).collect()
    }
}
