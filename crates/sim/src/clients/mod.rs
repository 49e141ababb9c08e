//! Many clients of one node in virtual time, with every command on rows. The same seed gives the same history, and
//! every history could have happened one after the other, row by row.

pub mod dump;
mod files;
mod groups;
mod linear;
mod templates;
mod words;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::reply::Protocol;
use weir_command::table::{COMMANDS, Id};
use weir_command::{Headless, Request};
use weir_gateway::store::{Store, TenantStore};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Yield, sleep_until};
use weir_log::SyncMode;
use weir_node::{EngineKind, Machine, Node, TenantName, TenantSpec};

pub use self::files::{check_dump, write_dump};
use self::groups::CLIENTS_OF_GROUP;
pub use self::groups::{Groups, groups};
pub use self::linear::{Operation, check};
pub use self::words::of_rows;
use crate::node_store::small;
use crate::runner::Tally;

/// The longest pause between two commands of a client, in nanoseconds.
const PAUSE_MAX: u64 = 2_000_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Clients, five to a group of keys.
    pub clients: usize,
    /// Commands of each.
    pub commands: usize,
    /// Partitions of the tenant.
    pub partitions: u16,
    /// The sync mode, which says what an acknowledgement promises.
    pub sync: SyncMode,
    /// Commands to draw from; all commands on rows if it is empty.
    pub only: Vec<Id>,
    /// The engine in which the partitions keep their rows.
    pub engine: EngineKind,
}

impl Load {
    /// The command that runs it with `seed`.
    pub fn command(&self, seed: u64) -> String {
        let Self { clients, commands, partitions, sync, only, engine } = self;
        let names: Vec<&str> = only.iter().map(|&id| COMMANDS[id as usize].name).collect();
        let only = if names.is_empty() { String::new() } else { format!(" --only {}", names.join(",")) };
        let (sync, load) = (sync.name(), format!("--clients {clients} --commands {commands}"));
        format!("weir sim clients --engine {engine} --sync {sync} {load} --partitions {partitions}{only} --seed {seed}")
    }
}

/// Figures of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histories {
    /// Seeds that were run.
    pub runs: u64,
    /// Commands answered.
    pub commands: u64,
    /// Commands that overlapped with others.
    pub overlapping: u64,
    /// Groups of keys whose history was checked.
    pub groups: u64,
}

impl Tally for Histories {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.commands += other.commands;
        self.overlapping += other.overlapping;
        self.groups += other.groups;
    }
}

impl fmt::Display for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, commands, overlapping, groups } = self;
        write!(f, "{runs} runs, {commands} commands ({overlapping} overlapped), {groups} groups of rows linearizable")
    }
}

/// A device of some tenths of a millisecond, so that reads of the device are waited for.
fn device() -> DeviceSpec {
    DeviceSpec { latency: 200_000, jitter: 300_000, ..DeviceSpec::shared(200 << 20) }
}

/// Runs `load`, and returns everything that was asked and answered, in the order of the answers.
pub fn history(seed: u64, load: &Load) -> Vec<Operation> {
    let sim = Sim::new(seed);
    sim.set_time_limit(3_600_000_000_000);
    let answered = Arc::new(Mutex::new(Vec::new()));
    let drawn = words::drawn(&load.only);
    sim.block_on(async {
        let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        let mut config = small(load.sync);
        config.store.snapshot_log_bytes = 2 << 10;
        // Whatever is not in memtables is read from the device.
        config.cache_bytes = 0;
        let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
        let node = Arc::new(Node::open(&config, machine).await.expect("no faults"));
        let spec = TenantSpec {
            partitions: load.partitions,
            engine: load.engine,
            ..TenantSpec::new(TenantName::new("clients").expect("a name"))
        };
        let tenant = node.create_tenant(spec).await.expect("no faults");
        let store = TenantStore::new(&node, tenant);
        let mut clients = Vec::new();
        for client in 0..load.clients {
            let (store, clock, answered) = (store.clone(), sim.clock(), Arc::clone(&answered));
            let drawn = &drawn;
            let mut rng = sim.rng().fork(&format!("client {client}"));
            clients.push(async move {
                let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, rng.fork("host"));
                for _ in 0..load.commands {
                    sleep_until(&clock, clock.now() + rng.below(PAUSE_MAX)).await;
                    let words = words::draw(&mut rng, (client / CLIENTS_OF_GROUP) as u64, drawn);
                    let from = clock.now();
                    let request = Request::new(0, clock.unix_ms(), words.iter().map(|word| &word[..]));
                    // Encoded and decoded, as if it had come from another process.
                    let request = Request::decode(&request.encode()).expect("its own bytes");
                    let answer = store.answer(&request, &mut host).await.expect("no faults");
                    let to = clock.now();
                    answered.lock().push(Operation { client, request, from, to, answer, split: false });
                }
            });
        }
        futures_util::future::join_all(clients).await;
        node.close().await.expect("no faults");
    });
    std::mem::take(&mut *answered.lock())
}

/// Runs `load` twice, and checks the answers.
///
/// # Errors
/// The two runs differ, or the answers cannot be explained.
pub fn clients(seed: u64, load: &Load) -> Result<Histories, String> {
    judge(history(seed, load), seed, load)
}

/// Runs `load` again, and checks that it gives `answered` again and that the answers can be explained.
///
/// # Errors
/// The two runs differ, or the answers cannot be explained.
pub fn judge(answered: Vec<Operation>, seed: u64, load: &Load) -> Result<Histories, String> {
    if history(seed, load) != answered {
        return Err("the same seed gave two histories".into());
    }
    let mut histories = Histories { runs: 1, commands: answered.len() as u64, ..Histories::default() };
    for group in groups(answered).into_values() {
        let overlaps = |operation: &&Operation| {
            group
                .iter()
                .any(|other| other.client != operation.client && other.from < operation.to && operation.from < other.to)
        };
        histories.overlapping += group.iter().filter(overlaps).count() as u64;
        histories.groups += 1;
        check(group)?;
    }
    Ok(histories)
}
