//! Whether a member is found at once or by two reads makes no difference to anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_admission::Amount;
use weir_command::bill::Bill;
use weir_command::events::{Classes, KeyEvent};
use weir_command::reply::Protocol;
use weir_command::{Context, Headless, Moment, Page, Read, Request, Rows, Waiting, run, table};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Result, Rng, Yield};
use weir_model::engine::EngineKind;
use weir_model::{Batch, Change, StoredKey, VALUE_BYTES_MAX};

use super::super::asked::ask;
use super::*;
use crate::config::{Machine, NodeConfig};
use crate::node::Node;

struct World {
    sim: Sim,
    _node: Node,
    partition: Arc<Partition>,
}

/// The rows of a partition, for a command that only reads.
struct Reading<'p> {
    partition: &'p Arc<Partition>,
    /// Members may be found at once.
    at_once: bool,
    /// How many were.
    found_at_once: AtomicUsize,
}

/// What a command has left behind.
#[derive(Debug, PartialEq)]
struct Outcome {
    answer: String,
    bill: Bill,
    /// Hits, misses, and the longest value.
    counts: [u64; 3],
    events: Vec<KeyEvent>,
    booked: Amount,
}

impl Rows for Reading<'_> {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.partition.row(&StoredKey::new(database, key), now_ms)
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, Result<Page>> {
        unreachable!("nobody goes through all keys")
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        self.partition.row(part, now_ms)
    }

    fn member_at_once(
        &self,
        database: u8,
        key: &[u8],
        kind: RowType,
        name: &[u8],
        now_ms: u64,
    ) -> Option<MemberAtOnce> {
        if !self.at_once {
            return None;
        }
        let found = self.partition.member_at_once(&StoredKey::new(database, key), kind, name, now_ms);
        self.found_at_once.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        found
    }

    fn settled(&self, _: &[u8]) -> Option<u64> {
        self.partition.settled()
    }

    fn moment<'a>(&'a self, _: &'a [u8]) -> Waiting<'a, Result<Option<Box<dyn Moment>>>> {
        Box::pin(async move { Ok(Some(self.partition.moment().await)) })
    }
}

impl World {
    fn of(engine: EngineKind) -> Self {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
        let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
        let config = NodeConfig { engine, ..NodeConfig::new("/weir") };
        sim.set_unix_ms(1_000_000);
        let (node, partition) = sim.block_on(async {
            let node = Node::open(&config, machine).await.expect("no faults");
            let partition = node.default_partition().await.expect("no faults");
            (node, partition)
        });
        Self { sim, _node: node, partition }
    }

    fn ask(&self, line: &str) -> String {
        ask(&self.sim, &self.partition, line)
    }

    /// Runs `line`, a command that only reads. Also gives how many members were found at once.
    fn read(&self, line: &str, at_once: bool) -> (Outcome, usize) {
        let request = Request::new(0, self.sim.clock().unix_ms(), line.split(' ').map(str::as_bytes));
        let command = table::find(request.args().at(0)).expect("a command");
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = request.call(VALUE_BYTES_MAX);
        call.wants = Classes::KEY_MISS;
        let rows = Reading { partition: &self.partition, at_once, found_at_once: AtomicUsize::new(0) };
        let before = self.partition.account.booked();
        let finished = self.sim.block_on(run(command, Context::reading(&rows, &mut host, &mut call), request.args()));
        let booked = self.partition.account.booked().since(&before).user(Direction::Read);
        let answer = String::from_utf8(host.take_answer(&finished.outcome)).expect("text");
        let (_, events) = finished.draft.into_parts();
        let counts = [call.hits, call.misses, call.longest as u64];
        let outcome = Outcome { answer, bill: Bill::clone(&call.bill), counts, events, booked };
        (outcome, rows.found_at_once.into_inner())
    }
}

#[test]
fn a_member_that_is_found_at_once_answers_counts_and_costs_as_two_reads_do() {
    let world = World::of(EngineKind::Memory);
    let many = |word: fn(u64) -> String| (0..300).map(|number| format!(" {}", word(number))).collect::<String>();
    for line in [
        "HSET small a 1 b 22 ccc 3",
        &format!("HSET large{}", many(|number| format!("f{number} v{number}"))),
        "SADD numbers 1 2 3",
        &format!("SADD names{}", many(|number| format!("m{number}"))),
        "ZADD few 1 a 2.5 b",
        &format!("ZADD scores{}", many(|number| format!("{number} m{number}"))),
        "SET string v",
        "HSET mortal a 1 b 2",
        "HPEXPIREAT mortal 2000000 FIELDS 1 a",
        "HSET expires a 1",
        "PEXPIREAT expires 1900000",
        "HSET deleted a 1",
        "DEL deleted",
    ] {
        assert!(!world.ask(line).starts_with('-'), "{line}");
    }
    for (line, answer, at_once) in [
        ("HGET small b", "$2\r\n22\r\n", 1),
        ("HGET small x", "$-1\r\n", 1),
        ("HEXISTS small ccc", ":1\r\n", 1),
        ("HSTRLEN large f123", ":4\r\n", 1),
        ("HGET large f7", "$2\r\nv7\r\n", 1),
        ("HGET large x", "$-1\r\n", 1),
        ("SISMEMBER numbers 2", ":1\r\n", 1),
        ("SISMEMBER names m299", ":1\r\n", 1),
        ("SISMEMBER names x", ":0\r\n", 1),
        ("ZSCORE few b", "$3\r\n2.5\r\n", 1),
        ("ZSCORE scores m41", "$2\r\n41\r\n", 1),
        ("HGET expires a", "$1\r\n1\r\n", 1),
        ("HGET nothing a", "$-1\r\n", 1),
        ("HGET deleted a", "$-1\r\n", 1),
        ("HGET mortal b", "$1\r\n2\r\n", 0),
        ("HGET string a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", 0),
        ("SISMEMBER small a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", 0),
    ] {
        let (outcome, found_at_once) = world.read(line, true);
        assert_eq!((&outcome.answer[..], found_at_once), (answer, at_once), "{line}");
        assert_eq!(outcome, world.read(line, false).0, "{line}");
    }
    // A read that finds the row expired deletes it.
    world.sim.set_unix_ms(1_900_000);
    assert!(world.partition.engine.may_hold_head(&StoredKey::new(0, b"expires")));
    let (outcome, found_at_once) = world.read("HGET expires a", true);
    assert_eq!((&outcome.answer[..], found_at_once), ("$-1\r\n", 0));
    assert!(!world.partition.engine.may_hold_head(&StoredKey::new(0, b"expires")));
}

#[test]
fn a_member_is_found_at_once_only_where_all_is_committed_and_in_memory() {
    let world = World::of(EngineKind::Memory);
    world.ask("HSET h a 1");
    assert_eq!(world.read("HGET h a", true).1, 1);
    let mut batch = Batch::new();
    batch.push_row(0, Change::Put { key: b"other", value: b"v", expire_at_ms: None });
    let commit = world.sim.block_on(world.partition.write(&batch)).expect("no faults");
    let (outcome, found_at_once) = world.read("HGET h a", true);
    assert_eq!((&outcome.answer[..], found_at_once), ("$1\r\n1\r\n", 0), "a write is on its way");
    world.sim.block_on(commit).expect("no faults");
    assert_eq!(world.read("HGET h a", true).1, 1);

    let world = World::of(EngineKind::Lsm);
    world.ask("HSET h a 1");
    assert_eq!(world.read("HGET h a", true).1, 0, "the tree may have to ask the device");
}
