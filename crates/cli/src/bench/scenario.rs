//! `weir bench shortage`, `surge`, `waves`, `bursts`, `steady` and `trace`: the scenarios of `weir sim` on a real disk,
//! next to RocksDB.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use weir_bench::disk::compare::{Comparison, Measured, compare};
use weir_bench::disk::{Entry, peers};
use weir_bench::harness::session::Program;
use weir_bench::throttle::Caps;
use weir_bench::{Result, peer};
use weir_scenario::args::Scenario;
use weir_scenario::outcome::{Outcome, Run};
use weir_scenario::plan::Plan;
use weir_scenario::{profile, report, save, steadiness, table};

/// A scenario of `weir sim` on a real disk, next to RocksDB
///
/// The same load with the same parameters and the same JSON as `weir sim`, on a real disk under the real clock, and
/// next to one RocksDB for each partition. The kernel limits what the disk can do: --cap-mbps, or --cap-read-mbps and
/// --cap-write-mbps, put a control group with a block throttle around each contestant in turn (this needs root). The
/// BOSR that is printed then follows from these caps, and --bosr sets the bandwidth that Weir assumes for the device.
/// Without caps the disk is as fast as it is.
#[derive(Debug, Args)]
pub struct OnDisk<S: Args> {
    #[command(flatten)]
    scenario: S,
    #[command(flatten)]
    disk: DiskArgs,
}

/// The contestants to compare.
#[derive(Debug, Args)]
pub struct Rivals {
    /// Contestants to compare with, separated by commas: rocksdb, rocksdb-autotune, and rocksdb-merging, which is set
    /// up for a shortage; redb, a B-tree, where it was built in (`--features redb`)
    #[arg(long, value_delimiter = ',')]
    peer: Vec<String>,
    /// RocksDB's shared library; else WEIR_ROCKSDB_LIB, .tools/, ~/.cache/weir/ and the system's directories are
    /// searched
    #[arg(long, value_name = "FILE")]
    peer_lib: Option<PathBuf>,
    /// Measure only the peers
    #[arg(long, requires = "peer")]
    alone: bool,
}

impl Rivals {
    /// The contestants: Weir under `profiles`, and the peers.
    pub fn entries(&self, profiles: &[String]) -> Result<Vec<Entry>> {
        let ours = if self.alone { &[] } else { profiles };
        let peers = peers(&self.peer, || {
            let library = peer::locate::rocksdb(self.peer_lib.as_deref())?;
            Ok(std::fs::canonicalize(library)?)
        })?;
        Ok(ours.iter().cloned().map(Entry::Weir).chain(peers).collect())
    }
}

/// Caps that can be asked for, in MB/s. Of a much smaller one, what a pool leaves to reads or to writes could be
/// 0 bytes, which the kernel takes for no limit.
const MBPS: RangeInclusive<f64> = 0.001..=1e6;

/// Reads a cap, in MB/s.
fn mbps(text: &str) -> std::result::Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|read| MBPS.contains(read));
    read.ok_or_else(|| {
        format!("a cap is between {} and {} MB/s; without the option there is none", MBPS.start(), MBPS.end())
    })
}

/// The arguments that only a run on a disk needs.
#[derive(Debug, Args)]
pub(super) struct DiskArgs {
    #[command(flatten)]
    rivals: Rivals,
    /// Let the kernel read and write at most this many MB/s together for each contestant while the load runs: one pool,
    /// as most rented disks and `weir sim` have it
    #[arg(long, value_name = "RW", conflicts_with_all = ["cap_read_mbps", "cap_write_mbps"], value_parser = mbps)]
    cap_mbps: Option<f64>,
    /// Let the kernel read at most this many MB/s
    #[arg(long, value_name = "R", value_parser = mbps)]
    cap_read_mbps: Option<f64>,
    /// Let the kernel write at most this many MB/s
    #[arg(long, value_name = "W", value_parser = mbps)]
    cap_write_mbps: Option<f64>,
    /// Let Weir assume both caps for the device, reads and writes apart, as `weir calibrate` would find them; without
    /// this it assumes the sum that the scenario says (--bosr, --device)
    #[arg(long, requires_all = ["cap_read_mbps", "cap_write_mbps"])]
    calibrated: bool,
    /// Rounds; every round runs every contestant, and the order rotates
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    pub(super) dir: PathBuf,
    /// Leave the preloaded data in the directory, and use the data that an earlier run left
    #[arg(long)]
    keep: bool,
}

impl DiskArgs {
    /// The caps that the kernel enforces.
    pub(super) fn caps(&self) -> Caps {
        match self.cap_mbps {
            Some(pool) => Caps::pool((pool * 1e6) as u64),
            None => Caps::from_mbps(self.cap_read_mbps, self.cap_write_mbps),
        }
    }

    /// The comparison in `scenario`, whose plan is `plan`.
    pub(super) fn comparison(self, scenario: Scenario, plan: Plan) -> Result<Comparison> {
        Ok(Comparison {
            contestants: self.rivals.entries(&plan.args.profiles)?,
            scenario,
            plan,
            rounds: self.rounds,
            caps: self.caps(),
            slowed: None,
            calibrated: self.calibrated,
            dir: self.dir,
            keep: self.keep,
            program: Program::this(&["bench", "scenario-child"])?,
            children: Default::default(),
        })
    }
}

impl<S: Args> OnDisk<S> {
    /// Runs the scenario that `which` makes of these arguments.
    pub fn run(self, which: fn(S) -> Scenario) -> Result<()> {
        let (scenario, disk) = (which(self.scenario), self.disk);
        let plan = Plan { caps: disk.caps().all(), ..scenario.clone().plan()? };
        let ours = !disk.dir.exists();
        let comparison = disk.comparison(scenario, plan)?;
        let plan = &comparison.plan;
        eprint!("{}", table::heading(plan));
        let results = compare(&comparison)?;
        if !save::is_stdout(plan.args.json.as_deref()) {
            let outcomes: Vec<&Outcome> = results.iter().map(|result| &result.run.outcome).collect();
            print!("\n{}{}", table::outcomes(&outcomes), steadiness::table(&outcomes));
        }
        if let Some(path) = &plan.args.json {
            save::json(path, &json(&results)?)?;
        }
        if let Some(path) = &plan.args.report {
            page(path, plan, &results)?;
        }
        super::remove_dir(&comparison.dir, ours && !comparison.keep)
    }
}

/// Writes the time series of all runs; the number of its round tells a run from the others.
pub(super) fn page<'a>(path: &Path, plan: &Plan, results: impl IntoIterator<Item = &'a Measured>) -> Result<()> {
    let named = |result: &Measured| {
        let mut run: Run = result.run.clone();
        if result.disk.round > 1 {
            run.outcome.profile = format!("{}, round {}", run.outcome.profile, result.disk.round);
        }
        run
    };
    let runs: Vec<Run> = results.into_iter().map(named).collect();
    Ok(save::page(path, &report::page(plan, &runs, &profile::STAGES))?)
}

/// The outcomes in the form of the simulation, with the figures that only a disk has under `disk`.
pub(super) fn json<'a>(results: impl IntoIterator<Item = &'a Measured>) -> Result<Vec<Value>> {
    let one = |result: &Measured| {
        let mut value = serde_json::to_value(&result.run.outcome)?;
        if let Value::Object(map) = &mut value {
            map.insert("disk".into(), serde_json::to_value(&result.disk)?);
        }
        Ok(value)
    };
    results.into_iter().map(one).collect()
}
