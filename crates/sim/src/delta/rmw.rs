//! Tenants that read a row and write it back changed, on a node whose block cache and write memory are both shared
//! within a delay (DF-E5, DF-6).
//!
//! A resting tenant loses blocks to those who read, and the memory is full of what others write. When it comes back it
//! changes all that it had at the same moment. A change that reads first waits for both delays, one after the other; a
//! change that reads and writes together waits for the longer one.

use std::sync::Arc;

use clap::Args;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_node::{Delay, Machine, Node, NodeConfig, ShareTerms};
use weir_scenario::report::sharing::{Acquisition, Scarce, Sharing};

use super::client::{Changed, Class, Client, NEW_ROWS, Op, by_class, clients};
use super::pair::Pair;
use super::world::{self, Device, MB, SECOND, ms};
use super::{Trial, preload};

/// The roles of tenants, and how many tenants have each.
const TENANTS: [(Role, usize); 4] = [(Role::Resting, 4), (Role::Steady, 6), (Role::Reader, 4), (Role::Writer, 2)];
/// A tenant's share of the cache and of the memory: the paper's.
const CACHE_SHARE: u64 = 320 * MB;
const MEMORY_SHARE: u64 = 128 * MB;
/// A row, and a block, in bytes: large, because the device moves whole pages.
const ROW: u64 = 500_000;
/// The bytes that a change writes for a row that it read. A tenant that changes all it has so writes 7/8 of its share
/// of the memory, because memtables also take what they keep besides the data.
const CHANGED: u64 = 179_000;
/// What a resting tenant has: a little less than its share of the cache, because blocks take more than their rows.
const RESTING_HAS: u64 = 312 * MB;
/// Of a hundred bytes of cached blocks, how many are their rows, at least.
const ROWS_PERCENT: u64 = 99;
const STEADY_HAS: u64 = 150 * MB;
/// What a greedy tenant has: so much that the device is full whoever has the cache.
const READER_HAS: u64 = 3_000 * MB;
/// Bytes a second that tenants ask for; greedy ones read, or write, less than they ask for.
const STEADY: u64 = 25 * MB;
const READER: u64 = 1_400 * MB;
const WRITER: u64 = 1_000 * MB;
/// The paper's device, for writes, in bytes a second.
const WRITES: u64 = 3_120 * MB;
/// A memtable: small, because flushes are to be short (U-14).
const MEMTABLE: u64 = 16 * MB;
/// Requests of a tenant that may be in flight, except those of a ramp: enough that greedy ones always wait.
const STEADY_WORKERS: u64 = 4;
const GREEDY_WORKERS: u64 = 64;
/// When greedy tenants begin. Until then the others fill the cache by themselves.
const GREEDY_FROM: Nanos = 15 * SECOND;
/// In the first rounds all resting tenants come back, and these rounds are not counted: after them it has been measured
/// how fast memory and cache come back.
const WARM_ROUNDS: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Rests, and then changes all that it has at once.
    Resting,
    /// Changes rows steadily.
    Steady,
    /// Reads all it can, in bulk, and can wait.
    Reader,
    /// Writes all it can, in bulk, and can wait.
    Writer,
}

impl Role {
    fn class(self) -> Class {
        match self {
            Role::Resting => Class::Ramping,
            Role::Steady => Class::Steady,
            Role::Reader | Role::Writer => Class::Greedy,
        }
    }

    fn terms(self) -> ShareTerms {
        let delay = if self.class() == Class::Greedy { Delay::Endless } else { Delay::OfNode };
        ShareTerms { delay, ..ShareTerms::default() }
    }

    /// Rows that a tenant of this role has on disk.
    fn rows(self) -> u64 {
        let has = match self {
            Role::Resting => RESTING_HAS,
            Role::Steady => STEADY_HAS,
            Role::Reader => READER_HAS,
            Role::Writer => 0,
        };
        has / ROW
    }
}

fn roles() -> impl Iterator<Item = Role> {
    TENANTS.into_iter().flat_map(|(role, count)| std::iter::repeat_n(role, count))
}

