//! A node, its operator and its clients: one order after the other, each compared with the model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_command::reply::Protocol;
use weir_command::{Headless, Request};
use weir_gateway::store::{Store, TenantStore};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Class, Clock, Error, ErrorKind, Fs, Nanos, Owner, Rng, Tag, Yield, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{LogKind, Machine, Node, NodeConfig, StoreOptions, TenantName, TenantSettings, TenantSpec};

use super::model::{Contents, Model};
use crate::engines::Engines;

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);
const DIR: &str = "/weir";
/// Different keys of a tenant.
const KEYS: u64 = 8;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Makes a tenant.
    Create,
    /// Drops the tenant.
    Drop,
    /// FLUSHALL.
    Clear,
    /// Changes its settings.
    Alter,
    /// Backs it up, to the same disk.
    Backup,
    /// Makes a tenant from a backup.
    Restore,
    /// Puts its partitions to sleep.
    Sleep,
    /// SET.
    Write,
    /// DEL.
    Delete,
    /// GET.
    Read,
    /// SCAN, through all of it.
    Scan,
    /// Nothing for a while: background work goes on.
    Wait,
}

impl Order {
    /// All orders, each with how often it is drawn.
    const DRAWN: [(Order, u64); 12] = [
        (Order::Create, 2),
        (Order::Drop, 1),
        (Order::Clear, 1),
        (Order::Alter, 2),
        (Order::Backup, 1),
        (Order::Restore, 1),
        (Order::Sleep, 3),
        (Order::Write, 8),
        (Order::Delete, 2),
        (Order::Read, 4),
        (Order::Scan, 2),
        (Order::Wait, 3),
    ];

    fn draw(rng: &mut Rng) -> Self {
        let mut left = rng.below(Self::DRAWN.iter().map(|(_, weight)| weight).sum());
        for (order, weight) in Self::DRAWN {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return order,
            }
        }
        Order::Wait
    }

    /// Whether the order only looks.
    pub fn is_read(self) -> bool {
        matches!(self, Order::Read | Order::Scan)
    }

    /// Whether the order gives space back, or stores next to nothing: then it also works on a full disk.
    pub fn works_on_a_full_disk(self) -> bool {
        matches!(self, Order::Drop | Order::Clear | Order::Alter | Order::Sleep | Order::Wait) || self.is_read()
    }
}

/// A small node: trees and snapshots of kilobytes, so that a disk of a megabyte is large.
pub fn config(sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        table_bytes: 8 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    NodeConfig {
        tree,
        store: StoreOptions { snapshot_log_bytes: 2 << 10, ..StoreOptions::default() },
        cache_bytes: 32 << 10,
        sync,
        segment_bytes: 32 << 10,
        sync_interval: 50_000_000,
        ..NodeConfig::new(DIR)
    }
}

/// A machine on which `image` is mounted.
pub fn machine(seed: u64, image: &DiskImage, faults: FaultPlan) -> (Sim, Arc<SimFs>) {
    let sim = Sim::new(seed);
    sim.set_time_limit(3_600_000_000_000);
    let fs = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), faults, sim.rng());
    (sim, fs)
}

/// Opens the node.
pub async fn open(sim: &Sim, disk: &Arc<SimFs>, sync: SyncMode) -> weir_io::Result<Arc<Node>> {
    let fs = Arc::clone(disk) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config(sync), machine).await.map(Arc::new)
}

/// A node, with its operator and its clients.
pub struct Town<'a> {
    pub node: Arc<Node>,
    /// The engines on which tenants are made.
    pub engines: &'a Engines,
    pub clock: Arc<dyn Clock>,
    pub model: &'a mut Model,
    /// Finished backups, and what is in them.
    pub backups: &'a mut Vec<(PathBuf, Contents)>,
    /// A number that rises with every step of all lives, to tell apart what is written.
    pub step: &'a mut u64,
    pub rng: Rng,
}

/// The answer to an order: done, or refused with an error.
pub type Answer = Result<(), Error>;

