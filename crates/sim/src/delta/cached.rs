//! The block cache of a node under tenants of three kinds (DF-E3, DF-E4).
//!
//! Tenants that rest lose blocks to those who read. When a tenant comes back it reads all that it had, at the same
//! moment; how long that takes is how long it waits for its share. A block in the cache costs nothing, neither the
//! device nor, in virtual time, a processor; any other block is a read of the device.

use std::sync::Arc;

use clap::Args;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use weir_admission::policy::share::delta;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Nanos, Rng, sleep_until};
use weir_node::{BlockCache, CacheMode, CacheShares, Machine, Node, NodeConfig, ShareTerms};
use weir_scenario::report::sharing::{Scarce, Sharing};

use super::Trial;
use super::client::{Class, Client, Op, by_class, clients};
use super::preload;
use super::world::{self, Device, MB, SECOND, ms};

pub(super) const TENANTS: u32 = 32;
/// A tenant's share of the cache: the paper's.
pub(super) const SHARE: u64 = 320 * MB;
const CACHE: u64 = TENANTS as u64 * SHARE;
/// Tenants that rest and come back by turns, and tenants that are greedy; the others are steady.
const RESTING_TENANTS: u32 = 10;
const GREEDY_TENANTS: u32 = 2;
pub(super) const STEADY_TENANTS: u32 = TENANTS - RESTING_TENANTS - GREEDY_TENANTS;
/// Bytes a second: the paper's readers.
const STEADY: u64 = 50 * MB;
const GREEDY: u64 = 1_400 * MB;
/// What a resting tenant has: a little less than its share, because blocks take more than their rows.
const RESTING_HAS: u64 = 312 * MB;
/// What a steady tenant has: it is read often enough to stay in the cache by itself.
const STEADY_HAS: u64 = 150 * MB;
/// What a greedy tenant has: so much that the device is full whoever has the cache.
const GREEDY_HAS: u64 = 7_000 * MB;
/// A row, and a block, in bytes: large, because the device moves whole pages.
const ROW: u64 = 500_000;
/// Reads of a tenant that may be in flight, except those of a ramp: enough that greedy ones always wait.
const STEADY_READERS: u64 = 4;
const GREEDY_READERS: u64 = 64;
/// When greedy tenants begin. Until then the others fill the cache by themselves: otherwise the device would be full of
/// the first reads of 32 tenants, and a newcomer would be one of 32.
const GREEDY_FROM: Nanos = 15 * SECOND;
/// In the first rounds all resting tenants come back, and these rounds are not counted: in the first one the tenants
/// fill the cache; in the next one they read again what they lost before it was known how fast that goes.
const WARM_ROUNDS: u64 = 2;
/// The node looks at who is awake once a second.
const SETTLED: Nanos = 2 * SECOND;

/// Block cache of 32 tenants: 20 that read steadily, 2 that read all they can, 10 that rest and then want their blocks
#[derive(Clone, Debug, Args, Serialize)]
pub struct Cached {
    /// How the cache is shared, separated by commas: `quota`, `fair`, `delta 500 ms for 2`
    #[arg(long = "shares", value_name = "MODE", value_delimiter = ',', default_value = MODES)]
    #[serde(skip)]
    pub modes: Vec<CacheMode>,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 95, value_parser = clap::value_parser!(u64).range(30..=3600))]
    pub seconds: u64,
    /// Seconds between two moments at which tenants that rested read all they had, by turns
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub every: u64,
    /// Tenants that do so at the same moment (k)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub ramps: u32,
    /// Bandwidth of the device, in MB/s
    #[arg(long, value_name = "MB/S", default_value_t = 1280, value_parser = clap::value_parser!(u64).range(100..=100_000))]
    pub device: u64,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

/// The modes that the paper compares.
const MODES: &str = "quota,delta 250 ms,delta 500 ms,delta 750 ms,fair";

impl Cached {
    fn device(&self) -> Device {
        Device::Shared(self.device * MB / self.trial.scale)
    }

    /// When tenants come back for the nth time, after the beginning.
    fn round_at(&self, round: u64) -> Nanos {
        if round == 0 { 0 } else { GREEDY_FROM + round * self.every * SECOND }
    }
}

fn kinds() -> impl Iterator<Item = (Class, ShareTerms)> {
    let some = |class, tenants| (0..tenants).map(move |_| (class, ShareTerms::default()));
    let resting = some(Class::Ramping, RESTING_TENANTS);
    resting.chain(some(Class::Greedy, GREEDY_TENANTS)).chain(some(Class::Steady, STEADY_TENANTS))
}

/// Rows that a tenant of `class` has.
fn rows(class: Class) -> u64 {
    let has = match class {
        Class::Ramping => RESTING_HAS,
        Class::Steady => STEADY_HAS,
        Class::Greedy => GREEDY_HAS,
    };
    has / ROW
}

