//! System calls of a serving process fail: `strace` answers them instead of the kernel.
//!
//! The server answers with errors, does not die, goes on when the fault ends, and after `kill -9` has what it
//! acknowledged. The test needs `strace`, and the right to trace a process that is no child (root, or
//! `kernel.yama.ptrace_scope` 0); without them it says so and does nothing. By default a few calls fail;
//! `WEIR_SYSCALLS=all cargo test -p weir-cli --test cli syscalls:: -- --nocapture` fails every call, in every way.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Dir, Server};
use redis::{Connection, RedisError, cmd};
use rustix::process::{Pid, Signal, kill_process};
use weir_node::EngineKind;

/// Calls that change or read files, each with a number N: the first call fails, and then every Nth one. Frequent calls
/// must succeed now and then, or nothing else is reached.
const CALLS: [(&str, u32); 11] = [
    ("pwrite64", 3),
    ("fdatasync", 2),
    ("fsync", 2),
    ("fallocate", 1),
    ("openat", 3),
    ("rename", 1),
    ("unlink", 1),
    ("mkdir", 1),
    ("ftruncate", 1),
    ("syncfs", 1),
    ("pread64", 3),
];
/// The calls of the default run.
const FEW: [&str; 3] = ["pwrite64", "fdatasync", "rename"];
/// A server answers within this time, whatever fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a value: enough to fill some memtables of [`CONFIG`].
const VALUE: usize = 4_000;
const CONFIG: &str = "write_buffer = \"64 KiB\"\nhibernate_after_seconds = 2\n";

/// A strace that makes calls of a process fail, until it is dropped.
struct Trace {
    child: Child,
    output: std::path::PathBuf,
}

impl Trace {
    /// Starts strace. The error says why that is not possible.
    fn start(dir: &Dir, pid: u32, call: &str, error: &str, every: u32) -> Result<Self, String> {
        let output = dir.0.join("trace");
        let mut child = Command::new("strace")
            .args(["-f", "-p", &pid.to_string(), "-o"])
            .arg(&output)
            .args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:error={error}:when=1+{every}")])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("strace does not start: {error}"))?;
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        while !said.contains(" attached") {
            if lines.read_line(&mut said).expect("text") == 0 {
                let _ = child.wait();
                return Err(format!("strace cannot trace the server: {}", said.trim()));
            }
        }
        // The lines about further threads that it attaches to must not fill the pipe.
        std::thread::spawn(move || lines.lines().for_each(drop));
        Ok(Self { child, output })
    }

    /// Lets the calls work again. Gives how many were made to fail.
    fn end(mut self) -> usize {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        self.child.wait().expect("it ends");
        std::fs::read_to_string(&self.output).unwrap_or_default().matches("(INJECTED)").count()
    }
}

/// The values that each key may show: the last acknowledged one, and those refused since, which may turn out to be
/// written.
type Candidates = BTreeMap<String, Vec<Option<String>>>;

struct Client {
    server: Server,
    connection: Connection,
    candidates: Candidates,
    number: u64,
    refused: u64,
}

/// The tenant that is written to.
const TENANT: &str = "written";
const SECRET: &str = "a secret";

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(format!("redis://{}", server.clients)).expect("an address");
    let mut connection = client.get_connection().expect("it listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
    cmd("AUTH").arg(TENANT).arg(SECRET).exec(&mut connection).expect("it is let in");
    connection
}

impl Client {
    fn new(server: Server, engine: EngineKind) -> Self {
        server.weir(&["tenant", "create", TENANT, "--engine", engine.name(), "--secret", SECRET]);
        let connection = connect(&server);
        Self { server, connection, candidates: Candidates::new(), number: 0, refused: 0 }
    }

