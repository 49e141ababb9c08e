//! A node: one directory, one disk, one set of gates, many tenants.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::lock::OwnedMutexGuard;
use parking_lot::RwLock;
use weir_admission::policy::share::{Claimant, ShareTerms};
use weir_admission::policy::{Behaviour, Recording, Tick, Window, explain};
use weir_admission::{Gate, GateOptions, GatedFs, Ledger, NodeUnits, Pool, ReadMemoryFs};
use weir_io::{Error, ErrorKind, Fs, Nanos, Owner, Result, Rng};
use weir_log::{SharedLog, SharedStats};
use weir_model::{Databases, TenantId, TenantName};

use crate::bill::BillBook;
use crate::cache_shares::CacheShares;
use crate::carried::carried;
use crate::cascade;
use crate::catalogue::{Catalogue, CatalogueEdit, Listing, commit};
use crate::config::{Machine, NodeConfig};
use crate::engines::BlockCache;
use crate::flush_queue::FlushWaits;
use crate::format::{self, Format, Origin};
use crate::hibernate;
use crate::layout;
use crate::log_kind::LogKind;
use crate::metrics::PartitionMetrics;
use crate::mover::Mover;
use crate::partition::{Leave, Partition};
use crate::partition_slot::{Left, Shut, SlotState};
use crate::shared::{Directory, NodeShared};
use crate::sold::Sold;
use crate::strangers::Strangers;
use crate::tenant::{PARTITIONS_MAX, SECRET_BYTES_MAX, Tenant, TenantSettings, TenantSpec, Tenants, check_users};
use crate::write_shares::MemoryShares;

/// A node: it owns a directory and serves the tenants in it. Dropping it cancels its background work. The directory
/// stays locked until the last partition, and all work that goes on in it, is gone.
pub struct Node {
    shared: Arc<NodeShared>,
    tenants: Arc<RwLock<Tenants>>,
}

/// Bound on the memory of long reads that are under way for clients, of all tenants together: two of the longest usual
/// values.
const LONG_READ_BYTES_MAX: u64 = 128 << 20;

impl Node {
    /// Opens the node in `config.dir`: its catalogue, and no partition. The first start makes the tenant `default`.
    /// What a crash left of dropped tenants is removed in the background. Files that the catalogue does not mention are
    /// left alone.
    ///
    /// # Errors
    /// `Locked` if another process, or another node of this process, still has the directory after one second;
    /// `Invalid` if another version made it; corruption with file and offset, if a file that everything depends on is
    /// missing, damaged or an older copy of itself.
    pub async fn open(config: &NodeConfig, machine: Machine) -> Result<Node> {
        let machine = Machine { fs: ReadMemoryFs::new(machine.fs, LONG_READ_BYTES_MAX), ..machine };
        let (ledger, gate) = (Ledger::new(), Gate::new(Arc::clone(&machine.clock), GateOptions::NODE));
        // The node's own work is booked to tenant 0.
        let own_fs: Arc<dyn Fs> =
            GatedFs::urgent(Arc::clone(&machine.fs), Owner::default(), Arc::clone(&gate), &ledger);
        let (lock, origin) = format::claim(&own_fs, &machine.clock, &config.dir).await?;
        let rng = Rng::new(machine.salt).fork("catalogue");
        let catalogue = match origin {
            Origin::New => {
                let catalogue = Catalogue::create(&own_fs, &config.dir, layout::TAG, rng).await?;
                // Last: where the format file is, everything else must be.
                Format::write(&own_fs, &config.dir).await?;
                catalogue
            }
            Origin::Existing => Catalogue::open(&own_fs, &config.dir, layout::TAG, rng).await?,
        };
        let listings = catalogue.listings().clone();
        let there = layout::partitions(&own_fs, &config.dir).await?;
        let strangers = Strangers::among(&there, &listings);
        if let Some(refusal) = strangers.refusal(&config.dir) {
            return Err(refusal);
        }
        if let Some(first) = strangers.unknown.first() {
            let (count, dir) = (strangers.unknown.len(), layout::partition_path(&config.dir, *first));
            tracing::warn!(
                count,
                first = %dir.display(),
                "there are partitions that belong to no tenant: they are left alone, and `weir check` lists them"
            );
        }
        // On a full disk the first order may need it. If the space cannot be had now, `reserve::keep` tries again, and
        // says so.
        let _tried_again = catalogue.reserve().fill().await;
        // Before the first log is written: the volume reports only failures from now on.
        let volume = match own_fs.volume(&config.dir, layout::TAG).await {
            Ok(volume) => Some(volume),
            Err(error) => {
                tracing::debug!(%error, "the file system cannot be synced as a whole: each log is synced by itself");
                None
            }
        };
        let directory = Directory { lock: lock.into(), volume };
        let shared = NodeShared::new(config.clone(), machine, own_fs, gate, ledger, catalogue, directory);
        shared.remove_partitions(listings.condemned.iter().copied().collect());
        let mut tenants = Tenants::default();
        listings
            .tenants
            .into_values()
            .for_each(|listing| tenants.insert(Tenant::new(&shared, listing, &listings.used)));
        let node = Node { shared, tenants: Arc::new(RwLock::new(tenants)) };
        if config.hibernate_after > 0 {
            let clock = Arc::clone(&node.shared.machine.clock);
            let workers = Arc::clone(&node.shared.workers);
            let sleepers = hibernate::run(Arc::downgrade(&node.tenants), clock, workers, config.hibernate_after);
            node.shared.workers.spawn(sleepers);
        }
        let (log, clock) = (Arc::downgrade(&node.shared.node_log), Arc::clone(&node.shared.machine.clock));
        let cascades = cascade::run(Arc::downgrade(&node.tenants), log, clock, config.sync_interval);
        node.shared.node_log.set_watch(Box::pin(cascades));
        if listings.next_tenant == 1 {
            let (engine, log) = (config.engine, config.log);
            let spec = TenantSpec { engine, log, ..TenantSpec::new(TenantName::built_in()) };
            node.create_tenant(spec).await?;
        }
        Ok(node)
    }

