//! What many runs have in common: their seeds, and what an acknowledgement promises.

use clap::{Args, ValueEnum};
use weir_log::SyncMode;
use weir_node::EngineKind;

use crate::life::Promise;
use crate::node_store::SYNC_EVERY;
use crate::runner::Plan;

/// Where seeds begin, how many there are, and on how many threads they run.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Seeds {
    /// Only this seed: repeats one run
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    pub(super) seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    pub(super) from: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub(super) threads: usize,
}

impl Seeds {
    pub(super) fn plan(&self) -> Plan {
        let seeds = self.seed.map_or(self.from..self.from + self.seeds, |seed| seed..seed + 1);
        Plan { seeds, threads: self.threads, progress: true }
    }
}

/// What rows are kept in, and when a write is acknowledged.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Terms {
    /// What rows are kept in: `lsm`, `memory` or `sp-lsm`
    #[arg(long, default_value_t)]
    pub(super) engine: EngineKind,
    /// What an acknowledgement promises
    #[arg(long, value_enum, default_value = "always")]
    pub(super) sync: Sync,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Sync {
    Always,
    Interval,
    None,
}

impl Sync {
    pub(super) fn mode(self) -> SyncMode {
        match self {
            Sync::Always => SyncMode::Always,
            Sync::Interval => SyncMode::Interval,
            Sync::None => SyncMode::None,
        }
    }

    /// A sync that was under way when the acknowledgement came does not cover it: the next one does, and takes its
    /// time.
    pub(super) fn promise(self) -> Promise {
        match self {
            Sync::Always => Promise::Durable,
            Sync::Interval => Promise::Within(2 * SYNC_EVERY + 50_000_000),
            Sync::None => Promise::Nothing,
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.mode().name()
    }
}
