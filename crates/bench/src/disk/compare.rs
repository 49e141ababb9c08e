//! The parent: rounds of contestants, each in a process of its own, interleaved, under the same caps.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use weir_scenario::args::Scenario;
use weir_scenario::outcome::{Outcome, Run, Second};
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;

use super::Contestant;
use super::child::{Line, Order, Task, title};
use super::drive::Disk;
use super::image::{self, Image};
use crate::Result;
use crate::throttle::{Caps, Throttle};

/// A whole comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The scenario, for the children.
    pub scenario: Scenario,
    /// The same.
    pub plan: Plan,
    /// In this order, turned round with every round.
    pub contestants: Vec<Contestant>,
    /// Rounds.
    pub rounds: u32,
    /// The kernel's.
    pub caps: Caps,
    /// Make the disk of every Weir so many bytes a second slow, without the kernel's help.
    pub slowed: Option<u64>,
    /// Compactions at a time, of all partitions together.
    pub compactions: usize,
    /// Directory on the disk to measure; created if missing.
    pub dir: PathBuf,
    /// Leave the preloaded data in `dir` for the next comparison.
    pub keep: bool,
    /// The program, and its arguments before an order.
    pub program: (PathBuf, Vec<String>),
    /// The children that run.
    pub children: Arc<Children>,
}

/// Children that run, so that whoever is told to end can end them: what they were asked then fails.
#[derive(Debug, Default)]
pub struct Children(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    running: Vec<u32>,
    ended: bool,
}

impl Children {
    /// Ends all, and all that come later.
    pub fn end(&self) {
        let mut ids = self.0.lock();
        ids.ended = true;
        ids.running.drain(..).for_each(kill);
    }

    /// Whether they were ended.
    pub fn are_ended(&self) -> bool {
        self.0.lock().ended
    }

    fn add(&self, id: u32) {
        let mut ids = self.0.lock();
        if ids.ended { kill(id) } else { ids.running.push(id) }
    }

    /// Before it is waited for: then its number may become another's.
    fn remove(&self, id: u32) {
        self.0.lock().running.retain(|&other| other != id);
    }
}

/// A child that has ended already keeps its number until it was waited for.
fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It fails harmlessly where that has happened.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// One contestant's run in one round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The scenario's outcome and time series.
    pub run: Run,
    /// What only the disk has.
    pub disk: Disk,
}

/// Runs it; what is measured is in the result, in order, and told on standard error as it comes.
pub fn compare(comparison: &Comparison) -> Result<Vec<Measured>> {
    let plan = &comparison.plan;
    let progress = Progress::default();
    comparison.preload(&progress)?;
    let mut results = Vec::new();
    for round in 1..=comparison.rounds {
        for contestant in in_turn(&comparison.contestants, round) {
            let bar = progress.bar(&contestant.name(), plan.args.seconds);
            let mut told = |second: &Second| {
                let longest = second.l0.iter().max().copied().unwrap_or(0);
                bar.set_message(format!("{} writes/s, level 0 up to {longest} runs", second.served));
                bar.inc(1);
            };
            let result = comparison.one(contestant, round, "run", &mut told)?;
            bar.finish();
            eprintln!("round {round}/{}  {}", comparison.rounds, line(&result));
            results.push(result);
        }
    }
    comparison.tidy()?;
    Ok(results)
}

/// The order of the contestants turns round with every round.
fn in_turn(contestants: &[Contestant], round: u32) -> Vec<&Contestant> {
    let mut order: Vec<_> = contestants.iter().collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

impl Comparison {
    fn order(&self, task: Task, contestant: &Contestant, dir: &Path, round: u32) -> Order {
        Order {
            task,
            contestant: contestant.clone(),
            dir: dir.to_path_buf(),
            scenario: self.scenario.clone(),
            compactions: self.compactions,
            slowed: self.slowed,
            caps: self.caps,
            round,
        }
    }

    /// One contestant's run, on its own copy of the preloaded data: a directory called `name` below that of the comparison.
    pub fn one(
        &self,
        contestant: &Contestant,
        round: u32,
        name: &str,
        told: &mut dyn FnMut(&Second),
    ) -> Result<Measured> {
        let dir = self.dir.join(name);
        image::remove(&dir)?;
        image::clone(&Image::of(contestant, &self.plan, &self.dir).dir, &dir)?;
        // What cloning left in the page cache is not the contestant's.
        rustix::fs::sync();
        let measured = self.drive(&self.order(Task::Drive, contestant, &dir, round), told);
        image::remove(&dir)?;
        measured
    }

    /// The run of `order`, told as it goes on.
    fn drive(&self, order: &Order, told: &mut dyn FnMut(&Second)) -> Result<Measured> {
        let throttle = if self.caps.is_none() { None } else { Some(Throttle::create(&self.dir)?) };
        let mut session = Session::start(self, order, throttle)?;
        session.go()?;
        let mut series = Vec::new();
        let (outcome, disk) = loop {
            match session.hear()? {
                Line::Ready => {
                    session.cap(self.caps)?;
                    session.go()?;
                }
                Line::Second(second) => {
                    told(&second);
                    series.push(*second);
                }
                Line::Run(run) => break *run,
            }
        };
        session.cap(Caps::NONE)?;
        session.go()?;
        session.end()?;
        Ok(Measured { run: Run { outcome, series }, disk })
    }

    /// Makes the data that all runs start from, unless they are there.
    pub fn preload(&self, progress: &Progress) -> Result<()> {
        std::fs::create_dir_all(&self.dir).map_err(|error| format!("{}: {error}", self.dir.display()))?;
        if !self.caps.is_none() {
            // Before the minutes that preloading may take.
            drop(Throttle::create(&self.dir)?);
        }
        for contestant in &self.contestants {
            let image = Image::of(contestant, &self.plan, &self.dir);
            if !image.is_there() {
                let bar = progress.bar(&format!("preload {}", contestant.kind()), 1);
                image.begin()?;
                let mut session = Session::start(self, &self.order(Task::Preload, contestant, &image.dir, 1), None)?;
                session.go()?;
                session.end()?;
                image.end()?;
                bar.finish();
            }
        }
        Ok(())
    }

    /// Removes those data, unless they are to be kept.
    pub fn tidy(&self) -> Result<()> {
        if !self.keep {
            for contestant in &self.contestants {
                Image::of(contestant, &self.plan, &self.dir).remove()?;
            }
        }
        Ok(())
    }
}

/// A running child; killed when dropped.
pub struct Session {
    // In this order: the throttle's group can be removed only once the child is gone.
    child: Guard,
    lines: Lines<BufReader<ChildStdout>>,
    throttle: Option<Throttle>,
    title: String,
}

struct Guard(Child, Arc<Children>);

impl Guard {
    /// Waits for a child that is at its end.
    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.1.remove(self.0.id());
        self.0.wait()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Fails harmlessly when it has ended already.
        let _ended = self.0.kill().and_then(|()| self.wait());
    }
}

