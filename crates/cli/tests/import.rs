//! `weir import` and `weir export` between a real server and a redis-server, if one is installed, or a source that
//! follows a script.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Dir, Server};
use rustix::process::{Pid, Signal, kill_process};

/// A redis-server; killed when dropped.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// Starts a redis-server; `None` if none is installed. It loads `dump.rdb` of `dir`, if there is one.
    fn start(dir: &Path) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(dir);
        command.args(["--repl-diskless-sync-delay", "0"]).stdout(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: no redis-server is installed");
            return None;
        };
        let redis = Redis { child, port };
        loop {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                let mut answer = [0; 5];
                stream.write_all(b"PING\r\n").expect("it reads");
                if stream.read_exact(&mut answer).is_ok() && &answer == b"+PONG" {
                    return Some(redis);
                }
            }
            // So that the server has the processor to itself.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends lines, and gives the answer to the last one.
    fn ask(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        ask(&mut stream, lines)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(stream: &mut TcpStream, lines: &[&str]) -> String {
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(request.as_bytes()).expect("it reads");
    }
    // Its answer marks the end of all answers.
    stream.write_all(b"ECHO the-last-answer\r\n").expect("it reads");
    let mut answers = Vec::new();
    let mut piece = [0; 4096];
    while !answers.ends_with(b"$15\r\nthe-last-answer\r\n") {
        let read = stream.read(&mut piece).expect("an answer");
        assert!(read > 0, "closed behind {answers:?}");
        answers.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&answers).trim_end_matches("$15\r\nthe-last-answer\r\n").to_owned()
}

const FILL: &[&str] = &[
    "SET text hello",
    "SET ends later PXAT 33000000000000",
    "RPUSH list a b c 4",
    "SADD ints 1 2 3",
    "SADD set a b c",
    "HSET hash f v g w",
    "ZADD zset 1.5 a inf b -3 c",
    "XADD stream 5-1 f v",
    "XADD stream 6-1 f w",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
    "PFADD visitors a b c",
    "GEOADD places 13.361389 38.115556 Palermo",
    "SELECT 7",
    "MSET a 1 b 2",
    "SELECT 0",
];

fn fill(redis: &Redis) {
    redis.ask(FILL);
    // Some keys are so large that they come in parts.
    let large = [
        "redis.call('rpush','long-list',i..string.rep('v',1000))",
        "redis.call('hset','long-hash','field-'..i,string.rep('v',1000))",
        "redis.call('sadd','long-set',i..string.rep('m',200))",
        "redis.call('zadd','long-zset',i,string.rep('m',200)..i)",
        "redis.call('xadd','long-stream',i..'-1','f',string.rep('v',1000))",
    ];
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).expect("it listens");
    stream.write_all(b"SETRANGE text 300000 end\r\n").expect("it reads");
    for body in large {
        let script = format!("for i = 1, 9000 do {body} end");
        let request = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
        stream.write_all(request.as_bytes()).expect("it reads");
    }
    assert_eq!(ask(&mut stream, &["XGROUP CREATE long-stream g 50-1"]).matches("OK").count(), 1);
}

/// The next line that has `word`.
fn until(told: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    told.map(|line| line.expect("text")).find(|line| line.contains(word)).expect("it goes on")
}

