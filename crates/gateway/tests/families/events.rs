//! The events of keys that subscribers are sent: the same messages in the same order as from a redis-server, on both
//! engines.

use weir_io::Rng;
use weir_node::EngineKind;

use super::{FAMILIES, random_of_keys, setting};
use crate::differential::Redis;
use crate::support::random::random_command;
use crate::support::world::World;
use crate::support::{Client, TestClock, encode};
use weir_gateway::Settings;

/// A server, a client that changes keys, and a client that is told.
struct Side {
    client: Client,
    listener: Client,
    /// Sends marks, because the other client may be in a transaction.
    marker: Client,
    marks: usize,
}

impl Side {
    fn new([mut client, mut listener, marker]: [Client; 3], classes: &str) -> Self {
        assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
        assert_eq!(client.say(&format!("CONFIG SET notify-keyspace-events {classes}")), "+OK\r\n");
        assert!(listener.say("PSUBSCRIBE __key*__:*").contains("psubscribe"));
        Self { client, listener, marker, marks: 0 }
    }

    /// What is told after `command`, a line for each message, with the answer in front.
    fn tell(&mut self, command: &[String]) -> Vec<String> {
        let answer = self.client.ask(command);
        self.told(String::from_utf8_lossy(&answer).into_owned())
    }

    fn told(&mut self, answer: String) -> Vec<String> {
        self.marks += 1;
        let mark = format!("mark-{}", self.marks);
        let published = self.marker.ask(&["PUBLISH", "__key__:end", &mark]);
        assert_eq!(published, b":1\r\n");
        let mut told = vec![answer];
        loop {
            let message = self.listener.reply();
            let message = String::from_utf8_lossy(&message).into_owned();
            let words: Vec<&str> = message.split("\r\n").skip(1).collect();
            let words: Vec<&str> = words.iter().skip(1).step_by(2).copied().collect();
            if words.last() == Some(&&mark[..]) {
                return told;
            }
            told.push(words[2..].join(" "));
        }
    }
}

/// What both sides were asked, and where they told something different.
struct Comparison {
    redis: Side,
    weir: Side,
    asked: Vec<String>,
    differences: Vec<String>,
}

impl Comparison {
    fn new(redis: Side, weir: Side) -> Self {
        Self { redis, weir, asked: Vec::new(), differences: Vec::new() }
    }

    /// Asks both sides, and compares what they tell. The answers are compared elsewhere. A command that is refused may
    /// or may not have looked for its key before.
    fn ask(&mut self, command: &[String]) {
        self.asked.push(command.join(" "));
        let (mut theirs, mut ours) = (self.redis.tell(command), self.weir.tell(command));
        for told in [&mut theirs, &mut ours] {
            let answer = told.remove(0);
            told.retain(|message| !answer.starts_with('-') || !message.contains("keymiss"));
        }
        if ours != theirs {
            let last = &self.asked[self.asked.len().saturating_sub(4)..];
            self.differences.push(format!("{last:?}\n  redis: {theirs:?}\n  weir:  {ours:?}"));
        }
    }

    fn end(self, what: &str) {
        let differences = self.differences.iter().take(30).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{what}: {} differences\n{differences}", self.differences.len());
    }
}

/// Commands that are left out, because their events depend on chance.
const BY_CHANCE: [&str; 1] = ["SPOP"];

/// Runs `WEIR_COMMANDS` for each seed, engine and family (600), and `WEIR_SEEDS` seeds (1) from `WEIR_SEED` (0) on;
/// only the family `WEIR_FAMILY` if that is given.
#[test]
fn events_are_told_alike_on_both_engines() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    let wanted = std::env::var("WEIR_FAMILY").ok();
    for family in FAMILIES.iter().filter(|family| wanted.as_deref().is_none_or(|wanted| wanted == family.name)) {
        for engine in EngineKind::ALL {
            let tenant = format!("{}-events-{engine}", family.name);
            drop(world.tenant_on(engine, &tenant, 1, 0));
            let first = setting("WEIR_SEED", 0);
            for seed in first..first + setting("WEIR_SEEDS", 1) {
                let mut rng = Rng::new(seed);
                let theirs = Side::new([0; 3].map(|_| redis.connect()), "KEAmn");
                let ours = Side::new([0; 3].map(|_| world.connect(&tenant)), "KEAmn");
                let mut both = Comparison::new(theirs, ours);
                for case in family.cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                    let words: Vec<String> = match case.contains('|') {
                        true => case.split('|').map(|word| word.replace("\\n", "\n")).collect(),
                        false => case.split(' ').map(str::to_owned).collect(),
                    };
                    if !BY_CHANCE.contains(&&words[0].to_uppercase()[..]) {
                        both.ask(&words);
                    }
                }
                for _ in 0..setting("WEIR_COMMANDS", 600) {
                    let command = if rng.chance(0.12) { random_of_keys(&mut rng) } else { (family.random)(&mut rng) };
                    if !BY_CHANCE.contains(&&command[0].to_uppercase()[..]) {
                        both.ask(&command);
                    }
                }
                both.end(&format!("{tenant}, seed {seed}"));
            }
        }
    }
}

