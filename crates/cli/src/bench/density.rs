//! `weir bench density`: how many bursty tenants one real disk carries.

use std::path::PathBuf;

use clap::Args;
use weir_bench::Result;
use weir_bench::disk::WORLD;
use weir_bench::disk::density::Question;
use weir_bench::harness::session::Program;
use weir_scenario::args::Density;
use weir_scenario::density;

use super::scenario::Rivals;

/// How many bursty tenants one disk carries; next to RocksDB
///
/// `weir sim density` on a real disk under the real clock. The kernel's block throttle turns the disk into the device
/// that --device says, divided by the scale (this needs root), so that every contestant has the same: one pool for
/// reads and writes, or a part for each (--reads). Weir is told of the parts, as `weir calibrate` would find them.
/// Every number of tenants is a run of --seconds on data of its own. An operation is in time within 10 ms, not counting
/// the time by which an idle writer woke up late, which is the machine's fault. A run of few seconds or of a large
/// scale has few writes for each tenant: with fewer than 1000, one late write is more than 0.1 % (--served).
#[derive(Debug, Args)]
pub struct DensityArgs {
    #[command(flatten)]
    machine: Density,
    #[command(flatten)]
    rivals: Rivals,
    /// Limit reads and writes separately: the percentage of what the device moves that may be reads; the rest is for
    /// writes [default: they share the device]
    #[arg(long, value_name = "PERCENT")]
    reads: Option<f64>,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
}

impl DensityArgs {
    /// Runs the benchmark.
    pub fn run(self) -> Result<()> {
        let question = Question {
            contestants: self.rivals.entries(&self.machine.profiles)?,
            args: self.machine,
            read_share: self.reads.map(|percent| percent / 100.0),
            dir: self.dir,
            program: Program::this(&["bench", "scenario-child"])?,
            children: Default::default(),
        };
        question.check()?;
        let ours = !question.dir.exists();
        eprint!("{}", density::heading(&question.args));
        let found = question.answer()?;
        density::deliver(&question.args, WORLD, &found)?;
        super::remove_dir(&question.dir, ours)
    }
}
