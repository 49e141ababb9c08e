//! The operator's orders, carried out on a node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use weir_io::{Class, Clock, ErrorKind, Nanos, Spawn};
use weir_node::{
    BackupReport, Direction, EngineKind, Facts, LogKind, Node, OnLimit, StoredSecret, Tenant, TenantName,
    TenantSettings, TenantSpec, Unit, UnitLimits, UnknownEngine, UnknownLog, felt,
};

use super::changes::changes;
use super::operator::{Doing, Operator, Reason, Refusal, When};
use super::waits::waits;
use super::wire;
use crate::auth::secret;
use crate::auth::slow::SlowHash;
use crate::listener::Observer;
use crate::noisy_neighbour::ProcessorUse;
pub use crate::resp::slow_replies::SlowReply;
use crate::store::Store;
pub use crate::tenant::account::TenantConnections;

/// The longest secret that an operator may choose, in bytes. The shortest has one.
const SECRET_CHOSEN_BYTES_MAX: usize = 512;

/// The operator of a node. Cheap to clone.
#[derive(Clone)]
pub struct NodeOperator {
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    slow: Arc<SlowHash>,
    /// Where long answers are written, because clients are accepted on the operators' own thread.
    aside: Arc<dyn Spawn>,
    clients: Arc<dyn Clients>,
}

/// What the gateway knows about clients.
pub trait Clients: Send + Sync + 'static {
    /// Counts of all tenants.
    fn counts(&self) -> DoorCounts;
    /// The last replies for which the clients of one tenant waited long, newest first.
    fn slow_replies(&self, tenant: u32) -> Vec<SlowReply>;
    /// The connections of one tenant.
    fn connections(&self, tenant: u32) -> TenantConnections;
}

impl<S: Store> Clients for Observer<S> {
    fn counts(&self) -> DoorCounts {
        DoorCounts { connections: self.connections(), latencies: self.latencies(), processor_use: self.processor_use() }
    }

    fn slow_replies(&self, tenant: u32) -> Vec<SlowReply> {
        Observer::slow_replies(self, tenant)
    }

    fn connections(&self, tenant: u32) -> TenantConnections {
        self.tenant_connections(tenant)
    }
}

/// What the gateway counts.
#[derive(Clone, Debug, Default)]
pub struct DoorCounts {
    /// Open connections.
    pub connections: u64,
    /// Replies by how long they took ([`crate::latency`]), by tenant.
    pub latencies: BTreeMap<u32, Vec<u64>>,
    /// What each tenant has used of the threads that serve clients.
    pub processor_use: BTreeMap<u32, ProcessorUse>,
}

impl NodeOperator {
    /// Carries out orders for `node`. `slow` hashes the secrets that operators choose, long answers are written on
    /// `aside`, and `clients` tells what clients do.
    pub fn new(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        slow: Arc<SlowHash>,
        aside: Arc<dyn Spawn>,
        clients: impl Clients,
    ) -> Self {
        Self { node, clock, slow, aside, clients: Arc::new(clients) }
    }

    /// The result of `answer`, computed on another thread because writing megabytes takes a while.
    fn aside(&self, answer: impl FnOnce() -> Result<String, Refusal> + Send + 'static) -> Doing<String> {
        let (tell, told) = oneshot::channel();
        self.aside.spawn(Box::pin(async move {
            // The caller may have gone meanwhile.
            let _ = tell.send(answer());
        }));
        Box::pin(async {
            told.await.unwrap_or_else(|_| Err(Refusal::new(Reason::Failed, "the server is shutting down")))
        })
    }

    /// What is known of `tenant` at `at`, which was `ago` seconds ago. Its limits are only known as they are now.
    fn facts(&self, tenant: &Tenant, ago: u64, at: Nanos) -> Facts {
        let settings = tenant.settings();
        let window = self.node.felt(tenant.id(), at);
        let units = [settings.limits.rcu, settings.limits.wcu, settings.limits.ru];
        if ago > 0 {
            return Facts { units, window, ..Facts::default() };
        }
        let connections = self.clients.connections(tenant.id().0);
        let held = tenant.disk_use().living;
        let disk = Some(settings.disk_bytes_max).filter(|&max| max > 0).map(|max| {
            // Whether the limit is reached is for the tenant to judge, because not everything on the disk has to count.
            if tenant.disk_limit_reached().is_some() { (held.max(max), max) } else { (held.min(max - 1), max) }
        });
        Facts {
            is_suspended: settings.suspended,
            disk,
            connections: Some((connections.open, connections.max)).filter(|(_, max)| *max > 0),
            connections_refused: connections.refused,
            units,
            window,
        }
    }

