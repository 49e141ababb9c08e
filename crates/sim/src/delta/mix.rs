//! Sixty-four tenants that read, write, do both by turns, or rest and come back, beside some that read or write all
//! they can: how long the most unlucky of them waits, and how much all of them get done (DF-E6).
//!
//! As in the paper most requests are reads, from a cache that is smaller than what is read: blocks that are kept there
//! for resting tenants are missed by the others. A request is done when its row was read or is in a memtable. That the
//! row is in the log, too, takes a turn at the device, which has nothing to do with shares in memory.

mod guest;

use std::sync::Arc;

use clap::Args;
use parking_lot::Mutex;
use serde::Serialize;
use weir_admission::waits::{Cause, Waits};
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_node::{Delay, FlushShares, FlushWaits, Machine, Node, NodeConfig, ShareTerms};
use weir_scenario::report::sharing::{Acquisition, Scarce, Sharing};

use self::guest::{Guest, Seen};
use super::client::{Class, Client, clients};
use super::pair::Pair;
use super::series::{Series, name_of};
use super::world::{self, Device, MB, SECOND, ms};
use super::{Trial, preload};

/// The kinds of tenants, and how many tenants there are of each.
const TENANTS: [(Kind, usize); 7] = [
    (Kind::Reader, 12),
    (Kind::Returner, 8),
    (Kind::Scanner, 16),
    (Kind::Writer, 8),
    (Kind::Changer, 6),
    (Kind::Bursty, 6),
    (Kind::Greedy, 8),
];
/// What the device reads, and what it writes, in a second: the paper's, but only three quarters of its reads, which are
/// enough for so small a cache.
const READS: u64 = 4_680 * MB;
const WRITES: u64 = 3_120 * MB;
/// A tenant's share of the write memory: the paper's.
const MEMORY_SHARE: u64 = 128 * MB;
/// A tenant's share of the cache: half of the paper's, so that a run takes less memory.
const CACHE_SHARE: u64 = 160 * MB;
/// A row, and a block, in bytes: large, because the device moves whole pages.
const ROW: u64 = 500_000;
const MEMTABLE: u64 = 16 * MB;
const FLUSH_SLOTS: u64 = 8;
/// Requests of a tenant that may be in flight, except those of a tenant that comes back.
const WORKERS: u64 = 8;
/// The part of its share that a burst takes: memtables also take what they keep besides the data.
const BURST: (u64, u64) = (7, 8);
/// Two tenants of a kind burst, or come back, at the same moment, by turns.
const AT_A_TIME: usize = 2;
const TURN_EVERY: Nanos = 3 * SECOND;
/// When counting begins: then memory and cache are full, and how fast they come back has been measured.
const SETTLED: Nanos = 12 * SECOND;

/// What a tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads rows, drawn evenly, of less than its share of the cache.
    Reader,
    /// Rests, and then reads most of its share of the cache at once.
    Returner,
    /// Reads all it can, in bulk, from rows of five times its share, and can wait: its delay is infinite.
    Scanner,
    /// Writes steadily.
    Writer,
    /// Reads a row and writes what it made of it, steadily.
    Changer,
    /// Rests, and then writes most of its share of the memory at once.
    Bursty,
    /// Writes all it can, in bulk, and can wait.
    Greedy,
}

impl Kind {
    /// Bytes a second that the tenant reads or writes at scale 1; none for tenants that rest in between.
    fn rate(self) -> Option<u64> {
        match self {
            Kind::Reader => Some(25 * MB),
            Kind::Writer => Some(20 * MB),
            Kind::Changer => Some(10 * MB),
            Kind::Returner | Kind::Bursty => None,
            Kind::Scanner => Some(1_000 * MB),
            Kind::Greedy => Some(300 * MB),
        }
    }

    /// Bytes that the tenant has on disk at scale 1.
    fn has(self) -> u64 {
        match self {
            Kind::Reader | Kind::Changer => 100 * MB,
            Kind::Returner => 140 * MB,
            Kind::Scanner => 800 * MB,
            Kind::Writer | Kind::Bursty | Kind::Greedy => 0,
        }
    }

    /// Requests that the tenant sends at once when it comes back or bursts.
    fn at_once(self) -> u64 {
        if self.reads() { self.has() / ROW } else { MEMORY_SHARE * BURST.0 / BURST.1 / ROW }
    }

    fn reads(self) -> bool {
        self.has() > 0
    }

    fn writes(self) -> bool {
        !self.reads() || self == Kind::Changer
    }

