//! A tenant that is offered twice its limit, and its neighbour (FX-2).

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::steady::{self, Felt, Load};
use super::user::User;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::report::median::{median, median_of_counts};
use crate::report::words::time;

/// Requests per second of the neighbour.
const NEIGHBOUR_RATE: u32 = 500;
const KEYS: u64 = 1000;
const VALUE_BYTES: usize = 128;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Reads per second that the tenant may do.
    pub limit: u32,
    /// Rounds, each first within and then above the limit.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// One round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limited {
    /// What the tenant was served when it was offered twice its limit, relative to the limit.
    pub served: f64,
    /// What the neighbour felt beside the tenant within its limit.
    pub beside_tame: Felt,
    /// What the neighbour felt beside the tenant that was offered twice its limit.
    pub beside_wild: Felt,
}

/// Runs every round.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Limited>> {
    let dir = plan.dir.join("limited");
    child_server::remove(&dir)?;
    let server = ChildServer::start(&plan.weir, &dir, "")?;
    let limits = json!({ "rcu": plan.limit, "burst_seconds": 0 });
    let limited = [User::create(&server, "limited", &limits)?];
    let neighbour = [User::create(&server, "neighbour", &json!({}))?];
    limited.iter().chain(&neighbour).try_for_each(|user| user.load(server.port(), KEYS, VALUE_BYTES))?;
    let load = |rate, writes| Load {
        rate,
        connections: 16,
        keys: KEYS,
        writes,
        warm_up: Duration::from_secs(3),
        duration: Duration::from_secs(plan.seconds),
    };
    let both = |rate| -> Result<(Felt, Felt)> {
        thread::scope(|scope| {
            let beside = scope.spawn(|| steady::measure(&server, &neighbour, &load(NEIGHBOUR_RATE, 50)));
            let felt = steady::measure(&server, &limited, &load(rate, 0))?;
            Ok((felt, beside.join().map_err(|_| "the neighbour panicked")??))
        })
    };
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        progress(&format!("round {round}: within the limit"));
        let (_, beside_tame) = both((plan.limit * 9 / 10).max(1))?;
        progress(&format!("round {round}: twice the limit"));
        let (wild, beside_wild) = both(plan.limit * 2)?;
        let served = wild.ops as f64 / (f64::from(plan.limit) * plan.seconds as f64);
        all.push(Limited { served, beside_tame, beside_wild });
    }
    server.stop()?;
    child_server::remove(&dir)?;
    Ok(all)
}

/// The results in words.
pub fn words(all: &[Limited]) -> String {
    let mut served: Vec<f64> = all.iter().map(|one| one.served).collect();
    served.sort_by(f64::total_cmp);
    let (low, high) = (served.first().copied().unwrap_or(0.0), served.last().copied().unwrap_or(0.0));
    let p99 = |felt: fn(&Limited) -> Felt| median_of_counts(all.iter().map(|one| felt(one).p99_ns));
    format!(
        "offered twice its limit, it was served {:.3} of it [{low:.3} .. {high:.3}] (wanted: 0.98 .. 1.02)\n\
         p99 of its neighbour: {} beside it within its limit, {} beside it above\n",
        median(&served).unwrap_or(0.0),
        time(p99(|one| one.beside_tame)),
        time(p99(|one| one.beside_wild)),
    )
}