    fn find(&self, name: &str) -> Result<Arc<Tenant>, Refusal> {
        self.node.tenant(&parse(name)?).ok_or_else(|| {
            Refusal::new(Reason::NotFound, format!("there is no tenant `{name}`: `weir tenant list` lists all tenants"))
        })
    }
}

/// The stored form of a secret that was chosen or is generated here, and the text to show to the operator if it was
/// generated.
async fn made(slow: &SlowHash, chosen: Option<&str>) -> Result<(StoredSecret, Option<String>), Refusal> {
    let mut failure = None;
    let mut random = |buffer: &mut [u8]| {
        if let Err(error) = secret::system_random(buffer) {
            failure = Some(Refusal::new(Reason::Failed, format!("the operating system gave no random bytes: {error}")));
        }
    };
    let Some(chosen) = chosen else {
        let (told, stored) = secret::generate(&mut random);
        return failure.map_or(Ok((StoredSecret::new(stored), Some(told.to_string()))), Err);
    };
    if !(1..=SECRET_CHOSEN_BYTES_MAX).contains(&chosen.len()) {
        return Err(Refusal::new(Reason::Invalid, format!("a secret must have 1 to {SECRET_CHOSEN_BYTES_MAX} bytes")));
    }
    let mut salt = [0; 16];
    random(&mut salt);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let stored = slow.choose(chosen, salt).await;
    let stored = stored
        .map_err(|_| Refusal::new(Reason::Conflict, "too many secrets are being hashed at the moment: try again"))?;
    let stored = stored.map_err(|_| Refusal::new(Reason::Failed, "there is not enough memory to hash the secret"))?;
    Ok((StoredSecret::new(stored), None))
}

impl Operator for NodeOperator {
    fn tenants(&self) -> Vec<wire::Tenant> {
        self.node.tenants().iter().map(|tenant| shown(tenant)).collect()
    }

    fn sold(&self) -> wire::Sold {
        sold(&self.node)
    }

    fn tenant(&self, name: &str) -> Result<wire::Tenant, Refusal> {
        Ok(shown(&*self.find(name)?))
    }

    fn create(&self, order: wire::NewTenant) -> Doing<wire::Changed> {
        let this = self.clone();
        Box::pin(async move {
            let name = parse(&order.name)?;
            let (engine, log) = (engine(order.engine.as_deref())?, log(order.log.as_deref())?);
            let mut settings = TenantSettings::default();
            apply(&mut settings, &order.settings, engine)?;
            let (stored, told) = made(&this.slow, order.secret.as_deref()).await?;
            settings.secret = Some(stored);
            let spec = TenantSpec { name, partitions: order.partitions.unwrap_or(1), engine, log, settings };
            let settings = changes(
                &TenantSettings { secret: spec.settings.secret.clone(), ..TenantSettings::default() },
                &spec.settings,
            );
            let (name, partitions) = (spec.name.clone(), spec.partitions);
            let created = this.node.create_tenant(spec).await;
            let tenant = created.map_err(|error| failed("tenant not created", name.as_str(), error))?;
            let sold = this.sold();
            tracing::info!(
                tenant = %name,
                id = tenant.id().0,
                partitions,
                %engine,
                %log,
                settings,
                %sold,
                "tenant created"
            );
            Ok(wire::Changed { tenant: shown(&tenant), secret: told, sold })
        })
    }

    fn alter(&self, name: String, change: wire::Change) -> Doing<wire::Changed> {
        let this = self.clone();
        Box::pin(async move {
            let new = change.new_secret || change.secret.is_some();
            // This takes a while, so it is not done in the change itself, for which others wait.
            let made = if new { Some(made(&this.slow, change.secret.as_deref()).await?) } else { None };
            let tenant = this.find(&name)?;
            let (secret, told) = made.map_or((None, None), |(stored, generated)| (Some(stored), generated));
            let (tell, told_changes) = oneshot::channel();
            let engine = tenant.engine();
            let altered = this.node.alter_tenant(tenant.name(), move |settings| {
                let before = settings.clone();
                apply(settings, &change.settings, engine)?;
                settings.secret = secret.or_else(|| settings.secret.take());
                // The caller may have gone; the change is made all the same.
                let _ = tell.send(changes(&before, settings));
                Ok::<_, Refusal>(())
            });
            altered.await.inspect_err(|refusal| {
                if refusal.reason == Reason::Failed {
                    tracing::warn!(tenant = %tenant.name(), error = %refusal, "tenant not altered");
                }
            })?;
            let changes = told_changes.await.unwrap_or_default();
            let sold = this.sold();
            match changes.as_str() {
                "" => {
                    tracing::info!(
                        tenant = %tenant.name(),
                        id = tenant.id().0,
                        "tenant altered: all settings had these values already"
                    )
                }
                changes => {
                    tracing::info!(tenant = %tenant.name(), id = tenant.id().0, changes, %sold, "tenant altered");
                }
            }
            Ok(wire::Changed { tenant: shown(&*this.find(&name)?), secret: told, sold })
        })
    }

