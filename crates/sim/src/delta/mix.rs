//! Sixty-four tenants that read, write, do both by turns, or come in bursts, beside some that write all they can: what
//! the most unlucky of them waits, and what all of them get done (DF-E6).

use std::sync::Arc;

use clap::Args;
use parking_lot::Mutex;
use serde::Serialize;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Clock, Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{
    CacheMode, Delay, FlushShares, Machine, Node, NodeConfig, Partition, ShareMode, ShareTerms, TenantName,
    TenantSettings, TenantSpec,
};

use super::Trial;
use super::world::{self, MB, SECOND};

/// What tenants do, and how many of them do it.
const TENANTS: [(Kind, u64); 5] =
    [(Kind::Reader, 24), (Kind::Writer, 16), (Kind::Changer, 8), (Kind::Bursty, 8), (Kind::Greedy, 8)];
/// The paper's memory and device, for writes.
const MEMORY: u64 = 2_048 * MB;
const DEVICE: u64 = 3_120 * MB;
const SHARE: u64 = MEMORY / 64;
/// Blocks of all tenants: a fifth of what is read.
const CACHE: u64 = 512 * MB;
/// What a reader, and whoever reads and writes, has on disk; in rows of so many bytes.
const DATA: u64 = 80 * MB;
const ROW: u64 = 256 << 10;
/// Half of a share.
const MEMTABLE: u64 = 16 * MB;
const FLUSH_SLOTS: u64 = 8;
/// Requests of a tenant that may be under way at a time, but for those of a burst.
const WORKERS: u64 = 8;
/// A burst is so much of a share: memtables also take what they keep besides the data.
const BURST: (u64, u64) = (7, 8);
/// Two tenants burst at the same moment, each of the eight once in so long.
const BURST_EVERY: Nanos = 5 * SECOND;
const BURSTS_AT_A_TIME: u64 = 2;
/// Before that the memory is full, and how fast it comes back has been measured; nothing is counted yet.
const SETTLED: Nanos = 6 * SECOND;

/// What a tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads rows, drawn evenly.
    Reader,
    /// Writes steadily.
    Writer,
    /// Reads a row and writes it anew, steadily.
    Changer,
    /// Rests, and then writes most of its share at once.
    Bursty,
    /// Writes all it can, in bulk, and can wait: its delay is infinite.
    Greedy,
}

impl Kind {
    /// Bytes a second that it reads or writes at scale 1; of those who burst and rest in between, none.
    fn rate(self) -> Option<u64> {
        match self {
            Kind::Reader => Some(25 * MB),
            Kind::Writer => Some(20 * MB),
            Kind::Changer => Some(10 * MB),
            Kind::Bursty => None,
            Kind::Greedy => Some(300 * MB),
        }
    }

    fn reads(self) -> bool {
        matches!(self, Kind::Reader | Kind::Changer)
    }

    fn writes(self) -> bool {
        self != Kind::Reader
    }
}

/// Macro mix of 64 tenants: readers, writers, both by turns, bursts, and 8 that write all they can in bulk
#[derive(Clone, Debug, Args, Serialize)]
pub struct Mix {
    /// How write memory, block cache and flush slots are shared, separated by commas: `quota`, `fair`,
    /// `delta 350 ms for 2`
    #[arg(long = "shares", value_name = "MODE", value_delimiter = ',', default_value = MODES)]
    #[serde(skip)]
    pub modes: Vec<ShareMode>,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 26, value_parser = clap::value_parser!(u64).range(12..=3600))]
    pub seconds: u64,
    /// How it is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

const MODES: &str = "quota,delta 350 ms for 2,fair";

/// What the clients of tenants of one kind saw.
#[derive(Clone, Debug, Serialize)]
pub struct OfKind {
    /// Which.
    pub kind: Kind,
    /// The worst P99.9 of one of them, from the moment at which a request was to be sent, in milliseconds.
    pub p999_ms: f64,
    /// The longest of all.
    pub longest_ms: f64,
    /// Requests answered.
    pub requests: u64,
}

/// What came out of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Mixed {
    /// Which.
    pub mode: String,
    /// Of the write memory, what was kept in the end, in percent.
    pub kept_percent: f64,
    /// Flush slots that were reserved in the end.
    pub reserved_slots: u64,
    /// Bytes a second that clients read, at scale 1, once all has settled.
    pub read_per_sec: f64,
    /// Bytes a second that they wrote.
    pub written_per_sec: f64,
    /// By kind.
    pub kinds: Vec<OfKind>,
}

impl Mixed {
    /// What clients of `kind` saw.
    pub fn of(&self, kind: Kind) -> Option<&OfKind> {
        self.kinds.iter().find(|of| of.kind == kind)
    }