    /// The node's request units, shared by all tenants. None are to spare until somebody says what the machine has.
    pub fn units(&self) -> &Arc<NodeUnits> {
        &self.shared.units
    }

    /// The bill in its directory.
    ///
    /// # Errors
    /// It is damaged; I/O.
    pub async fn bill_book(&self) -> Result<BillBook> {
        BillBook::open(&self.shared.own_fs, &self.shared.config.dir, self.shared.salt()).await
    }

    /// What the policies saw and decided last; `None` in the first second.
    pub fn last_tick(&self) -> Option<Arc<Tick>> {
        self.shared.ticker.last_tick()
    }

    /// What the policies saw and decided lately, the oldest tick first.
    pub fn ticks(&self) -> Vec<Arc<Tick>> {
        self.shared.ticker.ticks()
    }

    /// How the policies have behaved since the node was opened: oscillation and under-utilisation.
    pub fn behaviour(&self) -> Behaviour {
        self.shared.ticker.behaviour()
    }

    /// Sets whom the node tells from now on that it is short, and which partitions should leave it. Before this call,
    /// nobody is told.
    pub fn set_mover(&self, mover: Arc<dyn Mover>) {
        self.shared.ticker.desk.set(mover);
    }

    /// The same ticks, with what is needed to decide them again somewhere else.
    pub fn recording(&self) -> Recording {
        self.shared.ticker.recording()
    }

    /// What held for `owner` at `at` on the node's clock, in words; `None` if that is forgotten, or the partition was
    /// asleep.
    pub fn why(&self, owner: Owner, at: Nanos) -> Option<String> {
        let tick = self.shared.ticker.tick_at(at)?;
        explain(&tick, owner)
    }

    /// What `tenant` met in the seconds before `at` on the node's clock; `None` if that is forgotten, or the tenant was
    /// asleep.
    pub fn felt(&self, tenant: TenantId, at: Nanos) -> Option<Window> {
        self.shared.ticker.felt(tenant, at)
    }

    /// What tenants have bought, compared with what the device gives.
    pub fn sold(&self) -> Sold {
        let limits = self.tenants().into_iter().map(|tenant| tenant.settings().limits);
        Sold::of(limits, self.shared.config.bandwidth.map(|bandwidth| bandwidth.device))
    }