    /// Checks that an error is an answer of the server: it is alive, and the connection in step.
    fn answered<T>(&mut self, outcome: Result<T, RedisError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let is_told = !error.is_io_error() && !error.is_connection_dropped();
                assert!(is_told, "no answer, but {error}\n{}", self.server.log());
                self.refused += 1;
                None
            }
        }
    }

    fn set(&mut self) -> bool {
        self.number += 1;
        let (key, value) = (format!("key{}", self.number % 50), format!("{} {}", self.number, "v".repeat(VALUE)));
        let outcome = cmd("SET").arg(&key).arg(&value).query::<()>(&mut self.connection);
        let acknowledged = self.answered(outcome).is_some();
        let candidates = self.candidates.entry(key).or_insert_with(|| vec![None]);
        if acknowledged {
            candidates.clear();
        }
        candidates.push(Some(value));
        acknowledged
    }

    fn get(&mut self, key: &str) {
        let outcome = cmd("GET").arg(key).query::<Option<String>>(&mut self.connection);
        if let Some(shown) = self.answered(outcome) {
            let none = vec![None];
            let candidates = self.candidates.get(key).unwrap_or(&none);
            let first = |value: &Option<String>| value.as_ref().map(|value| value[..value.len().min(12)].to_owned());
            let allowed: Vec<_> = candidates.iter().map(first).collect();
            assert!(candidates.contains(&shown), "{key} shows {:?}, not one of {allowed:?}", first(&shown));
        }
    }

    fn read_everything(&mut self) {
        let before = self.refused;
        for key in self.candidates.keys().cloned().collect::<Vec<_>>() {
            self.get(&key);
        }
        assert_eq!(self.refused, before, "a read fails though nothing else does any more\n{}", self.server.log());
    }

    /// Sends requests: whatever fails, each one gets an answer.
    fn work(&mut self) {
        let tenant = format!("t{}", self.number);
        for order in [&["tenant", "create", &tenant][..], &["tenant", "drop", &tenant, "--yes"]] {
            // The order is done, or the operator is told what failed.
            let (_, said) = self.server.try_weir(order);
            assert!(!said.is_empty(), "{order:?} ends without a word");
        }
        for number in 0..40 {
            self.set();
            self.get(&format!("key{}", number * 7 % 50));
        }
    }

    /// The fault is over: writes are accepted again, without a restart.
    fn resume(&mut self) {
        let begin = Instant::now();
        while !self.set() {
            assert!(begin.elapsed() < PATIENCE, "writes are still refused\n{}", self.server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.read_everything();
    }

    /// Ends the server and starts it again.
    fn restart(mut self, dir: &Dir, config: &str, kill: bool) -> Self {
        if kill {
            self.server.kill();
        } else {
            assert!(self.server.terminate().success(), "it does not end in order");
        }
        self.server = Server::start_telling(dir, config, "warn,weir::serve=info");
        self.connection = connect(&self.server);
        self.read_everything();
        self
    }
}

#[test]
fn a_call_that_fails_is_answered_and_survived() {
    let all = std::env::var("WEIR_SYSCALLS").is_ok_and(|what| what == "all");
    let mut hits = [0; EngineKind::ALL.len()];
    let modes = ["always", "interval", "none"];
    for (engine, sync) in EngineKind::ALL.into_iter().flat_map(|engine| modes.map(|sync| (engine, sync))) {
        let dir = Dir::new();
        let config = format!("sync = \"{sync}\"\n{CONFIG}");
        let mut client = Client::new(Server::start_telling(&dir, &config, "warn,weir::serve=info"), engine);
        client.work();
        for (call, every) in CALLS.into_iter().filter(|(call, _)| all || FEW.contains(call)) {
            for error in if all { &["EIO", "ENOSPC"][..] } else { &["EIO"] } {
                let trace = match Trace::start(&dir, client.server.pid(), call, error, every) {
                    Ok(trace) => trace,
                    Err(why) => {
                        eprintln!("skipped: {why}");
                        return;
                    }
                };
                let refused = client.refused;
                client.work();
                let hit = trace.end();
                hits[engine as usize] += hit;
                if all {
                    eprintln!(
                        "{engine}, {sync}: {call} failed {hit} times with {error}, {} refused",
                        client.refused - refused
                    );
                }
                client.resume();
                if all {
                    // In mode `none` a killed process may lose what it had not written yet.
                    client = client.restart(&dir, &config, sync != "none");
                }
            }
        }
        client = client.restart(&dir, &config, sync != "none");
        client.resume();
    }
    eprintln!("calls that failed: {hits:?}");
    assert!(hits.iter().all(|&hits| hits > 12), "only {hits:?} calls were made to fail");
}
