//! Whole-node scenarios: one load, two worlds, one outcome.
//!
//! A scenario drives a [`weir_node::Node`] with many tenants through its ordinary doors, and measures what their
//! clients would see. The caller chooses the world that it runs in: `weir sim` hands in a simulated machine whose time
//! is exact, `weir bench` a real one. Parameters ([`args`]) and outcome ([`outcome`]) are the same in both, so that the
//! two worlds can be compared.
//!
//! The course of a run: [`args`] are turned into a [`plan`], which knows every scaled size and rate; [`preload`] makes
//! the data that is there before; [`drive`] opens the node, sends the [`load`], [`watch`]es, and returns an
//! [`outcome::Run`], which [`table`] and [`report`] turn into something to read.

// First, for its macros.
#[macro_use]
pub mod out;

pub mod args;
pub mod bursts;
pub mod by_kind;
pub mod by_state;
pub mod capacity;
pub mod cases;
pub mod choice;
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
pub mod ratio;
pub mod report;
pub mod save;
pub mod search;
pub mod seen;
pub mod steadiness;
pub mod table;
pub mod tally;
pub mod trace;
pub mod visits;
pub mod waking;
pub mod watch;
pub mod written;
pub mod ycsb;

use crate::outcome::{Outcome, Run};
use crate::plan::Plan;

/// Prints the table, and writes the files that were asked for.
///
/// # Errors
/// A file cannot be written.
pub fn deliver(plan: &Plan, runs: &[Run]) -> Result<(), String> {
    let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
    if !save::is_stdout(plan.args.json.as_deref()) {
        print!("\n{}{}{}", table::outcomes(&outcomes), steadiness::table(&outcomes), waking::table(&outcomes));
    }
    if let Some(path) = &plan.args.json {
        save::json(path, &outcomes)?;
    }
    if let Some(path) = &plan.args.report {
        save::page(path, &report::page(plan, runs, &profile::STAGES))?;
    }
    Ok(())
}
