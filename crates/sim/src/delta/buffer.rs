//! The write memory of a node under tenants of three kinds (DF-E2).

use std::sync::Arc;

use serde::Serialize;
use weir_admission::policy::share::delta;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_node::{Machine, MemoryShares, Node, NodeConfig, ShareMode, ShareTerms};
use weir_scenario::report::sharing::{Scarce, Sharing};

use super::Buffer;
use super::client::{Class, Client, Op, by_class, clients};
use super::world::{self, Device, MB, SECOND, ms};

/// The memory of all tenants together: the paper's 2 GB.
const MEMORY: u64 = 2_048 * MB;
const TENANTS: u64 = 16;
/// A tenant's share.
const SHARE: u64 = MEMORY / TENANTS;
/// Bytes a second: the paper's steady writers, and more than its greedy ones are given. (In the paper two greedy
/// writers of 192 MB/s use up what can be flushed; here logs are on the same device.)
const STEADY: u64 = 50 * MB;
const GREEDY: u64 = 600 * MB;
/// Tenants that are greedy; those that neither ramp up nor are greedy are steady.
const GREEDY_TENANTS: u32 = 2;
/// The paper's device, for writes, in bytes a second.
const DEVICE: u64 = 3_120 * MB;
/// The part of its share that a tenant asks for: memtables also take what they keep besides the data.
const ASKED: (u64, u64) = (7, 8);
/// A write, in bytes: large, because the log writes whole pages.
const WRITE: u64 = 2 << 20;
/// A memtable: small, because flushes are to be short (U-14).
const MEMTABLE: u64 = 16 * MB;
/// Writes of a tenant that may be in flight, except those of a ramp.
const WRITERS: u64 = 8;
/// The first ramp begins at this time: then the memory is full, and how fast it comes back has been measured.
const SETTLED: Nanos = 8 * SECOND;

/// The results of one tenant.
#[derive(Clone, Debug, Serialize)]
pub struct Waited {
    /// What the tenant did.
    pub class: Class,
    /// Requests for its share of the memory that had to wait.
    pub waits: u64,
    /// Requests that waited longer than was promised.
    pub late: u64,
    /// The longest wait of a request, in milliseconds, by the node's own count.
    pub longest_ms: f64,
    /// The longest that a write took until it was in a memtable, in milliseconds, whatever it waited for, and whether
    /// or not the tenant was within its share.
    pub slowest_write_ms: f64,
    /// Bytes a second that the tenant wrote, at scale 1.
    pub bytes_per_sec: f64,
}

/// The results of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// The way to share.
    pub mode: String,
    /// The delay that is promised, in milliseconds.
    pub delta_ms: Option<f64>,
    /// The reserve in the end, in percent of the memory, as the law has it; for quotas all of the memory.
    pub reserve_percent: f64,
    /// The most that was kept for tenants below their share, in percent of the memory, from the first ramp on.
    pub kept_percent: f64,
    /// The least that came back from tenants above their share, in bytes a second at scale 1; the last reserve was
    /// computed with it.
    pub refill: f64,
    /// Whether what was kept was at all times what the law demands.
    pub is_lawful: bool,
    /// Bytes a second that all tenants wrote, at scale 1.
    pub bytes_per_sec: f64,
    /// The results of each tenant.
    pub tenants: Vec<Waited>,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Shared {
    /// The tenants of one class.
    pub fn of(&self, class: Class) -> impl Iterator<Item = &Waited> {
        self.tenants.iter().filter(move |tenant| tenant.class == class)
    }

    /// The longest that a tenant of `class` waited for its share, in milliseconds.
    pub fn longest_ms(&self, class: Class) -> f64 {
        self.of(class).map(|tenant| tenant.longest_ms).fold(0.0, f64::max)
    }
}

/// Settings of the node.
fn config(args: &Buffer, mode: ShareMode) -> NodeConfig {
    let memtable = MEMTABLE / args.trial.scale;
    let tree = TreeOptions { write_buffers_max: 256, table_bytes: memtable, ..world::tree(memtable) };
    NodeConfig {
        write_memory_bytes: MEMORY / args.trial.scale,
        write_memory_shares: mode,
        ..world::config(tree, Device::Shared(DEVICE / args.trial.scale))
    }
}

/// What the law demands of a memory of `capacity` bytes, given what was measured: the reserve, and what is then to be
/// kept.
fn law(capacity: u64, shares: &MemoryShares) -> Option<(u64, u64)> {
    let promise = shares.mode.promise()?;
    let burst = u64::from(promise.k) * delta::fair_share(capacity, 1, shares.shares.tenants.len() as u64);
    let grain = capacity / 32;
    let reserve = delta::reserve(burst, promise.delta, shares.refill, grain);
    let kept = if reserve == 0 { 0 } else { reserve + grain };
    Some((reserve, kept.min(capacity / 2)))
}