    /// Whether the tenant can wait, so that nothing is promised to it.
    fn is_patient(self) -> bool {
        matches!(self, Kind::Scanner | Kind::Greedy)
    }

    fn class(self) -> Class {
        match self {
            Kind::Returner | Kind::Bursty => Class::Ramping,
            Kind::Scanner | Kind::Greedy => Class::Greedy,
            Kind::Reader | Kind::Writer | Kind::Changer => Class::Steady,
        }
    }

    fn terms(self) -> ShareTerms {
        let delay = if self.is_patient() { Delay::Endless } else { Delay::OfNode };
        ShareTerms { delay, ..ShareTerms::default() }
    }
}

fn kinds() -> impl Iterator<Item = Kind> {
    TENANTS.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count))
}

/// Macro mix of 64 tenants: readers, writers, both by turns, some that rest and come back, and 24 that read or write
/// all they can in bulk
#[derive(Clone, Debug, Args, Serialize)]
pub struct Mix {
    /// Delays of write memory and block cache in milliseconds, separated by commas: `350+250 for 2` (tenants at a
    /// time); or `quota` or `fair` for both. Flush slots are shared like the memory
    #[arg(long = "shares", value_name = "PAIR", value_delimiter = ',', default_value = PAIRS)]
    #[serde(skip)]
    pub pairs: Vec<Pair>,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 36, value_parser = clap::value_parser!(u64).range(20..=3600))]
    pub seconds: u64,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

/// The pairs that the paper compares.
const PAIRS: &str = "quota,350+250 for 2,fair";

/// What requests waited for, on average, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Waited {
    /// Room in the write memory, or in their tree.
    pub memory: f64,
    /// Their turn before the device.
    pub gate: f64,
    /// All waits together, including the device itself.
    pub all: f64,
}

/// What the clients of tenants of one kind saw.
#[derive(Clone, Debug, Serialize)]
pub struct OfKind {
    /// The kind of tenant.
    pub kind: Kind,
    /// The worst P99.9 of a tenant of this kind, from the moment at which a request was to be sent until its row was
    /// read or in a memtable, in milliseconds.
    pub p999_ms: f64,
    /// The longest of all.
    pub longest_ms: f64,
    /// The longest time until a row was in the log, too, in milliseconds.
    pub logged_ms: f64,
    /// What the slowest one in a thousand of all requests waited for.
    pub slow: Waited,
    /// Reads that found their block in the cache, in percent: of all tenants, and of the tenant with the fewest.
    pub hits: [f64; 2],
    /// Requests, those included that were not answered in the end: each has waited until then, at least.
    pub requests: u64,
}

/// The results of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Mixed {
    /// The way to share memory and cache.
    pub pair: String,
    /// What was kept in the end of write memory and cache, in percent.
    pub kept_percent: [f64; 2],
    /// Flush slots that were reserved in the end.
    pub reserved_slots: u64,
    /// Why a promise was not kept at the end, in the node's words.
    pub broken: Vec<String>,
    /// Bytes a second that clients read, at scale 1, once everything has settled.
    pub read_per_sec: f64,
    /// Bytes a second that they wrote.
    pub written_per_sec: f64,
    /// The results of each kind of tenant.
    pub kinds: Vec<OfKind>,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Mixed {
    /// What clients of `kind` saw.
    pub fn of(&self, kind: Kind) -> Option<&OfKind> {
        self.kinds.iter().find(|of| of.kind == kind)
    }

    /// P99.9 and longest wait of the most unlucky tenant, in milliseconds, leaving out tenants that can wait.
    pub fn worst_ms(&self) -> (f64, f64) {
        let kinds = || self.kinds.iter().filter(|of| !of.kind.is_patient());
        let most = |of: &dyn Fn(&OfKind) -> f64| kinds().map(of).fold(0.0, f64::max);
        (most(&|of| of.p999_ms), most(&|of| of.longest_ms))
    }

    /// Bytes a second that clients read and wrote, at scale 1.
    pub fn bytes_per_sec(&self) -> f64 {
        self.read_per_sec + self.written_per_sec
    }
}