/// Runs `weir` with these words, as a client of the tenant `default` of `server`.
fn weir(server: &Server, words: &[&str]) -> (bool, String) {
    let output = server.order(words).env("WEIR_SERVER", server.clients.to_string()).output().expect("it starts");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_dump_goes_in_and_comes_out_again() {
    for engine in ["lsm", "memory"] {
        let (dir, there, back) = (Dir::new(), Dir::new(), Dir::new());
        let Some(redis) = Redis::start(&there.0) else { return };
        fill(&redis);
        assert!(redis.ask(&["SAVE"]).contains("OK"));
        let server = Server::start(&dir, "");
        server.weir(&["tenant", "create", "shop", "--engine", engine, "--secret", "a-secret-of-the-shop"]);
        let dump = there.0.join("dump.rdb");
        let dump = dump.to_str().expect("text");
        let secret = ["--secret", "a-secret-of-the-shop"];
        let run = |words: &[&str]| weir(&server, &[words, &secret].concat());
        let (fine, said) = run(&["import", dump, "--to", "shop"]);
        assert!(fine && said.contains("17 imported, 0 refused"), "{said}");
        let (fine, said) = run(&["import", dump, "--to", "shop", "--verify"]);
        assert!(fine && said.contains("compared 17 keys") && said.contains(": 0 differ"), "{said}");
        let (fine, said) = run(&["import", dump, "--to", "shop"]);
        assert!(!fine && said.contains("--replace"), "{said}");
        let out = back.0.join("dump.rdb");
        let (fine, said) = run(&["export", "shop", "--to", out.to_str().expect("text")]);
        assert!(fine && said.contains("17 keys"), "{said}");
        let verify = |again: &Redis| run(&["import", &again.url(), "--to", "shop", "--verify"]);
        assert_is_back(&redis, &back.0, verify);
        // Redis' own tool fetches the same file.
        let asked = Dir::new();
        let out = asked.0.join("dump.rdb");
        let port = server.clients.port().to_string();
        let words = ["-p", &port, "--user", "shop", "--pass", "a-secret-of-the-shop", "--no-auth-warning", "--rdb"];
        let output = Command::new("redis-cli").args(words).arg(&out).output().expect("it is beside redis-server");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_is_back(&redis, &asked.0, verify);
        // A replica that wants to follow is refused.
        let mut stream = TcpStream::connect(("127.0.0.1", server.clients.port())).expect("it listens");
        let refused = ask(&mut stream, &["REPLCONF listening-port 7000", "PSYNC ? -1"]);
        assert!(refused.starts_with("+OK\r\n-NOMASTERLINK this server has no replicas"), "{refused}");
        // The source is another tenant: its snapshot is imported, and it is not followed. Nothing of ours stays.
        let source = format!("redis://shop:a-secret-of-the-shop@{}", server.clients);
        let (fine, said) = weir(&server, &["import", &source, "--to", "default"]);
        assert!(!fine && said.contains("17 imported, 0 refused") && said.contains("is not followed"), "{said}");
        assert_eq!(ask(&mut stream, &["DBSIZE", "FLUSHALL"]), ":15\r\n+OK\r\n");
    }
}

/// Asserts that the file `dump.rdb` in `dir` has all that `redis` has: `verify` compares the data loaded from it.
fn assert_is_back(redis: &Redis, dir: &Path, verify: impl Fn(&Redis) -> (bool, String)) {
    if let Ok(checked) = Command::new("redis-check-rdb").arg(dir.join("dump.rdb")).output() {
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    let again = Redis::start(dir).expect("one was started before");
    let (fine, said) = verify(&again);
    assert!(fine && said.contains("compared 17 keys") && said.contains(": 0 differ"), "{said}");
    assert_eq!(again.ask(&["PEXPIRETIME ends"]), ":33000000000000\r\n");
    for question in ["XINFO GROUPS stream", "XPENDING stream g", "ZRANGE zset 0 -1 WITHSCORES"] {
        assert_eq!(again.ask(&[question]), redis.ask(&[question]), "{question}");
    }
}

#[test]
fn a_running_redis_is_followed_while_the_server_is_killed_and_nothing_is_missed() {
    let (dir, there) = (Dir::new(), Dir::new());
    let Some(redis) = Redis::start(&there.0) else { return };
    fill(&redis);
    let server = Server::start(&dir, "");
    let clients = server.clients;
    let mut command = server.order(&["import", &redis.url(), "--to", "default", "--json"]);
    command.env("WEIR_SERVER", clients.to_string()).stdout(Stdio::piped());
    let mut importing = command.spawn().expect("it starts");
    let mut told = BufReader::new(importing.stdout.take().expect("piped")).lines();
    let mut until = |word: &str| until(&mut told, word);
    until("\"in_step\":true");
    let write = |from: u64| {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).expect("it listens");
        for at in from..from + 3_000 {
            let (rest, short) = (at % 100, at % 10);
            let lines = [
                format!("INCR counter:{short}"),
                format!("RPUSH queue {at}"),
                format!("HINCRBY totals {rest} 2"),
                format!("SELECT {}", at % 2),
            ];
            ask(&mut stream, &lines.each_ref().map(String::as_str));
        }
    };
    write(0);
    server.kill();
    write(3_000);
    // The same directory at the same address: what it had acknowledged is there.
    let server = Server::start_in_place_of(&dir, clients);
    write(6_000);
    // The first lines that can be read may be of the time before the kill.
    let mut verified = (0..20).map(|_| {
        until("\"in_step\":true");
        weir(&server, &["import", &redis.url(), "--to", "default", "--verify"])
    });
    let (_, said) = verified.find(|(fine, _)| *fine).expect("it catches up");
    assert!(said.contains(": 0 differ"), "{said}");
    kill_process(Pid::from_child(&importing), Signal::INT).expect("it runs");
    let last = until("\"phase\":\"done\"");
    assert!(last.contains("\"refused\":0") && last.contains("\"whole\":true"), "{last}");
    assert!(importing.wait().expect("it ends").success());
}

/// Writes that must not be done twice, from the number `from` on, over keys of all partitions and two databases.
fn write_once_each(redis: &Redis, from: u64, count: u64) {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).expect("it listens");
    for at in from..from + count {
        let (rest, short) = (at % 97, at % 11);
        let lines = [
            format!("INCR counter:{short}"),
            format!("RPUSH queue:{short} {at}"),
            format!("APPEND log:{rest} {at};"),
            format!("HINCRBY totals:{short} f{rest} 2"),
            format!("MSET m:{short} {at} m:{rest} {at} n:{at} x"),
            format!("DEL n:{at} n:none m:{}", at % 5),
            "MULTI".to_owned(),
            "INCR all-1".to_owned(),
            "INCR all-2".to_owned(),
            format!("LPUSH last:{short} {at}"),
            "EXEC".to_owned(),
            format!("SELECT {}", at % 3 % 2),
        ];
        ask(&mut stream, &lines.each_ref().map(String::as_str));
    }
}

