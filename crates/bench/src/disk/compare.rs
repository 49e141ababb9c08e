//! The parent: rounds of contestants, each in a process of its own, interleaved, under the same caps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_scenario::args::Scenario;
use weir_scenario::eprintln;
use weir_scenario::outcome::{Outcome, Run, Second};
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;
use weir_scenario::table::time;

use super::Entry;
use super::child::{Line, Order, Task, title};
use super::drive::Disk;
use super::image;
use crate::Result;
use crate::harness::children::Children;
use crate::harness::in_turn;
use crate::harness::kept::remove;
use crate::harness::session::{Program, Session};
use crate::throttle::{Caps, Pool, Throttle};

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The scenario, in the form that children get.
    pub scenario: Scenario,
    /// The plan of the same scenario.
    pub plan: Plan,
    /// The contestants, in this order, which is turned round with every round.
    pub contestants: Vec<Entry>,
    /// Rounds.
    pub rounds: u32,
    /// The kernel's caps.
    pub caps: Caps,
    /// Whether Weir takes them for the device; see [`Order::calibrated`].
    pub calibrated: bool,
    /// Slow the disk of every Weir down to this many bytes a second, without the kernel's help.
    pub slowed: Option<u64>,
    /// Directory on the disk to measure; created if missing.
    pub dir: PathBuf,
    /// Leave the preloaded data in `dir` for the next comparison.
    pub keep: bool,
    /// The program that is started for each run.
    pub program: Program,
    /// The children that run.
    pub children: Arc<Children>,
}

/// One contestant's run in one round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The scenario's outcome and time series.
    pub run: Run,
    /// What only the disk has.
    pub disk: Disk,
}

/// Runs the comparison. The results are returned in order, and reported on standard error as they come.
pub fn compare(comparison: &Comparison) -> Result<Vec<Measured>> {
    let plan = &comparison.plan;
    let has_peer = comparison.contestants.iter().any(Entry::is_peer);
    if has_peer && plan.args.shape.debt > 0.0 {
        return Err("--debt makes no level 0 of a peer: compare profiles of Weir, or leave it out".into());
    }
    let progress = Progress::default();
    comparison.preload(&progress)?;
    let mut results = Vec::new();
    for round in 1..=comparison.rounds {
        for contestant in in_turn(&comparison.contestants, round) {
            let result = comparison.in_round(contestant, round, &contestant.name(), &progress)?;
            eprintln!("round {round}/{}  {}", comparison.rounds, line(&result));
            results.push(result);
        }
    }
    comparison.tidy()?;
    Ok(results)
}

impl Comparison {
    fn order(&self, task: Task, contestant: &Entry, dir: &Path, round: u32) -> Order {
        Order {
            task,
            contestant: contestant.clone(),
            dir: dir.to_path_buf(),
            scenario: self.scenario.clone(),
            slowed: self.slowed,
            caps: self.caps,
            calibrated: self.calibrated,
            round,
        }
    }

    /// Starts the child of `order`. It waits for [`Session::go`].
    fn start(&self, order: &Order) -> Result<Session> {
        Session::start(&self.program, &self.children, order, title(order))
    }

    /// Runs one contestant, with a bar called `name`.
    pub(super) fn in_round(&self, contestant: &Entry, round: u32, name: &str, progress: &Progress) -> Result<Measured> {
        let bar = progress.bar(name, self.plan.args.seconds);
        let mut told = |second: &Second| {
            let longest = second.l0.iter().max().copied().unwrap_or(0);
            bar.set_message(format!("{} operations/s, level 0 up to {longest} runs", second.operations));
            bar.inc(1);
        };
        let result = self.one(contestant, round, "run", &mut told);
        bar.finish();
        result
    }

    /// Runs one contestant on its own copy of the preloaded data: a directory called `name` below that of the
    /// comparison.
    pub fn one(&self, contestant: &Entry, round: u32, name: &str, told: &mut dyn FnMut(&Second)) -> Result<Measured> {
        let dir = self.dir.join(name);
        remove(&dir)?;
        image::clone(&image::of(contestant, &self.plan, &self.dir).dir, &dir)?;
        // Dirty pages that cloning left in the page cache must not count for the contestant.
        rustix::fs::sync();
        let measured = self.drive(&self.order(Task::Drive, contestant, &dir, round), told);
        remove(&dir)?;
        measured
    }

