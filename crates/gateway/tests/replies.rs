//! One reply for each command, in order, whatever fails and wherever: or the connection is closed, and what it was told
//! is right.
//!
//! Pipelines of 1 to 64 commands of all families, in both protocols, with long values, `CLIENT REPLY` and `MULTI`, are
//! sent to a gateway over a store in which every call may fail or wait, and to one over a real node on a simulated disk
//! that fails, is full, forgets what it was to sync, and whose partitions fall asleep, cannot be opened and are dropped
//! meanwhile, on either engine. An independent parser takes the replies apart, and each must look like one to its
//! command ([`crate::support::pipelines`]).
//!
//! `WEIR_PIPELINES` of them (3,000) from `WEIR_SEED` (0), three quarters over the store; the run of a million is in
//! docs/testing.md.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::support::pipelines::{Judge, Tally, question};
use crate::support::troubled::Troubled;
use crate::support::world::{TOKEN, name};
use crate::support::{Client, OpenDoor, Served, TestClock, encode};
use weir_gateway::Settings;
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{NodeTenants, Secrets, secret};
use weir_gateway::store::Store;
use weir_io::Rng;
use weir_io::real::{RealClock, RealSpawn, block_on};
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, OpKind, SimFs};
use weir_node::{EngineKind, Machine, Node, NodeConfig, OnLimit, StoredSecret, TenantSettings, TenantSpec, UnitLimits};

/// Clients at the same time.
const CLIENTS: u64 = 3;
/// See [`run`].
const HEALED_AFTER: Duration = Duration::from_secs(2);
/// Commands of a pipeline, at most.
const COMMANDS_MAX: u64 = 64;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}

fn settings() -> Settings {
    Settings { threads: 1, long_threads: 1, ..Settings::default() }
}

