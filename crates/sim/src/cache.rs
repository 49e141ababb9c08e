//! Caches at their disk limits beside others in a shortage, in virtual time.
//!
//! Each cache writes keys at a steady rate, every one a new key that lives for a minute, into a tenant whose limit is a
//! little above the living bytes. Nothing is ever deleted: all space comes back because values expire. Neighbours read
//! and overwrite their keys, and all together want more of the device than there is. The same run with caches that
//! overwrite a minute's keys and never expire shows which delays of the neighbours come from the load, and which from
//! reclaiming space.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::cost::Capacity;
use weir_admission::{Direction, Limits, UNLIMITED};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Class, Clock, Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_model::{Batch, Change};
use weir_node::{Bandwidth, Machine, Node, NodeConfig, Tenant, TenantName, TenantSettings, TenantSpec};

use crate::runner::Tally;

const SECOND: Nanos = 1_000_000_000;
const CACHES: u32 = 10;
const NEIGHBOURS: u32 = 4;
const VALUE_BYTES: usize = 1000;
const KEY_BYTES: usize = 16;
/// Seconds that a key of a cache lives.
const LIFETIME: u64 = 60;
/// Keys that a cache writes in a second.
const CACHE_RATE: u64 = 20;
/// Writes and reads of a neighbour in a second.
const NEIGHBOUR_WRITES: u64 = 60;
const NEIGHBOUR_READS: u64 = 50;
/// For this many seconds neighbours write at that rate; then for as long at a quarter of it.
const BUSY_SECONDS: u64 = 30;
/// Keys that a neighbour has.
const NEIGHBOUR_KEYS: u64 = 4_000;
/// Bytes that the device moves in a second: less than all want.
const DEVICE_BYTES: u64 = 5 << 20;
/// Living bytes of a cache, by keys and values.
const LIVING_BYTES: u64 = CACHE_RATE * LIFETIME * (VALUE_BYTES + KEY_BYTES) as u64;
/// What a cache may hold: an eighth more, for what entries take besides their keys and values.
const LIMIT_BYTES: u64 = LIVING_BYTES + LIVING_BYTES / 8;

/// What the caches do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// New keys that expire, at a disk limit.
    Expire,
    /// As many keys as live at a time, overwritten in a cycle, without a limit: the same load, but nothing expires.
    Overwrite,
}

/// The results, in virtual time.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Keys that the caches have written.
    pub writes: u64,
    /// Writes refused because the tenant was full.
    pub refused: u64,
    /// The most space that a cache took, as a multiple of its living keys and values; looked at every second after two
    /// minutes.
    pub space_max: f64,
    /// The mean of that over all caches and seconds.
    pub space_mean: f64,
    /// P99 of a neighbour's reads, from when they were due.
    pub read_p99: Nanos,
    /// P99 of a neighbour's writes, from when they were due.
    pub write_p99: Nanos,
    /// Bytes read and written to give space back, over all caches.
    pub reclaim_bytes: [u64; 2],
    /// Bytes that reclaiming gave back.
    pub given_back: u64,
    /// Tables that were dropped without being read.
    pub tables_dropped: u64,
    /// Seconds in which the policies deferred something.
    pub short_seconds: u64,
}

impl Tally for Outcome {
    fn merge(&mut self, other: Self) {
        *self = other;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |nanos: Nanos| nanos as f64 / 1e6;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let [read, written] = self.reclaim_bytes.map(mib);
        write!(f, "{} keys written by {CACHES} caches, {} refused; ", self.writes, self.refused)?;
        write!(f, "space {:.2} of what lives at most, {:.2} on average; ", self.space_max, self.space_mean)?;
        write!(f, "reclaim read {read:.0} MiB and wrote {written:.0} MiB ")?;
        write!(f, "to give back {:.0} MiB, {} tables dropped unread; ", mib(self.given_back), self.tables_dropped)?;
        write!(f, "neighbours' P99: reads {:.1} ms, writes {:.1} ms; ", ms(self.read_p99), ms(self.write_p99))?;
        write!(f, "short for {} s", self.short_seconds)
    }
}

