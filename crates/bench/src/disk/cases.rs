//! YCSB's workloads: every round runs every case, and each case runs every contestant, so that all are interleaved.

use weir_scenario::args::{Scenario, Ycsb};
use weir_scenario::eprintln;
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;
use weir_scenario::ycsb::Case;

use super::compare::{Comparison, Measured, line};
use crate::Result;
use crate::harness::in_turn;

/// Runs every case of `args` with the settings of `like`, whose scenario is one of them, and reports each result on
/// standard error as it comes. All cases begin with the same data.
///
/// # Errors
/// The error says what went wrong first.
pub fn compare(like: &Comparison, args: &Ycsb) -> Result<Vec<(Case, Measured)>> {
    let progress = Progress::default();
    like.preload(&progress)?;
    let mut results = Vec::new();
    for round in 1..=like.rounds {
        for case in args.cases() {
            let comparison = of(like, args, case)?;
            for contestant in in_turn(&comparison.contestants, round) {
                let name = format!("{case} {}", contestant.name());
                let result = comparison.in_round(contestant, round, &name, &progress)?;
                eprintln!("round {round}/{}  {case}  {}", like.rounds, line(&result));
                results.push((case, result));
            }
        }
    }
    like.tidy()?;
    Ok(results)
}

/// The scenario of `case`, and its plan.
///
/// # Errors
/// The error says in words what cannot be run.
pub fn scenario(args: &Ycsb, case: Case) -> Result<(Scenario, Plan)> {
    let scenario = Scenario::Ycsb { args: args.clone(), case };
    let plan = args.plan(case, args.seed, 0)?;
    Ok((scenario, plan))
}

/// A comparison like `like`, of another case.
fn of(like: &Comparison, args: &Ycsb, case: Case) -> Result<Comparison> {
    let (scenario, plan) = scenario(args, case)?;
    Ok(Comparison { scenario, plan: Plan { caps: like.plan.caps, ..plan }, ..like.clone() })
}