/// What the clients of `kind`, who are `guests`, saw.
fn of_kind(node: &Node, kind: Kind, guests: &[Arc<Guest>]) -> OfKind {
    let guests: Vec<&Arc<Guest>> = guests.iter().filter(|guest| guest.kind == kind).collect();
    let waits: Vec<_> = guests.iter().map(|guest| guest.waits()).collect();
    let most = |of: &dyn Fn(&(Nanos, Nanos, u64)) -> Nanos| ms(waits.iter().map(of).max().unwrap_or(0));
    let usages: Vec<_> = guests.iter().map(|guest| node.cache().usage_of(guest.partition.owner())).collect();
    let percent = |hits: u64, misses: u64| hits as f64 * 100.0 / (hits + misses).max(1) as f64;
    let all = usages.iter().fold((0, 0), |(hits, misses), usage| (hits + usage.hits, misses + usage.misses));
    let least = usages.iter().map(|usage| percent(usage.hits, usage.misses)).fold(100.0, f64::min);
    OfKind {
        kind,
        p999_ms: most(&|waits| waits.0),
        longest_ms: most(&|waits| waits.1),
        logged_ms: ms(guests.iter().map(|guest| guest.seen.lock().logged).max().unwrap_or(0)),
        slow: slowest(&guests),
        hits: [percent(all.0, all.1), least],
        requests: waits.iter().map(|(.., count)| count).sum(),
    }
}

/// What the slowest one in a thousand of the requests of `guests` waited for.
fn slowest(guests: &[&Arc<Guest>]) -> Waited {
    let mut all: Vec<(Nanos, Waits)> = guests.iter().flat_map(|guest| guest.seen.lock().waits.clone()).collect();
    all.sort_unstable();
    let slow = &all[all.len() - all.len().min(all.len() / 1000 + 1)..];
    let mean =
        |of: &dyn Fn(&(Nanos, Waits)) -> Nanos| slow.iter().map(of).map(ms).sum::<f64>() / slow.len().max(1) as f64;
    Waited {
        memory: mean(&|(_, waited)| waited[Cause::Stall as usize]),
        gate: mean(&|(_, waited)| waited[Cause::Partition as usize] + waited[Cause::Node as usize]),
        all: mean(&|(all, _)| *all),
    }
}

/// What `guest`, whose client is `client`, waited for: its rows, since everything has settled, and a slot for its
/// flushes, if it flushed. A tenant that reads and writes has the delays of both.
fn acquisitions(guest: &Guest, client: &Client, pair: Pair, slots: Option<&FlushWaits>) -> Vec<Acquisition> {
    let deltas = pair.deltas().filter(|_| !guest.kind.is_patient()).map(|deltas| deltas.map(ms));
    let (memory, cache) = (deltas.map(|[memory, _]| memory), deltas.map(|[_, cache]| cache));
    let (resource, delta_ms) = match (guest.kind.reads(), guest.kind.writes()) {
        (true, true) => (Scarce::MemoryAndCache, deltas.map(|[memory, cache]| memory + cache)),
        (true, false) => (Scarce::BlockCache, cache),
        (false, _) => (Scarce::WriteMemory, memory),
    };
    let (_, longest, _) = guest.waits();
    let flush = slots.and_then(|slots| slots.longest.get(&client.tenant().id().0));
    let rows = client.acquisition(resource, ms(longest), delta_ms);
    let slot = flush.map(|&longest| client.acquisition(Scarce::FlushSlots, ms(longest), memory));
    let named = |acquisition: Acquisition| Acquisition { class: name_of(guest.kind), ..acquisition };
    std::iter::once(rows).chain(slot).map(named).collect()
}

fn device(args: &Mix) -> Device {
    Device::Split { read: READS / args.trial.scale, write: WRITES / args.trial.scale }
}

/// Settings of the node.
fn config(args: &Mix, pair: Pair) -> NodeConfig {
    let memtable = MEMTABLE / args.trial.scale;
    let tree = TreeOptions { write_buffers_max: 1024, table_bytes: memtable, ..world::tree(memtable) };
    let tenants = kinds().count() as u64;
    NodeConfig {
        cache_bytes: (tenants * CACHE_SHARE / args.trial.scale) as usize,
        cache_shares: pair.cache,
        write_memory_bytes: tenants * MEMORY_SHARE / args.trial.scale,
        write_memory_shares: pair.memory,
        flush_slots: Some(FlushShares { slots: FLUSH_SLOTS, mode: pair.memory }),
        ..world::config(tree, device(args))
    }
}

/// The disk that all ways to share start from.
///
/// # Errors
/// The error says in words what went wrong.
pub fn image(args: &Mix) -> Result<DiskImage, String> {
    let tenants: Vec<_> = kinds().map(|kind| (kind.class(), kind.terms(), kind.has() / ROW)).collect();
    preload::image(args.trial.seed, &tenants, ROW / args.trial.scale)
}

