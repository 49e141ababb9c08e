//! What Delayed Fair Sharing promises, tried in virtual time. Tenants that use little ask for their share while others
//! use everything (DF-E2). They ask to flush while others do ([`flush`], DF-E7) or have to, as a shared log is full
//! ([`cascade`], DF-E8); to have their blocks back ([`cached`], DF-E3), or both memory and blocks ([`rmw`], DF-E5). And
//! there are many tenants of many kinds ([`mix`], DF-E6). The node is the real one; the device has exactly the planned
//! bandwidth.

mod buffer;
pub mod cached;
pub mod cascade;
mod client;
pub mod flush;
pub mod mix;
mod pair;
mod preload;
pub mod rmw;
mod series;
mod table;
mod world;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weir_node::ShareMode;
use weir_scenario::report::sharing::{self, Sharing};
use weir_scenario::{println, save};

pub use buffer::{Shared, Waited, run};
pub use client::Class;
pub use pair::Pair;
pub use table::{cache_heading, cache_row, heading, rmw_heading, rmw_row, row};

use self::cached::Cached;
use self::cascade::Cascade;
use self::flush::Flush;
use self::mix::Mix;
use self::rmw::Rmw;
use self::table::{cascade_heading, cascade_row, mix_heading, mix_row, slots_heading, slots_row};
use crate::scenario::WORLD;

/// Arguments of every scenario here.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Trial {
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub scale: u64,
    /// Seed of the moments at which requests are sent, and of the rows that are read
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the results as JSON to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Write a page with all time series, and how long each tenant waited for its shares, to this file, for a browser
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

/// Write memory of 16 tenants: 12 that write steadily, 2 that write all they can, 2 that rest and then want their share
#[derive(Clone, Debug, Args, Serialize)]
pub struct Buffer {
    /// How the write memory is shared, separated by commas: `quota`, `fair`, `quarter`, `delta 350 ms for 2`
    #[arg(long = "shares", value_name = "MODE", value_delimiter = ',', default_value = MODES)]
    #[serde(skip)]
    pub modes: Vec<ShareMode>,
    /// Seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub seconds: u64,
    /// Seconds between two moments at which tenants that rested ask for their share
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub every: u64,
    /// Tenants that do so at the same moment (k)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub ramps: u32,
    /// How the scenario is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
}

/// The modes that the paper compares.
const MODES: &str = "quota,delta 0 ms for 2,delta 200 ms for 2,delta 350 ms for 2,delta 500 ms for 2,fair";

/// Runs every mode, prints each row as soon as it is there, and writes the files that were asked for.
///
/// # Errors
/// The error says in words what went wrong.
pub fn side_by_side(args: &Buffer) -> Result<(), String> {
    let runs = args.modes.iter().map(|&mode| run(args, mode));
    deliver(("delta-buffer", args), &args.trial, &heading(args), runs, row, |run| (&run.mode, &run.sharing))
}

/// The same as [`side_by_side`], for flush slots.
///
/// # Errors
/// The error says in words what went wrong.
pub fn flushes_side_by_side(args: &Flush) -> Result<(), String> {
    let runs = args.modes.iter().map(|&mode| flush::run(args, mode));
    deliver(("delta-flush", args), &args.trial, &slots_heading(args), runs, slots_row, |run| (&run.mode, &run.sharing))
}

/// The same, for flush slots while a shared log is full.
///
/// # Errors
/// The error says in words what went wrong.
pub fn cascades_side_by_side(args: &Cascade) -> Result<(), String> {
    let runs = args.modes.iter().map(|&mode| cascade::run(args, mode));
    deliver(("wal-cascade", args), &args.trial, &cascade_heading(args), runs, cascade_row, |run| {
        (&run.mode, &run.sharing)
    })
}

/// The same, for tenants of many kinds.
///
/// # Errors
/// The error says in words what went wrong.
pub fn mixes_side_by_side(args: &Mix) -> Result<(), String> {
    let image = mix::image(args)?;
    let runs = args.pairs.iter().map(|&pair| mix::run(args, &image, pair));
    deliver(("delta-mix", args), &args.trial, &mix_heading(args), runs, mix_row, |run| (&run.pair, &run.sharing))
}

/// The same, for the block cache.
///
/// # Errors
/// The error says in words what went wrong.
pub fn caches_side_by_side(args: &Cached) -> Result<(), String> {
    let image = cached::image(args)?;
    let runs = args.modes.iter().map(|&mode| cached::run(args, &image, mode));
    deliver(("delta-cache", args), &args.trial, &cache_heading(args), runs, cache_row, |run| (&run.mode, &run.sharing))
}

/// The same, for memory and cache together, and tenants that read and write.
///
/// # Errors
/// The error says in words what went wrong.
pub fn changes_side_by_side(args: &Rmw) -> Result<(), String> {
    let image = rmw::image(args)?;
    let runs = args.pairs.iter().map(|&pair| rmw::run(args, &image, pair));
    deliver(("delta-rmw", args), &args.trial, &rmw_heading(args), runs, rmw_row, |run| (&run.pair, &run.sharing))
}

/// Delivers `runs`: each of them has the name of its way to share, and its figures by the second.
fn deliver<R: Serialize>(
    (scenario, args): (&str, &impl Serialize),
    trial: &Trial,
    heading: &str,
    runs: impl Iterator<Item = Result<R, String>>,
    row: impl Fn(&R) -> String,
    shown: impl Fn(&R) -> (&str, &Sharing),
) -> Result<(), String> {
    let to_stdout = save::is_stdout(trial.json.as_deref());
    let tell = |text: &str| {
        if !to_stdout {
            println!("{text}");
        }
    };
    tell(heading);
    let runs: Vec<R> = runs.map(|run| run.inspect(|run| tell(&row(run)))).collect::<Result<_, _>>()?;
    if let Some(path) = &trial.json {
        save::json(path, &serde_json::json!({ "scenario": scenario, "world": WORLD, "params": args, "runs": runs }))?;
    }
    if let Some(path) = &trial.report {
        let params = serde_json::to_value(args).map_err(|error| error.to_string())?;
        // What is tried; the column titles follow.
        let lead = heading.split("\n\n").next().unwrap_or_default();
        let runs: Vec<(&str, &Sharing)> = runs.iter().map(shown).collect();
        save::page(path, &sharing::page(scenario, lead, &params, &runs))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "files of the user's")]
    fn the_page_and_the_figures_are_written_where_both_are_asked_for() {
        let file = |name: &str| std::env::temp_dir().join(format!("weir-delta-{}-{name}", std::process::id()));
        let (json, report) = (file("figures.json"), file("page.html"));
        let trial = Trial { scale: 32, seed: 1, json: Some(json.clone()), report: Some(report.clone()) };
        let run = Sharing::new(0, Vec::new(), Vec::new(), false);
        let runs = std::iter::once(Ok(run));
        let row = |_: &Sharing| "fair 1".to_owned();
        deliver(("delta-buffer", &trial), &trial, "What is tried\n\nshares", runs, row, |run| ("fair", run))
            .expect("they are written");
        let [figures, page] = [json, report].map(|path| {
            let text = std::fs::read_to_string(&path).expect("a file");
            std::fs::remove_file(&path).expect("it was there");
            text
        });
        assert!(figures.contains(r#""acquisitions": []"#) && figures.contains(r#""seed": 1"#), "{figures}");
        assert!(page.contains("</html>") && page.contains(r#""lead":"What is tried""#), "{page}");
        assert!(page.contains(r#""name":"fair""#), "{page}");
    }
}
