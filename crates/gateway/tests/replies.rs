//! There is one reply for each command, in order, whatever fails and wherever. Or else the connection is closed, and
//! what it was sent until then is right.
//!
//! Pipelines of 1 to 64 commands of all families, in both protocols, with long values, `CLIENT REPLY` and `MULTI`, are
//! sent to two gateways. One has a store in which every call may fail or wait. The other has a real node, on either
//! engine, on a simulated disk that fails, is full and forgets what it was to sync; its partitions fall asleep, cannot
//! be opened and are dropped meanwhile. An independent parser takes the replies apart, and each must look like a reply
//! to its command ([`crate::support::pipelines`]).
//!
//! `WEIR_PIPELINES` is their number (3,000), from `WEIR_SEED` (0), three quarters of them over the store; the run of a
//! million is in docs/testing.md.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::support::pipelines::{Judge, Tally, question};
use crate::support::troubled::Troubled;
use crate::support::world::{TOKEN, name, secret};
use crate::support::{Client, OpenDoor, Running, Served, TestClock, encode};
use weir_gateway::Settings;
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{NodeTenants, Secrets};
use weir_gateway::store::Store;
use weir_io::Rng;
use weir_io::real::{RealClock, RealSpawn, block_on};
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, OpKind, SimFs};
use weir_node::{EngineKind, Machine, Node, NodeConfig, OnLimit, TenantSettings, TenantSpec, UnitLimits};

/// How many clients run at the same time.
const CLIENTS: u64 = 3;
/// See [`run`].
const HEALED_AFTER: Duration = Duration::from_millis(250);
/// How many commands a pipeline has at most.
const COMMANDS_MAX: u64 = 64;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}

fn settings() -> Settings {
    Settings { threads: 1, long_threads: 1, ..Settings::default() }
}

/// Sends `count` pipelines over [`CLIENTS`] connections. Before each, `meddle` makes trouble; `connect` makes a
/// connection that is let in. If nobody is answered for [`HEALED_AFTER`], the clients wait for the disk, and `heal`
/// ends its trouble.
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

