//! Loads the data that is asked for later: rows, the set, and the same set in a redis-server.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_io::Rng;

use super::{CACHE_BYTES, Plan, SET, member, score};
use crate::Result;
use crate::child_server::ChildServer;
use crate::data::{Values, key};
use crate::meter::Stopwatch;
use crate::redis::Kind;
use crate::redis::server::Server;
use crate::scrape::sum;
use crate::tenants::user::User;
use crate::wire::{Client, Reply};

/// Bytes of a row.
pub(super) const ROW_BYTES: usize = 1024;
/// Rows that together have four times the bytes of the cache.
pub(super) const ROWS: u64 = 4 * CACHE_BYTES / ROW_BYTES as u64;
/// Commands of a pipeline.
const PIPELINE: u64 = 100;
/// Members of one command.
const MEMBERS_AT_ONCE: u64 = 100;
/// How long flushes and merges may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How many looks in a row must find nothing running.
const QUIET_LOOKS: u32 = 5;
/// Members whose ranks are compared with those in the redis-server.
const COMPARED: u64 = 1_000;

/// What loading the set took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Loaded {
    /// Seconds until the last reply.
    pub seconds: f64,
    /// Processor seconds of the server.
    pub cpu_seconds: f64,
}

/// Sends the commands that `push` puts into the pipeline for each number below `count`, and reports how many are done.
pub(super) fn pipelined(
    client: &mut Client,
    count: u64,
    mut push: impl FnMut(&mut Client, u64),
    mut done: impl FnMut(u64),
) -> Result<()> {
    for first in (0..count).step_by(PIPELINE as usize) {
        let end = count.min(first + PIPELINE);
        (first..end).for_each(|number| push(client, number));
        client.flush()?;
        for _ in first..end {
            if let Reply::Line(line) = client.read()?
                && line.starts_with('-')
            {
                return Err(format!("refused: {line}").into());
            }
        }
        done(end);
    }
    Ok(())
}

/// Loads rows that do not fit the cache.
pub(super) fn rows(user: &User, server: &ChildServer, progress: &mut impl FnMut(&str)) -> Result<()> {
    let mut client = user.connect(server.port())?;
    let (values, mut value) = (Values::new(ROW_BYTES), Vec::new());
    let push = |client: &mut Client, number: u64| {
        value.clear();
        values.fill(number, &mut value);
        client.push(&[b"SET", &key(number), &value]);
    };
    pipelined(&mut client, ROWS, push, |done| progress(&format!("rows: {} %", done * 100 / ROWS)))
}

fn zadd(client: &mut Client, members: u64, command: u64) {
    let numbers = command * MEMBERS_AT_ONCE..members.min((command + 1) * MEMBERS_AT_ONCE);
    let pairs: Vec<_> = numbers.flat_map(|number| [score(number).to_string().into_bytes(), member(number)]).collect();
    let words: Vec<&[u8]> = [b"ZADD".as_slice(), SET].into_iter().chain(pairs.iter().map(Vec::as_slice)).collect();
    client.push(&words);
}

/// Puts `members` into the set of the user that `client` is; `progress` hears how many there are.
fn fill(client: &mut Client, members: u64, mut progress: impl FnMut(u64)) -> Result<()> {
    let commands = members.div_ceil(MEMBERS_AT_ONCE);
    pipelined(
        client,
        commands,
        |client, command| zadd(client, members, command),
        |commands| progress(members.min(commands * MEMBERS_AT_ONCE)),
    )?;
    match client.call(&[b"ZCARD", SET])? {
        Reply::Integer(count) if count as u64 == members => Ok(()),
        other => Err(format!("{members} members were put into the set, and it says {other:?}").into()),
    }
}

/// Loads the set.
pub(super) fn set(server: &ChildServer, user: &User, members: u64, progress: &mut impl FnMut(&str)) -> Result<Loaded> {
    let mut client = user.connect(server.port())?;
    let (watch, before) = (Stopwatch::start(), server.cpu_seconds());
    fill(&mut client, members, |done| {
        let rate = done as f64 / watch.seconds().max(1e-3);
        progress(&format!("the set: {done} of {members} members, {rate:.0} a second"));
    })?;
    Ok(Loaded { seconds: watch.seconds(), cpu_seconds: server.cpu_seconds() - before })
}

/// Waits until nothing is left to flush or to merge.
pub(super) fn settle(server: &ChildServer) -> Result<()> {
    let (begin, mut quiet) = (Instant::now(), 0);
    while quiet < QUIET_LOOKS {
        if begin.elapsed() > PATIENCE {
            return Err("flushes and compactions do not end".into());
        }
        quiet = if sum(&server.metrics()?, "weir_jobs_running", &[]) == 0.0 { quiet + 1 } else { 0 };
        thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Bytes that a tenant has on disk and in memtables.
pub(super) fn disk_bytes(server: &ChildServer, user: &User) -> Result<u64> {
    Ok(sum(&server.metrics()?, "weir_tenant_disk_bytes", &[("tenant", &user.name)]) as u64)
}

/// Puts the same set into a redis-server, compares ranks, and returns the bytes of its dump file.
pub(super) fn redis(plan: &Plan, server: &ChildServer, user: &User, progress: &mut impl FnMut(&str)) -> Result<u64> {
    let dir = plan.dir.join("large-redis");
    let redis = Server::start(Kind::Redis, &dir, &plan.weir)?;
    let mut peer = redis.connect()?;
    peer.call(&[b"CONFIG", b"SET", b"appendonly", b"no"])?;
    let members = plan.members;
    fill(&mut peer, members, |done| progress(&format!("redis-server: {done} of {members} members")))?;
    let mut client = user.connect(server.port())?;
    let mut rng = Rng::new(3);
    for _ in 0..COMPARED {
        let member = member(rng.below(members));
        let [ours, theirs] = [&mut client, &mut peer].map(|client| client.call(&[b"ZRANK", SET, &member]));
        let (ours, theirs) = (ours?, theirs?);
        if ours != theirs {
            let name = String::from_utf8_lossy(&member).into_owned();
            return Err(format!("{name} is at {ours:?}, and in redis-server at {theirs:?}").into());
        }
    }
    progress("redis-server writes its dump");
    peer.call(&[b"SAVE"])?;
    Ok(std::fs::metadata(dir.join("dump.rdb"))?.len())
}
