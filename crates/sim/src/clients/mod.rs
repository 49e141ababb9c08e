//! Many clients of one node in virtual time, with all commands on rows that there are. The same seed gives the same
//! history; and every history is one that could have happened one after the other, row by row.

mod linear;
mod words;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::reply::Protocol;
use weir_command::{Headless, Request, table};
use weir_gateway::store::{Store, TenantStore};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Yield, sleep_until};
use weir_log::SyncMode;
use weir_node::{Machine, Node, TenantName, TenantSpec};

pub use self::linear::{Operation, check};
use crate::node_store::small;
use crate::runner::Tally;

/// Clients that ask about the same keys.
const CLIENTS_OF_GROUP: usize = 5;
/// The longest pause between two commands of a client, in nanoseconds.
const PAUSE_MAX: u64 = 2_000_000;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients, five to a group of keys.
    pub clients: usize,
    /// Commands of each.
    pub commands: usize,
    /// Partitions of the tenant.
    pub partitions: u16,
    /// What an acknowledgement promises.
    pub sync: SyncMode,
}

/// Figures of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histories {
    /// Seeds.
    pub runs: u64,
    /// Commands answered.
    pub commands: u64,
    /// Those of them that others overlapped with.
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

/// A device of some tenths of a millisecond, so that what has to be read is waited for.
fn device() -> DeviceSpec {
    DeviceSpec { latency: 200_000, jitter: 300_000, ..DeviceSpec::shared(200 << 20) }
}

/// Runs `load`; gives everything that was asked and answered, in the order of the answers.
pub fn history(seed: u64, load: Load) -> Vec<Operation> {
    let sim = Sim::new(seed);
    sim.set_time_limit(3_600_000_000_000);
    let answered = Arc::new(Mutex::new(Vec::new()));
    sim.block_on(async {
        let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        let mut config = small(load.sync);
        // What is not in memtables is on the device.
        config.cache_bytes = 0;
        let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
        let node = Arc::new(Node::open(&config, machine).await.expect("no faults"));
        let spec =
            TenantSpec { partitions: load.partitions, ..TenantSpec::new(TenantName::new("clients").expect("a name")) };
        let tenant = node.create_tenant(spec).await.expect("no faults");
        let store = TenantStore::new(&node, tenant);
        let mut clients = Vec::new();
        for client in 0..load.clients {
            let (store, clock, answered) = (store.clone(), sim.clock(), Arc::clone(&answered));
            let mut rng = sim.rng().fork(&format!("client {client}"));
            clients.push(async move {
                let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, rng.fork("host"));
                for _ in 0..load.commands {
                    sleep_until(&clock, clock.now() + rng.below(PAUSE_MAX)).await;
                    let words = words::draw(&mut rng, (client / CLIENTS_OF_GROUP) as u64);
                    let from = clock.now();
                    let request = Request::new(0, clock.unix_ms(), words.iter().map(|word| &word[..]));
                    // As if it had come from another process.
                    let request = Request::decode(&request.encode()).expect("its own bytes");
                    let answer = store.answer(&request, &mut host).await.expect("no faults");
                    let to = clock.now();
                    answered.lock().push(Operation { client, request, from, to, answer });
                }
            });
        }
        futures_util::future::join_all(clients).await;
        node.close().await.expect("no faults");
    });
    std::mem::take(&mut *answered.lock())
}

/// What `operation` tells of rows. A command that reads several looks at one after the other, and may tell of each from
/// another moment; one that goes through all keys tells of none in particular.
fn of_rows(operation: Operation) -> Vec<Operation> {
    let Operation { client, request, from, to, answer } = &operation;
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    let keys = command.keys_in(args).count();
    if command.writes() || keys == 1 {
        return vec![operation];
    }
    if command.name != "mget" {
        return Vec::new();
    }
    let values = bulks(answer);
    let get = |(key, value): (&[u8], &[u8])| Operation {
        request: Request::new(request.database, request.now_ms, [b"GET", key]),
        answer: value.to_vec(),
        client: *client,
        from: *from,
        to: *to,
    };
    args.iter_from(1).zip(values).map(get).collect()
}

/// The elements of an array of strings, each with its own length in front.
fn bulks(array: &[u8]) -> Vec<&[u8]> {
    let line_end = |from: usize| from + array[from..].windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
    let (mut at, mut bulks) = (line_end(0), Vec::new());
    while at < array.len() {
        let body = line_end(at);
        let len = std::str::from_utf8(&array[at + 1..body - 2]).ok().and_then(|len| len.parse::<usize>().ok());
        // No value has the length -1, and no bytes.
        let end = len.map_or(body, |len| body + len + 2);
        bulks.push(&array[at..end]);
        at = end;
    }
    bulks
}

/// Runs `load` twice, and checks what came of it.
///
/// # Errors
/// The two runs differ, or the answers cannot be explained.
pub fn clients(seed: u64, load: Load) -> Result<Histories, String> {
    let history_of = history(seed, load);
    if history(seed, load) != history_of {
        return Err("the same seed gave two histories".into());
    }
    let mut groups: Vec<Vec<Operation>> = vec![Vec::new(); load.clients.div_ceil(CLIENTS_OF_GROUP)];
    let mut histories = Histories { runs: 1, commands: history_of.len() as u64, ..Histories::default() };
    for operation in history_of {
        groups[operation.client / CLIENTS_OF_GROUP].extend(of_rows(operation));
    }
    for group in groups {
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
