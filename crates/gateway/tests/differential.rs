//! Sends the same commands to Weir and to a redis-server: the replies must be the same bytes.
//!
//! Skipped, with a message, where no `redis-server` is installed.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::support::random::{KEYS, random_command};
use crate::support::{Client, Running, encode};
use weir_command::table::redis_facts::is_in_redis_7_0;
use weir_io::Rng;

pub struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    pub fn start() -> Option<Self> {
        // Only one server starts at a time, so that a port that was free stays free until the server listens at it.
        static STARTING: Mutex<()> = Mutex::new(());
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let spawned = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--databases", "16"])
            .args(["--enable-debug-command", "yes"])
            .stdout(Stdio::null())
            .spawn();
        match spawned {
            Ok(process) => {
                let redis = Self { process, port };
                redis.connect();
                Some(redis)
            }
            Err(error) => {
                eprintln!("SKIPPED: redis-server does not start ({error}); install it to compare with it");
                None
            }
        }
    }

    pub fn connect(&self) -> Client {
        for _ in 0..500 {
            if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) {
                return Client::new(stream);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not listen");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Weir and Redis, side by side.
struct Pair {
    redis: Client,
    weir: Client,
    asked: Vec<Vec<String>>,
}

impl Pair {
    fn ask(&mut self, args: &[String]) {
        self.asked.push(args.to_vec());
        let redis = self.redis.ask(args);
        let weir = self.weir.ask(args);
        if args.len() == 2 && is_close(&args[0], &redis, &weir) {
            return;
        }
        assert_eq!(
            String::from_utf8_lossy(&weir),
            String::from_utf8_lossy(&redis),
            "{:?} after {:#?}",
            args,
            &self.asked[self.asked.len().saturating_sub(12)..]
        );
    }

    fn say(&mut self, words: &str) {
        self.ask(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
}

/// Whether both replies are times that differ by no more than the moments at which the two servers executed the
/// command.
pub fn is_close(command: &str, redis: &[u8], weir: &[u8]) -> bool {
    let tolerance = match command {
        "TTL" | "EXPIRETIME" => 5,
        "PTTL" | "PEXPIRETIME" => 5000,
        _ => return false,
    };
    let number = |reply: &[u8]| std::str::from_utf8(reply.strip_prefix(b":")?).ok()?.trim_end().parse::<i64>().ok();
    match (number(redis), number(weir)) {
        (Some(redis @ 1..), Some(weir @ 1..)) => redis.abs_diff(weir) <= tolerance,
        _ => false,
    }
}

#[test]
fn written_out_cases_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    for protocol in ["2", "3"] {
        let mut pair = Pair { redis: redis.connect(), weir: weir.connect(), asked: Vec::new() };
        pair.redis.say(&format!("HELLO {protocol}"));
        pair.weir.say(&format!("HELLO {protocol}"));
        for case in include_str!("cases.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            pair.say(case);
        }
        pair.say("FLUSHALL");
    }
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}

/// `WEIR_COMMANDS` per seed (2,500), `WEIR_SEEDS` seeds (4) from `WEIR_SEED` (0) on; each seed alternates the
/// protocol.
#[test]
fn random_commands_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let first = setting("WEIR_SEED", 0);
    for seed in first..first + setting("WEIR_SEEDS", 4) {
        let mut rng = Rng::new(seed);
        let mut pair = Pair { redis: redis.connect(), weir: weir.connect(), asked: Vec::new() };
        pair.say("FLUSHALL");
        let hello = if seed % 2 == 0 { "HELLO 2" } else { "HELLO 3" };
        pair.redis.say(hello);
        pair.weir.say(hello);
        for count in 1..=setting("WEIR_COMMANDS", 2_500) {
            pair.ask(&random_command(&mut rng));
            if count % 1000 == 0 {
                pair.asked.drain(..pair.asked.len().saturating_sub(12));
                for (name, key) in ["GET", "PEXPIRETIME"].into_iter().flat_map(|name| KEYS.map(|key| (name, key))) {
                    pair.ask(&[name.into(), key.into()]);
                }
            }
        }
    }
}

#[test]
fn each_side_restores_what_the_other_dumps() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let (mut theirs, mut ours) = (redis.connect(), weir.connect());
    let mut rng = Rng::new(1);
    let unpack = |reply: Vec<u8>| -> Vec<u8> {
        let start = reply.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        reply[start..reply.len() - 2].to_vec()
    };
    for round in 0..500_u64 {
        let value: Vec<u8> = match round % 4 {
            0 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
            1 => (0..rng.below(300)).map(|_| rng.below(256) as u8).collect(),
            2 => (0..rng.below(50_000)).map(|_| b'a' + rng.below(2) as u8).collect(),
            _ => b"a long pattern that repeats ".repeat(rng.below(40) as usize),
        };
        for side in [&mut theirs, &mut ours] {
            assert_eq!(side.ask(&[&b"SET"[..], b"from", &value]), b"+OK\r\n");
        }
        let (from_them, from_us) = (unpack(theirs.ask(&["DUMP", "from"])), unpack(ours.ask(&["DUMP", "from"])));
        assert_eq!(theirs.ask(&[&b"RESTORE"[..], b"to", b"0", &from_us, b"REPLACE"]), b"+OK\r\n");
        assert_eq!(ours.ask(&[&b"RESTORE"[..], b"to", b"0", &from_them, b"REPLACE"]), b"+OK\r\n");
        assert_eq!(unpack(theirs.ask(&["GET", "to"])), value);
        assert_eq!(unpack(ours.ask(&["GET", "to"])), value);
    }
}

/// A reply taken apart: elements with an order, elements without an order, or one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    Many(Vec<Tree>),
    Line(String),
}