    fn drop_tenant(&self, name: String) -> Doing<()> {
        let this = self.clone();
        Box::pin(async move {
            let tenant = this.find(&name)?;
            if tenant.name().as_str() == TenantName::DEFAULT {
                let message = "the built-in tenant cannot be dropped: `weir tenant suspend default` keeps clients \
                               out, and FLUSHALL empties it";
                return Err(Refusal::new(Reason::Invalid, message));
            }
            let booked = this.node.ledger().tenants().remove(&tenant.id().0).unwrap_or_default();
            let dropped = this.node.drop_tenant(tenant.name()).await;
            dropped.map_err(|error| failed("tenant not dropped", tenant.name().as_str(), error))?;
            // The tenant's last bill, because the books no longer know it.
            let [read, written] = [Direction::Read, Direction::Write].map(|direction| booked.total(direction).bytes);
            let (name, id) = (tenant.name(), tenant.id().0);
            let sold = this.sold();
            tracing::info!(
                tenant = %name,
                id,
                device_read_bytes = read,
                device_written_bytes = written,
                %sold,
                "tenant dropped"
            );
            Ok(())
        })
    }

    fn backup(&self, name: String, order: wire::BackupOrder) -> Doing<wire::BackupDone> {
        let this = self.clone();
        Box::pin(async move {
            let tenant = this.find(&name)?;
            let report = this.node.backup(tenant.name(), Path::new(&order.dir)).await;
            let report = report.inspect_err(|error| {
                tracing::warn!(tenant = %tenant.name(), to = order.dir, %error, "tenant not backed up");
            });
            let BackupReport { partitions, files, bytes, .. } = report?;
            tracing::info!(tenant = %tenant.name(), to = order.dir, files, bytes, "tenant backed up");
            Ok(wire::BackupDone { partitions: partitions as u32, files, bytes })
        })
    }

    fn restore(&self, order: wire::RestoreOrder) -> Doing<wire::Changed> {
        let this = self.clone();
        Box::pin(async move {
            let name = parse(&order.name)?;
            let (stored, told) = made(&this.slow, order.secret.as_deref()).await?;
            let restored = this.node.restore(Path::new(&order.dir), name, Some(stored)).await;
            let tenant = restored.inspect_err(|error| {
                tracing::warn!(tenant = order.name, from = order.dir, %error, "tenant not restored");
            })?;
            let sold = this.sold();
            tracing::info!(tenant = %tenant.name(), id = tenant.id().0, from = order.dir, %sold, "tenant restored");
            Ok(wire::Changed { tenant: shown(&tenant), secret: told, sold })
        })
    }

