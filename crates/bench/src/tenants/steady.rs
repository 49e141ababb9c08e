//! A steady load over many connections. Each request is due at its own moment, whatever happens, and its latency counts
//! from there, so that a server that stands still is charged for every request that it kept waiting.

use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_io::Rng;
use weir_io::real::be_nice;

use super::replies::Replies;
use super::user::User;
use super::victim::NICE;
use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::meter::Latencies;
use crate::outcome::Outcome;
use crate::wire;

/// How long replies are waited for after the end.
const GRACE: Duration = Duration::from_millis(200);
const VALUE: [u8; 128] = [b'v'; 128];

/// The load to send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests per second, over all connections together.
    pub rate: u32,
    /// Connections, dealt out among the users.
    pub connections: usize,
    /// Keys of each user.
    pub keys: u64,
    /// How many of a hundred requests write.
    pub writes: u64,
    /// Time before anything is measured.
    pub warm_up: Duration,
    /// Time that is measured.
    pub duration: Duration,
}

/// What clients felt.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Felt {
    /// Requests answered while it was measured.
    pub ops: u64,
    /// Requests refused meanwhile.
    pub refused: u64,
    /// The median of the requests that were due and answered meanwhile, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Processor seconds of the server meanwhile.
    pub cpu_seconds: f64,
}

/// Loads `server` as `users`. A request that is not answered 0.2 s after the end does not count as answered, and took
/// as long as it was waited for. The threads that send and receive go before all others, if the system lets them: users
/// have machines of their own.
pub fn measure(server: &ChildServer, users: &[User], load: &Load) -> Result<Felt> {
    let (mut senders, mut replies) = (Vec::new(), Replies::default());
    for number in 0..load.connections {
        let stream = users[number % users.len()].connect(server.port())?.into_stream();
        let (sent, due) = mpsc::channel::<Instant>();
        replies.add(stream.try_clone()?, due);
        senders.push((stream, sent));
    }
    wake(server, users)?;
    let begin = Instant::now();
    let (from, until) = (begin + load.warm_up, begin + load.warm_up + load.duration);
    let load = *load;
    let sender = thread::spawn(move || {
        be_nice(NICE);
        send(senders, begin, until, &load)
    });
    let receiver = thread::spawn(move || {
        be_nice(NICE);
        replies.receive(until + GRACE)
    });
    thread::sleep(from.saturating_duration_since(Instant::now()));
    let before = server.cpu_seconds();
    thread::sleep(until.saturating_duration_since(Instant::now()));
    let cpu_seconds = server.cpu_seconds() - before;
    // Connections are kept until the wait for the last reply is over.
    let _streams = sender.join().map_err(|_| "the sender panicked")??;
    let answers = receiver.join().map_err(|_| "the receiver panicked")??;
    let mut latencies = Latencies::default();
    let mut felt = Felt { cpu_seconds, ..Felt::default() };
    for answer in answers {
        if answer.at >= from && answer.at < until {
            felt.ops += u64::from(!answer.refused);
            felt.refused += u64::from(answer.refused);
        }
        if answer.due >= from && answer.due < until && !answer.refused {
            latencies.record((answer.at - answer.due).as_nanos() as u64);
        }
    }
    let mut outcome = Outcome::default();
    latencies.report(&mut outcome);
    Ok(Felt { p50_ns: outcome.p50_ns, p99_ns: outcome.p99_ns, max_ns: outcome.max_ns, ..felt })
}

/// When this returns, every user's partition is awake and has a log to write to. Waking thousands takes seconds, and is
/// measured elsewhere.
fn wake(server: &ChildServer, users: &[User]) -> Result<()> {
    for user in users {
        user.connect(server.port())?.call(&[b"SET", &key(0), &VALUE])?;
    }
    Ok(())
}

type Sender = (std::net::TcpStream, mpsc::Sender<Instant>);

fn send(mut senders: Vec<Sender>, begin: Instant, until: Instant, load: &Load) -> Result<Vec<std::net::TcpStream>> {
    let (mut rng, mut request) = (Rng::new(5), Vec::new());
    for number in 0.. {
        let due = begin + Duration::from_secs(1).mul_f64(f64::from(number) / f64::from(load.rate));
        if due >= until {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        request.clear();
        let key = key(rng.below(load.keys));
        match rng.below(100) < load.writes {
            true => wire::encode(&mut request, &[b"SET", &key, &VALUE]),
            false => wire::encode(&mut request, &[b"GET", &key]),
        }
        let count = senders.len() as u64;
        let (stream, sent) = &mut senders[rng.below(count) as usize];
        if sent.send(due).is_ok() {
            stream.write_all(&request)?;
        }
    }
    Ok(senders.into_iter().map(|(stream, _)| stream).collect())
}
