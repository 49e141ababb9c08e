//! `weir demo`: two stores side by side on a disk that was sold seven times, live.

#![allow(clippy::disallowed_methods, reason = "it runs processes side by side, on a directory that the user names")]

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use tokio::signal::unix::{SignalKind, signal};
use weir_bench::disk::Entry;
use weir_bench::disk::compare::{Comparison, Measured};
use weir_bench::harness::children::Children;
use weir_bench::harness::session::Program;
use weir_bench::throttle::Caps;
use weir_bench::{Failure, Result};
use weir_scenario::args::{Scenario, Shape, Shortage};
use weir_scenario::outcome::Second;
use weir_scenario::progress::{Progress, fit};
use weir_scenario::table;

/// Show what Weir is for, in two minutes: the same load on it and on a store like RocksDB
///
/// The same tenants twice, all bursting at once, on a disk that was sold seven times over: once with flushes and
/// compactions scheduled as RocksDB does, once as Weir does. Both run now, on your own disk. They are two processes,
/// and each pretends to have a disk of the planned speed (a few MB/s), so that neither takes bandwidth from the other.
/// Nothing is left behind.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// Seconds of load, 20 to 3600. In less time the tenants write faster, on a faster disk, so that the same happens.
    /// Below 20 seconds the policies would have too few ticks for anything to be seen
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(20..=3600))]
    seconds: u64,
    /// How many times over the disk's bandwidth for flushes and compactions is sold, 1 to 100 (BOSR: background
    /// over-subscription ratio)
    #[arg(long, value_name = "X", default_value_t = 7.0)]
    bosr: f64,
    /// Tenants, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    tenants: u16,
    /// Directory on the disk to use; created if missing. The demo removes what it put there
    #[arg(long, value_name = "DIR", default_value = "weir-demo-data")]
    dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  weir demo                      two minutes of load, after some seconds in which data is loaded
  weir demo --seconds 30         the same in half a minute
  weir demo --dir /mnt/ssd/demo  on another disk

P99 is the time within which 99 of 100 writes of a second were done; late is the share that took more than a millisecond. Level 0 is where
new data waits to be merged: from 20 runs on a store like RocksDB slows its writers, at 36 it stops them. A machine that is busy with other
things makes writes of both late.";

/// All bytes are divided by this number: small data, small memtables, a slow disk.
const SCALE: u64 = 200;
/// Writes that a tenant sends in the whole demo, before they are scaled. Stalls come with bytes and not with seconds:
/// after about a third of these writes, level 0 of a RocksDB has so many runs that writes are slowed, however fast they
/// come.
const WRITES: u64 = 1_152_000;
/// The least writes a second that a tenant is sold: the paper's number. With fewer, the page that every sync of the log
/// takes would be most of the load.
const WCU_MIN: u64 = 3_000;
/// Steps of a sparkline.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Demo {
    /// Runs the demo.
    pub fn run(self) -> Result<()> {
        let args = Shortage {
            partitions: self.tenants,
            wcu: writes_per_sec(self.seconds),
            rcu: 0,
            item_bytes: 1024,
            preload_items: 2_000_000,
            bosr: self.bosr,
            burst_share: 1.0,
            memory: None,
            shape: Shape::default(),
            seconds: self.seconds,
            after: 0,
            scale: SCALE,
            profiles: Vec::new(),
            compactions: Some(4),
            seed: 1,
            json: None,
            report: None,
        };
        let scenario = Scenario::Shortage(args);
        let plan = scenario.clone().plan()?;
        let contestants = ["rocksdb", "weir"].map(|name| Entry::Weir(name.into()));
        let ours = !self.dir.exists();
        let comparison = Comparison {
            scenario,
            slowed: Some(plan.device()),
            calibrated: false,
            plan,
            contestants: contestants.to_vec(),
            rounds: 1,
            caps: Caps::NONE,
            dir: self.dir,
            keep: false,
            program: Program::this(&["bench", "scenario-child"])?,
            children: Arc::default(),
        };
        end_on_signals(Arc::clone(&comparison.children))?;
        let plan = &comparison.plan;
        eprintln!(
            "{} tenants send what they bought, {} together, for {} seconds.\nThe disk passes {}: what flushes and compactions \
             need at full speed was sold {} times over.\n",
            plan.args.partitions,
            table::rate(plan.ingest()),
            plan.args.seconds,
            table::rate(plan.device() as f64),
            plan.args.bosr,
        );
        let progress = Progress::default();
        let results = comparison.preload(&progress).and_then(|()| side_by_side(&comparison, &progress));
        // Tidy up however the runs ended.
        let tidied = tidy(&comparison, ours);
        if comparison.children.are_ended() {
            tidied?;
            return Err("interrupted; what it had put on the disk is gone".into());
        }
        // If a run failed, its reason matters more than whatever it has left.
        let results = results?;
        tidied?;
        println!("\n{}", verdict(&results));
        Ok(())
    }
}