/// A tenant that came back, once.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Regained {
    /// How long the tenant took to read all that it had, in milliseconds; until the end, if it was not done by then.
    pub took_ms: f64,
    /// How much of that was in the cache before, in percent.
    pub had_percent: f64,
    /// How much of that was in the cache afterwards, in percent.
    pub has_percent: f64,
}

/// The results of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// The way to share.
    pub mode: String,
    /// The delay that is promised, in milliseconds.
    pub delta_ms: Option<f64>,
    /// The reserve in the end, in percent of the cache, as the law has it.
    pub reserve_percent: f64,
    /// What was kept in the end, in percent of the cache.
    pub kept_percent: f64,
    /// What tenants that ramp up can put into the cache at least, in bytes a second at scale 1; reserves were computed
    /// with it in the end.
    pub refill: f64,
    /// Why the promise was not kept at the end, in the node's words.
    pub broken: Option<String>,
    /// Whether what was kept for each tenant was what the law demands, at each look.
    pub is_lawful: bool,
    /// Each time that a tenant came back after the first rest.
    pub regained: Vec<Regained>,
    /// The longest that a steady tenant waited for a row, in milliseconds.
    pub steady_slowest_ms: f64,
    /// Bytes a second that all tenants read, at scale 1, after the first rest.
    pub bytes_per_sec: f64,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Kept {
    /// The longest that a tenant took to have its share again, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.regained.iter().map(|regained| regained.took_ms).fold(0.0, f64::max)
    }

    /// How many tenants took longer than was promised, by more than a hundredth.
    pub fn late(&self) -> usize {
        let Some(delta) = self.delta_ms else { return 0 };
        self.regained.iter().filter(|regained| regained.took_ms > delta * 1.01).count()
    }
}

/// What the law demands of a cache of `capacity` bytes, given what was measured: the reserve of each tenant, whether or
/// not half of the cache is enough for all reserves.
fn law(capacity: u64, seen: &CacheShares) -> u64 {
    let tenants = seen.shares.tenants.len() as u64;
    let share = delta::fair_share(capacity, 1, tenants);
    match seen.mode {
        CacheMode::Fair => 0,
        CacheMode::Quota => share,
        CacheMode::Delta(promise) => {
            let burst = share * u64::from(promise.k).min(tenants);
            delta::own_reserve(share, burst, promise.delta, seen.refill)
        }
    }
}

/// Bytes for blocks.
fn capacity(cache: &BlockCache) -> u64 {
    (cache.capacity_bytes() - cache.charged_bytes()) as u64
}

/// The disk that all ways to share start from: all rows are below the levels whose blocks are pinned.
///
/// # Errors
/// The error says in words what went wrong.
pub fn image(args: &Cached) -> Result<DiskImage, String> {
    let tenants: Vec<_> = kinds().map(|(class, terms)| (class, terms, rows(class))).collect();
    preload::image(args.trial.seed, &tenants, ROW / args.trial.scale)
}

/// Runs one way to share on a disk that starts as `image`.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Cached, image: &DiskImage, mode: CacheMode) -> Result<Kept, String> {
    let first = args.round_at(WARM_ROUNDS) / SECOND;
    if args.seconds <= first {
        return Err(format!("the first tenant comes back after {first} s: --seconds must be more"));
    }
    let sim = Sim::new(args.trial.seed);
    let machine = world::machine(&sim, image, args.device(), args.trial.seed);
    sim.block_on(drive(&sim, machine, args, mode)).map_err(|error| format!("{mode}: {error}"))
}

/// A return of a tenant that has begun.
struct Begun {
    client: Arc<Client>,
    cache: Arc<BlockCache>,
    asked: Nanos,
    had_percent: f64,
    /// When the tenant had read all, and how much of that was in the cache then, in percent.
    ended: Mutex<Option<(Nanos, f64)>>,
}

/// How much of what `client` had is in `cache`, in percent.
fn percent_of(client: &Client, cache: &BlockCache) -> f64 {
    cache.bytes_of(client.tenant().id().0) as f64 * 100.0 / (rows(Class::Ramping) * client.op_bytes()) as f64
}

impl Begun {
    /// `client` reads all it had at once, now.
    fn begin(sim: &Sim, client: &Arc<Client>, cache: &Arc<BlockCache>) -> Arc<Self> {
        let (clock, had_percent) = (sim.clock(), percent_of(client, cache));
        let (client, cache, asked) = (Arc::clone(client), Arc::clone(cache), clock.now());
        let begun = Arc::new(Self { client, cache, asked, had_percent, ended: Mutex::default() });
        let seen = Arc::clone(&begun);
        sim.spawn(async move {
            join_all((0..rows(Class::Ramping)).map(|number| seen.client.read(number, asked))).await;
            *seen.ended.lock() = Some((clock.now(), percent_of(&seen.client, &seen.cache)));
        });
        begun
    }