/// Checks that some replies failed, and not all.
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
            // So much that the debt of one pipeline is paid within seconds.
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

    /// Makes the disk as good as new, except for what it has lost.
    fn heal(&self) {
        self.fs.set_faults(FaultPlan::none());
        self.fs.set_free_bytes(u64::MAX);
    }

    /// A connection of a new tenant, because old ones may have been dropped, or damaged for good.
    fn connect(&self) -> Client {
        loop {
            // Others make trouble meanwhile, and may drop the tenant at once.
            self.heal();
            let life = self.tenants.fetch_add(1, Ordering::Relaxed);
            let tenant = format!("tenant-{life}");
            let settings = TenantSettings { secret: Some(secret()), ..TenantSettings::default() };
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
            // This may fail. Then the tenant still exists, or is gone at the next try.
            let _ = block_on(self.node.drop_tenant(tenant.name()));
        }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        self.heal();
        drop(self.served.take());
        // After all this the node may be damaged.
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

/// This was the first error that these tests found: the write is refused at once, and so is the read behind it.
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

/// A request whose reply is longer than what is kept together: a part of it is sent while the command is under way.
fn long_question() -> Vec<u8> {
    encode(&["COMMAND", "INFO"].into_iter().chain(std::iter::repeat_n("get", 4000)).collect::<Vec<_>>())
}

/// The array of `EXEC` cannot be taken back, and an error among its elements, or after it, would stand for something
/// else.
#[test]
fn a_write_that_fails_when_a_part_of_its_reply_has_left_ends_the_connection() {
    let weir = Running::start(settings());
    let mut listener = weir.connect();
    for number in 0..100 {
        listener.ask(&["SUBSCRIBE", &format!("{number}{}", "x".repeat(5_000))]);
    }
    for (question, elements) in [(long_question(), 4000), (encode(&["PUBSUB", "CHANNELS"]), 100)] {
        let mut client = weir.connect();
        weir.store.fail_commits.store(true, Ordering::Relaxed);
        let requests = [
            encode(&["MULTI"]),
            encode(&["GET", "a"]),
            question,
            encode(&["SET", "b", "1"]),
            encode(&["EXEC"]),
            encode(&["ECHO", "behind"]),
        ];
        client.send(&requests.concat());
        let told = client.rest();
        let text = String::from_utf8_lossy(&told);
        let front = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$-1\r\n*{elements}\r\n");
        assert!(text.starts_with(&front), "{}", &text[..text.len().min(200)]);
        assert!(!text.contains("MISCONF") && !text.contains("behind"), "{}", &text[text.len() - 200..]);
        weir.store.fail_commits.store(false, Ordering::Relaxed);
        assert_eq!(weir.connect().say("DEL b"), ":1\r\n", "it was run to its end");
    }
}

/// The client goes when a part of the answer to its `EXEC` was sent, with a value that was kept separately. The queued
/// commands are run to the end.
#[test]
fn a_client_who_goes_within_the_answer_to_its_transaction_does_not_end_it_in_half() {
    let weir = Running::start(settings());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    other.ask(&["SET", "long", &"v".repeat(20_000)]);
    let mut requests = vec![encode(&["MULTI"]), encode(&["GET", "long"])];
    // More than the sockets hold for a client that does not read.
    requests.extend((0..20).map(|_| long_question()));
    requests.extend([encode(&["SET", "b", "1"]), encode(&["EXEC"])]);
    client.send(&requests.concat());
    for queued in 0..22 {
        assert_eq!(client.reply(), if queued == 0 { &b"+OK\r\n"[..] } else { b"+QUEUED\r\n" });
    }
    assert_eq!(client.stream.peek(&mut [0]).expect("a part"), 1);
    drop(client);
    while other.say("CLIENT LIST").matches(" addr=").count() > 1 {}
    assert_eq!(other.say("EXISTS b"), ":1\r\n");
}

/// What a script sends to its own client stands in front of the reply, even if its write fails, and even if it sends so
/// much that this goes out before the reply is written.
#[test]
fn a_script_whose_write_fails_is_answered_once_and_its_messages_come() {
    let script = "redis.call('set', KEYS[1], 1) redis.call('publish', 'c', string.rep('x', ARGV[1])) return 1";
    for len in ["10", "300000"] {
        let weir = Running::start(settings());
        let mut client = weir.connect();
        client.say("HELLO 3");
        assert!(client.say("SUBSCRIBE c").starts_with(">3"));
        weir.store.fail_commits.store(true, Ordering::Relaxed);
        client.send(&[encode(&["EVAL", script, "1", "k", len]), encode(&["ECHO", "behind"])].concat());
        let replies = [(); 3].map(|()| String::from_utf8_lossy(&client.reply()).into_owned());
        let shown = replies.each_ref().map(|reply| &reply[..reply.len().min(60)]);
        assert!(replies[0].starts_with(">3\r\n$7\r\nmessage\r\n"), "{shown:?}");
        assert!(replies[1].starts_with("-MISCONF"), "{shown:?}");
        assert_eq!(replies[2], "$6\r\nbehind\r\n", "{shown:?}");
    }
}

#[test]
fn no_message_stands_within_a_reply_that_has_ended_and_left_in_part() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(settings(), Arc::new(OpenDoor::new(store.clone())), clock);
    let (mut client, mut other) = (served.connect(), served.connect());
    client.say("HELLO 3");
    assert!(client.say("SUBSCRIBE c").starts_with(">3"));
    store.trouble.commits_wait.store(true, Ordering::SeqCst);
    client.send(&[long_question(), encode(&["SET", "a", "1"])].concat());
    // A part was sent; the rest waits for the commit of a later write.
    assert_eq!(client.stream.peek(&mut [0]).expect("a part"), 1);
    while other.say("EXISTS a") != ":1\r\n" {}
    assert_eq!(other.say("PUBLISH c m"), ":1\r\n");
    (0..20).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    store.trouble.commits_wait.store(false, Ordering::SeqCst);
    let reply = client.reply();
    assert!(reply.starts_with(b"*4000\r\n") && !reply.windows(7).any(|part| part == b"message"));
    let mut others = [client.reply(), client.reply()];
    others.sort();
    assert_eq!(others[0], b"+OK\r\n");
    assert!(others[1].starts_with(b">3\r\n$7\r\nmessage"));
}