#[test]
fn a_running_redis_is_followed_into_several_partitions_while_either_side_is_killed() {
    let (dir, there) = (Dir::new(), Dir::new());
    let Some(redis) = Redis::start(&there.0) else { return };
    fill(&redis);
    redis.ask(&["CONFIG SET repl-backlog-size 64mb"]);
    let (secret, first) = (["--secret", "a-secret-of-the-shop"], Server::start(&dir, ""));
    first.weir(&[&["tenant", "create", "shop", "--partitions", "4"], &secret[..]].concat());
    let (clients, url) = (first.clients, redis.url());
    let mut server = Some(first);
    let words = |more: &'static str| [&["import", &url, "--to", "shop", more], &secret[..]].concat();
    let begin = |server: &Option<Server>| {
        let mut command = server.as_ref().expect("it runs").order(&words("--json"));
        command.env("WEIR_SERVER", clients.to_string()).stdout(Stdio::piped());
        let mut importing = command.spawn().expect("it starts");
        let told = BufReader::new(importing.stdout.take().expect("piped")).lines();
        (importing, told)
    };
    let (mut importing, mut told) = begin(&server);
    until(&mut told, "\"in_step\":true");
    std::thread::scope(|scope| {
        for round in 0..6 {
            let (redis, from) = (&redis, 1_000 * round);
            let writer = scope.spawn(move || write_once_each(redis, from, 1_000));
            // Wait a second at most: then it is in the middle of the writes.
            until(&mut told, "\"phase\"");
            if round % 2 == 0 {
                importing.kill().expect("it runs");
                importing.wait().expect("it ends");
                (importing, told) = begin(&server);
            } else {
                server.take().expect("it runs").kill();
                // The same directory at the same address: what it had acknowledged is there.
                server = Some(Server::start_in_place_of(&dir, clients));
            }
            writer.join().expect("it wrote");
            until(&mut told, "\"phase\":\"following\"");
        }
    });
    until(&mut told, "\"in_step\":true");
    let compare = || weir(server.as_ref().expect("it runs"), &words("--verify"));
    let (fine, said) = compare();
    assert!(fine && said.contains(": 0 differ"), "{said}");
    kill_process(Pid::from_child(&importing), Signal::INT).expect("it runs");
    let last = until(&mut told, "\"phase\":\"done\"");
    assert!(last.contains("\"refused\":0") && last.contains("\"whole\":true"), "{last}");
    assert!(importing.wait().expect("it ends").success());
    let mut stream = TcpStream::connect(clients).expect("it listens");
    let marks = ask(&mut stream, &["AUTH shop a-secret-of-the-shop", "KEYS *weir:import:position*"]);
    assert_eq!(marks, "+OK\r\n*0\r\n");
}