    /// What the tenant has again at `end`. If it has not read all by then, that takes until then, at least.
    fn regained(&self, end: Nanos) -> Regained {
        let ended = *self.ended.lock();
        let (ended, has_percent) = ended.unwrap_or_else(|| (end, percent_of(&self.client, &self.cache)));
        Regained { took_ms: ms(ended - self.asked), had_percent: self.had_percent, has_percent }
    }
}

async fn drive(sim: &Sim, machine: Machine, args: &Cached, mode: CacheMode) -> weir_io::Result<Kept> {
    let clock = sim.clock();
    let config = NodeConfig {
        cache_bytes: (CACHE / args.trial.scale) as usize,
        cache_shares: mode,
        ..world::config(world::tree(64 << 20), args.device())
    };
    let node = Node::open(&config, machine).await?;
    let clients = clients(&node, &clock, kinds(), ROW / args.trial.scale).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let until = from + args.seconds * SECOND;
    for client in &clients {
        let op = Op::Read(rows(client.class()));
        let (rate, readers, begin) = match client.class() {
            Class::Ramping => continue,
            Class::Greedy => (GREEDY, GREEDY_READERS, from + GREEDY_FROM),
            Class::Steady => (STEADY, STEADY_READERS, from),
        };
        client.go_on(sim, op, rate / args.trial.scale, readers, (begin, until), &mut rng);
    }
    let mut turns = clients.iter().filter(|client| client.class() == Class::Ramping).cycle();
    let bytes_read = || clients.iter().map(|client| client.tally().bytes).sum::<u64>();
    let (mut is_lawful, mut before, mut begun) = (true, 0, Vec::new());
    for round in (0..).take_while(|&round| from + args.round_at(round) < until) {
        if round == WARM_ROUNDS {
            before = bytes_read();
            begun.clear();
            clients.iter().for_each(|client| client.tally().slowest = 0);
        }
        let back = if round < WARM_ROUNDS { RESTING_TENANTS } else { args.ramps };
        for client in turns.by_ref().take(back as usize) {
            begun.push(Begun::begin(sim, client, node.cache()));
        }
        let next = until.min(from + args.round_at(round + 1));
        while clock.now() < next {
            sleep_until(&clock, next.min(clock.now() + SECOND / 4)).await;
            let seen = node.cache_shares();
            let reserve = law(capacity(node.cache()), &seen);
            let is_kept = |kept: u64| if seen.broken.is_some() { kept < reserve } else { kept == reserve };
            is_lawful &=
                clock.now() < from + SETTLED || seen.shares.tenants.values().all(|share| is_kept(share.reserve));
        }
    }
    let (seen, capacity) = (node.cache_shares(), capacity(node.cache()));
    let percent = |bytes: u64| bytes as f64 * 100.0 / capacity as f64;
    let steady = clients.iter().filter(|client| client.class() == Class::Steady);
    let measured = (until - (from + args.round_at(WARM_ROUNDS))) as f64 / SECOND as f64;
    let delta_ms = mode.promise().map(|promise| ms(promise.delta));
    let regained: Vec<Regained> = begun.iter().map(|begun| begun.regained(until)).collect();
    let acquired = |client: &Arc<Client>| {
        let own = begun.iter().zip(&regained).filter(|(begun, _)| Arc::ptr_eq(&begun.client, client));
        let longest = own.map(|(_, regained)| regained.took_ms).reduce(f64::max)?;
        Some(client.acquisition(Scarce::BlockCache, longest, delta_ms))
    };
    let acquired = clients.iter().filter_map(acquired).collect();
    let (counts_from, classes) =
        (args.round_at(WARM_ROUNDS) / SECOND, by_class(&clients, args.seconds, args.trial.scale));
    Ok(Kept {
        mode: mode.to_string(),
        delta_ms,
        reserve_percent: percent(law(capacity, &seen) * seen.shares.tenants.len() as u64),
        kept_percent: percent(seen.shares.kept()),
        refill: (seen.refill * args.trial.scale) as f64,
        sharing: Sharing::new(counts_from, classes, acquired, seen.broken.is_some()),
        broken: seen.broken.map(|broken| broken.to_string()),
        is_lawful,
        regained,
        steady_slowest_ms: steady.map(|client| ms(client.slowest())).fold(0.0, f64::max),
        bytes_per_sec: ((bytes_read() - before) * args.trial.scale) as f64 / measured,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::client::tests::alone;

    #[test]
    fn who_has_not_read_all_has_taken_until_the_end() {
        let sim = Sim::new(1);
        sim.block_on(async {
            let (node, client) = alone(&sim).await;
            let (cache, ended) = (Arc::clone(node.cache()), Mutex::default());
            let begun = Begun { client, cache, asked: SECOND, had_percent: 50.0, ended };
            assert_eq!(begun.regained(4 * SECOND).took_ms, 3000.0);
            *begun.ended.lock() = Some((2 * SECOND, 90.0));
            let regained = begun.regained(4 * SECOND);
            assert_eq!((regained.took_ms, regained.has_percent), (1000.0, 90.0));
        });
    }
}
