//! A sorted set that does not fit the cache, beside rows that do not fit it either, over loopback: how long commands on
//! the set take, how many bytes it takes on disk, and what it costs to delete, rename or expire it as a whole.

mod ask;
mod load;
mod moments;
mod shape;
mod table;
mod whole;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use self::ask::Asked;
use self::load::Loaded;
use self::shape::Shape;
use self::whole::Whole;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::tenants::user::User;
use crate::tenants::victim;

pub use self::table::table;

/// The server's cache, in bytes.
const CACHE_BYTES: u64 = 256 << 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Members of the set.
    pub members: u64,
    /// Rounds of the requests.
    pub rounds: u32,
    /// Seconds of each kind of request in each round, after a quarter of that as a warm-up.
    pub seconds: u64,
    /// How the server compresses tables, in the words of its configuration; `None` = its default.
    pub compression: Option<String>,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Members of the set.
    pub members: u64,
    /// Bytes of the set on disk, once nothing is left to flush or to merge.
    pub set_bytes: u64,
    /// Bytes of the dump file that a redis-server writes of the same set.
    pub rdb_bytes: u64,
    /// The same set in the shape in which Kvrocks keeps it, as rows of the same engine.
    pub shape: Shape,
    /// What loading the set took.
    pub loaded: Loaded,
    /// Requests, round by round.
    pub asked: Vec<Asked>,
    /// What commands on the set as a whole took.
    pub whole: Whole,
}

/// The users of the server: one has the set, one has the rows, and the neighbour does nothing but ask all the time.
struct Users {
    set: User,
    rows: User,
    neighbour: User,
}

/// Loads, asks, and deletes; reports to `progress`.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Found> {
    let members = plan.members;
    let dir = plan.dir.join("large");
    let server = start(plan, &dir)?;
    let create = |name: &str| User::create(&server, name, &json!({}));
    let users = Users { set: create("set")?, rows: create("rows")?, neighbour: create("neighbour")? };
    victim::load(&server, &users.neighbour)?;
    load::rows(&users.rows, &server, &mut progress)?;
    let loaded = load::set(&server, &users.set, members, &mut progress)?;
    progress("waiting until all is merged");
    load::settle(&server)?;
    let set_bytes = load::disk_bytes(&server, &users.set)?;
    let rdb_bytes = load::redis(plan, &server, &users.set, &mut progress)?;
    let asked = ask::all(plan, &server, &users, &mut progress)?;
    load::settle(&server)?;
    let whole = whole::measure(plan, &server, &users, &mut progress)?;
    server.stop()?;
    child_server::remove(&dir)?;
    let shape = shape::measure(plan, &mut progress)?;
    Ok(Found { members, set_bytes, rdb_bytes, shape, loaded, asked, whole })
}

/// Starts a server on an empty directory.
fn start(plan: &Plan, dir: &std::path::Path) -> Result<ChildServer> {
    child_server::remove(dir)?;
    let compression = plan.compression.iter().map(|codec| format!("compression = \"{codec}\"\n"));
    let config = std::iter::once(format!("cache = {CACHE_BYTES}\n")).chain(compression).collect::<String>();
    ChildServer::start(&plan.weir, dir, &config)
}

/// The key of the set.
const SET: &[u8] = b"large";

/// The member with this number.
fn member(number: u64) -> Vec<u8> {
    format!("player:{number:010}").into_bytes()
}

/// Its score: 32 bits that look random, in no order.
fn score(number: u64) -> u64 {
    let mixed = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_spread_and_seldom_the_same() {
        let mut scores: Vec<_> = (0..10_000).map(score).collect();
        assert!(!scores.is_sorted());
        scores.sort_unstable();
        assert!(scores[2_500] > 1 << 29 && scores[7_500] < 7 << 29, "about a quarter and three quarters");
        scores.dedup();
        assert!(scores.len() > 9_990);
    }
}
