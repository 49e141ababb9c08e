//! One well-behaved user: it reads and writes at a steady rate, whatever happens. Latency counts from the moment at
//! which a request was due, so that a server that stands still is charged for every request that it kept waiting.
//!
//! The victim's own threads go before all others, if the system lets them. A user has a machine of its own: on two
//! processors shared with the attackers, three of a hundred of its requests were sent more than 3 ms late, which had
//! nothing to do with the server.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpriority_process;
use serde::Serialize;
use weir_io::Rng;
use weir_io::real::be_nice;

use super::user::User;
use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::meter::Latencies;
use crate::outcome::Outcome;
use crate::wire::{self, Client, Reply};

/// Requests per second.
pub const RATE: u32 = 500;
const KEYS: u64 = 10_000;
const VALUE: [u8; 128] = [b'v'; 128];

/// Niceness of the threads of well-behaved users.
pub const NICE: i32 = -10;

/// What the victim felt.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Felt {
    /// Requests answered.
    pub ops: u64,
    /// The median latency, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Whether its own threads went before all others.
    pub has_precedence: bool,
}

/// A request of the victim.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// When it was due.
    pub due: Instant,
    /// How long it took from then on, in nanoseconds.
    pub nanos: u64,
}

/// Stores the victim's keys.
pub fn load(server: &ChildServer, user: &User) -> Result<()> {
    user.load(server.port(), KEYS, VALUE.len())
}

/// Works for `duration`, and returns what it felt.
pub fn measure(server: &ChildServer, user: &User, duration: Duration) -> Result<Felt> {
    Ok(measure_each(server, user, duration)?.0)
}

/// The same, with each request in the order in which they were due.
pub fn measure_each(server: &ChildServer, user: &User, duration: Duration) -> Result<(Felt, Vec<Timed>)> {
    // In threads of its own, so that whoever attacks next does not inherit their niceness.
    let work = thread::scope(|scope| scope.spawn(|| work(server, user, duration)).join());
    work.map_err(|_| "the victim panicked")?
}

fn work(server: &ChildServer, user: &User, duration: Duration) -> Result<(Felt, Vec<Timed>)> {
    be_nice(NICE);
    let has_precedence = getpriority_process(None) == Ok(NICE);
    let mut stream = user.connect(server.port())?.into_stream();
    let mut replies = Client::from_stream(stream.try_clone()?);
    let (sent, due) = mpsc::channel::<Instant>();
    let writer = thread::spawn(move || -> Result<()> {
        use std::io::Write;
        let (mut rng, mut request) = (Rng::new(5), Vec::new());
        let begin = Instant::now();
        let total = (duration.as_secs_f64() * f64::from(RATE)) as u32;
        for number in 0..total {
            let due = begin + Duration::from_secs(1) / RATE * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            request.clear();
            let key = key(rng.below(KEYS));
            match number % 2 {
                0 => wire::encode(&mut request, &[b"GET", &key]),
                _ => wire::encode(&mut request, &[b"SET", &key, &VALUE]),
            }
            sent.send(due).map_err(|_| "the victim gave up")?;
            stream.write_all(&request)?;
        }
        Ok(())
    });
    let (mut latencies, mut each) = (Latencies::default(), Vec::new());
    let mut felt = Felt { has_precedence, ..Felt::default() };
    for due in due {
        if let Reply::Line(line) = replies.read()?
            && line.starts_with('-')
        {
            return Err(format!("the victim was refused: {line}").into());
        }
        let nanos = due.elapsed().as_nanos() as u64;
        latencies.record(nanos);
        each.push(Timed { due, nanos });
        felt.ops += 1;
    }
    writer.join().map_err(|_| "the victim's writer panicked")??;
    let mut outcome = Outcome::default();
    latencies.report(&mut outcome);
    Ok((Felt { p50_ns: outcome.p50_ns, p99_ns: outcome.p99_ns, max_ns: outcome.max_ns, ..felt }, each))
}