impl Town<'_> {
    fn store(&self, name: &str) -> Option<TenantStore> {
        Some(TenantStore::new(&self.node, self.node.tenant(&tenant_name(name))?))
    }

    /// Lets background work go on.
    pub async fn pause(&self, nanos: Nanos) {
        sleep_until(&self.clock, self.clock.now() + nanos).await;
    }

    /// Draws an order and one of `names` for it, and carries it out.
    ///
    /// # Errors
    /// What clients see is not what the model allows.
    pub async fn step(&mut self, names: &[&str]) -> Result<(Order, Answer), String> {
        let name = names[self.rng.below(names.len() as u64) as usize];
        let order = match Order::draw(&mut self.rng) {
            // There is no tenant to do anything with.
            order if self.model.get(name).is_none() && !matches!(order, Order::Restore | Order::Wait) => Order::Create,
            Order::Create => Order::Write,
            order => order,
        };
        let what = format!("{order:?} of {name}");
        let answer = self.carry_out(order, name).await.map_err(|story| format!("{what}: {story}"))?;
        Ok((order, answer))
    }

    /// Carries out `order` on the tenant called `name`.
    ///
    /// # Errors
    /// The errors of [`Town::step`].
    pub async fn carry_out(&mut self, order: Order, name: &str) -> Result<Answer, String> {
        *self.step += 1;
        let contents = self.model.get(name).cloned();
        let tenant = tenant_name(name);
        Ok(match (order, contents) {
            (Order::Create, _) => {
                let partitions = 1 + self.rng.below(2) as u16;
                let engine = self.engines.of(*self.step as usize);
                // Two tenants of four share a log, whatever the engine.
                let log = LogKind::ALL[*self.step as usize / 2 % LogKind::ALL.len()];
                let spec = TenantSpec { partitions, engine, log, ..TenantSpec::new(tenant) };
                let outcome = self.node.create_tenant(spec).await;
                self.ordered(name, outcome.map(drop), Some(Contents::default()), false)
            }
            (Order::Drop, _) => {
                let outcome = self.node.drop_tenant(&tenant).await;
                self.ordered(name, outcome, None, false)
            }
            (Order::Clear, Some(contents)) => {
                let outcome = self.node.clear_tenant(&tenant).await;
                self.ordered(name, outcome, Some(contents.emptied()), false)
            }
            (Order::Alter, Some(contents)) => {
                let connections_max = *self.step as u32;
                let change = move |settings: &mut TenantSettings| {
                    (settings.connections_max, settings.suspended) = (connections_max, !settings.suspended);
                    Ok::<(), Error>(())
                };
                let outcome = self.node.alter_tenant(&tenant, change).await;
                self.ordered(name, outcome, Some(contents.altered(connections_max)), true)
            }
            (Order::Backup, Some(contents)) => self.back_up(&tenant, contents).await,
            (Order::Restore, None) if !self.backups.is_empty() => self.restore(name).await,
            (Order::Sleep, _) => {
                for slot in self.node.tenant(&tenant).into_iter().flat_map(|tenant| tenant.partitions().to_vec()) {
                    slot.sleep().await;
                }
                Ok(())
            }
            (Order::Write, Some(_)) => {
                let key = self.key();
                let mut value = format!("{} of {name} ", self.step).into_bytes();
                value.resize(value.len() + self.rng.below(1_500) as usize, b'x');
                self.write(name, &key, Some(&value)).await
            }
            (Order::Delete, Some(_)) => {
                let key = self.key();
                self.write(name, &key, None).await
            }
            (Order::Read, Some(_)) => self.read(name).await?,
            (Order::Scan, Some(contents)) => match self.found(name).await {
                Ok(found) => {
                    let wrong = contents.wrong(&found).map(|key| String::from_utf8_lossy(&key).into_owned());
                    wrong.map_or(Ok(Ok(())), |key| Err(format!("a scan shows a wrong value of {key}")))?
                }
                Err(error) => Err(error),
            },
            _ => {
                let nanos = self.rng.below(300_000_000);
                self.pause(nanos).await;
                Ok(())
            }
        })
    }

    fn ordered(&mut self, name: &str, outcome: Answer, after: Option<Contents>, same_partitions: bool) -> Answer {
        match &outcome {
            Ok(()) => self.model.done(name, after),
            Err(_) => self.model.failed(name, after, same_partitions),
        }
        outcome
    }

    async fn back_up(&mut self, tenant: &TenantName, contents: Contents) -> Answer {
        let to = PathBuf::from(format!("/backups/{}", self.step));
        self.node.backup(tenant, &to).await?;
        self.backups.push((to, contents));
        Ok(())
    }

    async fn restore(&mut self, name: &str) -> Answer {
        let chosen = self.rng.below(self.backups.len() as u64) as usize;
        let (from, contents) = self.backups[chosen].clone();
        let outcome = self.node.restore(&from, tenant_name(name), None).await.map(drop);
        // An order of its own takes the partition numbers.
        self.ordered(name, outcome, Some(contents), false)
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{}", self.rng.below(KEYS)).into_bytes()
    }

    /// SET or DEL.
    pub async fn write(&mut self, name: &str, key: &[u8], value: Option<&[u8]>) -> Answer {
        let Some(store) = self.store(name) else { return Ok(()) };
        let now_ms = self.clock.unix_ms();
        let words = match value {
            Some(value) => vec![b"SET", key, value],
            None => vec![b"DEL", key],
        };
        let request = Request::new(0, now_ms, words);
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(now_ms));
        let outcome = store.answer(&request, &mut host).await.map(drop);
        self.model.note(name, key, value, outcome.is_ok());
        outcome
    }

    async fn read(&mut self, name: &str) -> Result<Answer, String> {
        let key = self.key();
        let Some(store) = self.store(name) else { return Err("the tenant is gone".into()) };
        let shown = match store.rows().get(0, &key, self.clock.unix_ms()).wait().await {
            Ok(shown) => shown,
            Err(error) => return Ok(Err(error)),
        };
        let value = shown.as_ref().and_then(|row| Some(&row.value()?[..]));
        match self.model.get(name) {
            Some(contents) if contents.allows(&key, value) => Ok(Ok(())),
            _ => {
                let shown = value.map(|value| String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned());
                Err(format!("key {} shows {shown:?}", String::from_utf8_lossy(&key)))
            }
        }
    }

    /// All that the tenant holds.
    async fn found(&self, name: &str) -> weir_io::Result<Contents> {
        let tenant = self.node.tenant(&tenant_name(name)).expect("asked for by the name of one that is there");
        let store = TenantStore::new(&self.node, Arc::clone(&tenant));
        let (mut entries, mut from) = (Vec::new(), Some(Vec::new()));
        while let Some(place) = from {
            let page = store.rows().page(0, &place, 3).await?;
            for key in page.keys {
                let row = store.rows().get(0, &key, self.clock.unix_ms()).wait().await?;
                if let Some(value) = row.as_ref().and_then(|row| row.value()) {
                    entries.push((key, value.to_vec()));
                }
            }
            from = page.next;
        }
        Ok(Contents::found(entries, tenant.settings().connections_max))
    }

    /// Checks that everything is as it should be; also the first look of a process at what the last one left.
    ///
    /// # Errors
    /// Something is not as it should be, or cannot be read.
    pub async fn check(&mut self) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for tenant in self.node.tenants() {
            let name = tenant.name().as_str();
            if name == TenantName::built_in().as_str() {
                continue;
            }
            let contents = self.found(name).await.map_err(|error| format!("cannot read tenant {name}: {error}"))?;
            found.insert(name.to_owned(), contents);
        }
        self.model.settle(&found)
    }
}

/// Checks that the node in the disk's directory is well by `weir check`, and has no directory that belongs to nobody.
pub async fn is_well(disk: &Arc<SimFs>, node: &Node) -> Result<(), String> {
    let slots = || node.tenants().into_iter().flat_map(|tenant| tenant.partitions().to_vec());
    let named: Vec<String> = slots().map(|slot| format!("{:06}", slot.owner().partition)).collect();
    let there = match disk.list(&PathBuf::from(DIR).join("partitions"), TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        there => there.map_err(|error| format!("cannot list the partitions: {error}"))?,
    };
    match there.into_iter().find(|entry| !named.contains(&entry.name)) {
        Some(entry) => Err(format!("partition {} is nobody's", entry.name)),
        None => Ok(()),
    }
}

/// The name of a tenant.
pub fn tenant_name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}
