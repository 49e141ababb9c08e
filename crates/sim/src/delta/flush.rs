//! The flush slots of a node under tenants of three kinds (DF-E7).

use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use weir_io::sim::{DiskImage, Sim};
use weir_io::{Nanos, Rng, sleep_until};
use weir_lsm::TreeOptions;
use weir_node::{Delay, FlushShares, Machine, Node, NodeConfig, ShareMode, ShareTerms};
use weir_scenario::report::sharing::{Scarce, Sharing};

use super::Trial;
use super::client::{Class, Client, Op, by_class, clients};
use super::world::{self, Device, MB, SECOND, ms};

/// One tenant that ramps up, 3 that are greedy, 12 that are steady.
const TENANTS: u32 = 16;
/// They all flush at the same moment. While it holds no slot, each of them is below its share of the slots, and a slot
/// that is kept would be for it, too; so they are tenants that can wait.
const GREEDY_TENANTS: u32 = 3;
/// The paper's writers, in bytes a second; steady ones write half as much, so that none of them flushes during the run.
const STEADY: u64 = MB;
const GREEDY: u64 = 4_200_000;
/// What a tenant writes at once when it ramps up: a memtable.
const RAMP: u64 = 64 * MB;
/// A memtable: those of the greedy tenants are full as a ramp begins.
const MEMTABLE: u64 = 63 * MB;
const RAMP_EVERY: Nanos = 15 * SECOND;
/// The device, in bytes a second: a flush takes 0.4 s of all of it, as slow as the paper's.
const DEVICE: u64 = 160 * MB;
const WRITE: u64 = 64 * 1024;

/// Two flush slots, 16 tenants: 12 write steadily, 3 that can wait flush together, 1 ramps up as they do
#[derive(Clone, Debug, Args, Serialize)]
pub struct Flush {
    /// How the flush slots are shared, separated by commas: `quota`, `fair`, `delta 350 ms`
    #[arg(long = "shares", value_name = "MODE", value_delimiter = ',', default_value = MODES)]
    #[serde(skip)]
    pub modes: Vec<ShareMode>,
    /// Flushes at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub slots: u64,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 36, value_parser = clap::value_parser!(u64).range(20..=3600))]
    pub seconds: u64,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

const MODES: &str = "quota,delta 0 ms,delta 500 ms,delta 2000 ms,delta 3000 ms,fair";

/// The results of one way to share.
#[derive(Clone, Debug, Serialize)]
pub struct Slotted {
    /// The way to share.
    pub mode: String,
    /// The delay that is promised, in milliseconds.
    pub delta_ms: Option<f64>,
    /// Slots that were reserved in the end.
    pub reserved: u64,
    /// What 95 % of flushes took at most, in milliseconds.
    pub flush_ms: Option<f64>,
    /// The longest that a flush waited for a slot, in milliseconds: of the ramping tenant, and of each other class.
    pub longest_ms: [(Class, f64); 3],
    /// Bytes a second that all tenants wrote, at scale 1.
    pub bytes_per_sec: f64,
    /// Second by second.
    #[serde(flatten)]
    pub sharing: Sharing,
}

impl Slotted {
    /// The longest wait of a tenant of `class` for a slot, in milliseconds.
    pub fn longest_ms(&self, class: Class) -> f64 {
        self.longest_ms.iter().find(|(other, _)| *other == class).map_or(0.0, |(_, longest)| *longest)
    }
}

fn config(args: &Flush, mode: ShareMode) -> NodeConfig {
    let tree = TreeOptions { write_buffers_max: 16, ..world::tree(MEMTABLE / args.trial.scale) };
    let flush_slots = Some(FlushShares { slots: args.slots, mode });
    NodeConfig { flush_slots, ..world::config(tree, Device::Shared(DEVICE / args.trial.scale)) }
}

/// Runs one way to share.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(args: &Flush, mode: ShareMode) -> Result<Slotted, String> {
    let sim = Sim::new(args.trial.seed);
    let machine =
        world::machine(&sim, &DiskImage::default(), Device::Shared(DEVICE / args.trial.scale), args.trial.seed);
    sim.block_on(drive(&sim, machine, args, mode)).map_err(|error| format!("{mode}: {error}"))
}

async fn drive(sim: &Sim, machine: Machine, args: &Flush, mode: ShareMode) -> weir_io::Result<Slotted> {
    let clock = sim.clock();
    let node = Node::open(&config(args, mode), machine).await?;
    let kind = |number| match number {
        0 => (Class::Ramping, Delay::OfNode),
        1..=GREEDY_TENANTS => (Class::Greedy, Delay::Endless),
        _ => (Class::Steady, Delay::OfNode),
    };
    let terms = |(class, delay)| (class, ShareTerms { delay, ..ShareTerms::default() });
    let clients = clients(&node, &clock, (0..TENANTS).map(kind).map(terms), WRITE / args.trial.scale).await?;
    let (from, mut rng) = (clock.now(), Rng::new(args.trial.seed));
    let until = from + args.seconds * SECOND;
    for client in &clients {
        let (rate, begin) = match client.class() {
            Class::Ramping => (STEADY, from + RAMP_EVERY),
            Class::Greedy => (GREEDY, from),
            Class::Steady => (STEADY, from),
        };
        client.go_on(sim, Op::Write, rate / args.trial.scale, 2, (begin, until), &mut rng);
    }
    for round in 1..args.seconds * SECOND / RAMP_EVERY + 1 {
        let due = from + round * RAMP_EVERY;
        sleep_until(&clock, due).await;
        for number in 0..RAMP / WRITE {
            let client = Arc::clone(&clients[0]);
            // Under keys apart from those of its steady writes.
            sim.spawn(async move { client.write(round << 40 | number, due).await });
        }
    }
    sleep_until(&clock, until).await;
    let waits = node.flush_waits().expect("the number of flushes is bounded");
    let longest = |class: Class| {
        let tenants = clients.iter().filter(|client| client.class() == class).map(|client| client.tenant().id().0);
        (class, tenants.filter_map(|tenant| waits.longest.get(&tenant)).copied().map(ms).fold(0.0, f64::max))
    };
    let written: u64 = clients.iter().map(|client| client.tally().bytes).sum();
    let delta_ms = mode.promise().map(|promise| ms(promise.delta));
    // Tenants that have not flushed have not asked for a slot.
    let acquired = |client: &Arc<Client>| {
        let longest = *waits.longest.get(&client.tenant().id().0)?;
        let delta_ms = delta_ms.filter(|_| client.class() != Class::Greedy);
        Some(client.acquisition(Scarce::FlushSlots, ms(longest), delta_ms))
    };
    let acquired = clients.iter().filter_map(acquired).collect();
    Ok(Slotted {
        mode: mode.to_string(),
        delta_ms,
        reserved: waits.reserved,
        flush_ms: waits.time.map(ms),
        longest_ms: [Class::Ramping, Class::Greedy, Class::Steady].map(longest),
        bytes_per_sec: (written * args.trial.scale) as f64 / args.seconds as f64,
        sharing: Sharing::new(0, by_class(&clients, args.seconds, args.trial.scale), acquired, waits.is_broken),
    })
}
