//! The child process: runs one task on one contestant, and reports on standard output, line by line.
//!
//! ```text
//! progress 0.25
//! outcome {"work":"fillrandom",...}
//! ```

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::entry::Entry;
use crate::harness::session::Said;
use crate::meter::{self, Stopwatch};
use crate::outcome::Outcome;
use crate::work::{self, Size, Task};

/// Everything a child needs to know; the parent passes it as JSON on the child's command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What to do.
    pub task: Task,
    /// The engine to do it on.
    pub entry: Entry,
    /// The directory to do it in.
    pub dir: PathBuf,
    /// The size of the task.
    pub size: Size,
    /// The seed of this round.
    pub seed: u64,
}

/// Milliseconds between two progress lines.
const REPORT_EVERY_MS: u64 = 100;

/// Carries out `order` (JSON), and prints the lines that the parent reads.
pub fn main(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order)?;
    let watch = Stopwatch::start();
    let next_ms = AtomicU64::new(0);
    let printing = Mutex::new(());
    let progress = |done: f64| {
        let now = watch.nanos() / 1_000_000;
        let due = next_ms.load(Ordering::Relaxed);
        if now >= due
            && next_ms.compare_exchange(due, now + REPORT_EVERY_MS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let _whole_lines = printing.lock();
            println!("{}", Line::Progress(done).to_text());
        }
    };
    let open = |settings: &_| order.entry.open(&order.dir, settings);
    let mut outcome = work::run(order.task, &open, &order.size, order.seed, &progress)?;
    outcome.engine = order.entry.engine.name().into();
    outcome.space_bytes = meter::space_bytes(&order.dir)?;
    println!("{}", Line::Outcome(Box::new(outcome)).to_text());
    if order.task == Task::LeaveLog {
        // No destructor, no exit handler: what was acknowledged must be in the log by now.
        kill_process(getpid(), Signal::KILL)?;
    }
    Ok(())
}

/// One line from child to parent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Progress(f64),
    Outcome(Box<Outcome>),
}

impl Line {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Line::Progress(done) => format!("progress {done:.4}"),
            Line::Outcome(outcome) => {
                format!("outcome {}", serde_json::to_string(outcome).expect("an outcome has only plain fields"))
            }
        }
    }
}

impl Said for Line {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("progress", done) => done.parse().ok().map(Line::Progress),
            ("outcome", json) => serde_json::from_str(json).ok().map(|outcome| Line::Outcome(Box::new(outcome))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_the_pipe_and_foreign_lines_are_ignored() {
        let outcome = Outcome { work: "scan".into(), ops: 7, ops_per_sec: 3.5, ..Outcome::default() };
        for line in [Line::Progress(0.5), Line::Outcome(Box::new(outcome))] {
            assert_eq!(Line::parse(&line.to_text()), Some(line));
        }
        assert_eq!(Line::parse("[WARN] something of the peer's"), None);
        assert_eq!(Line::parse("outcome {"), None);
        assert_eq!(Line::parse(""), None);
    }
}
