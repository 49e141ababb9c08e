//! `redis-benchmark`, unchanged, against `redis-server` and `weir serve` in turn.
//!
//! Every round starts every server afresh on an empty directory, fills it through the pipelined SET, and runs the other loads on
//! what is there then. One server runs at a time.

mod load;
mod server;

use std::path::PathBuf;

use crate::Result;
use crate::outcome::Outcome;
use crate::report::{self, Promise, Quantity, Subject};

use load::Load;
pub use server::Kind;
use server::Server;

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers; the first is compared with the others.
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

/// Runs the plan. Every finished load is told on standard error.
pub fn run(plan: &Plan) -> Result<Vec<Outcome>> {
    load::check_installed()?;
    let mut outcomes = Vec::new();
    for round in 1..=plan.rounds {
        let mut order = plan.servers.clone();
        if round.is_multiple_of(2) {
            order.reverse();
        }
        for kind in order {
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

/// What Weir promises, for the table.
pub fn subjects() -> Vec<Subject> {
    let promise = |load: &Load| Promise {
        quantity: Quantity::Speed,
        against: Kind::Redis.name(),
        limit: if load.is_set() { 1.0 } else { 0.8 },
    };
    let subject = |load: &Load| Subject { work: load.name(), promises: vec![promise(load)], user_bytes: None };
    Load::ALL.iter().map(subject).collect()
}