/// Runs one way to share.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Buffer, mode: ShareMode) -> Result<Shared, String> {
    let sim = Sim::new(args.trial.seed);
    let machine =
        world::machine(&sim, &DiskImage::default(), Device::Shared(DEVICE / args.trial.scale), args.trial.seed);
    sim.block_on(drive(&sim, machine, args, mode)).map_err(|error| format!("{mode}: {error}"))
}

async fn drive(sim: &Sim, machine: Machine, args: &Buffer, mode: ShareMode) -> weir_io::Result<Shared> {
    let (clock, config) = (sim.clock(), config(args, mode));
    let node = Node::open(&config, machine).await?;
    let class = |number| match number {
        number if number < args.ramps => Class::Ramping,
        number if number < args.ramps + GREEDY_TENANTS => Class::Greedy,
        _ => Class::Steady,
    };
    let kinds = (0..TENANTS as u32).map(|number| (class(number), ShareTerms::default()));
    let clients = clients(&node, &clock, kinds, WRITE / args.trial.scale).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let until = from + args.seconds * SECOND;
    for (client, number) in clients.iter().zip(0..) {
        let mut write =
            |rate, from, until| client.go_on(sim, Op::Write, rate / args.trial.scale, WRITERS, (from, until), &mut rng);
        match client.class() {
            Class::Ramping => {}
            Class::Greedy => write(GREEDY, from, until),
            // Staggered, so that not all of them fill their memtables at the same moment.
            Class::Steady => write(STEADY, from + number * SECOND * MEMTABLE / STEADY / TENANTS, until),
        }
    }
    let (mut kept, mut is_lawful, mut ramp_at, mut number) = (0, true, from + SETTLED, 0);
    let capacity = config.write_memory_bytes;
    loop {
        let at = ramp_at.min(until);
        while clock.now() < at {
            sleep_until(&clock, (clock.now() + SECOND / 4).min(at)).await;
            let seen = node.write_memory_shares();
            if clock.now() > from + SETTLED {
                kept = kept.max(seen.shares.kept());
            }
            // The node looks at who is awake once a second.
            if clock.now() > from + 2 * SECOND {
                is_lawful &= law(capacity, &seen).is_none_or(|(_, kept)| kept == seen.shares.common);
            }
        }
        if at >= until {
            break;
        }
        for _ in 0..SHARE * ASKED.0 / ASKED.1 / WRITE {
            for client in clients.iter().filter(|client| client.class() == Class::Ramping) {
                let client = Arc::clone(client);
                sim.spawn(async move { client.write(number, at).await });
            }
            number += 1;
        }
        ramp_at += args.every * SECOND;
    }
    let seen = node.write_memory_shares();
    let percent = |bytes: u64| bytes as f64 * 100.0 / capacity as f64;
    let own = seen.shares.kept() - seen.shares.common;
    let seconds = args.seconds as f64;
    let waited = |client: &Arc<Client>| {
        let (waits, tally) = (seen.waits.get(&client.tenant().id().0).copied().unwrap_or_default(), *client.tally());
        Waited {
            class: client.class(),
            waits: waits.waits,
            late: waits.late,
            longest_ms: ms(waits.longest),
            slowest_write_ms: ms(client.slowest()),
            bytes_per_sec: (tally.bytes * args.trial.scale) as f64 / seconds,
        }
    };
    let tenants: Vec<Waited> = clients.iter().map(waited).collect();
    let delta_ms = mode.promise().map(|promise| ms(promise.delta));
    let acquired = clients.iter().zip(&tenants);
    let acquired =
        acquired.map(|(client, waited)| client.acquisition(Scarce::WriteMemory, waited.longest_ms, delta_ms));
    let classes = by_class(&clients, args.seconds, args.trial.scale);
    Ok(Shared {
        mode: mode.to_string(),
        delta_ms,
        reserve_percent: percent(law(capacity, &seen).map_or(own, |(reserve, _)| reserve)),
        kept_percent: percent(kept),
        refill: (seen.refill * args.trial.scale) as f64,
        is_lawful,
        bytes_per_sec: tenants.iter().map(|tenant| tenant.bytes_per_sec).sum(),
        sharing: Sharing::new(SETTLED / SECOND, classes, acquired.collect(), seen.broken.is_some()),
        tenants,
    })
}
