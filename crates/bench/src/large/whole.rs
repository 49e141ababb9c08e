//! Commands on the set as a whole, beside a neighbour that does nothing but ask.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_io::real::be_nice;

use super::load::settle;
use super::moments::{self, Phase, compacted_bytes, flushed_bytes};
use super::{Plan, SET, Users};
use crate::Result;
use crate::child_server::ChildServer;
use crate::meter::Stopwatch;
use crate::tenants::user::User;
use crate::tenants::victim::NICE;
use crate::wire::{Client, Reply};

/// The set's other name.
const OTHER: &[u8] = b"large:renamed";
/// Time between two commands.
const PAUSE: Duration = Duration::from_millis(50);

/// The measurements.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Whole {
    /// Each `RENAME`, in nanoseconds.
    pub rename_ns: Vec<u64>,
    /// Each `EXPIRE`, in nanoseconds.
    pub expire_ns: Vec<u64>,
    /// The `DEL`, in nanoseconds.
    pub del_ns: u64,
    /// The tenth of its phase in which the `DEL` was, from 0.
    pub del_tenth: usize,
    /// The neighbour's slowest request that was due beside the `DEL` itself, in nanoseconds.
    pub around_del_ns: u64,
    /// The neighbour before anything was done.
    pub alone: Phase,
    /// The neighbour beside `RENAME` and `EXPIRE`.
    pub beside_changes: Phase,
    /// The neighbour beside the `DEL`, and for as long after it.
    pub beside_deletion: Phase,
    /// The neighbour alone once more.
    pub alone_again: Phase,
    /// Bytes that flushes and compactions of the set's tenant read and wrote because of the deletion, until nothing was
    /// left to do.
    pub background_bytes: u64,
}

/// Measures all of it. The set is gone afterwards.
pub(super) fn measure(
    plan: &Plan,
    server: &ChildServer,
    users: &Users,
    progress: &mut impl FnMut(&str),
) -> Result<Whole> {
    let duration = Duration::from_secs(plan.seconds.max(5));
    let watch = |slow_ns: Option<u64>| moments::watch(server, &users.neighbour, duration, slow_ns);
    let mut client = users.set.connect(server.port())?;
    let mut whole = Whole::default();
    progress("the neighbour alone");
    (whole.alone, _) = watch(None)?;
    let slow_ns = Some(whole.alone.felt.p99_ns);
    progress("RENAME and EXPIRE");
    ((whole.beside_changes, _), (whole.rename_ns, whole.expire_ns)) =
        beside(|| watch(slow_ns), || changes(&mut client, duration.as_millis() as u64 / PAUSE.as_millis() as u64 / 4))?;
    progress("DEL");
    let before = background_bytes(server, &users.set)?;
    let ((beside_deletion, requests), (at, del_ns)) = beside(
        || watch(slow_ns),
        || {
            // In the middle of the second tenth.
            thread::sleep(duration * 3 / 20);
            let at = Instant::now();
            Ok((at, timed(&mut client, &[b"DEL", SET])?))
        },
    )?;
    (whole.beside_deletion, whole.del_ns) = (beside_deletion, del_ns);
    whole.del_tenth = moments::tenth_of(&requests, at, duration);
    whole.around_del_ns = moments::slowest_around(&requests, at, Duration::from_nanos(del_ns));
    settle(server)?;
    whole.background_bytes = background_bytes(server, &users.set)? - before;
    progress("the neighbour alone, once more");
    (whole.alone_again, _) = watch(slow_ns)?;
    Ok(whole)
}

/// What `watch` saw while `work` was done by a thread that goes before others, as the neighbour's does.
fn beside<S: Send, T: Send>(
    watch: impl FnOnce() -> Result<S> + Send,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<(S, T)> {
    thread::scope(|scope| {
        let seen = scope.spawn(watch);
        let done = scope.spawn(|| {
            be_nice(NICE);
            work()
        });
        let done = done.join().map_err(|_| "who changes the set panicked")??;
        Ok((seen.join().map_err(|_| "who watches the neighbour panicked")??, done))
    })
}

/// Renames the set there and back, lets it expire in a day, and takes that back again, `times` times.
fn changes(client: &mut Client, times: u64) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut renames, mut expiries) = (Vec::new(), Vec::new());
    for _ in 0..times.max(1) {
        for words in [[SET, OTHER], [OTHER, SET]] {
            renames.push(timed(client, &[b"RENAME", words[0], words[1]])?);
            thread::sleep(PAUSE);
        }
        expiries.push(timed(client, &[b"EXPIRE", SET, b"86400"])?);
        thread::sleep(PAUSE);
        client.call(&[b"PERSIST", SET])?;
        thread::sleep(PAUSE);
    }
    Ok((renames, expiries))
}

/// How long a command took, which must find the set.
fn timed(client: &mut Client, words: &[&[u8]]) -> Result<u64> {
    let watch = Stopwatch::start();
    let reply = client.call(words)?;
    let nanos = watch.nanos();
    match reply {
        Reply::Integer(0) => Err(format!("{}: there is no set", String::from_utf8_lossy(&words.join(&b' '))).into()),
        _ => Ok(nanos),
    }
}

/// Bytes that background work of a tenant has moved.
fn background_bytes(server: &ChildServer, user: &User) -> Result<u64> {
    let (page, tenant) = (server.metrics()?, Some(user.name.as_str()));
    Ok(flushed_bytes(&page, tenant) + compacted_bytes(&page, tenant))
}