#[derive(Default)]
struct Seen {
    writes: u64,
    refused: u64,
    ratios: Vec<f64>,
    reads: Vec<Nanos>,
    neighbour_writes: Vec<Nanos>,
    short_seconds: u64,
}

struct Run {
    clock: Arc<dyn Clock>,
    node: Node,
    until: Nanos,
    seen: Mutex<Seen>,
}

fn config() -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 64 << 10,
        level1_bytes: 256 << 10,
        table_bytes: 64 << 10,
        io_bytes: 64 << 10,
        ..TreeOptions::default()
    };
    let (device, background) = (Limits::bytes(DEVICE_BYTES), UNLIMITED);
    NodeConfig {
        tree,
        cache_bytes: 2 << 20,
        segment_bytes: 1 << 20,
        bandwidth: Some(Bandwidth { device, capacity: Capacity::default(), background }),
        ..NodeConfig::new("/weir")
    }
}

async fn tenant(node: &Node, name: &str, disk_bytes_max: u64) -> Result<Arc<Tenant>, String> {
    let name = TenantName::new(name).map_err(|error| error.to_string())?;
    let settings = TenantSettings { disk_bytes_max, ..TenantSettings::default() };
    node.create_tenant(TenantSpec { settings, ..TenantSpec::new(name) }).await.map_err(|error| error.to_string())
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    // Scattered, so that keys of one minute lie all over the tree.
    let mut key = [b'k'; KEY_BYTES];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

impl Run {
    /// Writes as a gateway does: a write to a full tenant waits for room for a while.
    async fn write(&self, tenant: &Tenant, batch: &Batch) -> Result<bool, String> {
        if tenant.room_on_disk().await.is_err() {
            return Ok(false);
        }
        let words = |error: weir_io::Error| error.to_string();
        let partition = tenant.partitions()[0].partition().await.map_err(words)?;
        partition.write(batch).await.map_err(words)?.await.map_err(words)?;
        Ok(true)
    }

    async fn cache(&self, tenant: Arc<Tenant>, what: Caches) -> Result<(), String> {
        let every = SECOND / CACHE_RATE;
        let mut due = self.clock.now() + every;
        for number in 0.. {
            if due >= self.until {
                break;
            }
            sleep_until(&self.clock, due).await;
            due += every;
            let mut batch = Batch::new();
            let expire_at_ms = (what == Caches::Expire).then(|| self.clock.unix_ms() + LIFETIME * 1000);
            let key = key(if what == Caches::Expire { number } else { number % (CACHE_RATE * LIFETIME) });
            batch.push(Change::Put { key: &key, value: &[b'v'; VALUE_BYTES], expire_at_ms });
            let written = self.write(&tenant, &batch).await?;
            let mut seen = self.seen.lock();
            seen.writes += u64::from(written);
            seen.refused += u64::from(!written);
        }
        Ok(())
    }

    /// Neighbours are busy for half a minute, and then quiet for as long.
    fn is_busy(&self, at: Nanos) -> bool {
        (at / (BUSY_SECONDS * SECOND)).is_multiple_of(2)
    }

    async fn neighbour_writes(&self, tenant: Arc<Tenant>, mut rng: Rng) -> Result<(), String> {
        let every = SECOND / NEIGHBOUR_WRITES;
        let mut due = self.clock.now() + rng.below(every);
        while due < self.until {
            sleep_until(&self.clock, due).await;
            let mut batch = Batch::new();
            batch.put(&key(rng.below(NEIGHBOUR_KEYS)), &[b'n'; VALUE_BYTES]);
            self.write(&tenant, &batch).await?;
            self.seen.lock().neighbour_writes.push(self.clock.now() - due);
            due += if self.is_busy(due) { every } else { 4 * every };
        }
        Ok(())
    }

    async fn neighbour_reads(&self, tenant: Arc<Tenant>, mut rng: Rng) -> Result<(), String> {
        let every = SECOND / NEIGHBOUR_READS;
        let mut due = self.clock.now() + rng.below(every);
        while due < self.until {
            sleep_until(&self.clock, due).await;
            let partition = tenant.partitions()[0].partition().await.map_err(|error| error.to_string())?;
            partition.get(&key(rng.below(NEIGHBOUR_KEYS))).await.map_err(|error| error.to_string())?;
            self.seen.lock().reads.push(self.clock.now() - due);
            due += every;
        }
        Ok(())
    }

    /// Checks every second how much space each cache takes.
    async fn watch(&self, caches: Vec<Arc<Tenant>>) -> Result<(), String> {
        let mut at = self.clock.now() + 2 * LIFETIME * SECOND;
        while at < self.until {
            sleep_until(&self.clock, at).await;
            let stored = caches.iter().map(|cache| cache.disk_use().stored as f64 / LIVING_BYTES as f64);
            let mut seen = self.seen.lock();
            seen.ratios.extend(stored);
            let is_short = |tick: &weir_node::Tick| {
                tick.decision.knobs.partitions.iter().any(|knobs| knobs.scope != weir_admission::policy::Scope::All)
            };
            seen.short_seconds += u64::from(self.node.last_tick().is_some_and(|tick| is_short(&tick)));
            at += SECOND;
        }
        Ok(())
    }
}

fn p99(times: &mut [Nanos]) -> Nanos {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or(0)
}

/// Lets `seconds` pass.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(seed: u64, seconds: u64, what: Caches) -> Result<Outcome, String> {
    let sim = Sim::new(seed);
    sim.set_unix_ms(1_800_000_000_000);
    sim.set_time_limit((seconds + 3_600) * SECOND);
    let spec = DeviceSpec { latency: 80_000, sync_latency: 120_000, ..DeviceSpec::shared(DEVICE_BYTES) };
    let disk = SimFs::new(sim.clock(), spec, FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let node = sim.block_on(Node::open(&config(), machine)).map_err(|error| error.to_string())?;
    let until = sim.now() + seconds * SECOND;
    let run = Run { clock: sim.clock(), node, until, seen: Mutex::default() };
    sim.block_on(drive(&run, seed, what))
}

async fn drive(run: &Run, seed: u64, what: Caches) -> Result<Outcome, String> {
    type Work<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
    let (mut caches, mut work): (Vec<Arc<Tenant>>, Vec<Work<'_>>) = Default::default();
    for number in 0..CACHES {
        let limit = if what == Caches::Expire { LIMIT_BYTES } else { 0 };
        let cache = tenant(&run.node, &format!("cache{number}"), limit).await?;
        caches.push(Arc::clone(&cache));
        work.push(Box::pin(run.cache(cache, what)));
    }
    let mut rng = Rng::new(seed);
    for number in 0..NEIGHBOURS {
        let neighbour = tenant(&run.node, &format!("neighbour{number}"), 0).await?;
        work.push(Box::pin(run.neighbour_writes(Arc::clone(&neighbour), rng.fork("writes"))));
        work.push(Box::pin(run.neighbour_reads(neighbour, rng.fork("reads"))));
    }
    work.push(Box::pin(run.watch(caches.clone())));
    futures_util::future::try_join_all(work).await?;

    let mut outcome = Outcome::default();
    let booked = run.node.ledger().tenants();
    for cache in &caches {
        let metrics = cache.partitions()[0].metrics();
        outcome.given_back += metrics.bytes_reclaimed;
        outcome.tables_dropped += metrics.tables_dropped;
        if let Some(booked) = booked.get(&cache.id().0) {
            outcome.reclaim_bytes[0] += booked[(Class::Reclaim, Direction::Read)].bytes;
            outcome.reclaim_bytes[1] += booked[(Class::Reclaim, Direction::Write)].bytes;
        }
    }
    run.node.close().await.map_err(|error| error.to_string())?;
    let seen = std::mem::take(&mut *run.seen.lock());
    let Seen { writes, refused, ratios, mut reads, mut neighbour_writes, short_seconds } = seen;
    Ok(Outcome {
        writes,
        refused,
        space_max: ratios.iter().copied().fold(0.0, f64::max),
        space_mean: ratios.iter().sum::<f64>() / (ratios.len() as f64).max(1.0),
        read_p99: p99(&mut reads),
        write_p99: p99(&mut neighbour_writes),
        short_seconds,
        ..outcome
    })
}