    fn top(&self) -> wire::Top {
        let usage = self.node.cache().usage();
        let booked = self.node.ledger().tenants();
        let door = self.clients.counts();
        let row = |tenant: &Arc<Tenant>| {
            let booked = booked.get(&tenant.id().0).cloned().unwrap_or_default();
            let user = |direction| booked.user(direction);
            let device = Class::ALL.map(|class| wire::Cause {
                class: class.name().to_owned(),
                read: booked[(class, Direction::Read)].bytes,
                written: booked[(class, Direction::Write)].bytes,
            });
            let shown = shown(tenant);
            let units = Unit::ALL.map(|unit| tenant.quota().stats(unit));
            let used = door.processor_use.get(&shown.id);
            let latency = door.latencies.get(&shown.id).into_iter().flatten().enumerate();
            wire::TopTenant {
                name: shown.name,
                id: shown.id,
                partitions: shown.partitions,
                awake: shown.awake,
                suspended: shown.settings.suspended == Some(true),
                reads: user(Direction::Read).ops,
                read_bytes: user(Direction::Read).bytes,
                writes: user(Direction::Write).ops,
                written_bytes: user(Direction::Write).bytes,
                device: device.into(),
                latency: latency.filter(|(_, count)| **count > 0).map(|(at, &count)| [at as u64, count]).collect(),
                is_noisy: used.is_some_and(|used| used.is_noisy),
                processor_nanos: used.map_or(0, |used| used.nanos),
                delayed: units.iter().map(|stats| stats.delayed).sum(),
                refused: units.iter().map(|stats| stats.refused).sum(),
                waited_nanos: waits(tenant, &booked),
                rcu: shown.settings.rcu.unwrap_or(0),
                wcu: shown.settings.wcu.unwrap_or(0),
            }
        };
        wire::Top {
            at_nanos: self.clock.now(),
            connections: door.connections,
            cache_bytes: usage.bytes,
            cache_hits: usage.hits,
            cache_misses: usage.misses,
            sold_percent: self.sold().percent,
            tenants: self.node.tenants().iter().map(row).collect(),
        }
    }

    fn why(&self, name: &str, when: When) -> Result<wire::Why, Refusal> {
        let tenant = self.find(name)?;
        let ago = match when {
            When::Ago(seconds) => seconds,
            When::At(seconds) => (self.clock.unix_ms() / 1000).checked_sub(seconds).ok_or_else(|| {
                Refusal::new(Reason::Invalid, format!("at={seconds} is in the future by the server's clock"))
            })?,
        };
        let at = self.clock.now().saturating_sub(ago.saturating_mul(1_000_000_000));
        let slow = self.clients.slow_replies(tenant.id().0).into_iter().filter(|reply| reply.at <= at);
        let partitions = tenant.partitions().iter().map(|slot| {
            let owner = slot.owner();
            wire::PartitionWhy { partition: owner.partition, why: self.node.why(owner, at) }
        });
        let felt = felt(&self.facts(&tenant, ago, at));
        Ok(wire::Why { felt, partitions: partitions.collect(), slow_replies: slow.map(told).collect() })
    }

    fn recording(&self) -> Doing<String> {
        let node = Arc::clone(&self.node);
        self.aside(move || {
            serde_json::to_string(&node.recording()).map_err(|error| Refusal::new(Reason::Failed, error.to_string()))
        })
    }

    fn ledger_csv(&self) -> Doing<String> {
        let node = Arc::clone(&self.node);
        self.aside(move || Ok(super::ledger::csv(&node)))
    }
}

/// What tenants of `node` have bought.
pub fn sold(node: &Node) -> wire::Sold {
    let sold = node.sold();
    wire::Sold {
        tenants: sold.tenants,
        unlimited: sold.unlimited,
        rcu: sold.rcu,
        wcu: sold.wcu,
        bytes_per_second: sold.bytes,
        device_bytes_per_second: sold.device_bytes,
        percent: sold.times.map(|times| (times * 100.0).round() as u64),
        uncompacted_bytes_per_second: sold.uncompacted,
        passes_uncompacted: sold.passes_uncompacted,
    }
}

/// The node could not do it. This is logged as well, unlike an order that makes no sense, which is the operator's own
/// business.
fn failed(what: &str, tenant: &str, error: weir_io::Error) -> Refusal {
    let refusal = Refusal::from(error);
    if refusal.reason == Reason::Failed {
        tracing::warn!(tenant, error = %refusal, "{what}");
    }
    refusal
}

fn told(reply: SlowReply) -> wire::SlowReply {
    let SlowReply { unix_ms, micros, replies, command, waited, .. } = reply;
    wire::SlowReply { unix_ms, micros, replies, command: command.to_owned(), waited_nanos: waited }
}

fn parse(name: &str) -> Result<TenantName, Refusal> {
    TenantName::new(name).map_err(|error| Refusal::new(Reason::Invalid, error.to_string()))
}