/// Write memory and block cache of 16 tenants: 4 that rest and then read and write all they have, 6 that do so
/// steadily, 4 that read and 2 that write all they can
#[derive(Clone, Debug, Args, Serialize)]
pub struct Rmw {
    /// Delays of write memory and block cache in milliseconds, separated by commas: `350+500`; or `quota` or `fair` for
    /// both
    #[arg(long = "shares", value_name = "PAIR", value_delimiter = ',', default_value = PAIRS)]
    #[serde(skip)]
    pub pairs: Vec<Pair>,
    /// A change reads and writes at the same moment, instead of one after the other
    #[arg(long)]
    pub together: bool,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 95, value_parser = clap::value_parser!(u64).range(30..=3600))]
    pub seconds: u64,
    /// Seconds between two moments at which a tenant that rested changes all it has, by turns
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub every: u64,
    /// Bandwidth of the device for reads, in MB/s; it writes 3,120 MB/s besides
    #[arg(long, value_name = "MB/S", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=100_000))]
    pub device: u64,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

/// The pairs that the paper compares.
const PAIRS: &str = "quota,200+250,200+500,200+750,350+250,350+500,350+750,500+250,500+500,500+750,fair";

impl Rmw {
    fn device(&self) -> Device {
        Device::Split { read: self.device * MB / self.trial.scale, write: WRITES / self.trial.scale }
    }

    /// When a tenant comes back for the nth time, after the beginning.
    fn round_at(&self, round: u64) -> Nanos {
        if round == 0 { 0 } else { GREEDY_FROM + round * self.every * SECOND }
    }
}

/// One return of a tenant. Times are in milliseconds, of the changes that it asked for at the same moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ramp {
    /// How much of its rows was in the cache before, in percent.
    pub had_percent: f64,
    /// The longest that a change waited for its row, of those that were done.
    pub read_ms: f64,
    /// The longest that such a change waited for memory, after its row was read if it reads first.
    pub memory_ms: f64,
    /// The time within which 99 % of the rows were read and their changes in a memtable.
    pub p99_ms: f64,
    /// The longest time of any change; one that was not done in the end took until then.
    pub longest_ms: f64,
}

/// The results of one pair.
#[derive(Clone, Debug, Serialize)]
pub struct Composed {
    /// The pair of delays.
    pub pair: String,
    /// The delay that is promised for both together, in milliseconds: the sum, or the longer one where both are asked
    /// for at the same time.
    pub delta_ms: Option<f64>,
    /// What was kept of the write memory in the end, in percent.
    pub memory_kept_percent: f64,
    /// What was kept of the cache in the end, in percent.
    pub cache_kept_percent: f64,
    /// The least that came back of the memory, in bytes a second at scale 1; the last reserve was computed with it.
    pub memory_refill: f64,
    /// The same for the cache.
    pub cache_refill: f64,
    /// Why a promise was not kept at the end, in the node's words.
    pub broken: Vec<String>,
    /// Each time that a tenant came back, once everything has settled.
    pub ramps: Vec<Ramp>,
    /// The longest that a change of a steady tenant took, in milliseconds.
    pub steady_ms: f64,
    /// Bytes a second that all tenants read and wrote, at scale 1, once everything has settled.
    pub bytes_per_sec: f64,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Composed {
    /// The largest value of `of` over all ramps.
    pub fn most(&self, of: impl Fn(&Ramp) -> f64) -> f64 {
        self.ramps.iter().map(of).fold(0.0, f64::max)
    }

    /// How many ramps took longer than was promised, by more than a hundredth.
    pub fn late(&self) -> usize {
        let Some(delta) = self.delta_ms else { return 0 };
        self.ramps.iter().filter(|ramp| ramp.longest_ms > delta * 1.01).count()
    }
}

/// The disk that all pairs start from.
///
/// # Errors
/// The error says in words what went wrong.
pub fn image(args: &Rmw) -> Result<DiskImage, String> {
    let tenants: Vec<_> = roles().map(|role| (role.class(), role.terms(), role.rows())).collect();
    preload::image(args.trial.seed, &tenants, ROW / args.trial.scale)
}

/// Runs one pair on a disk that starts as `image`.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Rmw, image: &DiskImage, pair: Pair) -> Result<Composed, String> {
    let first = args.round_at(WARM_ROUNDS) / SECOND;
    if args.seconds <= first {
        return Err(format!("the first tenant comes back after {first} s: --seconds must be more"));
    }
    let sim = Sim::new(args.trial.seed);
    let machine = world::machine(&sim, image, args.device(), args.trial.seed);
    sim.block_on(drive(&sim, machine, args, pair)).map_err(|error| format!("{pair}: {error}"))
}