/// The reply at the front of `lines`. Sets are sorted. Notes of key specifications are left out, because they are
/// Redis' own text.
fn tree<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Tree {
    let line = lines.next().expect("a line");
    let (kind, rest) = line.split_at(1);
    let len = || rest.parse::<usize>().expect("a length");
    match kind {
        "$" => Tree::Line(lines.next().expect("a text").to_owned()),
        "*" => Tree::Many((0..len()).map(|_| tree(lines)).collect()),
        "~" => {
            let mut all: Vec<Tree> = (0..len()).map(|_| tree(lines)).collect();
            all.sort();
            Tree::Many(all)
        }
        "%" => {
            let pairs: Vec<[Tree; 2]> = (0..len()).map(|_| [tree(lines), tree(lines)]).collect();
            let pairs = pairs.into_iter().filter(|[name, _]| *name != Tree::Line("notes".into()));
            Tree::Many(pairs.flatten().collect())
        }
        _ => Tree::Line(line.to_owned()),
    }
}

/// All ten fields of every command that both servers have, and of every subcommand that Redis has.
#[test]
fn commands_are_described_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let (mut theirs, mut ours) = (redis.connect(), weir.connect());
    for client in [&mut theirs, &mut ours] {
        client.say("HELLO 3");
    }
    for command in weir_command::table::COMMANDS.iter().filter(|command| !is_in_redis_7_0(command.name)) {
        assert_eq!(theirs.ask(&["COMMAND", "INFO", command.name]), b"*1\r\n_\r\n", "{}", command.name);
    }
    for command in weir_command::table::COMMANDS.iter().filter(|command| is_in_redis_7_0(command.name)) {
        let describe = |client: &mut Client| {
            let reply = client.ask(&["COMMAND", "INFO", command.name]);
            let text = String::from_utf8_lossy(&reply).into_owned();
            let Tree::Many(mut one) = tree(&mut text.lines()) else { panic!("{text}") };
            let Some(Tree::Many(mut fields)) = one.pop() else { panic!("{}: {text}", command.name) };
            let Some(Tree::Many(mut below)) = fields.pop() else { panic!("{}: {text}", command.name) };
            below.sort();
            (fields, below)
        };
        let (theirs, mut ours) = (describe(&mut theirs), describe(&mut ours));
        // Some subcommands are from later versions.
        ours.1.retain(|subcommand| {
            let Tree::Many(fields) = subcommand else { return true };
            let later = ["client|capa", "client|no-touch", "client|setinfo"].map(|name| Tree::Line(name.into()));
            !later.contains(&fields[0])
        });
        assert_eq!(ours, theirs, "{}", command.name);
    }
}