/// Runs one way to share on a disk that starts as `image`.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Mix, image: &DiskImage, pair: Pair) -> Result<Mixed, String> {
    let sim = Sim::new(args.trial.seed);
    let machine = world::machine(&sim, image, device(args), args.trial.seed);
    sim.block_on(drive(&sim, machine, args, pair)).map_err(|error| format!("{pair}: {error}"))
}

async fn drive(sim: &Sim, machine: Machine, args: &Mix, pair: Pair) -> weir_io::Result<Mixed> {
    let clock = sim.clock();
    let config = config(args, pair);
    let node = Node::open(&config, machine).await?;
    let row = ROW / args.trial.scale;
    let terms = kinds().map(|kind| (kind.class(), kind.terms()));
    let clients = clients(&node, &clock, terms, row).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let (counts_from, until) = (from + SETTLED, from + args.seconds * SECOND);
    let series = TENANTS.map(|(kind, _)| (kind, Series::beginning(from)));
    let guest = |(kind, client): (Kind, &Arc<Client>)| {
        let (partition, clock, seen) = (Arc::clone(client.partition()), Arc::clone(&clock), Mutex::default());
        let (_, series) = series.iter().find(|(other, _)| *other == kind).expect("every kind has one");
        let (series, counts) = (Arc::clone(series), (counts_from, until));
        Arc::new(Guest { kind, partition, seen, series, counts, clock, row })
    };
    let guests: Vec<Arc<Guest>> = kinds().zip(&clients).map(guest).collect();
    for (kind, count) in TENANTS {
        let of = || guests.iter().filter(|guest| guest.kind == kind);
        if let Some(rate) = kind.rate() {
            of().for_each(|guest| guest.ask_steadily(sim, rate / args.trial.scale, until, &mut rng));
            continue;
        }
        let every = TURN_EVERY * (count / AT_A_TIME) as u64;
        for (guest, number) in of().zip(0..) {
            // The first turn comes before anything is counted. Tenants that write take turns between those that read.
            let between = if kind.writes() { TURN_EVERY / 2 } else { 0 };
            let first = from + SETTLED + TURN_EVERY * (number / AT_A_TIME) as u64 + between - every;
            guest.come_back(sim, (first, until, every));
        }
    }
    sleep_until(&clock, until).await;
    let (memory, cache, slots) = (node.write_memory_shares(), node.cache_shares(), node.flush_waits());
    // A request that was sent in time is counted however late it is answered, and also if it never is.
    sleep_until(&clock, until + 2 * SECOND).await;
    guests.iter().for_each(|guest| guest.end());
    let seconds = (args.seconds * SECOND - SETTLED) as f64 / 1e9;
    let per_sec = |of: &dyn Fn(&Seen) -> u64| {
        let bytes: u64 = guests.iter().map(|guest| of(&guest.seen.lock())).sum();
        (bytes * args.trial.scale) as f64 / seconds
    };
    let capacity = node.cache().capacity_bytes() - node.cache().charged_bytes();
    let percent = |kept: u64, of: u64| kept as f64 * 100.0 / of as f64;
    let broken = [memory.broken.map(|broken| broken.to_string()), cache.broken.map(|broken| broken.to_string())];
    let shown = |(kind, series): &(Kind, Arc<Mutex<Series>>)| {
        series.lock().shown(name_of(kind), args.seconds, args.trial.scale)
    };
    let acquired = guests.iter().zip(&clients);
    let acquired = acquired.flat_map(|(guest, client)| acquisitions(guest, client, pair, slots.as_ref())).collect();
    let is_broken = broken.iter().any(Option::is_some) || slots.as_ref().is_some_and(|slots| slots.is_broken);
    Ok(Mixed {
        pair: pair.to_string(),
        kept_percent: [
            percent(memory.shares.kept(), config.write_memory_bytes),
            percent(cache.shares.kept(), capacity as u64),
        ],
        reserved_slots: slots.map_or(0, |slots| slots.reserved),
        broken: broken.into_iter().flatten().collect(),
        read_per_sec: per_sec(&|seen| seen.read),
        written_per_sec: per_sec(&|seen| seen.written),
        kinds: TENANTS.map(|(kind, _)| of_kind(&node, kind, &guests)).into(),
        sharing: Sharing::new(SETTLED / SECOND, series.iter().map(shown).collect(), acquired, is_broken),
    })
}