fn config(args: &Rmw, pair: Pair) -> NodeConfig {
    let memtable = MEMTABLE / args.trial.scale;
    let tree = TreeOptions { write_buffers_max: 512, table_bytes: memtable, ..world::tree(memtable) };
    let tenants = roles().count() as u64;
    NodeConfig {
        cache_bytes: (tenants * CACHE_SHARE / args.trial.scale) as usize,
        cache_shares: pair.cache,
        write_memory_bytes: tenants * MEMORY_SHARE / args.trial.scale,
        write_memory_shares: pair.memory,
        ..world::config(tree, args.device())
    }
}

/// A return of a tenant that has begun.
struct Begun {
    asked: Nanos,
    /// How many rows it asked for.
    rows: u64,
    had_percent: f64,
    /// What became of its changes.
    changes: Mutex<Vec<weir_io::Result<Changed>>>,
}

impl Begun {
    /// `client` changes all it has at once, now, for the `round`th time: but no more rows than its share of the cache
    /// has room for, because no more is promised. The share becomes smaller, as the indexes and filters of tables take
    /// memory, too: far more of it at this scale than at full size, since there are as many rows in fewer bytes.
    fn begin(sim: &Sim, client: &Arc<Client>, node: &Node, round: u64, args: &Rmw) -> Arc<Self> {
        let (has, together, bytes) = (Role::Resting.rows(), args.together, CHANGED / args.trial.scale);
        let tenant = client.tenant().id().0;
        let share = node.cache_shares().shares.tenants.get(&tenant).map_or(u64::MAX, |share| share.units);
        let rows = has.min(share / 100 * ROWS_PERCENT / client.op_bytes());
        let had = node.cache().bytes_of(tenant) as f64;
        let had_percent = had * 100.0 / (rows * client.op_bytes()) as f64;
        let begun = Arc::new(Self { asked: sim.clock().now(), rows, had_percent, changes: Mutex::default() });
        let (client, seen) = (Arc::clone(client), Arc::clone(&begun));
        sim.spawn(async move {
            let (client, seen) = (&client, &seen);
            let change = |row| async move {
                let new = NEW_ROWS | (round + 1) << 32 | row;
                let changed = client.change(row, new, bytes, together, seen.asked).await;
                seen.changes.lock().push(changed);
            };
            // The cache has had the first rows for longest.
            join_all((has - rows..has).map(change)).await;
        });
        begun
    }

    /// What the tenant saw until `end`. A change that was not done by then has taken until then, at least; which part
    /// of it was not done is not known.
    fn ramp(&self, end: Nanos, together: bool) -> weir_io::Result<Ramp> {
        let changes = std::mem::take(&mut *self.changes.lock());
        let changes: Vec<Changed> = changes.into_iter().collect::<weir_io::Result<_>>()?;
        let longest = |of: &dyn Fn(&Changed) -> Nanos| changes.iter().map(of).max().map_or(0.0, ms);
        let memory = |changed: &Changed| if together { changed.written } else { changed.written - changed.read };
        let mut both: Vec<Nanos> = changes.iter().map(|changed| changed.both()).collect();
        both.resize(self.rows as usize, end - self.asked);
        both.sort_unstable();
        let last = both.len() - 1;
        Ok(Ramp {
            had_percent: self.had_percent,
            read_ms: longest(&|changed| changed.read),
            memory_ms: longest(&memory),
            p99_ms: ms(both[last - both.len() / 100]),
            longest_ms: ms(both[last]),
        })
    }
}

/// What `client`, which came back in `ramps`, waited for its shares. `deltas` are the delays of memory and cache, and
/// of both together. What a steady tenant waits for is not told apart.
fn acquisitions(client: &Client, ramps: &[Ramp], deltas: Option<[f64; 3]>) -> Vec<Acquisition> {
    let most = |of: fn(&Ramp) -> f64| ramps.iter().map(of).fold(0.0, f64::max);
    let [memory, cache, both] = [0, 1, 2].map(|number: usize| deltas.map(|deltas| deltas[number]));
    match client.class() {
        Class::Ramping if !ramps.is_empty() => vec![
            client.acquisition(Scarce::WriteMemory, most(|ramp| ramp.memory_ms), memory),
            client.acquisition(Scarce::BlockCache, most(|ramp| ramp.read_ms), cache),
            client.acquisition(Scarce::MemoryAndCache, most(|ramp| ramp.longest_ms), both),
        ],
        Class::Steady => vec![client.acquisition(Scarce::MemoryAndCache, ms(client.slowest()), both)],
        Class::Ramping | Class::Greedy => Vec::new(),
    }
}

