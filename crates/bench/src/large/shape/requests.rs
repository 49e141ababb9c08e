//! Requests for a part of the set in Kvrocks' shape: what Kvrocks' commands do to its rows, done by the engine in this
//! process. No command of a server goes through plain rows in their order from a given one on. So these requests spare
//! the connection, the words and the reply; a `GET` that is measured both ways tells how much that is.
//!
//! Nothing in that shape counts rows. A rank is found by going through all rows in front of it, and so is a range of
//! ranks. This is measured for the ranks of the first members only, and a range is read from a score on.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weir_io::Rng;
use weir_io::real::{RealClock, RealFs, RealFsOptions, be_nice, block_on, blocking_scope};
use weir_model::engine::Range;
use weir_model::{Batch, StoredKey, TenantName};
use weir_node::{Node, NodeConfig, Partition};

use super::{TENANT, prefix, rows_of, score_bytes};
use crate::large::ask::repeat;
use crate::large::{CACHE_BYTES, Plan, member, score};
use crate::meter::Stopwatch;
use crate::outcome::Outcome;
use crate::tenants::victim::NICE;
use crate::wire::{Client, Reply};
use crate::{Failure, Result, embedded};

/// The most members whose ranks are asked for.
const RANKS_MAX: u64 = 10_000;
/// Rows of a range.
const RANGE: usize = 100;
/// Background threads: as many as `weir serve` has with its default of two compactions.
const BACKGROUND_THREADS: usize = 3;
/// The database of clients that have not chosen one.
const DATABASE: u8 = 0;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The row from a member to its score, asked for by a client of a server.
    GetOverLoopback,
    /// The same row, in this process.
    Get,
    /// A new score for a member: its old one is read, and three rows change at once.
    Zadd,
    /// A hundred rows from a score on.
    Zrange,
    /// The rank of one of the first members: its score is read, and then all rows from the first one up to its own.
    Zrank,
}

impl Request {
    /// All kinds.
    pub const ALL: [Request; 5] =
        [Request::GetOverLoopback, Request::Get, Request::Zadd, Request::Zrange, Request::Zrank];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Request::GetOverLoopback => "GET of a member's row, over loopback",
            Request::Get => "GET of a member's row",
            Request::Zadd => "ZADD: a GET, three changes",
            Request::Zrange => "100 rows from a score on",
            Request::Zrank => "ZRANK of the first members",
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
    /// Requests done.
    pub ops: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// About how many members, from the first one on, are asked for their ranks, of `members`.
pub fn ranks(members: u64) -> u64 {
    RANKS_MAX.min(members / 10)
}

/// Whether a member is among these.
fn is_near(number: u64, members: u64) -> bool {
    score(number) < (ranks(members) << 32) / members.max(1)
}

/// Asks for rows as a client of a server.
pub(super) fn over_loopback(plan: &Plan, mut client: Client, progress: &mut impl FnMut(&str)) -> Result<Vec<Asked>> {
    let prefix = prefix();
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        progress(&format!("the shape of Kvrocks, round {round}: {}", Request::GetOverLoopback.name()));
        let get = |rng: &mut Rng| -> Result<()> {
            let [(key, _), _] = rows_of(&prefix, rng.below(plan.members));
            match client.call(&[b"GET", &key])? {
                Reply::Bulk(Some(_)) => Ok(()),
                other => Err(format!("a member's row is {other:?}").into()),
            }
        };
        all.push(measured(plan, Request::GetOverLoopback, round, get)?);
    }
    Ok(all)
}

/// Asks for rows of the node in `dir`, which no server has open.
pub(super) fn in_process(plan: &Plan, dir: &Path, progress: &mut impl FnMut(&str)) -> Result<Vec<Asked>> {
    let (node, partition) = open(dir, &TenantName::new(TENANT)?)?;
    let rows = Rows::new(partition, plan.members);
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        for request in Request::ALL.into_iter().filter(|&request| request != Request::GetOverLoopback) {
            progress(&format!("the shape of Kvrocks, round {round}: {}", request.name()));
            all.push(measured(plan, request, round, |rng| rows.ask(request, rng))?);
        }
    }
    embedded::close(&node)?;
    Ok(all)
}

/// Opens the node in `dir`, and the first partition of a tenant.
fn open(dir: &Path, tenant: &TenantName) -> Result<(Node, Arc<Partition>)> {
    let fs = RealFs::new(RealFsOptions { probe_dir: Some(dir.to_path_buf()), ..RealFsOptions::default() });
    let machine = embedded::machine(fs, RealClock::new(), BACKGROUND_THREADS)?;
    let config = NodeConfig { cache_bytes: CACHE_BYTES as usize, ..NodeConfig::new(dir) };
    let _scope = blocking_scope();
    block_on(async {
        let node = Node::open(&config, machine).await?;
        let tenant = node.tenant(tenant).ok_or("the tenant is not there")?;
        let partition = tenant.partitions()[0].partition().await?;
        Ok::<_, Failure>((node, partition))
    })
}

