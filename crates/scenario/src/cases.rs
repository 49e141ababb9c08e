//! YCSB's cases: what is printed before and after they run, and the files that are written if asked for.

use crate::args::Ycsb;
use crate::outcome::{Outcome, Run};
use crate::plan::Plan;
use crate::ycsb::Case;
use crate::ycsb::table::{self, Measured};
use crate::{profile, report, save};

/// What is the same for all cases of `args`: a few lines before they begin. `plan` is the plan of one case.
pub fn heading(args: &Ycsb, plan: &Plan) -> String {
    let cases: Vec<String> = args.cases().iter().map(Case::to_string).collect();
    format!("{}{}\n", crate::table::heading(plan), cases.join(", "))
}

/// Prints the tables of all runs, compared with the contestant called `with`, and writes the files that were asked for.
/// `plan` is the plan of one case.
///
/// # Errors
/// A file cannot be written.
pub fn deliver(plan: &Plan, runs: &[(Case, Run)], with: &str) -> Result<(), String> {
    let outcomes: Vec<&Outcome> = runs.iter().map(|(_, run)| &run.outcome).collect();
    if !save::is_stdout(plan.args.json.as_deref()) {
        let measured =
            runs.iter().map(|(case, run)| Measured { case: *case, round: run.outcome.seed, outcome: &run.outcome });
        print!("{}", table::table(&measured.collect::<Vec<_>>(), with));
    }
    if let Some(path) = &plan.args.json {
        save::json(path, &outcomes)?;
    }
    if let Some(path) = &plan.args.report {
        let named = |(case, run): &(Case, Run)| {
            let mut run = run.clone();
            run.outcome.profile = format!("{case}, {}, seed {}", run.outcome.profile, run.outcome.seed);
            run
        };
        let runs: Vec<Run> = runs.iter().map(named).collect();
        save::page(path, &report::page(plan, &runs, &profile::STAGES))?;
    }
    Ok(())
}
