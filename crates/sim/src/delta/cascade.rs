//! A log that tenants share, at its cap: the tenants that write little all have to flush at once, and one that writes
//! much waits for its own flush behind theirs, or does not have to (DF-12, DF-E8).

use std::sync::Arc;

use clap::Args;
use parking_lot::Mutex;
use serde::Serialize;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Clock, Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{
    Delay, FlushShares, LogKind, Machine, Node, NodeConfig, Partition, ShareMode, ShareTerms, TenantName,
    TenantSettings, TenantSpec,
};
use weir_scenario::report::sharing::{Acquisition, Scarce, Sharing};

use super::Trial;
use super::series::Series;
use super::world::{self, Device, MB, SECOND, ms};

/// The paper's slow tenants; one more tenant is fast.
const SLOW_TENANTS: u64 = 15;
/// Bytes a second of a slow tenant: its memtable is not full before the log is, so that nothing but the log makes it
/// flush.
const SLOW: u64 = MB;
/// Bytes a second of the fast tenant, and the size of its memtables: while one is flushed it has another, as in a
/// RocksDB.
const FAST: u64 = 30 * MB;
const MEMTABLE: u64 = 64 * MB;
const MEMTABLES: usize = 2;
/// The cap of the log: what all tenants write in 42 s.
const CAP: u64 = 1_900 * MB;
/// The device, in bytes a second: a flush of a slow tenant takes 0.3 s of the whole device, and those of all of them 4
/// s.
const DEVICE: u64 = 160 * MB;
const WRITE: u64 = 64 * 1024;

/// A shared log of 1.9 GB and two flush slots, 16 tenants: 15 write little and can wait, 1 writes much
#[derive(Clone, Debug, Args, Serialize)]
pub struct Cascade {
    /// How the flush slots are shared, separated by commas: `quota`, `fair`, `delta 500 ms`
    #[arg(long = "shares", value_name = "MODE", value_delimiter = ',', default_value = MODES)]
    #[serde(skip)]
    pub modes: Vec<ShareMode>,
    /// Flushes at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub slots: u64,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(50..=3600))]
    pub seconds: u64,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

const MODES: &str = "fair,delta 500 ms";

/// The results of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Cascaded {
    /// The way to share.
    pub mode: String,
    /// Slots that were reserved in the end.
    pub reserved: u64,
    /// Cascades: segments for which members had to flush.
    pub cascades: u64,
    /// The largest size of the log, in bytes at scale 1.
    pub log_bytes_max: u64,
    /// The second in which each cascade was seen to begin.
    pub cascade_seconds: Vec<u64>,
    /// The longest that a flush waited for a slot, in milliseconds: of the fast tenant, and of the slow ones.
    pub flush_waited_ms: [f64; 2],
    /// The worst latency of each second's writes, in milliseconds, from the moment at which a write was to be sent
    /// until it was committed; a list for each tenant, the fast one first. 0 where nothing was sent.
    pub worst_ms: Vec<Vec<f64>>,
    /// Bytes a second that all tenants wrote, at scale 1.
    pub bytes_per_sec: f64,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Cascaded {
    /// The worst latency of the fast tenant, in milliseconds.
    pub fn fast_worst_ms(&self) -> f64 {
        self.worst_ms.first().map_or(0.0, |seconds| seconds.iter().copied().fold(0.0, f64::max))
    }

    /// The median over the seconds of the fast tenant's worst latencies: what is usual while nobody else flushes.
    pub fn fast_usual_ms(&self) -> f64 {
        let mut seconds = self.worst_ms.first().cloned().unwrap_or_default();
        seconds.sort_unstable_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
    }

    /// The worst latency of a slow tenant, in milliseconds.
    pub fn slow_worst_ms(&self) -> f64 {
        self.worst_ms.iter().skip(1).flatten().copied().fold(0.0, f64::max)
    }
}

/// A tenant, and the worst latency of each second.
struct Writer {
    tenant: u32,
    partition: Arc<Partition>,
    clock: Arc<dyn Clock>,
    from: Nanos,
    seen: Mutex<Seen>,
    /// What all tenants of its class get done.
    series: Arc<Mutex<Series>>,
    op_bytes: u64,
}

#[derive(Default)]
struct Seen {
    worst: Vec<Nanos>,
    bytes: u64,
}

impl Writer {
    /// Writes the row `number`, which was to be sent at `due`.
    async fn write(&self, number: u64, due: Nanos) {
        let mut batch = Batch::new();
        batch.put(&number.to_be_bytes(), &vec![number as u8; self.op_bytes as usize]);
        let written = match self.partition.write(&batch).await {
            Ok(commit) => commit.await.is_ok(),
            Err(_) => false,
        };
        let (now, mut series, mut seen) = (self.clock.now(), self.series.lock(), self.seen.lock());
        let latency = now - due;
        if written {
            seen.bytes += self.op_bytes;
            series.took(now, latency);
            series.moved(now, self.op_bytes);
        }
        if let Some(worst) = seen.worst.get_mut(((due - self.from) / SECOND) as usize) {
            *worst = (*worst).max(latency);
        }
    }