async fn drive(sim: &Sim, machine: Machine, args: &Rmw, pair: Pair) -> weir_io::Result<Composed> {
    let clock = sim.clock();
    let config = config(args, pair);
    let node = Node::open(&config, machine).await?;
    let kinds = roles().map(|role| (role.class(), role.terms()));
    let clients = clients(&node, &clock, kinds, ROW / args.trial.scale).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let until = from + args.seconds * SECOND;
    for (client, role) in clients.iter().zip(roles()) {
        let (op, rate, workers, begin) = match role {
            Role::Resting => continue,
            Role::Steady => (Op::Change(role.rows(), CHANGED / args.trial.scale), STEADY, STEADY_WORKERS, from),
            Role::Reader => (Op::Read(role.rows()), READER, GREEDY_WORKERS, from + GREEDY_FROM),
            Role::Writer => (Op::Write, WRITER, GREEDY_WORKERS, from),
        };
        client.go_on(sim, op, rate / args.trial.scale, workers, (begin, until), &mut rng);
    }
    let resting: Vec<_> = clients.iter().filter(|client| client.class() == Class::Ramping).collect();
    let mut turns = resting.into_iter().cycle();
    let bytes = || clients.iter().map(|client| client.tally().bytes).sum::<u64>();
    let (mut before, mut begun) = (0, Vec::new());
    for round in (0..).take_while(|&round| from + args.round_at(round) < until) {
        sleep_until(&clock, from + args.round_at(round)).await;
        if round == WARM_ROUNDS {
            before = bytes();
            begun.clear();
            clients.iter().for_each(|client| client.tally().slowest = 0);
        }
        let back = if round < WARM_ROUNDS { TENANTS[0].1 } else { 1 };
        for client in turns.by_ref().take(back) {
            begun.push((client, Begun::begin(sim, client, &node, round, args)));
        }
    }
    sleep_until(&clock, until).await;
    let (memory, cache) = (node.write_memory_shares(), node.cache_shares());
    let capacity = node.cache().capacity_bytes() - node.cache().charged_bytes();
    let steady = clients.iter().filter(|client| client.class() == Class::Steady);
    let measured = (until - (from + args.round_at(WARM_ROUNDS))) as f64 / SECOND as f64;
    let deltas = pair.deltas().map(|deltas| deltas.map(ms)).map(|[memory, cache]| {
        let both = if args.together { memory.max(cache) } else { memory + cache };
        [memory, cache, both]
    });
    let ramps = begun.iter().map(|(_, begun)| begun.ramp(until, args.together));
    let ramps = ramps.collect::<weir_io::Result<Vec<Ramp>>>()?;
    let acquired = |client: &Arc<Client>| {
        let own = begun.iter().zip(&ramps).filter(|((other, _), _)| Arc::ptr_eq(other, client));
        acquisitions(client, &own.map(|(_, ramp)| *ramp).collect::<Vec<_>>(), deltas)
    };
    let acquired = clients.iter().flat_map(acquired).collect();
    let (counts_from, classes) =
        (args.round_at(WARM_ROUNDS) / SECOND, by_class(&clients, args.seconds, args.trial.scale));
    let is_broken = memory.broken.is_some() || cache.broken.is_some();
    let broken = [memory.broken.map(|broken| broken.to_string()), cache.broken.map(|broken| broken.to_string())];
    Ok(Composed {
        pair: pair.to_string(),
        delta_ms: deltas.map(|[.., both]| both),
        memory_kept_percent: memory.shares.kept() as f64 * 100.0 / config.write_memory_bytes as f64,
        cache_kept_percent: cache.shares.kept() as f64 * 100.0 / capacity as f64,
        memory_refill: (memory.refill * args.trial.scale) as f64,
        cache_refill: (cache.refill * args.trial.scale) as f64,
        broken: broken.into_iter().flatten().collect(),
        ramps,
        steady_ms: steady.map(|client| ms(client.slowest())).fold(0.0, f64::max),
        bytes_per_sec: ((bytes() - before) * args.trial.scale) as f64 / measured,
        sharing: Sharing::new(counts_from, classes, acquired, is_broken),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_never_done_have_taken_until_the_end() {
        let changed = Changed { read: 1_000_000, written: 3_000_000 };
        let begun = Begun { asked: SECOND, rows: 2, had_percent: 50.0, changes: Mutex::new(vec![Ok(changed)]) };
        let ramp = begun.ramp(5 * SECOND, false).expect("no faults");
        assert_eq!((ramp.read_ms, ramp.memory_ms, ramp.p99_ms, ramp.longest_ms), (1.0, 2.0, 4000.0, 4000.0));
    }
}