    /// All tenants, by name.
    pub fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.read().all()
    }

    /// The tenant called `name`.
    pub fn tenant(&self, name: &TenantName) -> Option<Arc<Tenant>> {
        self.tenants.read().named(name)
    }

    /// The tenant with number `id`.
    pub fn tenant_by_id(&self, id: TenantId) -> Option<Arc<Tenant>> {
        self.tenants.read().numbered(id)
    }

    /// The only partition of the tenant `default`: for programs that embed one store, and for tests.
    ///
    /// # Errors
    /// It cannot be opened, or was dropped.
    pub async fn default_partition(&self) -> Result<Arc<Partition>> {
        let name = TenantName::built_in();
        self.tenant(&name).ok_or_else(|| unknown(&name))?.partitions()[0].partition().await
    }

    /// Creates a tenant, durably.
    ///
    /// # Errors
    /// `AlreadyExists`; `Invalid` if the specification is invalid; I/O: then the tenant does not exist, though after a
    /// crash at this very moment it might.
    pub async fn create_tenant(&self, spec: TenantSpec) -> Result<Arc<Tenant>> {
        let (shared, tenants) = (Arc::clone(&self.shared), Arc::clone(&self.tenants));
        carried(&self.shared.machine.spawn, async move {
            if spec.partitions == 0 || spec.partitions > PARTITIONS_MAX {
                return Err(invalid(format!(
                    "it cannot have {} partitions: 1 to {PARTITIONS_MAX} are possible",
                    spec.partitions
                )));
            }
            check(&spec.settings)?;
            let mut catalogue = shared.catalogue.lock().await;
            check_shares(&shared, &tenants, None, spec.settings.terms)?;
            if tenants.read().has(&spec.name) {
                let message = "a tenant of that name exists already: choose another name";
                return Err(Error::new(ErrorKind::AlreadyExists, "create tenant", spec.name.as_str(), message));
            }
            let (id, first) = (catalogue.listings().next_tenant, catalogue.listings().next_partition);
            let (next_tenant, next_partition) =
                id.checked_add(1).zip(first.checked_add(spec.partitions.into())).ok_or_else(exhausted)?;
            let partitions = (first..next_partition).collect();
            let TenantSpec { name, engine, log, settings, .. } = spec;
            let (id, databases) = (TenantId(id), Databases::AS_NAMED);
            let listing = Listing { id, name, partitions, engine, log, databases, settings };
            let edit = CatalogueEdit {
                next_tenant: Some(next_tenant),
                next_partition: Some(next_partition),
                put: vec![listing.clone()],
                ..CatalogueEdit::default()
            };
            commit(&mut catalogue, edit).await?;
            let tenant = Tenant::new(&shared, listing, &BTreeSet::new());
            tenants.write().insert(Arc::clone(&tenant));
            Ok(tenant)
        })
        .await
    }

    /// Changes a tenant's settings, durably. `change` sees the settings that the change before it left: of two changes
    /// at the same time, none is lost.
    ///
    /// # Errors
    /// The error of `change`; `NotFound`; `Invalid` settings; I/O: then nothing has changed, though after a crash at
    /// this very moment it might have.
    pub async fn alter_tenant<E: From<Error> + Send + 'static>(
        &self,
        name: &TenantName,
        change: impl FnOnce(&mut TenantSettings) -> Result<(), E> + Send + 'static,
    ) -> Result<(), E> {
        let tenant = self.tenant(name).ok_or_else(|| unknown(name))?;
        self.alter(&tenant, change, || ()).await
    }

    /// [`Node::alter_tenant`] for this very tenant, and not for one that got its name meanwhile. `then` is called when
    /// the change is durable and in force, even if nobody waits for it any more.
    ///
    /// # Errors
    /// As for [`Node::alter_tenant`].
    pub async fn alter<E: From<Error> + Send + 'static>(
        &self,
        tenant: &Arc<Tenant>,
        change: impl FnOnce(&mut TenantSettings) -> Result<(), E> + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<(), E> {
        let (shared, tenants, tenant) = (Arc::clone(&self.shared), Arc::clone(&self.tenants), Arc::clone(tenant));
        carried(&self.shared.machine.spawn, async move {
            let (found, _turn) = turn(&tenants, tenant.name()).await?;
            if !Arc::ptr_eq(&found, &tenant) {
                return Err(unknown(tenant.name()).into());
            }
            let mut settings = (*tenant.settings()).clone();
            change(&mut settings)?;
            check(&settings)?;
            let mut catalogue = shared.catalogue.lock().await;
            check_shares(&shared, &tenants, Some(&tenant), settings.terms)?;
            let listing = tenant.listing(tenant.partition_numbers(), settings.clone());
            commit(&mut catalogue, CatalogueEdit { put: vec![listing], ..CatalogueEdit::default() }).await?;
            tenant.set_settings(settings);
            then();
            Ok(())
        })
        .await
    }

    /// Drops a tenant. When this returns, the tenant is gone for good, and its name no longer leads to its data. The
    /// files are removed in the background.
    ///
    /// # Errors
    /// `NotFound`; I/O: then the tenant is still there with all its data.
    pub async fn drop_tenant(&self, name: &TenantName) -> Result<()> {
        let (shared, tenants, name) = (Arc::clone(&self.shared), Arc::clone(&self.tenants), name.clone());
        carried(&self.shared.machine.spawn, async move {
            let (tenant, _turn) = turn(&tenants, &name).await?;
            let left = leave(&tenant).await?;
            let edit = CatalogueEdit { dropped: vec![tenant.id()], ..CatalogueEdit::default() };
            let mut catalogue = shared.catalogue.lock().await;
            if let Err(error) = commit(&mut catalogue, edit).await {
                come_back(&tenant, left);
                return Err(error);
            }
            tenants.write().remove(&tenant);
            drop(catalogue);
            let numbers = left.into_iter().map(|left| left.number).collect();
            tenant.partitions().iter().for_each(|slot| slot.settle(None));
            forget(&shared, &tenant, numbers);
            shared.ledger.forget(tenant.id().0);
            shared.terms.forget(tenant.id());
            Ok(())
        })
        .await
    }

    /// Empties a tenant (`FLUSHALL`), whatever it holds, at the cost of one catalogue edit: its partitions begin anew
    /// under other numbers. Requests wait meanwhile.
    ///
    /// # Errors
    /// `NotFound`; I/O: then the tenant still has everything.
    pub async fn clear_tenant(&self, name: &TenantName) -> Result<()> {
        let tenant = self.tenant(name).ok_or_else(|| unknown(name))?;
        self.clear(&tenant, ()).await
    }

    /// [`Node::clear_tenant`] for this very tenant, and not for one that got its name meanwhile. `held` is dropped when
    /// this is done or has failed: that may be after the caller has gone.
    ///
    /// # Errors
    /// As for [`Node::clear_tenant`].
    pub async fn clear(&self, tenant: &Arc<Tenant>, held: impl Send + 'static) -> Result<()> {
        let (shared, tenants, tenant) = (Arc::clone(&self.shared), Arc::clone(&self.tenants), Arc::clone(tenant));
        carried(&self.shared.machine.spawn, async move {
            let _held = held;
            let (found, _turn) = turn(&tenants, tenant.name()).await?;
            if !Arc::ptr_eq(&found, &tenant) {
                return Err(unknown(tenant.name()));
            }
            let left = leave(&tenant).await?;
            let old: Vec<u32> = left.iter().map(|left| left.number).collect();
            let mut catalogue = shared.catalogue.lock().await;
            let cleared = async {
                let first = catalogue.listings().next_partition;
                let next = first.checked_add(old.len() as u32);
                let next = next.ok_or_else(exhausted)?;
                let listing = tenant.listing((first..next).collect(), (*tenant.settings()).clone());
                let edit = CatalogueEdit { next_partition: Some(next), put: vec![listing], ..CatalogueEdit::default() };
                commit(&mut catalogue, edit).await?;
                Ok((first..next).collect::<Vec<u32>>())
            };
            let outcome = cleared.await;
            drop(catalogue);
            match &outcome {
                Ok(new) => tenant.partitions().iter().zip(new).for_each(|(slot, &number)| slot.settle(Some(number))),
                Err(_) => come_back(&tenant, left),
            }
            tenant.emptied();
            outcome.map(|_| forget(&shared, &tenant, old))
        })
        .await
    }

    /// Opens every partition that has something in its log, one after the other. After a crash, this bounds how long a
    /// partition's first request has to wait. Ends with the node.
    pub async fn recover(&self) {
        let (fs, dir) = (Arc::clone(&self.shared.own_fs), self.shared.config.dir.clone());
        let sharing = self.shared.unflushed_in_shared_log().await;
        for tenant in self.tenants() {
            for slot in tenant.partitions() {
                let number = slot.owner().partition;
                let has_log = match tenant.log() {
                    // If it cannot be listed, the first request finds out why.
                    LogKind::Own => layout::has_log(&fs, &dir, number).await.unwrap_or(false),
                    LogKind::Shared => sharing.contains(&number),
                };
                if has_log && slot.partition().await.is_err() && slot.state() == SlotState::Gone {
                    break;
                }
            }
        }
    }

    /// The metrics of all partitions, added up: counters since the node was opened, also of partitions that sleep by
    /// now and of tenants that were dropped; trees and logs of the partitions that are awake.
    pub fn metrics(&self) -> PartitionMetrics {
        // Under one lock, so that a tenant that is dropped meanwhile counts once. The sum is made without the lock.
        let (tenants, mut sum) = {
            let tenants = self.tenants.read();
            (tenants.all(), tenants.dropped())
        };
        tenants.iter().flat_map(|tenant| tenant.partitions()).for_each(|slot| sum.add(&slot.metrics()));
        sum.set_users(&self.ledger().total());
        sum
    }

    pub(crate) fn shared(&self) -> &Arc<NodeShared> {
        &self.shared
    }

    pub(crate) fn all_tenants(&self) -> &Arc<RwLock<Tenants>> {
        &self.tenants
    }

    /// The node gate, for dashboards.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.shared.gate
    }

    /// Compactions under way, and trees that wait for a slot to compact in.
    pub fn compactions(&self) -> (usize, usize) {
        self.shared.workers.compactions()
    }

    /// Every device byte by owner and cause.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.shared.ledger
    }

    /// The write memory, which knows how much each tenant uses of it.
    pub fn write_memory(&self) -> &Arc<Pool> {
        self.shared.memory.pool()
    }

    /// How much of the write memory each tenant is entitled to, and how long tenants waited for their share.
    pub fn write_memory_shares(&self) -> MemoryShares {
        self.shared.memory.shares()
    }

    /// How flushes got their slots; `None` where their number is not bounded.
    pub fn flush_waits(&self) -> Option<FlushWaits> {
        self.shared.workers.flushes().map(|flushes| flushes.waits())
    }

    /// The state of the log that tenants share; `None` before the first of them has used it.
    pub fn shared_log(&self) -> Option<SharedStats> {
        self.shared.node_log.get().map(SharedLog::stats)
    }

    /// Bytes that are set aside so that tenants can be dropped while the disk is full; 0 unless all bytes that should
    /// be set aside are.
    pub fn reserve_bytes(&self) -> u64 {
        self.shared.reserve().bytes()
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.shared.cache
    }

    /// How much of the block cache is kept for each tenant.
    pub fn cache_shares(&self) -> CacheShares {
        self.shared.kept_blocks.seen()
    }

    /// Refuses writes, ends all background work, makes everything durable. Reads go on until the node is dropped.
    ///
    /// The first error of [`Partition::close`]; all partitions are closed all the same.
    pub async fn close(&self) -> Result<()> {
        let mut outcome = Ok(());
        for shut in self.shut() {
            outcome = outcome.and(match shut {
                Shut::Awake(partition) => partition.close().await,
                // It is flushed first, which may take long; what it holds must be in its log by the end.
                Shut::Leaving(partition) => partition.write_log().await,
            });
        }
        outcome.and(self.shared.node_log.close().await)
    }

    /// From now on nobody can wake a partition. Gives the partitions that are awake or on their way out.
    fn shut(&self) -> Vec<Shut> {
        let tenants = self.tenants();
        let shut: Vec<_> =
            tenants.iter().flat_map(|tenant| tenant.partitions()).filter_map(|slot| slot.shut()).collect();
        for shut in &shut {
            if let Shut::Awake(partition) = shut {
                partition.begin_closing();
            }
        }
        shut
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shut();
    }
}