/// What tests ask for, if both sides allow it: the types of replies, and errors.
#[test]
fn debug_is_answered_alike_where_it_is_allowed() {
    let Some(redis) = Redis::start() else { return };
    let refused = Running::start(weir_gateway::Settings::default());
    assert!(refused.connect().say("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed"));
    let settings = weir_gateway::Settings { allow_debug: true, ..weir_gateway::Settings::default() };
    let weir = Running::start(settings);
    for protocol in ["2", "3"] {
        let mut pair = Pair { redis: redis.connect(), weir: weir.connect(), asked: Vec::new() };
        for client in [&mut pair.redis, &mut pair.weir] {
            client.say(&format!("HELLO {protocol}"));
        }
        for kind in ["string", "integer", "double", "null", "array", "set", "map", "verbatim", "true", "false", "x"] {
            pair.say(&format!("DEBUG PROTOCOL {kind}"));
        }
        // Replies of types that nothing else has: a client that reads only the first reply sees two.
        for kind in ["attrib", "push", "bignum"] {
            let told = |client: &mut Client| {
                client.send(&encode(&["DEBUG", "PROTOCOL", kind]));
                client.send(&encode(&["PING", "the-end"]));
                String::from_utf8_lossy(&client.until(b"the-end\r\n")).into_owned()
            };
            assert_eq!(told(&mut pair.weir), told(&mut pair.redis), "{kind}");
        }
        for line in [
            "DEBUG",
            "DEBUG nosuch",
            "DEBUG SLEEP",
            "DEBUG SLEEP x",
            "DEBUG SLEEP 0",
            "DEBUG SET-ACTIVE-EXPIRE 0",
            "DEBUG SET-ACTIVE-EXPIRE 1",
            "DEBUG PAUSE-CRON 1",
            "DEBUG PAUSE-CRON 0",
            "DEBUG QUICKLIST-PACKED-THRESHOLD 1b",
            "DEBUG QUICKLIST-PACKED-THRESHOLD x",
            "DEBUG QUICKLIST-PACKED-THRESHOLD 5000gb",
            "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
            "DEBUG CHANGE-REPL-ID",
            "DEBUG ERROR",
            "DEBUG LOG hi",
            "DEBUG OBJECT nosuch",
            "DEBUG LISTPACK nosuch",
            "SET k v",
            "DEBUG LISTPACK k",
            "DEL k",
        ] {
            pair.say(line);
        }
        assert_eq!(pair.weir.say("RPUSH l a b c"), ":3\r\n");
        let said = pair.weir.say("DEBUG OBJECT l");
        assert!(said.starts_with("+Value at:0x0 refcount:1 encoding:quicklist serializedlength:"), "{said}");
        assert_eq!(pair.weir.say("DEL l"), ":1\r\n");
    }
}

/// The names that both servers have, in any order.
#[test]
fn categories_have_the_same_commands() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let (mut theirs, mut ours) = (redis.connect(), weir.connect());
    let categories = theirs.ask(&["ACL", "CAT"]);
    let lines = |reply: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(reply).lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
    };
    for category in lines(&categories) {
        let listed = |client: &mut Client| {
            let mut names = lines(&client.ask(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", &category]));
            names.retain(|name| weir_command::table::COMMANDS.iter().any(|command| command.name == name));
            names.retain(|name| is_in_redis_7_0(name));
            names.sort();
            names
        };
        assert_eq!(listed(&mut ours), listed(&mut theirs), "{category}");
    }
}

/// What each of three connections is sent, line by line of `script`, in both protocols. After each line there is a
/// `PING`, which is answered in every state, so that everything that was sent before it is known to have come. `known`
/// takes out known differences.
fn are_told_alike(script: &str, known: impl Fn(&str) -> String) {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    for protocol in ["2", "3"] {
        let mut redis: Vec<Client> = (0..3).map(|_| redis.connect()).collect();
        let mut weir: Vec<Client> = (0..3).map(|_| weir.connect()).collect();
        for client in redis.iter_mut().chain(&mut weir) {
            client.say("FLUSHALL");
            client.say(&format!("HELLO {protocol}"));
        }
        for (number, line) in script.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let (who, words) = line.split_once(' ').expect("who says it, and what");
            let who: usize = who.parse().expect("a number");
            let mark = format!("<the-end-of-line-{number}>\r\n");
            let pipeline = words.split(" ; ").map(|words| encode(&words.split(' ').collect::<Vec<_>>()));
            let pipeline: Vec<u8> = pipeline.chain([encode(&["PING", mark.trim_end()])]).flatten().collect();
            let told = |client: &mut Client| {
                client.send(&pipeline);
                known(&String::from_utf8_lossy(&client.until(mark.as_bytes())))
            };
            let (theirs, ours) = (told(&mut redis[who]), told(&mut weir[who]));
            assert_eq!(ours, theirs, "RESP{protocol}, line {}: {line}", number + 1);
        }
    }
}

#[test]
fn subscriptions_are_answered_alike() {
    are_told_alike(include_str!("subscriptions.txt"), str::to_owned);
}

/// A line of `MONITOR` with only its database and its words, and its sender only if that is a script.
fn without_moments(told: &str) -> String {
    let line = |line: &str| match line.split_once(" [").and_then(|(_, rest)| rest.split_once(' ')) {
        Some((database, rest)) if line.starts_with("+1") => {
            let (who, words) = rest.split_once(']').expect("who it was");
            format!("+[{database} {}]{words}", if who == "lua" { who } else { "somebody" })
        }
        _ => line.to_owned(),
    };
    told.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n")
}

