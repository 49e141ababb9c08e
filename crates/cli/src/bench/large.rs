//! `weir bench large`.

use std::path::PathBuf;

use clap::Args;
use weir_bench::Result;
use weir_bench::large::{self, Plan};
use weir_scenario::progress::spinner;

use super::{remove_dir, write_as_json};

/// A sorted set beyond memory: its commands beside a GET of a row that is not in memory either, its bytes on disk
/// beside a dump file of redis-server, and what it takes to rename or delete it as a whole
///
/// One server with a cache of 256 MiB has the set, 1 GiB of rows of 1 KiB and a neighbour, each as a tenant. The same
/// set in the shape in which Kvrocks keeps it comes last. Loading a set of ten million members takes minutes; progress
/// is shown. Needs redis-server.
#[derive(Debug, Args)]
pub struct LargeArgs {
    /// Members of the set
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    members: u64,
    /// Rounds; every round sends all kinds of requests in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each kind of request, after a warm-up of a quarter of that
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How the server compresses tables: none, lz4 or zstd [default: the server's default]
    #[arg(long, value_name = "CODEC", value_parser = ["none", "lz4", "zstd"])]
    compression: Option<String>,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl LargeArgs {
    pub(super) fn run(self) -> Result<()> {
        let ours = !self.dir.exists();
        let bar = spinner();
        let Self { members, rounds, seconds, compression, .. } = self;
        let plan = Plan { members, rounds, seconds, compression, dir: self.dir, weir: std::env::current_exe()? };
        let found = large::run(&plan, |line| bar.set_message(line.to_owned()));
        bar.finish_and_clear();
        let found = found?;
        println!("{members} members; medians of {rounds} rounds\n");
        print!("{}", large::table(&found));
        write_as_json(self.json.as_deref(), &found)?;
        remove_dir(&plan.dir, ours)
    }
}