/// The words of the next request; `None` behind the last one. Empty lines are not counted.
fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut line = String::new();
        (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    };
    let mut head = line()?;
    while head.is_empty() {
        head = line()?;
    }
    let count: usize = head.strip_prefix('*')?.parse().ok()?;
    let mut word = || line().and_then(|_| line());
    (0..count).map(|_| word()).collect()
}

/// The position of the scripted source's snapshot.
const SNAPSHOT_AT: usize = 100;
/// What the scripted source does behind its snapshot: one key gets more time.
const GIVES_MORE_TIME: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n\
    *3\r\n$9\r\nPEXPIREAT\r\n$8\r\nextended\r\n$14\r\n33000000000000\r\n";

/// A snapshot of two keys that expire right now.
fn snapshot_of_expiring_keys() -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    let now_ms = u64::try_from(now.as_millis()).expect("not that late");
    let mut snapshot = b"REDIS0009\xfe\x00".to_vec();
    for key in ["extended", "over"] {
        snapshot.push(0xfc);
        snapshot.extend(now_ms.to_le_bytes());
        // A string. All lengths are short.
        snapshot.extend([0, u8::try_from(key.len()).expect("short")]);
        snapshot.extend(key.as_bytes());
        snapshot.extend([1, b'v']);
    }
    // The end, without a checksum.
    snapshot.push(0xff);
    snapshot.extend([0; 8]);
    snapshot
}

/// Answers one connection as a master does.
fn play_master(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    while let Some(words) = request(&mut reader) {
        let second = words.get(1).map_or("", String::as_str);
        let answer = match (words[0].as_str(), second) {
            ("REPLCONF", "ACK") => continue,
            ("PSYNC", _) => {
                let snapshot = snapshot_of_expiring_keys();
                let head = format!("+FULLRESYNC {} {SNAPSHOT_AT}\r\n${}\r\n", "5".repeat(40), snapshot.len());
                [head.as_bytes(), &snapshot, GIVES_MORE_TIME].concat()
            }
            ("INFO", _) => {
                let told = format!("master_repl_offset:{}\r\n", SNAPSHOT_AT + GIVES_MORE_TIME.len());
                format!("${}\r\n{told}\r\n", told.len()).into_bytes()
            }
            _ => b"+OK\r\n".to_vec(),
        };
        // The import may have ended meanwhile.
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn a_key_that_the_source_gives_more_time_is_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let source = format!("redis://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || play_master(stream));
        }
    });
    for engine in ["lsm", "memory"] {
        let dir = Dir::new();
        let server = Server::start(&dir, "");
        let secret = ["--secret", "a-secret-of-the-shop"];
        server.weir(&[&["tenant", "create", "shop", "--engine", engine], &secret[..]].concat());
        // Both keys are over, by any clock, before the tenant can have them.
        let words = ["import", &source, "--to", "shop", "--until-in-step"];
        let (fine, said) = weir(&server, &[&words[..], &secret].concat());
        assert!(fine && said.contains("2 imported, 0 refused"), "{said}");
        let mut stream = TcpStream::connect(server.clients).expect("it listens");
        let lines = ["AUTH shop a-secret-of-the-shop", "GET extended", "GET over", "DBSIZE"];
        assert_eq!(ask(&mut stream, &lines), "+OK\r\n$1\r\nv\r\n$-1\r\n:1\r\n", "on {engine}");
    }
}