/// Sends `count` pipelines over [`CLIENTS`] connections. Before each, `meddle` makes trouble; `connect` makes a
/// connection that is let in. Where nobody is answered for [`HEALED_AFTER`], whoever waits for the disk waits for its
/// trouble to end: `heal` ends it.
fn run(
    (seed, count): (u64, u64),
    may_close: bool,
    connect: impl Fn() -> Client + Sync,
    meddle: impl Fn(&mut Rng) + Sync,
    heal: impl Fn() + Sync,
) -> Tally {
    let asked = AtomicU64::new(0);
    let (answers, answered) = channel();
    let client_run = |number: u64, answers: Sender<()>| {
        let mut rng = Rng::new(seed * CLIENTS + number);
        let (mut tally, mut commands) = (Tally::default(), 0);
        let mut open: Option<(Client, Judge)> = None;
        while asked.fetch_add(1, Ordering::Relaxed) < count {
            meddle(&mut rng);
            let (mut client, mut judge) = open.take().unwrap_or_else(|| (connect(), Judge::new(may_close)));
            let most = if rng.chance(0.5) { 8 } else { COMMANDS_MAX };
            let len = 1 + rng.below(most);
            let questions = (0..len).map(|_| {
                commands += 1;
                question(&mut rng, commands)
            });
            if judge.ask(&mut client, questions.collect(), &mut tally) {
                open = Some((client, judge));
            }
            answers.send(()).expect("the healer listens");
            if tally.pipelines.is_power_of_two() && tally.pipelines > 1000 {
                eprintln!("client {number}: {tally:?}");
            }
        }
        tally
    };
    let healer = |answered: Receiver<()>| {
        loop {
            match answered.recv_timeout(HEALED_AFTER) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => heal(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    };
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        scope.spawn(move || healer(answered));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (client_run, answers) = (&client_run, answers.clone());
                scope.spawn(move || client_run(number, answers))
            })
            .collect();
        drop(answers);
        for client in clients {
            all.add(client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    all
}

/// Neither all nor nothing failed.
fn check(tally: Tally, what: &str) {
    eprintln!("{what}: {tally:?}");
    let share = tally.errors as f64 / tally.replies as f64;
    assert!((0.05..0.7).contains(&share), "{share} of the replies are errors");
}

#[test]
fn one_reply_each_whatever_the_store_does() {
    let (seed, count) = (setting("WEIR_SEED", 0), setting("WEIR_PIPELINES", 3000) * 3 / 4);
    let clock = TestClock::new();
    let store = Troubled::new(&clock, seed);
    let served = Served::start(settings(), Arc::new(OpenDoor::new(store.clone())), clock);
    let meddle = |rng: &mut Rng| {
        let trouble = &store.trouble;
        if rng.chance(0.2) {
            let level = [0, 0, 5, 30, 200, 1000][rng.below(6) as usize];
            trouble.failing.store(level, Ordering::Relaxed);
        }
        if rng.chance(0.02) {
            trouble.disk_limit.store(rng.below(3) / 2 * 4096, Ordering::Relaxed);
        }
        if rng.chance(0.01) {
            // What one pipeline owes is paid within seconds.
            let [rcu, wcu] = [0, 0].map(|_: u64| [0, 0, 5_000, 50_000][rng.below(4) as usize]);
            let on_limit = if rng.chance(0.7) { OnLimit::Refuse } else { OnLimit::Delay { max_ms: 3 } };
            let quota = store.quota().expect("one");
            quota.set_limits(&UnitLimits { rcu, wcu, on_limit, ..UnitLimits::default() });
        }
    };
    let tally = run((seed, count), false, || served.connect(), meddle, || {});
    check(tally, "store");
}

/// A node on a simulated disk, and a gateway in front of it.
struct Island {
    served: Option<Served>,
    node: Arc<Node>,
    fs: Arc<SimFs>,
    tenants: AtomicU64,
}

impl Island {
    fn new(seed: u64) -> Self {
        let clock = RealClock::new();
        let fs = SimFs::new(clock.clone(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(seed));
        let mut config =
            NodeConfig { segment_bytes: 1 << 20, cache_bytes: 1 << 20, ..NodeConfig::new(PathBuf::from("node")) };
        (config.tree.write_buffer_bytes, config.tree.table_bytes) = (256 << 10, 256 << 10);
        config.store.snapshot_log_bytes = 256 << 10;
        let machine = Machine { fs: fs.clone(), clock: clock.clone(), spawn: Arc::new(RealSpawn::new(1, 0)), salt: 1 };
        let node = Arc::new(block_on(Node::open(&config, machine)).expect("the node opens"));
        let slow = SlowHash::new(Arc::new(RealSpawn::new(1, 0)));
        let doorman = Secrets::new(NodeTenants::new(Arc::clone(&node)), clock.clone(), slow, false).expect("random");
        let served = Served::start(settings(), Arc::new(doorman), clock);
        Self { served: Some(served), node, fs, tenants: AtomicU64::new(0) }
    }

    /// The disk is as good as new, but for what it has lost.
    fn heal(&self) {
        self.fs.set_faults(FaultPlan::none());
        self.fs.set_free_bytes(u64::MAX);
    }

    /// A connection of a new tenant: what was there may have been dropped, or damaged for good.
    fn connect(&self) -> Client {
        loop {
            // Others make trouble meanwhile, and may drop it at once.
            self.heal();
            let life = self.tenants.fetch_add(1, Ordering::Relaxed);
            let tenant = format!("tenant-{life}");
            let stored = secret::choose(TOKEN, &mut |salt| salt.fill(7)).expect("memory");
            let settings = TenantSettings { secret: Some(StoredSecret::new(stored)), ..TenantSettings::default() };
            let (partitions, engine) = (1 + (life % 2) as u16, EngineKind::ALL[(life / 2 % 2) as usize]);
            let spec = TenantSpec { partitions, engine, settings, ..TenantSpec::new(name(&tenant)) };
            if block_on(self.node.create_tenant(spec)).is_ok() {
                let mut connection = self.served.as_ref().expect("serving").connect();
                if connection.ask(&[b"AUTH", tenant.as_bytes(), TOKEN]) == b"+OK\r\n" {
                    return connection;
                }
            }
        }
    }

    fn meddle(&self, rng: &mut Rng) {
        const OPERATIONS: [OpKind; 8] = [
            OpKind::Read,
            OpKind::Write,
            OpKind::Sync,
            OpKind::Open,
            OpKind::Create,
            OpKind::Allocate,
            OpKind::SyncDir,
            OpKind::SyncAll,
        ];
        if rng.chance(0.1) {
            let mut plan = FaultPlan::none();
            for _ in 0..rng.below(4) {
                let kind = OPERATIONS[rng.below(OPERATIONS.len() as u64) as usize];
                let fault = [Fault::Error, Fault::NoSpace, Fault::FlipBit][rng.below(3) as usize];
                plan = plan.chance(kind, fault, [0.02, 0.3, 1.0][rng.below(3) as usize]);
            }
            self.fs.set_faults(plan);
        }
        if rng.chance(0.02) {
            self.fs.set_free_bytes(if rng.chance(0.5) { 0 } else { u64::MAX });
        }
        let tenants = self.node.tenants();
        let Some(tenant) = tenants.get(rng.below(tenants.len() as u64) as usize) else { return };
        if rng.chance(0.1) {
            for slot in tenant.partitions() {
                block_on(slot.sleep());
            }
        }
        if rng.chance(0.005) && tenant.name().as_str() != "default" {
            // It may fail: then it is there, or gone at the next try.
            let _ = block_on(self.node.drop_tenant(tenant.name()));
        }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        self.heal();
        drop(self.served.take());
        // After all that it may be damaged.
        let _ = block_on(self.node.close());
    }
}

#[test]
fn one_reply_each_whatever_the_disk_does() {
    let (seed, count) = (setting("WEIR_SEED", 0), setting("WEIR_PIPELINES", 3000) / 4);
    let island = Island::new(seed);
    let tally = run((seed, count), true, || island.connect(), |rng| island.meddle(rng), || island.heal());
    check(tally, "node");
}

/// What was found first: the write is refused at once, and so is the read behind it.
#[test]
fn a_refused_write_and_what_follows_it_have_a_reply_each() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(settings(), Arc::new(OpenDoor::new(store.clone())), clock);
    let mut client = served.connect();
    store.trouble.failing.store(1000, Ordering::Relaxed);
    let pipelines: [&[&[&str]]; 6] = [
        &[&["SET", "a", "1"], &["GET", "a"], &["ECHO", "last"]],
        &[&["SET", "a", "1"], &["ECHO", "between"], &["SET", "b", "1"], &["INCR", "n"], &["ECHO", "last"]],
        &[&["SET", "a", "1"], &["FLUSHALL"], &["ECHO", "last"]],
        &[&["SET", "a", "1"], &["AUTH", "nobody", "nothing"], &["ECHO", "last"]],
        &[&["SET", "a", "1"], &["CLIENT", "REPLY", "SKIP"], &["GET", "a"], &["ECHO", "last"]],
        &[&["MSET", "a", "1", "b", "2"], &["MGET", "a", "b"], &["SCAN", "0"], &["DEL", "a"], &["ECHO", "last"]],
    ];
    for pipeline in pipelines {
        client.send(&pipeline.iter().flat_map(|words| encode(words)).collect::<Vec<_>>());
        let silent = 2 * pipeline.iter().filter(|words| words.contains(&"SKIP")).count();
        for words in &pipeline[..pipeline.len() - 1 - silent] {
            let reply = String::from_utf8_lossy(&client.reply()).into_owned();
            if words[0] == "ECHO" {
                assert_eq!(reply, "$7\r\nbetween\r\n");
            } else {
                assert!(reply.starts_with('-') && !reply[1..].contains("-ERR"), "{words:?}: {reply}");
            }
        }
        assert_eq!(client.reply(), b"$4\r\nlast\r\n", "{pipeline:?}");
    }
}
