//! The same commands to Weir and to a redis-server: the replies must be the same bytes.
//!
//! Skipped, with a message, where no `redis-server` is installed.
#![allow(clippy::disallowed_methods, missing_docs, reason = "a test starts the process that it compares with")]

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use support::{Client, Running};
use weir_io::Rng;

struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    fn start() -> Option<Self> {
        // One at a time: a port that was free stays free until this server listens at it.
        static STARTING: Mutex<()> = Mutex::new(());
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let spawned = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--databases", "1"])
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

    fn connect(&self) -> Client {
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

/// The two sides, side by side.
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

/// Commands made of few keys, few values and all options, so that they meet.
fn random_command(rng: &mut Rng) -> Vec<String> {
    let one_of = |rng: &mut Rng, words: &[&str]| words[rng.below(words.len() as u64) as usize].to_owned();
    let key = |rng: &mut Rng| one_of(rng, &["a", "b", "c", "", "long-key-with-a-name"]);
    let value = |rng: &mut Rng| {
        one_of(
            rng,
            &["", "x", "10", "-3", "9223372036854775807", "3.25", "0.1", "1e3", " 1", "some longer text\r\nhere"],
        )
    };
    let number = |rng: &mut Rng| {
        one_of(rng, &["0", "1", "-1", "5", "-7", "100", "9223372036854775807", "-9223372036854775808", "1.5", "x", ""])
    };
    let time = |rng: &mut Rng| one_of(rng, &["200000", "100000", "0", "-1", "9223372036854775807", "1x"]);
    let mut command = Vec::new();
    let mut words = |words: &[String]| command.extend_from_slice(words);
    match rng.below(33) {
        0 => words(&["GET".into(), key(rng)]),
        1 => words(&["SET".into(), key(rng), value(rng)]),
        2 | 3 => {
            words(&["SET".into(), key(rng), value(rng)]);
            for _ in 0..rng.below(4) {
                match rng.below(6) {
                    0 => words(&[one_of(rng, &["EX", "px"]), time(rng)]),
                    1 => words(&[one_of(rng, &["EXAT", "PXAT"]), one_of(rng, &["99999999999", "0", "y"])]),
                    _ => words(&[one_of(rng, &["NX", "XX", "GET", "KEEPTTL", "get", "EX", "bad"])]),
                }
            }
        }
        4 => words(&[one_of(rng, &["SETEX", "PSETEX"]), key(rng), time(rng), value(rng)]),
        5 => words(&[one_of(rng, &["SETNX", "GETSET", "APPEND"]), key(rng), value(rng)]),
        6 => words(&[one_of(rng, &["GETDEL", "STRLEN", "TYPE", "PERSIST"]), key(rng)]),
        7 => {
            words(&["GETEX".into(), key(rng)]);
            match rng.below(4) {
                0 => words(&["PERSIST".into()]),
                1 => words(&[one_of(rng, &["EX", "PX", "BAD"]), time(rng)]),
                2 => words(&["PXAT".into(), one_of(rng, &["99999999999000", "1"])]),
                _ => {}
            }
        }
        8 => words(&["MGET".into(), key(rng), key(rng), key(rng)]),
        9 => words(&[one_of(rng, &["MSET", "MSETNX"]), key(rng), value(rng), key(rng), value(rng)]),
        10 => words(&[one_of(rng, &["MSET", "MSETNX"]), key(rng), value(rng), key(rng)]),
        11 | 12 => words(&[one_of(rng, &["INCR", "DECR"]), key(rng)]),
        13 | 14 => words(&[one_of(rng, &["INCRBY", "DECRBY", "INCRBYFLOAT"]), key(rng), number(rng)]),
        15 | 16 => {
            words(&["INCRBYFLOAT".into(), key(rng), one_of(rng, &["0.1", "-2.75", "1e17", "3", "1234567.1", "5e-3"])])
        }
        17 | 18 => words(&[one_of(rng, &["GETRANGE", "SUBSTR"]), key(rng), number(rng), number(rng)]),
        19 => words(&["SETRANGE".into(), key(rng), one_of(rng, &["0", "3", "20", "-1", "x", "600000000"]), value(rng)]),
        20 => words(&[one_of(rng, &["DEL", "UNLINK", "EXISTS", "TOUCH"]), key(rng), key(rng)]),
        21 => words(&["DEL".into(), key(rng)]),
        22 | 23 => {
            words(&[one_of(rng, &["EXPIRE", "PEXPIRE"]), key(rng), time(rng)]);
            for _ in 0..rng.below(3) {
                words(&[one_of(rng, &["NX", "XX", "GT", "lt", "bad"])]);
            }
        }
        24 => {
            words(&[
                one_of(rng, &["EXPIREAT", "PEXPIREAT"]),
                key(rng),
                one_of(rng, &["99999999999", "9999999999999", "-5"]),
            ]);
            for _ in 0..rng.below(2) {
                words(&[one_of(rng, &["NX", "XX", "GT", "LT"])]);
            }
        }
        25 => words(&["TTL".into(), key(rng)]),
        26 => words(&[one_of(rng, &["EXPIRETIME", "PEXPIRETIME"]), one_of(rng, &["absent", "z"])]),
        27 => words(&["EXISTS".into(), "a".into(), "b".into(), "c".into(), "".into()]),
        28 => words(&[
            "SCAN".into(),
            "0".into(),
            "COUNT".into(),
            "100".into(),
            "MATCH".into(),
            one_of(rng, &["zzz*", "[xy]"]),
        ]),
        29 => words(&["KEYS".into(), one_of(rng, &["long*", "?[^a-z]", "l*[e]", "\\a"])]),
        30 => words(&[one_of(rng, &["GET", "SET", "DEL", "INCR", "NOSUCH", "TTL", "GETRANGE", "PING"])]),
        31 => words(&["PING".into(), value(rng)]),
        _ => words(&["ECHO".into(), value(rng)]),
    }
    command
}

/// Two clocks a fraction of a millisecond apart must not show: expiry times are compared only where they are absolute.
#[test]
fn random_commands_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let weir = Running::start(weir_gateway::Settings::default());
    for seed in 0..4_u64 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair { redis: redis.connect(), weir: weir.connect(), asked: Vec::new() };
        pair.say("FLUSHALL");
        let hello = if seed % 2 == 0 { "HELLO 2" } else { "HELLO 3" };
        pair.redis.say(hello);
        pair.weir.say(hello);
        for _ in 0..10_000 {
            pair.ask(&random_command(&mut rng));
        }
    }
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
