//! `redis-benchmark`, unchanged, against `redis-server` and `weir serve` in turn.
//!
//! Every round starts every server afresh on an empty directory, fills it through the pipelined SET, and runs the other
//! loads on what is there then. One server runs at a time. Weir runs twice: with its defaults, and with tenants, a
//! login and limits, which must cost next to nothing.

mod load;
pub(crate) mod program;
pub(crate) mod server;

use std::path::PathBuf;

use weir_scenario::eprintln;

use crate::Result;
use crate::harness::in_turn;
use crate::outcome::Outcome;
use crate::report::{self, Promise, Quantity, Subject};

use load::Load;
pub use server::Kind;
use server::Server;

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers, in the order of the odd rounds.
    pub servers: Vec<Kind>,
    /// Rounds.
    pub rounds: u32,
    /// Multiplies the requests of every load; 1 is five to ten seconds each on two cores.
    pub scale: f64,
    /// Connections.
    pub clients: u32,
    /// Keys to draw from.
    pub keys: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Directory for the servers' data; created if missing.
    pub dir: PathBuf,
    /// The program to start as `PROGRAM serve …` for Weir.
    pub weir: PathBuf,
}

/// Runs the plan. Every finished load is reported on standard error.
pub fn run(plan: &Plan) -> Result<Vec<Outcome>> {
    program::check_installed()?;
    let mut outcomes = Vec::new();
    for round in 1..=plan.rounds {
        for &kind in in_turn(&plan.servers, round) {
            let server = Server::start(kind, &plan.dir.join(kind.name()), &plan.weir)?;
            for load in Load::ALL {
                let mut outcome = load.run(plan, &server)?;
                outcome.round = round;
                eprintln!("round {round}/{}  {}", plan.rounds, report::line(&outcome));
                outcomes.push(outcome);
            }
            server.stop()?;
        }
    }
    Ok(outcomes)
}

/// What Weir promises, for the table: against Redis, and with tenants against Weir with its defaults.
pub fn subjects() -> Vec<Subject> {
    let subject = |load: &Load| {
        let against_redis = if load.is_set() { 1.0 } else { 0.8 };
        let promises = vec![
            Promise { quantity: Quantity::Speed, against: Kind::Redis.name(), limit: against_redis },
            Promise { quantity: Quantity::Speed, against: Kind::Weir.name(), limit: 0.97 },
            Promise { quantity: Quantity::Processor, against: Kind::Weir.name(), limit: 1.03 },
        ];
        Subject { work: load.name(), promises, user_bytes: None }
    };
    Load::ALL.iter().map(subject).collect()
}