/// Applies the settings that are present in `change` to a tenant of `engine`.
fn apply(settings: &mut TenantSettings, change: &wire::Settings, engine: EngineKind) -> Result<(), Refusal> {
    if engine != EngineKind::Memory && change.memory_bytes_max.is_some_and(|max| max > 0) {
        let message = format!(
            "memory_bytes_max limits rows that are kept in memory, and the engine {engine} keeps them on disk: \
             set disk_bytes_max, or create a tenant with the engine memory"
        );
        return Err(Refusal::new(Reason::Invalid, message));
    }
    let limits = &mut settings.limits;
    limits.rcu = change.rcu.unwrap_or(limits.rcu);
    limits.wcu = change.wcu.unwrap_or(limits.wcu);
    limits.ru = change.ru.unwrap_or(limits.ru);
    limits.spare = change.spare.unwrap_or(limits.spare);
    limits.burst_seconds = change.burst_seconds.unwrap_or(limits.burst_seconds);
    let present = match limits.on_limit {
        OnLimit::Delay { max_ms } => Some(max_ms),
        OnLimit::Refuse => None,
    };
    let usual = match UnitLimits::default().on_limit {
        OnLimit::Delay { max_ms } => max_ms,
        OnLimit::Refuse => 0,
    };
    limits.on_limit = match (change.on_limit, change.delay_max_ms) {
        (Some(wire::OnLimit::Refuse), Some(_)) => {
            let message =
                "delay_max_ms says how long to wait, but on_limit = refuse says not to wait: give only one of them";
            return Err(Refusal::new(Reason::Invalid, message));
        }
        (Some(wire::OnLimit::Refuse), None) => OnLimit::Refuse,
        (_, Some(max_ms)) => OnLimit::Delay { max_ms },
        (Some(wire::OnLimit::Delay), None) => OnLimit::Delay { max_ms: present.unwrap_or(usual) },
        (None, None) => limits.on_limit,
    };
    settings.connections_max = change.connections_max.unwrap_or(settings.connections_max);
    settings.disk_bytes_max = change.disk_bytes_max.unwrap_or(settings.disk_bytes_max);
    settings.memory_bytes_max = change.memory_bytes_max.unwrap_or(settings.memory_bytes_max);
    settings.terms.weight = change.weight.unwrap_or(settings.terms.weight);
    settings.terms.delay = change.delta_ms.map_or(settings.terms.delay, Into::into);
    settings.suspended = change.suspended.unwrap_or(settings.suspended);
    Ok(())
}

fn engine(word: Option<&str>) -> Result<EngineKind, Refusal> {
    let parsed = word.map_or(Ok(EngineKind::default()), str::parse);
    parsed.map_err(|error: UnknownEngine| Refusal::new(Reason::Invalid, error.to_string()))
}

fn log(word: Option<&str>) -> Result<LogKind, Refusal> {
    let parsed = word.map_or(Ok(LogKind::default()), str::parse);
    parsed.map_err(|error: UnknownLog| Refusal::new(Reason::Invalid, error.to_string()))
}

fn shown(tenant: &Tenant) -> wire::Tenant {
    let settings = tenant.settings();
    let (on_limit, delay_max_ms) = match settings.limits.on_limit {
        OnLimit::Delay { max_ms } => (wire::OnLimit::Delay, Some(max_ms)),
        OnLimit::Refuse => (wire::OnLimit::Refuse, None),
    };
    wire::Tenant {
        id: tenant.id().0,
        name: tenant.name().to_string(),
        partitions: tenant.partitions().len() as u32,
        awake: tenant.partitions().iter().filter(|slot| slot.awake().is_some()).count() as u32,
        engine: Some(tenant.engine().to_string()),
        log: Some(tenant.log().to_string()),
        memory_bytes: tenant.memory_use(),
        has_secret: settings.secret.is_some(),
        users: settings.users.iter().map(|user| user.name.escape_ascii().to_string()).collect(),
        settings: wire::Settings {
            rcu: Some(settings.limits.rcu),
            wcu: Some(settings.limits.wcu),
            ru: Some(settings.limits.ru),
            spare: Some(settings.limits.spare),
            burst_seconds: Some(settings.limits.burst_seconds),
            on_limit: Some(on_limit),
            delay_max_ms,
            connections_max: Some(settings.connections_max),
            disk_bytes_max: Some(settings.disk_bytes_max),
            memory_bytes_max: Some(settings.memory_bytes_max),
            weight: Some(settings.terms.weight),
            delta_ms: Some(settings.terms.delay.into()),
            suspended: Some(settings.suspended),
        },
    }
}

impl From<weir_io::Error> for Refusal {
    fn from(error: weir_io::Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::NotFound => Reason::NotFound,
            ErrorKind::AlreadyExists | ErrorKind::Closed | ErrorKind::Locked => Reason::Conflict,
            ErrorKind::Invalid => Reason::Invalid,
            _ => Reason::Failed,
        };
        Refusal::new(reason, error.to_string())
    }
}
