//! Settings that many runs have in common: their seeds, and what an acknowledgement promises.

use clap::{Args, ValueEnum, value_parser};
use weir_log::SyncMode;
use weir_node::EngineKind;

use crate::life::Promise;
use crate::node_store::SYNC_EVERY;
use crate::runner::Plan;

/// Seeds are below this, so that none can overflow: then no seed would be run, and all would seem well.
const SEED_MAX: u64 = 1 << 62;

/// The first seed, how many there are, and on how many threads they run.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Seeds {
    /// Only this seed: repeats one run
    #[arg(long, value_parser = value_parser!(u64).range(..SEED_MAX))]
    pub(super) seed: Option<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..SEED_MAX))]
    pub(super) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(..SEED_MAX))]
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

/// The engine that keeps rows, and what an acknowledgement promises.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Terms {
    /// The engine that keeps the rows: `lsm`, `memory` or `sp-lsm`
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

    /// A sync that is under way when the acknowledgement comes does not cover the write. The next sync does, and takes
    /// its own time.
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
