//! Requests for a part of the set, and for a row beside it: one connection that asks, waits and asks again.

use std::time::{Duration, Instant};

use serde::Serialize;
use weir_io::Rng;
use weir_io::real::be_nice;

use super::load::ROWS;
use super::{Plan, SET, Users, member};
use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::meter::{Latencies, Stopwatch};
use crate::outcome::Outcome;
use crate::scrape::sum;
use crate::tenants::victim::NICE;
use crate::wire::{Client, Reply};

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// One of the rows that do not all fit the cache.
    Get,
    /// A new score for a member.
    Zadd,
    /// A hundred members from a rank on.
    Zrange,
    /// A member's rank.
    Zrank,
}

impl Request {
    /// All kinds.
    pub const ALL: [Request; 4] = [Request::Get, Request::Zadd, Request::Zrange, Request::Zrank];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Request::Get => "GET of a row of 1 KiB",
            Request::Zadd => "ZADD",
            Request::Zrange => "ZRANGE of 100",
            Request::Zrank => "ZRANK",
        }
    }

    fn push(self, client: &mut Client, members: u64, rng: &mut Rng) {
        let number = rng.below(members);
        match self {
            Request::Get => client.push(&[b"GET", &key(rng.below(ROWS))]),
            Request::Zadd => {
                client.push(&[b"ZADD", SET, rng.below(1 << 32).to_string().as_bytes(), &member(number)]);
            }
            Request::Zrange => {
                let [first, last] = [number, number + 99].map(|rank| rank.to_string());
                client.push(&[b"ZRANGE", SET, first.as_bytes(), last.as_bytes()]);
            }
            Request::Zrank => client.push(&[b"ZRANK", SET, &member(number)]),
        }
    }
}

/// One round of one kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Asked {
    /// The kind of request.
    pub request: Request,
    /// The round, from 1.
    pub round: u32,
    /// Requests answered.
    pub ops: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Processor time of the server for each request, in nanoseconds.
    pub cpu_ns: u64,
    /// Reads of the device for each request.
    pub reads: f64,
}

/// Measures all kinds, by turns.
pub(super) fn all(
    plan: &Plan,
    server: &ChildServer,
    users: &Users,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Asked>> {
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        for request in Request::ALL {
            progress(&format!("round {round}: {}", request.name()));
            // In a thread of its own, so that nobody else inherits its niceness.
            let asked = std::thread::scope(|scope| scope.spawn(|| one(plan, server, users, request, round)).join());
            all.push(asked.map_err(|_| "who asks panicked")??);
        }
    }
    Ok(all)
}

fn one(plan: &Plan, server: &ChildServer, users: &Users, request: Request, round: u32) -> Result<Asked> {
    be_nice(NICE);
    let user = if request == Request::Get { &users.rows } else { &users.set };
    let mut client = user.connect(server.port())?;
    let mut rng = Rng::new(u64::from(round));
    let seconds = Duration::from_secs(plan.seconds);
    ask(&mut client, request, plan.members, seconds / 4, &mut rng)?;
    let reads = || -> Result<f64> {
        let labels = [("tenant", user.name.as_str()), ("class", "read"), ("direction", "read")];
        Ok(sum(&server.metrics()?, "weir_tenant_device_operations_total", &labels))
    };
    let (reads_before, cpu_before) = (reads()?, server.cpu_seconds());
    let latencies = ask(&mut client, request, plan.members, seconds, &mut rng)?;
    let cpu_seconds = server.cpu_seconds() - cpu_before;
    let reads = reads()? - reads_before;
    let mut outcome = Outcome::default();
    latencies.0.report(&mut outcome);
    let ops = latencies.1;
    Ok(Asked {
        request,
        round,
        ops,
        p50_ns: outcome.p50_ns,
        p99_ns: outcome.p99_ns,
        max_ns: outcome.max_ns,
        cpu_ns: (cpu_seconds * 1e9 / ops.max(1) as f64) as u64,
        reads: reads / ops.max(1) as f64,
    })
}

/// Asks for `duration`, and returns the latencies and how many there are.
fn ask(
    client: &mut Client,
    request: Request,
    members: u64,
    duration: Duration,
    rng: &mut Rng,
) -> Result<(Latencies, u64)> {
    repeat(duration, || {
        request.push(client, members, rng);
        let watch = Stopwatch::start();
        client.flush()?;
        let reply = client.read()?;
        let nanos = watch.nanos();
        match reply {
            Reply::Line(line) if line.starts_with('-') => Err(format!("refused: {line}").into()),
            Reply::Bulk(None) => Err("what was loaded is not there".into()),
            _ => Ok(nanos),
        }
    })
}

/// Does `once`, which tells how many nanoseconds it took, again and again for `duration`. Returns the latencies and how
/// many there are.
pub(super) fn repeat(duration: Duration, mut once: impl FnMut() -> Result<u64>) -> Result<(Latencies, u64)> {
    let (mut latencies, mut count) = (Latencies::default(), 0);
    let begin = Instant::now();
    while begin.elapsed() < duration {
        latencies.record(once()?);
        count += 1;
    }
    Ok((latencies, count))
}