pub(crate) fn unknown(name: &TenantName) -> Error {
    Error::new(
        ErrorKind::NotFound,
        "find tenant",
        name.as_str(),
        "there is no tenant of that name: `weir tenant list` lists all tenants",
    )
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, "set up", "the tenant", message)
}

fn exhausted() -> Error {
    invalid("all four billion numbers of tenants or partitions have been used".into())
}

fn check(settings: &TenantSettings) -> Result<()> {
    check_users(&settings.users)?;
    settings.terms.problem().map_or(Ok(()), |problem| Err(invalid(problem)))?;
    match &settings.secret {
        Some(secret) if secret.as_bytes().len() > SECRET_BYTES_MAX => Err(invalid("its secret is too long".into())),
        _ => Ok(()),
    }
}

/// Refuses terms of a new tenant, or of `tenant`, that are known to take more than half of something that is shared
/// (U-14). The calculation assumes that all tenants are awake, because then shares, and so what is kept, are smallest.
/// Excesses that show only later are counted and logged. A tenant without terms of its own is always let in.
fn check_shares(
    shared: &NodeShared,
    tenants: &RwLock<Tenants>,
    tenant: Option<&Tenant>,
    terms: ShareTerms,
) -> Result<()> {
    let before = tenant.map_or_else(ShareTerms::default, |tenant| tenant.settings().terms);
    if terms == before {
        return Ok(());
    }
    let all = tenants.read().all();
    let claimant = |one: &Arc<Tenant>| Claimant { tenant: one.id().0, terms: one.settings().terms };
    let before: Vec<Claimant> = all.iter().map(claimant).collect();
    let number = tenant.map(|tenant| tenant.id().0);
    let others = before.iter().filter(|other| Some(other.tenant) != number).copied();
    // A number that is not used yet.
    let claimants: Vec<Claimant> = others.chain([Claimant { tenant: number.unwrap_or(u32::MAX), terms }]).collect();
    let worsened = shared.memory.worsened(&before, &claimants);
    let worsened = worsened.or_else(|| shared.workers.flushes()?.worsened(&before, &claimants));
    let count = claimants.len();
    worsened.map_or(Ok(()), |why| Err(invalid(format!("with {count} tenants, if all are awake, {why}"))))
}