impl Session {
    /// Starts the child of `order`, under `throttle` if there is one. It waits for [`Session::go`].
    pub fn start(comparison: &Comparison, order: &Order, throttle: Option<Throttle>) -> Result<Self> {
        let (program, arguments) = &comparison.program;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let lines = BufReader::new(child.stdout.take().ok_or("the child has no standard output")?).lines();
        comparison.children.add(child.id());
        let session =
            Self { child: Guard(child, Arc::clone(&comparison.children)), lines, throttle, title: title(order) };
        if let Some(throttle) = &session.throttle {
            throttle.admit(session.child.0.id())?;
        }
        Ok(session)
    }

    /// Lets the child go on.
    pub fn go(&mut self) -> Result<()> {
        let stdin = self.child.0.stdin.as_mut().ok_or("the child has no standard input")?;
        // A child that failed is gone; why, its next line (which never comes) tells.
        let _ = stdin.write_all(b"go\n");
        Ok(())
    }

    /// Limits the child from now on, if it is under a throttle.
    pub fn cap(&self, caps: Caps) -> Result<()> {
        self.throttle.as_ref().map_or(Ok(()), |throttle| throttle.cap(caps))
    }

    /// What the child says next.
    ///
    /// # Errors
    /// It ended instead.
    pub fn hear(&mut self) -> Result<Line> {
        for line in self.lines.by_ref() {
            if let Some(line) = Line::parse(&line?) {
                return Ok(line);
            }
        }
        let status = self.child.wait()?;
        Err(format!("{} ended with {status} and without a result", self.title).into())
    }

    /// Waits until the child has ended.
    pub fn end(mut self) -> Result<()> {
        // Its output ends with it. Until then others may end it.
        self.lines.by_ref().try_for_each(|line| line.map(drop))?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.title).into()) }
    }
}

/// A run in one line.
pub fn line(result: &Measured) -> String {
    let (outcome, disk): (&Outcome, &Disk) = (&result.run.outcome, &result.disk);
    let bytes = &outcome.bytes;
    format!(
        "{:<12} 10 ms {:.2}/{:.2}/{:.2} % (awake {:.2} %)  flowing {:.1}/{:.1}/{:.1} %  avg {} p50 {} p99 {} p99.9 {}  bg {:.2} x \
         (flush {:.2} l0 {:.2} deep {:.2}) kernel r {:.1} w {:.1} MB/s, beside the log {:.2} x  first stall {}  load {:.1}  stolen {:.0} %  {} -> {}",
        outcome.profile,
        disk.within_10ms.max * 100.0,
        disk.within_10ms.avg * 100.0,
        disk.within_10ms.min * 100.0,
        disk.within_10ms_awake.avg * 100.0,
        disk.flowing.max * 100.0,
        disk.flowing.avg * 100.0,
        disk.flowing.min * 100.0,
        weir_scenario::table::time(outcome.latency_us.avg),
        weir_scenario::table::time(outcome.latency_us.p50),
        weir_scenario::table::time(outcome.latency_us.p99),
        weir_scenario::table::time(outcome.latency_us.p999),
        outcome.background_amplification,
        bytes.flush as f64 / bytes.user.max(1) as f64,
        bytes.l0 as f64 / bytes.user.max(1) as f64,
        bytes.deep as f64 / bytes.user.max(1) as f64,
        disk.kernel_read as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.kernel_written as f64 / 1e6 / outcome.served_per_sec.len().max(1) as f64,
        disk.beside_log,
        disk.first_stall_seconds.map_or("never".into(), |at| format!("{at:.1} s")),
        disk.load_average,
        disk.stolen * 100.0,
        disk.shape[0],
        disk.shape[1],
    )
}
