//! Whole-node scenarios: one load, two worlds, one outcome.
//!
//! A scenario drives a [`weir_node::Node`] with many tenants through its ordinary doors and measures what their clients
//! would see. Which world it runs in is the caller's choice: `weir sim` hands in a simulated machine whose time is
//! exact, `weir bench` a real one. Parameters ([`args`]) and outcome ([`outcome`]) are the same in both, so that one
//! can be held against the other.
//!
//! The way of a run: [`args`] are turned into a [`plan`], which knows every scaled size and rate; [`preload`] makes the
//! data that is there before; [`drive`] opens the node, sends the [`load`], [`watch`]es, and gives a [`outcome::Run`],
//! of which [`table`] and [`report`] make something to read.

pub mod args;
pub mod bursts;
pub mod capacity;
pub mod closed;
pub mod data;
pub mod density;
pub mod drive;
pub mod load;
pub mod mix;
pub mod outcome;
pub mod pattern;
pub mod plan;
pub mod preload;
pub mod profile;
pub mod progress;
pub mod queue;
pub mod report;
pub mod search;
pub mod seen;
pub mod steadiness;
pub mod table;
pub mod tally;
pub mod trace;
pub mod watch;

use std::io::Write as _;
use std::path::Path;

use crate::outcome::{Outcome, Run};
use crate::plan::Plan;

/// Prints the table and writes what was asked for.
///
/// # Errors
/// A file cannot be written.
#[allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]
pub fn deliver(plan: &Plan, runs: &[Run]) -> Result<(), String> {
    let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
    let to_stdout = plan.args.json.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        print!("\n{}{}", table::outcomes(&outcomes), steadiness::table(&outcomes));
    }
    if let Some(path) = &plan.args.json {
        let json = serde_json::to_string_pretty(&outcomes).map_err(|error| error.to_string())?;
        let written = if to_stdout { writeln!(std::io::stdout(), "{json}") } else { std::fs::write(path, json + "\n") };
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    if let Some(path) = &plan.args.report {
        let page = report::page(plan, runs, &profile::STAGES);
        std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        eprintln!("the time series are in {}", path.display());
    }
    Ok(())
}