/// The tenant called `name`, and the turn to change it.
pub(crate) async fn turn(tenants: &RwLock<Tenants>, name: &TenantName) -> Result<(Arc<Tenant>, OwnedMutexGuard<()>)> {
    let find = || tenants.read().named(name).ok_or_else(|| unknown(name));
    let tenant = find()?;
    let turn = Arc::clone(&tenant.changing).lock_owned().await;
    // The tenant may have been dropped while we waited, and another one created under its name.
    if Arc::ptr_eq(&find()?, &tenant) { Ok((tenant, turn)) } else { Err(unknown(name)) }
}

/// Closes every partition of the tenant, which is to be removed; requests wait.
async fn leave(tenant: &Tenant) -> Result<Vec<Left>> {
    let mut left = Vec::new();
    for slot in tenant.partitions() {
        match slot.leave(Leave::Discard).await {
            Some(partition) => left.push(partition),
            None => {
                come_back(tenant, left);
                return Err(Error::new(ErrorKind::Closed, "change", "the tenant", "the node is shutting down"));
            }
        }
    }
    Ok(left)
}

/// Lets requests in again: the order has failed.
fn come_back(tenant: &Tenant, left: Vec<Left>) {
    tenant.partitions().iter().zip(left).for_each(|(slot, left)| slot.come_back(left));
}

/// Removes what is left of partitions that the catalogue has condemned.
fn forget(shared: &Arc<NodeShared>, tenant: &Tenant, numbers: Vec<u32>) {
    for &partition in &numbers {
        let owner = Owner { tenant: tenant.id().0, partition };
        shared.gate.set_weight(owner, None);
        shared.ledger.close(owner);
    }
    shared.remove_partitions(numbers);
}
