//! Thousands of tenants asleep: what they cost, and how long one takes to answer again.

use std::fmt::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::user::User;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::data::key;
use crate::meter::{Latencies, Stopwatch};
use crate::outcome::Outcome;
use crate::report::words::time;
use crate::wire;

/// How long all of them may take to fall asleep.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many tenants are asked for something.
const ASKED: usize = 1000;
/// Time between two questions, so that nobody waits for another's turn.
const PAUSE: Duration = Duration::from_millis(20);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of tenants.
    pub tenants: usize,
    /// `sync` of the server.
    pub sync: String,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Slept {
    /// Number of tenants.
    pub tenants: usize,
    /// Resident memory of the server without them, in bytes.
    pub rss_before: u64,
    /// Resident memory with all of them asleep, in bytes.
    pub rss_asleep: u64,
    /// Files of these tenants that were open then.
    pub open_files: usize,
    /// Median of a first read, in nanoseconds.
    pub read_p50_ns: u64,
    /// 99 of 100 are faster.
    pub read_p99_ns: u64,
    /// Median of a first write, in nanoseconds.
    pub write_p50_ns: u64,
    /// 99 of 100 are faster.
    pub write_p99_ns: u64,
}

/// Lets the tenants fall asleep, and wakes some.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Slept> {
    super::raise_file_limit();
    let dir = plan.dir.join("sleepers");
    child_server::remove(&dir)?;
    let config = format!("connections_max = 20000\nhibernate_after_seconds = 10\nsync = \"{}\"\n", plan.sync);
    let server = ChildServer::start(&plan.weir, &dir, &config)?;
    let rss_before = server.rss_bytes();
    let mut users = Vec::new();
    for number in 0..plan.tenants {
        if number % 500 == 0 {
            progress(&format!("{number} of {} tenants", plan.tenants));
        }
        let user = User::create(&server, &format!("user{number}"), &Value::Object(serde_json::Map::default()))?;
        user.load(server.port(), 10, 100)?;
        users.push(user);
    }
    progress("waiting until all are asleep");
    let begin = Instant::now();
    while awake(&server)? > 0 {
        if begin.elapsed() > PATIENCE {
            return Err(format!("{} are still awake", awake(&server)?).into());
        }
        thread::sleep(Duration::from_secs(1));
    }
    let rss_asleep = server.rss_bytes();
    let partitions = dir.join("partitions");
    let open_files = server.open_files()?.iter().filter(|path| path.starts_with(&partitions)).count();

    progress("waking some");
    let (mut reads, mut writes) = (Latencies::default(), Latencies::default());
    let asked = ASKED.min(plan.tenants);
    for position in 0..asked {
        let user = &users[position * plan.tenants / asked];
        let mut client = user.connect(server.port())?;
        let watch = Stopwatch::start();
        if position % 2 == 0 {
            client.call(&[b"GET", &key(5)])?;
            reads.record(watch.nanos());
        } else {
            client.call(&[b"SET", &key(5), b"awake"])?;
            writes.record(watch.nanos());
        }
        thread::sleep(PAUSE);
    }
    server.stop()?;
    child_server::remove(&dir)?;
    let percentiles = |latencies: &Latencies| {
        let mut outcome = Outcome::default();
        latencies.report(&mut outcome);
        (outcome.p50_ns, outcome.p99_ns)
    };
    let ((read_p50_ns, read_p99_ns), (write_p50_ns, write_p99_ns)) = (percentiles(&reads), percentiles(&writes));
    let tenants = plan.tenants;
    Ok(Slept { tenants, rss_before, rss_asleep, open_files, read_p50_ns, read_p99_ns, write_p50_ns, write_p99_ns })
}

fn awake(server: &ChildServer) -> Result<u64> {
    let answer: Value = serde_json::from_str(&wire::http_get(server.admin(), "/v1/tenants")?)?;
    let tenants = answer["tenants"].as_array().ok_or("no list of tenants")?;
    Ok(tenants.iter().filter_map(|tenant| tenant["awake"].as_u64()).sum())
}

/// The results in words.
pub fn words(slept: &Slept) -> String {
    let mut text = String::new();
    let each = slept.rss_asleep.saturating_sub(slept.rss_before) / slept.tenants.max(1) as u64;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} tenants asleep: {} MB resident ({} MB without them, {each} bytes each; wanted: <= 1000 MB), {} open files (wanted: none)",
        slept.tenants,
        slept.rss_asleep / 1_000_000,
        slept.rss_before / 1_000_000,
        slept.open_files
    );
    let _ = writeln!(
        text,
        "first reply of one: GET p50 {}, p99 {}; SET p50 {}, p99 {} (wanted: p99 <= 20 ms)",
        time(slept.read_p50_ns),
        time(slept.read_p99_ns),
        time(slept.write_p50_ns),
        time(slept.write_p99_ns)
    );
    text
}
