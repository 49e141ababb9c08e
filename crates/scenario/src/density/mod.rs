//! How many tenants one machine carries: the figures of each number that was tried, and the largest that is served.

mod table;

use serde::Serialize;
use serde_json::json;

use crate::args::Density;
use crate::outcome::{Bytes, Outcome};
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::save;
use crate::search::Search;

/// A number of tenants that was tried, and its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// How many tenants were tried.
    pub tenants: u16,
    /// Whether enough operations of the worst served tenant were in time.
    pub are_served: bool,
    /// How often the background bandwidth is sold with this many tenants.
    pub bosr: f64,
    /// Share of what was sold that all tenants asked for, on average.
    pub asked: f64,
    /// The same share in the busiest ten seconds.
    pub asked_at_most: f64,
    /// Share of the worst served tenant's operations that were in time (0 to 1).
    pub worst: f64,
    /// Share of all writes that were in time.
    pub normally_served: f64,
    /// The 99.9th percentile of writes, in microseconds.
    pub p999_us: f64,
    /// Writes that the tree slowed or stopped.
    pub stalls: u64,
    /// Background bytes for each byte of a user.
    pub background_amplification: f64,
    /// What the device moved, by cause, at the scale of the run.
    pub bytes: Bytes,
    /// Device bytes over what the device could have moved.
    pub device_utilisation: f64,
    /// Most bytes in memtables and in levels 0 and 1 at any moment, at full size.
    pub memory_peak_bytes: u64,
}

/// One profile's answer in one week.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Its name.
    pub profile: String,
    /// Seed of the week.
    pub seed: u64,
    /// The largest number of tenants that was served; `None` = none that was tried.
    pub tenants: Option<u16>,
    /// Whether that is how many tenants fit. If not, there were too few tries (`--tries`) to know.
    pub is_known: bool,
    /// Every number that was tried, in the order of the tries.
    pub tried: Vec<Tried>,
}

impl Tried {
    /// The figures of `outcome`, a run of `plan`; `served` is the share that is enough.
    pub fn of(plan: &Plan, outcome: &Outcome, served: f64) -> Self {
        let reads = outcome.reads_in_time.map_or(1.0, |reads| reads.min);
        let worst = outcome.normally_served.min.min(reads);
        let (asked, asked_at_most) = match &plan.pattern {
            Pattern::Trace(trace) => trace.mean_and_peak(),
            _ => (1.0, 1.0),
        };
        Self {
            tenants: plan.args.partitions,
            are_served: worst >= served,
            bosr: plan.bosr(),
            asked,
            asked_at_most,
            worst,
            normally_served: outcome.normally_served.avg,
            p999_us: outcome.latency_us.p999,
            stalls: outcome.stalls.count,
            background_amplification: outcome.background_amplification,
            bytes: outcome.bytes,
            device_utilisation: outcome.device_utilisation,
            memory_peak_bytes: outcome.memory_peak_bytes * plan.args.scale,
        }
    }
}

/// Searches for the answer of `profile` in the week of `seed`; `run` plays a plan.
///
/// # Errors
/// Whatever error `run` returns.
pub fn find(
    args: &Density,
    profile: &str,
    seed: u64,
    mut run: impl FnMut(&Plan) -> Result<Outcome, String>,
) -> Result<Found, String> {
    let mut search = Search::new(args.from.into(), TENANTS_MAX.into(), args.precision / 100.0);
    let mut tried = Vec::new();
    while args.tries.is_none_or(|tries| tried.len() < usize::from(tries))
        && let Some(tenants) = search.next()
    {
        let plan = args.plan(number_of(tenants), seed)?;
        let one = Tried::of(&plan, &run(&plan)?, args.served / 100.0);
        search.note(tenants, one.are_served);
        tried.push(one);
    }
    let (tenants, is_known) = (search.holds().map(number_of), search.next().is_none());
    Ok(Found { profile: profile.to_owned(), seed, tenants, is_known, tried })
}

/// A search goes no further than [`TENANTS_MAX`].
pub(crate) fn number_of(tenants: u32) -> u16 {
    u16::try_from(tenants).unwrap_or(TENANTS_MAX)
}

/// The largest number of tenants: as many as a scenario accepts.
pub const TENANTS_MAX: u16 = 1024;

/// What is the same for all runs, before they begin.
pub fn heading(args: &Density) -> String {
    table::heading(args)
}

/// Prints the table, and writes the file that was asked for.
///
/// # Errors
/// The file cannot be written.
pub fn deliver(args: &Density, world: &str, found: &[Found]) -> Result<(), String> {
    if !save::is_stdout(args.json.as_deref()) {
        print!("\n{}", table::answers(found));
    }
    let Some(path) = &args.json else { return Ok(()) };
    save::json(path, &json!({ "scenario": "density", "world": world, "params": args, "found": found }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::outcome::Spread;
    use crate::outcome::tests::outcome;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Density,
    }

    pub(super) fn args(line: &str) -> Density {
        Line::parse_from(std::iter::once("density").chain(line.split_whitespace())).args
    }

    /// An answer in which up to `limit` tenants are served.
    pub(super) fn found(args: &Density, profile: &str, limit: u16) -> Found {
        let run = |plan: &Plan| {
            let share = if plan.args.partitions <= limit { 0.9995 } else { 0.25 };
            Ok(Outcome { normally_served: Spread::of(&[share, 1.0]), reads_in_time: None, after: None, ..outcome() })
        };
        find(args, profile, args.seed, run).expect("every run ends")
    }

    #[test]
    fn the_answer_is_the_largest_number_that_was_served() {
        let args = args("--seconds 60 --precision 0.1");
        let answer = found(&args, "weir", 29);
        assert_eq!(answer.tenants, Some(29));
        let tried = |tenants| answer.tried.iter().find(|tried| tried.tenants == tenants).expect("it was tried");
        assert!(tried(29).are_served && !tried(30).are_served);
        assert_eq!((tried(29).worst, tried(30).worst), (0.9995, 0.25));
        assert!(tried(30).bosr > tried(16).bosr);
        // At full size.
        assert_eq!(tried(16).memory_peak_bytes, 9_000_000 * 200);
        assert_eq!(found(&args, "weir", 0).tenants, None);
    }

    #[test]
    fn no_more_numbers_are_tried_than_wanted() {
        let tried =
            |line: &str| found(&args(line), "weir", 29).tried.iter().map(|tried| tried.tenants).collect::<Vec<_>>();
        assert_eq!(tried("--seconds 60 --from 40 --tries 1"), [40]);
        assert_eq!(tried("--seconds 60 --from 40 --tries 2").len(), 2);
        assert!(tried("--seconds 60 --from 40").len() > 2);
    }

    #[test]
    fn reads_that_are_late_count_as_well() {
        let args = args("--seconds 60");
        let plan = args.plan(2, 1).expect("it can be run");
        let of = |share: f64| {
            let reads_in_time = Some(Spread::of(&[share]));
            Tried::of(&plan, &Outcome { normally_served: Spread::of(&[1.0]), reads_in_time, ..outcome() }, 0.999)
        };
        assert!(!of(0.9).are_served && of(0.9995).are_served);
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let wrong = |line: &str| args(line).check().expect_err("it cannot be run");
        assert!(wrong("--served 0").contains("--served"));
        assert!(wrong("--precision 0").contains("--precision"));
        assert!(wrong("--wcu 100 --scale 200").contains("--wcu"));
        assert!(wrong("--seed 18446744073709551615").contains("--seed"));
        args("").check().expect("it can be run");
    }
}