/// Does `ask` again and again for as long as the plan says, after a quarter of that as a warm-up.
fn measured(
    plan: &Plan,
    request: Request,
    round: u32,
    mut ask: impl FnMut(&mut Rng) -> Result<()> + Send,
) -> Result<Asked> {
    let seconds = Duration::from_secs(plan.seconds);
    let work = || -> Result<Asked> {
        be_nice(NICE);
        let mut rng = Rng::new(u64::from(round));
        let mut once = || -> Result<u64> {
            let watch = Stopwatch::start();
            ask(&mut rng)?;
            Ok(watch.nanos())
        };
        repeat(seconds / 4, &mut once)?;
        let (latencies, ops) = repeat(seconds, &mut once)?;
        let mut outcome = Outcome::default();
        latencies.report(&mut outcome);
        let Outcome { p50_ns, p99_ns, max_ns, .. } = outcome;
        Ok(Asked { request, round, ops, p50_ns, p99_ns, max_ns })
    };
    // In a thread of its own, so that nobody else inherits its niceness.
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| "who asks panicked")?
}

/// The rows of the set, and who of its members may be asked for what.
struct Rows {
    partition: Arc<Partition>,
    prefix: Vec<u8>,
    members: u64,
    /// The first members, whose ranks are asked for. Their scores stay.
    near: Vec<u64>,
}

impl Rows {
    fn new(partition: Arc<Partition>, members: u64) -> Self {
        let near = (0..members).filter(|&number| is_near(number, members)).collect();
        Self { partition, prefix: prefix(), members, near }
    }

    fn ask(&self, request: Request, rng: &mut Rng) -> Result<()> {
        match request {
            Request::GetOverLoopback | Request::Get => self.score_of(&member(rng.below(self.members))).map(drop),
            Request::Zadd => {
                let mut number = rng.below(self.members);
                while is_near(number, self.members) {
                    number = rng.below(self.members);
                }
                self.add(&member(number), rng.below(1 << 32))
            }
            Request::Zrange => {
                let from = self.key(&score_bytes(rng.below(1 << 32)), &[]);
                embedded::scan(&self.partition, &from, RANGE, &mut |_, _| ())
            }
            Request::Zrank => {
                let number = self.near[rng.below(self.near.len() as u64) as usize];
                self.rank(&member(number))?;
                Ok(())
            }
        }
    }

    /// The key of a row: what stands behind the prefix, in two pieces.
    fn key(&self, front: &[u8], back: &[u8]) -> StoredKey {
        StoredKey::new(DATABASE, &[&self.prefix[..], front, back].concat())
    }

    /// The score of a member, in bytes.
    fn score_of(&self, member: &[u8]) -> Result<Vec<u8>> {
        let mut score = Vec::new();
        let is_there =
            embedded::get(&self.partition, &self.key(member, &[]), &mut |value| score.extend_from_slice(value))?;
        if is_there { Ok(score) } else { Err("a member that was loaded is not there".into()) }
    }

    /// Gives a member another score.
    fn add(&self, member: &[u8], score: u64) -> Result<()> {
        let (old, new) = (self.score_of(member)?, score_bytes(score));
        let mut batch = Batch::new();
        batch.delete(&self.key(&old, member));
        batch.put(&self.key(member, &[]), &new);
        batch.put(&self.key(&new, member), &[]);
        embedded::write(&self.partition, &batch)
    }

    /// How many rows by score are in front of a member's.
    fn rank(&self, member: &[u8]) -> Result<u64> {
        let own = self.key(&self.score_of(member)?, member);
        let first = self.key(&score_bytes(0), &[]);
        let range = Range { from: Bound::Included(first.to_vec()), to: Bound::Included(own.to_vec()), reverse: false };
        let _scope = blocking_scope();
        block_on(async {
            let mut scan = self.partition.scan(range).await?;
            let mut rank = 0;
            while let Some(entry) = scan.next().await? {
                if *entry.key == own[..] {
                    return Ok(rank);
                }
                rank += 1;
            }
            Err("a member has no row by its score".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_members_are_as_many_as_asked_for() {
        let near = |members: u64| (0..members).filter(|&number| is_near(number, members)).count();
        assert!((80..120).contains(&near(1_000)), "a hundred: {}", near(1_000));
        assert!((9_700..10_300).contains(&near(200_000)), "ten thousand: {}", near(200_000));
    }

    #[test]
    fn a_rank_is_the_number_of_members_with_lower_scores() {
        const MEMBERS: u64 = 1_000;
        let dir = std::env::temp_dir().join(format!("weir-large-shape-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("there is room");
        let (node, partition) = open(&dir, &TenantName::built_in()).expect("a new node");
        let mut batch = Batch::new();
        for (key, value) in (0..MEMBERS).flat_map(|number| rows_of(&prefix(), number)) {
            batch.put(&StoredKey::new(DATABASE, &key), &value);
        }
        embedded::write(&partition, &batch).expect("there is room");
        let rows = Rows::new(partition, MEMBERS);
        let mut numbers: Vec<u64> = (0..MEMBERS).collect();
        numbers.sort_by_key(|&number| (score(number), number));
        let rank = |number: u64| rows.rank(&member(number)).expect("it is there");
        let ranks: Vec<u64> = numbers.iter().map(|&number| rank(number)).collect();
        assert!(ranks.iter().copied().eq(0..MEMBERS));
        rows.add(&member(numbers[0]), 1 << 33).expect("it is there");
        assert_eq!((rank(numbers[1]), rank(numbers[0])), (0, MEMBERS - 1), "its old row is gone");
        for request in Request::ALL {
            rows.ask(request, &mut Rng::new(1)).expect("all is there");
        }
        embedded::close(&node).expect("the disk works");
        drop((rows, node));
        std::fs::remove_dir_all(&dir).expect("ours");
    }
}
