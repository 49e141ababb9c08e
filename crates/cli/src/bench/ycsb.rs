//! `weir bench ycsb`: YCSB's workloads on a real disk, next to RocksDB and a B-tree.

use clap::Args;
use weir_bench::Result;
use weir_bench::disk::cases::{compare, scenario};
use weir_bench::disk::compare::Measured;
use weir_scenario::ycsb::table;
use weir_scenario::{args, cases, save};

use super::scenario::{DiskArgs, json, page};

/// YCSB's core workloads A to F on the disk; next to RocksDB, and a B-tree where that is built in
///
/// `weir sim ycsb` on a real disk under the real clock. The clients are threads that do not rest between their
/// operations. Every round runs every workload on every contestant. --cap-mbps, or --cap-read-mbps and --cap-write-mbps
/// limit what the disk can do (this needs root); --device sets the bandwidth that Weir assumes for it, at scale 1.
/// Without caps the disk is as fast as it is.
#[derive(Debug, Args)]
pub struct YcsbArgs {
    #[command(flatten)]
    ycsb: args::Ycsb,
    #[command(flatten)]
    disk: DiskArgs,
}

impl YcsbArgs {
    /// Runs the benchmark.
    pub fn run(self) -> Result<()> {
        let args = self.ycsb;
        if args.seeds > 1 {
            return Err("on a disk there are --rounds, not --seeds".into());
        }
        let first = args.cases().first().copied().ok_or("no workload was named")?;
        let (scenario, mut plan) = scenario(&args, first)?;
        plan.caps = self.disk.caps().all();
        let ours = !self.disk.dir.exists();
        let comparison = self.disk.comparison(scenario, plan)?;
        let plan = &comparison.plan;
        eprint!("{}", cases::heading(&args, plan));
        let results = compare(&comparison, &args)?;
        // All contestants are compared with the first peer, or with the first profile.
        let with = comparison.contestants.iter().find(|entry| entry.is_peer()).or(comparison.contestants.first());
        let with = with.map(|entry| entry.name()).unwrap_or_default();
        let measured = results.iter().map(|(case, measured)| table::Measured {
            case: *case,
            round: measured.disk.round.into(),
            outcome: &measured.run.outcome,
        });
        if !save::is_stdout(plan.args.json.as_deref()) {
            print!("{}", table::table(&measured.collect::<Vec<_>>(), &with));
        }
        let runs: Vec<&Measured> = results.iter().map(|(_, measured)| measured).collect();
        if let Some(path) = &plan.args.json {
            save::json(path, &json(runs.iter().copied())?)?;
        }
        if let Some(path) = &plan.args.report {
            page(path, plan, runs.iter().copied())?;
        }
        super::remove_dir(&comparison.dir, ours && !comparison.keep)
    }
}