    /// Runs `order`, and reports every second to `told`.
    fn drive(&self, order: &Order, told: &mut dyn FnMut(&Second)) -> Result<Measured> {
        // Before the session: its group can be removed only once the child is gone.
        let throttle = if self.caps.is_none() { None } else { Some(Arc::new(Throttle::create(&self.dir)?)) };
        let mut session = self.start(order)?;
        if let Some(throttle) = &throttle {
            throttle.admit(session.id())?;
        }
        let cap = |caps| throttle.as_ref().map_or(Ok(()), |throttle| throttle.cap(caps));
        session.go()?;
        let mut pool = None;
        let mut series = Vec::new();
        let (outcome, disk) = loop {
            match session.hear()? {
                Line::Ready => {
                    cap(self.caps)?;
                    if let Some(throttle) = throttle.as_ref().filter(|_| self.caps.shared) {
                        pool = Some(Pool::start(Arc::clone(throttle), self.caps)?);
                    }
                    session.go()?;
                }
                Line::Second(second) => {
                    told(&second);
                    series.push(*second);
                }
                Line::Run(run) => break *run,
            }
        };
        pool.map_or(Ok(()), Pool::end)?;
        cap(Caps::NONE)?;
        session.go()?;
        session.end()?;
        Ok(Measured { run: Run { outcome, series }, disk })
    }

    /// Makes the data that all runs start from, unless it is there already.
    pub fn preload(&self, progress: &Progress) -> Result<()> {
        std::fs::create_dir_all(&self.dir).map_err(|error| format!("{}: {error}", self.dir.display()))?;
        if !self.caps.is_none() {
            // Before the preloading, which may take minutes.
            drop(Throttle::create(&self.dir)?);
        }
        for contestant in &self.contestants {
            let image = image::of(contestant, &self.plan, &self.dir);
            if !image.is_there() {
                let bar = progress.bar(&format!("preload {}", contestant.kind()), 1);
                image.begin()?;
                let mut session = self.start(&self.order(Task::Preload, contestant, &image.dir, 1))?;
                session.go()?;
                session.end()?;
                image.end()?;
                bar.finish();
            }
        }
        Ok(())
    }

    /// Removes that data, unless it is to be kept.
    pub fn tidy(&self) -> Result<()> {
        if !self.keep {
            for contestant in &self.contestants {
                image::of(contestant, &self.plan, &self.dir).remove()?;
            }
        }
        Ok(())
    }
}

/// A run in one line.
pub fn line(result: &Measured) -> String {
    if !result.run.outcome.operations.is_empty() {
        return line_of_mix(result);
    }
    let (outcome, disk): (&Outcome, &Disk) = (&result.run.outcome, &result.disk);
    let bytes = &outcome.bytes;
    format!(
        "{:<12} 10 ms {:.2}/{:.2}/{:.2} % (awake {:.2} %)  flowing {:.1}/{:.1}/{:.1} %  avg {} p50 {} p99 {} p99.9 {}  bg {:.2} x \
         (flush {:.2} l0 {:.2} deep {:.2}) kernel r {:.1} w {:.1} MB/s, beside the log {:.2} x  first stall {}  resident {:.0} MB  load {:.1}  stolen {:.0} %  {} -> {}",
        outcome.profile,
        disk.within_10ms.max * 100.0,
        disk.within_10ms.avg * 100.0,
        disk.within_10ms.min * 100.0,
        disk.within_10ms_awake.avg * 100.0,
        disk.flowing.max * 100.0,
        disk.flowing.avg * 100.0,
        disk.flowing.min * 100.0,
        time(outcome.latency_us.avg),
        time(outcome.latency_us.p50),
        time(outcome.latency_us.p99),
        time(outcome.latency_us.p999),
        outcome.background_amplification,
        bytes.flush as f64 / bytes.user.max(1) as f64,
        bytes.l0 as f64 / bytes.user.max(1) as f64,
        bytes.deep as f64 / bytes.user.max(1) as f64,
        disk.kernel_read as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.kernel_written as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.beside_log,
        disk.first_stall_seconds.map_or("never".into(), |at| format!("{at:.1} s")),
        disk.resident_peak as f64 / 1e6,
        disk.load_average,
        disk.stolen * 100.0,
        disk.shape[0],
        disk.shape[1],
    )
}

/// A run of a mix in one line.
fn line_of_mix(measured: &Measured) -> String {
    let (outcome, disk) = (&measured.run.outcome, &measured.disk);
    let kinds = outcome.operations.iter().map(|row| {
        let latency = &row.latency_us;
        format!("{} {:.0}/s p50 {} p99 {}", row.kind, row.per_sec, time(latency.p50), time(latency.p99))
    });
    format!(
        "{:<12} {}  kernel r {:.1} w {:.1} MB/s  cpu {:.1} s  resident {:.0} MB  load {:.1}  stolen {:.0} %  {} -> {}",
        outcome.profile,
        kinds.collect::<Vec<_>>().join(", "),
        disk.kernel_read as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.kernel_written as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.cpu_seconds,
        disk.resident_peak as f64 / 1e6,
        disk.load_average,
        disk.stolen * 100.0,
        disk.shape[0],
        disk.shape[1],
    )
}