#[test]
fn who_monitors_is_told_alike() {
    are_told_alike(include_str!("monitor.txt"), without_moments);
}

/// What is sent to clients that keep values: connections 0 and 1 speak RESP3, 2 speaks RESP2.
#[test]
fn who_tracks_is_told_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let mut sides = [(0..3).map(|_| redis.connect()).collect::<Vec<_>>(), (0..3).map(|_| weir.connect()).collect()];
    let ids = sides.each_mut().map(|clients| {
        clients.iter_mut().map(|client| client.say("CLIENT ID")[1..].trim_end().to_owned()).collect::<Vec<_>>()
    });
    for client in sides.iter_mut().flat_map(|clients| &mut clients[..2]) {
        client.say("HELLO 3");
    }
    let script = include_str!("tracking.txt");
    for (number, line) in script.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (who, words) = line.split_once(' ').expect("who says it, and what");
        let who: usize = who.parse().expect("a number");
        let mark = format!("<the-end-of-line-{number}>\r\n");
        let told = [0, 1].map(|side| {
            let named = |words: String, n: usize| words.replace(&format!("{{{n}}}"), &ids[side][n]);
            let words = (0..3).fold(words.to_owned(), named);
            let pipeline = words.split(" ; ").map(|words| encode(&words.split(' ').collect::<Vec<_>>()));
            let pipeline: Vec<u8> = pipeline.chain([encode(&["PING", mark.trim_end()])]).flatten().collect();
            sides[side][who].send(&pipeline);
            let told = String::from_utf8_lossy(&sides[side][who].until(mark.as_bytes())).into_owned();
            let told = told.replace(&format!("id\r\n:{}\r\n", ids[side][who]), "id\r\n{id}\r\n");
            told.replace(&format!("redirect\r\n:{}\r\n", ids[side][2]), "redirect\r\n{2}\r\n")
        });
        assert_eq!(told[1], told[0], "line {}: {line}", number + 1);
    }
}

/// A connection no longer counts for others once it hears that it may go, even if its own side is still open.
#[test]
fn who_has_quit_is_gone_for_others_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    let told =
        [[0; 3].map(|_| redis.connect()), [0; 3].map(|_| weir.connect())].map(|[mut keeper, mut other, mut gone]| {
            let id = gone.say("CLIENT ID")[1..].trim_end().to_owned();
            keeper.say("HELLO 3");
            gone.say("SUBSCRIBE __redis__:invalidate");
            let asked = [format!("CLIENT TRACKING ON REDIRECT {id}"), "GET k".to_owned()].map(|line| keeper.say(&line));
            let quit = gone.say("QUIT");
            let others = [
                "PUBSUB NUMSUB __redis__:invalidate".to_owned(),
                format!("CLIENT KILL ID {id}"),
                format!("CLIENT UNBLOCK {id}"),
                format!("CLIENT LIST ID {id}"),
                "SET k 2".to_owned(),
            ]
            .map(|line| other.say(&line));
            keeper.send(&[encode(&["CLIENT", "TRACKINGINFO"]), encode(&["PING", "<the-end>"])].concat());
            let broken =
                String::from_utf8_lossy(&keeper.until(b"<the-end>\r\n")).replace(&format!(":{id}\r\n"), ":{id}\r\n");
            let again = keeper.say(&format!("CLIENT TRACKING ON REDIRECT {id}"));
            (asked, quit, others, broken, again)
        });
    assert_eq!(told[1], told[0]);
    assert!(told[1].3.contains("tracking-redir-broken\r\n:{id}\r\n"), "{:?}", told[1]);
}

#[test]
fn broken_streams_get_the_same_last_words() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    for stream in [
        &b"*x\r\n"[..],
        b"*1\r\n$x\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$9999999999\r\n",
        b"*99999999999\r\n",
        b"*1\r\n:1\r\n",
        b"*1\r\n*1\r\n",
        b"*1\r\n\r\n",
        b"SET \"a\r\n",
        b"SET 'a'b c\r\n",
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n!\r\n",
        b"PING\r\nPING hi\nSET k \"a\\x41\\n\"\r\nGET k\r\n\r\nQUIT\r\n",
        b"*1\r\n$4\r\nPINGxxQUIT\r\n",
        b"*0\r\n*-1\r\nQUIT\r\n",
        b"nosuch a b\r\nQUIT\r\n",
        b"Host: a\r\n",
        b"POST / HTTP/1.1\r\n",
    ] {
        let (mut theirs, mut ours) = (redis.connect(), weir.connect());
        theirs.send(stream);
        ours.send(stream);
        assert_eq!(String::from_utf8_lossy(&ours.rest()), String::from_utf8_lossy(&theirs.rest()), "{stream:?}");
    }
}