/// Strings, bitmaps and keys; `WEIR_COMMANDS` is the number of commands (2,000).
#[test]
fn events_of_strings_are_told_alike() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    for engine in EngineKind::ALL {
        let tenant = format!("strings-{engine}");
        drop(world.tenant_on(engine, &tenant, 1, 0));
        let theirs = Side::new([0; 3].map(|_| redis.connect()), "KEAmn");
        let ours = Side::new([0; 3].map(|_| world.connect(&tenant)), "KEAmn");
        let (mut rng, mut both) = (Rng::new(setting("WEIR_SEED", 0)), Comparison::new(theirs, ours));
        for case in include_str!("events.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<String> = case.split(' ').map(str::to_owned).collect();
            both.ask(&words);
        }
        for _ in 0..setting("WEIR_COMMANDS", 2_000) {
            both.ask(&random_command(&mut rng));
        }
        both.end(&tenant);
    }
}

/// What is told about a command that has waited, and about the one that has filled its row.
#[test]
fn events_of_those_who_waited_are_told_alike() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    drop(world.tenant("waits", 1, 0));
    for (waits, fills) in [
        ("BLPOP l 0", "RPUSH l 1"),
        ("BRPOP l 0", "RPUSH l 1 2 3"),
        ("BLMOVE l m LEFT RIGHT 0", "RPUSH l 1"),
        ("BLMPOP 0 2 x l LEFT COUNT 2", "LPUSH l 1 2"),
        ("BZPOPMIN z 0", "ZADD z 1 a"),
        ("BZMPOP 0 1 z MAX", "ZADD z 1 a 2 b"),
        ("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 f v"),
    ] {
        let told = |mut waiter: Client, mut side: Side| {
            waiter.send(&encode(&waits.split(' ').collect::<Vec<_>>()));
            while !side.client.say("INFO clients").contains("blocked_clients:1") {}
            let answer = side.client.say(fills);
            waiter.reply();
            side.told(answer)
        };
        let theirs = told(redis.connect(), Side::new([0; 3].map(|_| redis.connect()), "KEA"));
        let connect = || world.connect("waits");
        let ours = told(connect(), Side::new([0; 3].map(|_| connect()), "KEA"));
        assert_eq!(ours, theirs, "{waits}, {fills}");
    }
}

/// An expired key is told soon, even if nobody asks for it, and only once: no command that finds it gone tells it
/// again.
#[test]
fn what_has_expired_is_told_once() {
    let clock = TestClock::new();
    for engine in EngineKind::ALL {
        let world = World::new_at(clock.clone(), Settings::default());
        drop(world.tenant_on(engine, "expires", 1, 0));
        let mut side = Side::new([0; 3].map(|_| world.connect("expires")), "Exg$lmn");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["MSET a 1 b 1 c 1 d 1 e 1", "RPUSH l 1", "SET keeps 1"] {
            side.tell(&words(line));
        }
        for key in ["a", "b", "c", "d", "e", "l"] {
            side.tell(&words(&format!("PEXPIRE {key} 500")));
        }
        clock.advance(1);
        let mut told = Vec::new();
        while told.len() < 6 {
            told.extend(side.tell(&words("PING")).into_iter().skip(1));
        }
        told.sort();
        let expired = ["a", "b", "c", "d", "e", "l"].map(|key| format!("__keyevent@0__:expired {key}"));
        assert_eq!(told, expired, "on {engine}");
        let event = |name: &str, key: &str| format!("__keyevent@0__:{name} {key}");
        for (line, told) in [
            ("GET a", vec![event("keymiss", "a")]),
            ("SET b 2", vec![event("new", "b"), event("set", "b")]),
            ("DEL c keeps", vec![event("del", "keeps")]),
            ("LPUSH l 2", vec![event("new", "l"), event("lpush", "l")]),
            ("LPUSHX d 2", vec![]),
            ("RENAME e x", vec![]),
        ] {
            assert_eq!(side.tell(&words(line))[1..], told, "{line} on {engine}");
        }
    }
}

