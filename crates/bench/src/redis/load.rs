//! The loads of the comparison: SET and GET, alone and in pipelines.

use super::Plan;
use super::program::Run;
use super::server::Server;
use crate::Result;
use crate::outcome::Outcome;

/// A command at a pipeline depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    name: &'static str,
    command: &'static str,
    pipeline: u32,
    requests: u32,
}

impl Load {
    /// The pipelined SET comes first: it is also what fills the store (three requests per key leave one key in twenty
    /// empty).
    pub(super) const ALL: [Load; 4] = [
        Load { name: "set -P 16", command: "set", pipeline: 16, requests: 3_000_000 },
        Load { name: "get -P 16", command: "get", pipeline: 16, requests: 5_000_000 },
        Load { name: "set -P 1", command: "set", pipeline: 1, requests: 500_000 },
        Load { name: "get -P 1", command: "get", pipeline: 1, requests: 500_000 },
    ];

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_set(&self) -> bool {
        self.command == "set"
    }

    /// Runs the load against `server`, which must be ready.
    pub(super) fn run(&self, plan: &Plan, server: &Server) -> Result<Outcome> {
        let requests = ((f64::from(self.requests) * plan.scale) as u64).max(1);
        let words = ["-t", self.command, "-d", &plan.value_bytes.to_string()].map(str::to_owned).to_vec();
        let Plan { clients, keys, .. } = *plan;
        Run { work: self.name, requests, pipeline: self.pipeline, clients, keys, words }.on(server)
    }
}