    /// Sends `rows` writes from `begin` on, one every `every`, whether or not earlier ones have ended.
    fn send(self: &Arc<Self>, sim: &Sim, (begin, every): (Nanos, Nanos), rows: u64) {
        let (writer, spawner) = (Arc::clone(self), sim.spawner());
        sim.spawn(async move {
            for number in 0..rows {
                let due = begin + number * every;
                sleep_until(&writer.clock, due).await;
                let writer = Arc::clone(&writer);
                spawner.spawn(Box::pin(async move { writer.write(number, due).await }));
            }
        });
    }
}

fn config(args: &Cascade, mode: ShareMode) -> NodeConfig {
    let tree = TreeOptions { write_buffers_max: MEMTABLES, ..world::tree(MEMTABLE / args.trial.scale) };
    NodeConfig {
        flush_slots: Some(FlushShares { slots: args.slots, mode }),
        shared_log_bytes: CAP / args.trial.scale,
        ..world::config(tree, Device::Shared(DEVICE / args.trial.scale))
    }
}

/// Runs one way to share.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Cascade, mode: ShareMode) -> Result<Cascaded, String> {
    let sim = Sim::new(args.trial.seed);
    let device = Device::Shared(DEVICE / args.trial.scale);
    let machine = world::machine(&sim, &DiskImage::default(), device, args.trial.seed);
    sim.block_on(drive(&sim, machine, args, mode)).map_err(|error| format!("{mode}: {error}"))
}

/// The fast tenant first, and then the slow ones, which may wait for a flush as long as it takes.
async fn writers(node: &Node, clock: &Arc<dyn Clock>, args: &Cascade) -> weir_io::Result<Vec<Arc<Writer>>> {
    let mut tenants = Vec::new();
    for number in 0..=SLOW_TENANTS {
        let name = TenantName::new(&format!("tenant{number}")).expect("a name");
        let delay = if number == 0 { Delay::OfNode } else { Delay::Endless };
        let settings =
            TenantSettings { terms: ShareTerms { delay, ..ShareTerms::default() }, ..TenantSettings::default() };
        let spec = TenantSpec { log: LogKind::Shared, settings, ..TenantSpec::new(name) };
        let tenant = node.create_tenant(spec).await?;
        tenants.push((tenant.id().0, tenant.partitions()[0].partition().await?));
    }
    let from = clock.now();
    let (fast, slow) = (Series::beginning(from), Series::beginning(from));
    let writer = |(number, (tenant, partition)): (usize, (u32, Arc<Partition>))| {
        let seen = Mutex::new(Seen { worst: vec![0; args.seconds as usize], bytes: 0 });
        let series = Arc::clone(if number == 0 { &fast } else { &slow });
        let (clock, op_bytes) = (Arc::clone(clock), WRITE / args.trial.scale);
        Arc::new(Writer { tenant, partition, clock, from, seen, series, op_bytes })
    };
    Ok(tenants.into_iter().enumerate().map(writer).collect())
}

async fn drive(sim: &Sim, machine: Machine, args: &Cascade, mode: ShareMode) -> weir_io::Result<Cascaded> {
    let clock = sim.clock();
    let node = Node::open(&config(args, mode), machine).await?;
    let writers = writers(&node, &clock, args).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let until = from + args.seconds * SECOND;
    let (fast, slow) = writers.split_first().expect("there is one");
    fast.send(sim, (from, SECOND * WRITE / FAST), args.seconds * FAST / WRITE);
    for writer in slow {
        let every = SECOND * WRITE / SLOW;
        // Early enough that all of them have something in the first segment, which is small.
        writer.send(sim, (from + rng.below(every / 8), every), args.seconds * SLOW / WRITE);
    }
    let (mut log_bytes_max, mut cascade_seconds) = (0, Vec::new());
    while clock.now() < until {
        if let Some(log) = node.shared_log() {
            log_bytes_max = log.log.live_bytes.max(log_bytes_max);
            cascade_seconds.resize(log.cascades as usize, (clock.now() - from) / SECOND);
        }
        sleep_until(&clock, clock.now() + SECOND / 10).await;
    }
    let waits = node.flush_waits().expect("the number of flushes is bounded");
    let longest = |writers: &[Arc<Writer>]| {
        let longest = writers.iter().filter_map(|writer| waits.longest.get(&writer.tenant)).copied();
        longest.map(ms).fold(0.0, f64::max)
    };
    let bytes: u64 = writers.iter().map(|writer| writer.seen.lock().bytes).sum();
    let class = |number: usize| if number == 0 { "fast" } else { "slow" };
    let shown =
        |number: usize| writers[number].series.lock().shown(class(number).to_owned(), args.seconds, args.trial.scale);
    let delta_ms = mode.promise().map(|promise| ms(promise.delta));
    let acquired = |(number, writer): (usize, &Arc<Writer>)| Acquisition {
        tenant: format!("tenant{number}"),
        class: class(number).to_owned(),
        resource: Scarce::FlushSlots,
        longest_ms: waits.longest.get(&writer.tenant).copied().map_or(0.0, ms),
        delta_ms: delta_ms.filter(|_| number == 0),
    };
    let acquired = writers.iter().enumerate().map(acquired).collect();
    Ok(Cascaded {
        mode: mode.to_string(),
        reserved: waits.reserved,
        cascades: cascade_seconds.len() as u64,
        log_bytes_max: log_bytes_max * args.trial.scale,
        cascade_seconds,
        flush_waited_ms: [longest(&writers[..1]), longest(slow)],
        worst_ms: writers.iter().map(|writer| writer.seen.lock().worst.iter().copied().map(ms).collect()).collect(),
        bytes_per_sec: (bytes * args.trial.scale) as f64 / args.seconds as f64,
        sharing: Sharing::new(0, [0, 1].map(shown).into(), acquired, waits.is_broken),
    })
}
