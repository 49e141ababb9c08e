//! Commands of every type, by `redis-benchmark`, in turn on `redis-server`, on `weir serve` with its defaults (engine
//! `lsm`), and on a tenant of such a server whose rows are in memory.
//!
//! Every round starts every server afresh on an empty directory, and runs all works on each, one after the other: first
//! one request at a time, then in pipelines.

mod table;
mod work;

use std::path::PathBuf;

use weir_scenario::eprintln;

use crate::Result;
use crate::harness::in_turn;
use crate::outcome::Outcome;
use crate::redis::Kind;
use crate::redis::program::{Run, check_installed};
use crate::redis::server::Server;
use crate::report;

pub use table::table;
pub use work::Work;

/// The servers to compare, in the order of the odd rounds.
const SERVERS: [Kind; 3] = [Kind::Redis, Kind::Weir, Kind::WeirMemory];

/// Depths of pipelines, and how many requests of a cheap command are sent at each: half a second to a second.
const DEPTHS: [(u32, u32); 2] = [(1, 60_000), (16, 300_000)];

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The works, in this order.
    pub works: Vec<Work>,
    /// Rounds.
    pub rounds: u32,
    /// Multiplies the requests of every work.
    pub scale: f64,
    /// Connections.
    pub clients: u32,
    /// Numbers to draw from: keys, members, fields, scores.
    pub keys: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Directory for the servers' data; created if missing.
    pub dir: PathBuf,
    /// The program to start as `PROGRAM serve …` for Weir.
    pub weir: PathBuf,
}

/// Runs the plan. Every finished run is reported on standard error.
pub fn run(plan: &Plan) -> Result<Vec<Outcome>> {
    check_installed()?;
    let mut outcomes = Vec::new();
    for round in 1..=plan.rounds {
        for &kind in in_turn(&SERVERS, round) {
            let server = Server::start(kind, &plan.dir.join(kind.name()), &plan.weir)?;
            for work in &plan.works {
                for (pipeline, requests) in DEPTHS {
                    let mut outcome = one(plan, &server, work, pipeline, requests)?;
                    outcome.round = round;
                    eprintln!("round {round}/{}  {}", plan.rounds, report::line(&outcome));
                    outcomes.push(outcome);
                }
            }
            server.stop()?;
        }
    }
    Ok(outcomes)
}

fn one(plan: &Plan, server: &Server, work: &Work, pipeline: u32, requests: u32) -> Result<Outcome> {
    let requests = ((work.requests(requests) as f64 * plan.scale) as u64).max(1);
    let keys = work.keys(plan.keys);
    let mut client = server.connect()?;
    if pipeline == 1 || work.is_used_up() {
        work.fill(&mut client, requests, keys, plan.value_bytes)?;
    }
    work.check(&mut client, plan.value_bytes)?;
    let name = label(work, pipeline);
    let words = work.command(plan.value_bytes);
    Run { work: &name, requests, pipeline, clients: plan.clients, keys, words }.on(server)
}

/// The name of a work at a depth in outcomes and tables.
fn label(work: &Work, pipeline: u32) -> String {
    format!("{} -P {pipeline}", work.name)
}
