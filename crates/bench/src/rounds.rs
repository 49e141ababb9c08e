//! The parent: rounds of works on engines, each run in a child process, interleaved.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_scenario::eprintln;

use crate::Result;
use crate::child::{Line, Order};
use crate::entry::Entry;
use crate::harness::children::Children;
use crate::harness::in_turn;
use crate::harness::kept::{Kept, fresh};
use crate::harness::session::{Program, Session};
use crate::meter::Stopwatch;
use crate::outcome::Outcome;
use crate::report;
use crate::work::{Needs, Size, Task, Work};

/// Steps of the bar per run.
const STEPS: f64 = 1000.0;

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The works, which run in the order of [`Work::ALL`].
    pub works: Vec<Work>,
    /// Contestants; the first is compared with the others.
    pub entries: Vec<Entry>,
    /// Rounds.
    pub rounds: u32,
    /// The size of the works.
    pub size: Size,
    /// The directory, which is created if missing; everything of ours below it is removed at the end.
    pub dir: PathBuf,
    /// Leave the loaded trees in `dir`, and use those that an earlier comparison of the same size left there.
    pub keep: bool,
}

/// Carries out an order somewhere.
pub trait Launch {
    /// Runs `order` to its end, and reports progress from 0 to 1.
    fn launch(&self, order: &Order, progress: &mut dyn FnMut(f64)) -> Result<Outcome>;
}

/// Runs each order in a process of its own; see [`crate::child::main`].
pub struct ChildProcess {
    /// The program that is started.
    pub program: Program,
    /// The children that run.
    pub children: Arc<Children>,
}

impl Launch for ChildProcess {
    fn launch(&self, order: &Order, progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
        let title = format!("{} on {}", order.task.name(), order.entry.engine.name());
        let mut session = Session::start(&self.program, &self.children, order, title)?;
        loop {
            match session.hear()? {
                Line::Progress(done) => progress(done),
                Line::Outcome(outcome) => {
                    // A child that leaves a log behind ends by killing itself.
                    session.ended()?;
                    return Ok(*outcome);
                }
            }
        }
    }
}

/// Runs the plan. Every finished run is reported on standard error; the results are returned in order.
pub fn run(plan: &Plan, launch: &dyn Launch) -> Result<Vec<Outcome>> {
    let mut works = plan.works.clone();
    works.sort();
    works.dedup();
    let runs = works.iter().map(|work| plan.entries.iter().filter(|entry| work.is_for(entry.engine)).count());
    let bar = bar(runs.sum::<usize>() * plan.rounds as usize);
    let mut outcomes = Vec::new();
    for round in 1..=plan.rounds {
        for work in &works {
            for entry in in_turn(&plan.entries, round).into_iter().filter(|entry| work.is_for(entry.engine)) {
                bar.set_message(format!("round {round}/{}  {}  {}", plan.rounds, work.name(), entry.engine.name()));
                let start = bar.position();
                let mut progress = |done: f64| bar.set_position(start + (done * STEPS) as u64);
                let watch = Stopwatch::start();
                let mut outcome = one(plan, *work, entry, round, launch, &mut progress)?;
                outcome.round = round;
                bar.set_position(start + STEPS as u64);
                let told =
                    format!("round {round}/{}  {}  ({:.1} s)", plan.rounds, report::line(&outcome), watch.seconds());
                bar.suspend(|| eprintln!("{told}"));
                outcomes.push(outcome);
            }
        }
    }
    bar.finish_and_clear();
    for entry in &plan.entries {
        let home = home(plan, entry);
        if !plan.keep && home.exists() {
            fs::remove_dir_all(&home)?;
        }
    }
    Ok(outcomes)
}

fn bar(runs: usize) -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{bar:10} {percent:>3} %, {elapsed:>4} gone, about {eta:>4} to go  {wide_msg}")
            .expect("a constant template is valid");
    ProgressBar::with_draw_target(Some((runs as f64 * STEPS) as u64), target).with_style(style)
}

fn home(plan: &Plan, entry: &Entry) -> PathBuf {
    plan.dir.join(entry.engine.name())
}

/// Runs one work on one engine: prepares what it needs, measures, and clears away.
fn one(
    plan: &Plan,
    work: Work,
    entry: &Entry,
    round: u32,
    launch: &dyn Launch,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome> {
    let home = home(plan, entry);
    let order = |task: Task, dir: &Path| Order {
        task,
        entry: entry.clone(),
        dir: dir.to_path_buf(),
        size: plan.size.clone(),
        seed: u64::from(round),
    };
    // The tree that reads share.
    let loaded = Kept { dir: home.join("loaded"), mark: home.join("loaded.json"), words: mark(&plan.size) };
    match work.needs() {
        Needs::Loaded => {
            if !loaded.is_there() {
                loaded.begin()?;
                launch.launch(&order(Task::Load, &loaded.dir), &mut |done| progress(0.5 * done))?;
                loaded.end()?;
            }
            launch.launch(&order(Task::Measure(work), &loaded.dir), progress)
        }
        Needs::Nothing if work == Work::FillRandom => {
            loaded.begin()?;
            let outcome = launch.launch(&order(Task::Measure(work), &loaded.dir), progress)?;
            loaded.end()?;
            Ok(outcome)
        }
        needs => {
            let dir = home.join(work.name());
            fresh(&dir)?;
            if needs == Needs::Log {
                launch.launch(&order(Task::LeaveLog, &dir), &mut |done| progress(0.5 * done))?;
            }
            let mut bytes_kept = 0;
            if needs == Needs::Comparison {
                let kept = launch.launch(&order(Task::KeepRow, &dir), &mut |done| progress(0.5 * done))?;
                bytes_kept = kept.bytes_written;
                fresh(&dir)?;
            }
            let mut outcome = launch.launch(&order(Task::Measure(work), &dir), progress)?;
            if let Some(deletion) = &mut outcome.deletion {
                deletion.bytes_kept = bytes_kept;
            }
            fs::remove_dir_all(&dir)?;
            Ok(outcome)
        }
    }
}

/// What decides whether a kept tree may be used again.
fn mark(size: &Size) -> String {
    format!("{{\"items\":{},\"value_bytes\":{}}}\n", size.items, size.value_bytes)
}

#[cfg(test)]
mod tests;