/// Keys that nobody asks for: subscribers are told that they have expired, and so are clients that keep their values.
#[test]
fn what_expires_unasked_is_told_alike() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    for engine in EngineKind::ALL {
        let tenant = format!("unasked-{engine}");
        drop(world.tenant_on(engine, &tenant, 1, 0));
        let told = |connect: &dyn Fn() -> Client| {
            let [mut client, mut listener, mut keeper, mut of_all] = [0; 4].map(|_| connect());
            client.say("FLUSHALL");
            // This key exists before anybody listens.
            client.say("SET early v PX 400");
            client.say("CONFIG SET notify-keyspace-events KEx");
            listener.say("PSUBSCRIBE __key*__:*");
            for (client, mode) in [(&mut keeper, ""), (&mut of_all, " BCAST PREFIX k")] {
                client.say("HELLO 3");
                client.say(&format!("CLIENT TRACKING ON{mode}"));
            }
            client.say("SET k v PX 600");
            keeper.say("GET k");
            let mut told = [0; 4].map(|_| listener.reply()).to_vec();
            // In broadcast mode also of the `SET`.
            told.extend([keeper.reply(), of_all.reply(), of_all.reply()]);
            told.push(client.ask(&["EXISTS", "early", "k"]));
            for client in [&mut keeper, &mut of_all] {
                client.say("CLIENT TRACKING OFF");
            }
            client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""]);
            told.iter().map(|told| told.escape_ascii().to_string()).collect::<Vec<_>>()
        };
        let theirs = told(&|| redis.connect());
        assert_eq!(told(&|| world.connect(&tenant)), theirs, "on {engine}");
    }
}

/// A pause of writes holds a client's command, but not what the client is told.
#[test]
fn what_happens_is_told_in_the_middle_of_a_pause() {
    let world = World::new();
    drop(world.tenant("paused", 1, 0));
    let [mut listener, mut other] = [0; 2].map(|_| world.connect("paused"));
    assert!(listener.say("HELLO 3").starts_with('%'));
    assert_eq!(other.say("CONFIG SET notify-keyspace-events Em"), "+OK\r\n");
    assert!(listener.say("SUBSCRIBE __keyevent@0__:keymiss").contains("subscribe"));
    assert_eq!(other.say("CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
    listener.send(&encode(&["SET", "held", "v"]));
    assert_eq!(other.say("GET k"), "$-1\r\n");
    let told = String::from_utf8_lossy(&listener.reply()).into_owned();
    assert_eq!(told, ">3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:keymiss\r\n$1\r\nk\r\n");
    assert_eq!(other.say("DBSIZE"), ":0\r\n");
    assert_eq!(other.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(listener.reply(), b"+OK\r\n");
}

/// As in Redis, the key is gone at once, and is deleted, told and counted when the pause is over.
#[test]
fn what_expires_during_a_pause_is_told_behind_it() {
    let world = World::new();
    drop(world.tenant("pausing", 1, 0));
    let [mut listener, mut other] = [0; 2].map(|_| world.connect("pausing"));
    assert_eq!(other.say("CONFIG SET notify-keyspace-events Ex"), "+OK\r\n");
    assert!(listener.say("SUBSCRIBE __keyevent@0__:expired").contains("subscribe"));
    // A pause that begins in a transaction does not hold it, but is in effect when the key is written.
    for line in ["MULTI", "CLIENT PAUSE 1000000 WRITE", "SET k v PX 20", "EXEC"] {
        let answer = other.say(line);
        assert!(!answer.starts_with('-'), "{line}: {answer}");
    }
    while other.say("GET k") != "$-1\r\n" {}
    let told = other.say("INFO stats");
    assert!(told.contains("expired_keys:0\r\n"), "{told}");
    listener.send(&encode(&["PING", "nothing-yet"]));
    assert!(String::from_utf8_lossy(&listener.reply()).contains("nothing-yet"));
    assert_eq!(other.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(other.say("GET k"), "$-1\r\n");
    let told = String::from_utf8_lossy(&listener.reply()).into_owned();
    assert_eq!(told, "*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\nk\r\n");
    assert!(other.say("INFO stats").contains("expired_keys:1\r\n"));
    assert_eq!(other.say("CONFIG RESETSTAT"), "+OK\r\n");
    assert!(other.say("INFO stats").contains("expired_keys:0\r\n"));
}

/// The events of a transaction and of a script are told in the order of what they run; commands that fail, and changes
/// that are taken back, are not told.
#[test]
fn events_of_what_runs_as_one_are_told_alike() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    drop(world.tenant("as-one", 1, 0));
    let mut theirs = Side::new([0; 3].map(|_| redis.connect()), "KEAmn");
    let mut ours = Side::new([0; 3].map(|_| world.connect("as-one")), "KEAmn");
    for lines in [
        &["MULTI", "SET k 1", "LPUSH k x", "INCR k", "DEL k", "LPUSH k x", "GET missing", "EXEC"][..],
        &["MULTI", "SELECT 3", "SET k 1", "MOVE k 0", "MOVE k 5", "EXEC", "SELECT 0"],
        &["EVAL redis.call('set',KEYS[1],1)redis.pcall('lpush',KEYS[1],1)return(redis.call('del',KEYS[1])) 1 s"],
        &["EVAL redis.call('set','undeclared',1)return(redis.call('rename','undeclared','other')) 0"],
        &["FLUSHALL"],
        &["SET k 1"],
        &["FLUSHDB"],
    ] {
        let both = [&mut theirs, &mut ours].map(|side| {
            let answers: Vec<String> = lines.iter().map(|line| side.client.say(line)).collect();
            side.told(answers.concat())
        });
        assert_eq!(both[1][1..], both[0][1..], "{lines:?}");
    }
}