    /// P99.9 and longest wait of the most unlucky tenant, in milliseconds, of all but those that can wait.
    pub fn worst_ms(&self) -> (f64, f64) {
        let kinds = || self.kinds.iter().filter(|of| of.kind != Kind::Greedy);
        let most = |of: &dyn Fn(&OfKind) -> f64| kinds().map(of).fold(0.0, f64::max);
        (most(&|of| of.p999_ms), most(&|of| of.longest_ms))
    }

    /// Bytes a second that clients read and wrote, at scale 1.
    pub fn bytes_per_sec(&self) -> f64 {
        self.read_per_sec + self.written_per_sec
    }
}

/// What the clients of one tenant saw.
#[derive(Default)]
struct Seen {
    waits: Vec<Nanos>,
    read: u64,
    written: u64,
}

/// A tenant, and who sends its requests.
struct Guest {
    kind: Kind,
    partition: Arc<Partition>,
    seen: Mutex<Seen>,
    /// Requests are counted that were due from here on, and bytes that were moved between the two.
    counts: (Nanos, Nanos),
    clock: Arc<dyn Clock>,
    row: u64,
    rows: u64,
}

impl Guest {
    /// One request, that was to be sent at `due`: the `number`th of its tenant, which reads the row `drawn`.
    async fn ask(&self, due: Nanos, number: u64, drawn: u64) {
        let (mut read, mut written) = (0, 0);
        if self.kind.reads() {
            let Ok(Some(_)) = self.partition.get(&drawn.to_be_bytes()).await else { return };
            read = self.row;
        }
        if self.kind.writes() {
            let key = if self.kind.reads() { drawn } else { number };
            if self.write(key).await.is_err() {
                return;
            }
            written = self.row;
        }
        let (now, (from, until)) = (self.clock.now(), self.counts);
        let mut seen = self.seen.lock();
        if due >= from {
            seen.waits.push(now - due);
        }
        // Whoever is late gets done now what was due before.
        if (from..until).contains(&now) {
            seen.read += read;
            seen.written += written;
        }
    }

    async fn write(&self, key: u64) -> weir_io::Result<()> {
        let mut batch = Batch::new();
        batch.put(&key.to_be_bytes(), &vec![key as u8; self.row as usize]);
        self.partition.write(&batch).await?.await
    }

    /// Asks for `rate` bytes a second until `until`; what is late is sent as soon as one of the workers is free.
    fn ask_steadily(self: &Arc<Self>, sim: &Sim, rate: u64, until: Nanos, rng: &mut Rng) {
        let every = SECOND * self.row * WORKERS / rate;
        for worker in 0..WORKERS {
            let (guest, mut rng) = (Arc::clone(self), Rng::new(rng.next_u64()));
            let mut due = self.clock.now() + rng.below(every);
            sim.spawn(async move {
                for number in (worker..).step_by(WORKERS as usize) {
                    sleep_until(&guest.clock, due).await;
                    if guest.clock.now() >= until {
                        return;
                    }
                    guest.ask(due, number, rng.below(guest.rows)).await;
                    due += every;
                }
            });
        }
    }

    /// Writes most of its share at once, whenever a burst is due.
    fn burst(self: &Arc<Self>, sim: &Sim, (from, until): (Nanos, Nanos), rows: u64) {
        let (guest, spawn) = (Arc::clone(self), sim.spawner());
        sim.spawn(async move {
            for round in 0.. {
                let due = from + round * BURST_EVERY;
                sleep_until(&guest.clock, due).await;
                if due >= until {
                    return;
                }
                for number in 0..rows {
                    let guest = Arc::clone(&guest);
                    spawn.spawn(Box::pin(async move { guest.ask(due, round * rows + number, 0).await }));
                }
            }
        });
    }

    /// The wait that all but one in a thousand requests do not exceed, the longest, and how many there were.
    fn waits(&self) -> (Nanos, Nanos, u64) {
        let mut seen = self.seen.lock();
        seen.waits.sort_unstable();
        let last = seen.waits.len().saturating_sub(1);
        let at = |index: usize| seen.waits.get(index).copied().unwrap_or(0);
        (at(last - last / 1000), at(last), seen.waits.len() as u64)
    }
}

/// Settings of the node, of which everything that is shared within a delay is shared like `mode`.
fn config(args: &Mix, mode: ShareMode) -> NodeConfig {
    let memtable = MEMTABLE / args.trial.scale;
    let tree = TreeOptions { write_buffers_max: 256, table_bytes: memtable, ..world::tree(memtable) };
    NodeConfig {
        cache_bytes: (CACHE / args.trial.scale) as usize,
        cache_shares: match mode {
            ShareMode::Quota => CacheMode::Quota,
            ShareMode::Delta(promise) => CacheMode::Delta(promise),
            ShareMode::Quarter | ShareMode::Fair => CacheMode::Fair,
        },
        write_memory_bytes: MEMORY / args.trial.scale,
        write_memory_shares: mode,
        flush_slots: Some(FlushShares { slots: FLUSH_SLOTS, mode }),
        ..world::config(tree, DEVICE / args.trial.scale)
    }
}

