//! A server is killed with much in its logs, starts again, and all tenants ask at once.

use std::path::PathBuf;
use std::thread;

use serde::Serialize;

use super::user::User;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::data::key;
use crate::meter::{Latencies, Stopwatch};
use crate::outcome::Outcome;
use crate::report::words::time;

const VALUE_BYTES: u64 = 1000;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of tenants.
    pub tenants: usize,
    /// Bytes in all their logs together.
    pub log_bytes: u64,
    /// Number of kills.
    pub rounds: u32,
    /// `sync` of the server.
    pub sync: String,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// One start.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Restarted {
    /// From the start of the process until it takes connections, in nanoseconds.
    pub ready_ns: u64,
    /// From the start of the process until the first reply of the median tenant.
    pub p50_ns: u64,
    /// 99 of 100 tenants have their first reply sooner.
    pub p99_ns: u64,
}

/// Loads, kills, starts and asks.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Restarted>> {
    super::raise_file_limit();
    let dir = plan.dir.join("restart");
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        progress(&format!("round {round}: loading"));
        child_server::remove(&dir)?;
        // Memtables large enough to leave everything in the logs.
        let config = format!(
            "connections_max = 20000\nwrite_buffer = \"256MiB\"\nwrite_memory = \"4GiB\"\nsync = \"{}\"\n",
            plan.sync
        );
        let server = ChildServer::start(&plan.weir, &dir, &config)?;
        let users = User::create_many(&server, "user", plan.tenants)?;
        let values = plan.log_bytes / plan.tenants as u64 / VALUE_BYTES;
        users.iter().try_for_each(|user| user.load(server.port(), values, VALUE_BYTES as usize))?;
        server.kill()?;

        progress(&format!("round {round}: starting again"));
        let watch = Stopwatch::start();
        let server = ChildServer::start(&plan.weir, &dir, &config)?;
        let (ready_ns, port) = (watch.nanos(), server.port());
        let asking = users.into_iter().map(|user| {
            thread::spawn(move || -> Result<u64> {
                user.connect(port)?.call(&[b"GET", &key(values / 2)])?;
                Ok(watch.nanos())
            })
        });
        let asking: Vec<_> = asking.collect();
        let mut latencies = Latencies::default();
        for one in asking {
            latencies.record(one.join().map_err(|_| "a tenant's thread panicked")??);
        }
        let mut outcome = Outcome::default();
        latencies.report(&mut outcome);
        all.push(Restarted { ready_ns, p50_ns: outcome.p50_ns, p99_ns: outcome.p99_ns });
        server.stop()?;
    }
    child_server::remove(&dir)?;
    Ok(all)
}

/// The results in words, a line for each start.
pub fn words(all: &[Restarted]) -> String {
    let line = |one: &Restarted| {
        let (ready, p50, p99) = (time(one.ready_ns), time(one.p50_ns), time(one.p99_ns));
        format!("ready after {ready}; first reply p50 {p50}, p99 {p99} after the start (wanted: p99 <= 2 s)\n")
    };
    all.iter().map(line).collect()
}