/// Removes what the demo has put on the disk, and its directory if it is `ours`.
fn tidy(comparison: &Comparison, ours: bool) -> Result<()> {
    comparison.tidy()?;
    if ours {
        std::fs::remove_dir(&comparison.dir).map_err(|error| format!("{}: {error}", comparison.dir.display()))?;
    }
    Ok(())
}

/// Writes a second that each tenant sends, before they are scaled, so that a demo of `seconds` shows the same as any
/// other.
fn writes_per_sec(seconds: u64) -> u64 {
    (WRITES / seconds).max(WCU_MIN)
}

/// Lets SIGINT and SIGTERM end the child processes: their runs then fail, and everything is tidied as after any
/// failure.
fn end_on_signals(children: Arc<Children>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        children.end();
    });
    Ok(())
}

/// Runs both at once, each with a thread that listens to its process.
fn side_by_side(comparison: &Comparison, progress: &Progress) -> Result<Vec<Measured>> {
    let run = |contestant: &Entry, bar: ProgressBar| {
        let mut live = Live::new(contestant.name(), bar);
        let measured = comparison.one(contestant, 1, &contestant.name(), &mut |second| live.show(second));
        live.bar.finish();
        measured.map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = comparison
            .contestants
            .iter()
            .map(|contestant| {
                let bar = progress.bar(title(&contestant.name()), comparison.plan.args.seconds);
                bar.enable_steady_tick(Duration::from_millis(200));
                scope.spawn(move || run(contestant, bar))
            })
            .collect();
        let mut results = Vec::new();
        for thread in threads {
            let result = thread.join().map_err(|_| Failure::from("a run panicked"))?;
            results.push(result.map_err(Failure::from)?);
        }
        Ok(results)
    })
}

fn title(profile: &str) -> &'static str {
    if profile == "weir" { "Weir" } else { "as RocksDB does" }
}

/// The figures that a run shows while it lasts.
struct Live {
    name: String,
    bar: ProgressBar,
    seconds: u64,
    /// The last seconds' P99, in microseconds.
    p99: Vec<f64>,
    is_terminal: bool,
}

impl Live {
    fn new(name: String, bar: ProgressBar) -> Self {
        Self { name, bar, seconds: 0, p99: Vec::new(), is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, second: &Second) {
        self.seconds += 1;
        self.p99.push(second.write_us[1]);
        let late = 100 - second.normally * 100 / second.served.max(1);
        let runs = second.l0.iter().max().copied().unwrap_or(0);
        let recent: String = self.p99.iter().rev().take(24).rev().map(|&us| step(us)).collect();
        let p99 = table::time(second.write_us[1]);
        let parts = [format!("p99 {p99:>8}"), format!("late {late:>3} %"), format!("level 0 {runs:>2} runs"), recent];
        self.bar.set_message(fit(&parts));
        self.bar.inc(1);
        if !self.is_terminal && self.seconds.is_multiple_of(10) {
            let title = title(&self.name);
            eprintln!("{:>4} s  {title:<16} p99 {p99:>8}  late {late:>3} %  level 0 {runs:>2} runs", self.seconds);
        }
    }
}

/// The step of the sparkline for a latency: one more for each factor of four, from 1 ms.
fn step(us: f64) -> char {
    let steps = (us / 1e3).max(1.0).log(4.0).floor() as usize;
    STEPS[steps.min(STEPS.len() - 1)]
}

/// The two lines that sum up the demo.
fn verdict(results: &[Measured]) -> String {
    let line = |measured: &Measured| {
        let (outcome, series) = (&measured.run.outcome, &measured.run.series);
        let worst = series.iter().map(|second| second.write_us[1]).fold(0.0, f64::max);
        format!(
            "{:<16} {:>6.2} % of writes done within a millisecond; P99 {}, in the worst second {}; {} seconds stalled",
            title(&outcome.profile),
            table::reached(outcome.normally_served.avg, 1e4) / 1e2,
            table::time(outcome.latency_us.p99),
            table::time(worst),
            outcome.stalls.seconds.round(),
        )
    };
    results.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_short_the_demo_is_as_much_is_written() {
        assert_eq!([20, 60, 120, 384, 3600].map(writes_per_sec), [57_600, 19_200, 9_600, 3_000, 3_000]);
    }

    #[test]
    fn a_sparkline_rises_with_every_factor_of_four() {
        let line: String = [100.0, 1e3, 4e3, 16e3, 1e9].map(step).iter().collect();
        assert_eq!(line, "▁▁▂▃█");
    }
}