/// One way to share, tried.
///
/// # Errors
/// What went wrong, in words.
pub fn run(args: &Mix, mode: ShareMode) -> Result<Mixed, String> {
    let sim = Sim::new(args.trial.seed);
    let machine = world::machine(&sim, &DiskImage::default(), DEVICE / args.trial.scale, args.trial.seed);
    sim.block_on(drive(&sim, machine, args, mode)).map_err(|error| format!("{mode}: {error}"))
}

async fn drive(sim: &Sim, machine: Machine, args: &Mix, mode: ShareMode) -> weir_io::Result<Mixed> {
    let clock = sim.clock();
    let node = Node::open(&config(args, mode), machine).await?;
    let mut partitions = Vec::new();
    for (kind, count) in TENANTS {
        for number in 0..count {
            let delay = if kind == Kind::Greedy { Delay::Endless } else { Delay::OfNode };
            let settings = TenantSettings { terms: ShareTerms { weight: 1, delay }, ..TenantSettings::default() };
            let name = TenantName::new(&format!("{kind:?}{number}").to_lowercase()).expect("a name");
            let tenant = node.create_tenant(TenantSpec { settings, ..TenantSpec::new(name) }).await?;
            partitions.push((kind, tenant.partitions()[0].partition().await?));
        }
    }
    let guest = |kind: Kind, partition: &Arc<Partition>, counts: (Nanos, Nanos)| {
        let (partition, clock, seen) = (Arc::clone(partition), Arc::clone(&clock), Mutex::default());
        let row = ROW / args.trial.scale;
        Arc::new(Guest { kind, partition, seen, counts, clock, row, rows: DATA / ROW })
    };
    for (kind, partition) in partitions.iter().filter(|(kind, _)| kind.reads()) {
        let guest = guest(*kind, partition, (Nanos::MAX, Nanos::MAX));
        for key in 0..guest.rows {
            guest.write(key).await?;
        }
        partition.seal();
        partition.settle().await;
    }
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let (counts_from, until) = (from + SETTLED, from + args.seconds * SECOND);
    let guests: Vec<Arc<Guest>> =
        partitions.iter().map(|(kind, partition)| guest(*kind, partition, (counts_from, until))).collect();
    let mut bursts = 0;
    for guest in &guests {
        match guest.kind.rate() {
            Some(rate) => guest.ask_steadily(sim, rate / args.trial.scale, until, &mut rng),
            None => {
                let turns = BURST_EVERY * BURSTS_AT_A_TIME / 8;
                let first = counts_from + bursts / BURSTS_AT_A_TIME * turns;
                guest.burst(sim, (first, until), SHARE * BURST.0 / BURST.1 / ROW);
                bursts += 1;
            }
        }
    }
    sleep_until(&clock, until).await;
    let (shares, slots) = (node.write_memory_shares().shares, node.flush_waits());
    // What was sent in time is counted however late it is answered.
    sleep_until(&clock, until + 2 * SECOND).await;
    let kinds = TENANTS.map(|(kind, _)| {
        let waits: Vec<_> = guests.iter().filter(|guest| guest.kind == kind).map(|guest| guest.waits()).collect();
        let most = |of: &dyn Fn(&(Nanos, Nanos, u64)) -> Nanos| waits.iter().map(of).max().unwrap_or(0) as f64 / 1e6;
        let requests = waits.iter().map(|(.., count)| count).sum();
        OfKind { kind, p999_ms: most(&|waits| waits.0), longest_ms: most(&|waits| waits.1), requests }
    });
    let seconds = (args.seconds * SECOND - SETTLED) as f64 / 1e9;
    let per_sec = |of: &dyn Fn(&Seen) -> u64| {
        let bytes: u64 = guests.iter().map(|guest| of(&guest.seen.lock())).sum();
        (bytes * args.trial.scale) as f64 / seconds
    };
    let own: u64 = shares.tenants.values().map(|share| share.reserve).sum();
    Ok(Mixed {
        mode: mode.to_string(),
        kept_percent: (shares.common + own) as f64 * 100.0 / (MEMORY / args.trial.scale) as f64,
        reserved_slots: slots.map_or(0, |slots| slots.reserved),
        read_per_sec: per_sec(&|seen| seen.read),
        written_per_sec: per_sec(&|seen| seen.written),
        kinds: kinds.into(),
    })
}
