//! Runs that are more than one call.

use std::ops::Range;

use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_scenario::{print, println, save};

use super::settings::{Seeds, Sync};
use crate::by_command::ByCommand;
use crate::crash::{Scenario, history};
use crate::engines::Engines;
use crate::fault::{Way, fail_nth, operations};
use crate::flip::Victim;
use crate::node_store::{NodeStore, small_on};
use crate::rows_of_parts::RowsOfParts;
use crate::runner::{Failure, Plan, Tally, run};
use crate::slow::{Trouble, survive};
use crate::tamper::Choice;
use crate::tenants::Setting;
use crate::tenants::fault::{self as node_fault, When};
use crate::turning::Turning;

/// Prints the figures; a failed run becomes the error.
pub(super) fn tell<T: Tally>(name: &str, outcome: Result<T, Failure>) -> Result<(), String> {
    outcome.map(|figures| println!("{name}: {figures}")).map_err(|failure| format!("{name}: {failure}"))
}

pub(super) fn side_by_side(plan: weir_scenario::plan::Plan, threads: usize) -> Result<(), String> {
    if !save::is_stdout(plan.args.json.as_deref()) {
        print!("{}", weir_scenario::table::heading(&plan));
    }
    let runs = crate::scenario::compare(&plan, threads)?;
    weir_scenario::deliver(&plan, &runs)
}

pub(super) fn ycsb(args: &weir_scenario::args::Ycsb, threads: usize) -> Result<(), String> {
    let cases = crate::scenario::Cases::of(args)?;
    let tells = !save::is_stdout(args.json.as_deref());
    if tells {
        print!("{}", weir_scenario::cases::heading(args, cases.first()));
    }
    let runs = cases.run(threads)?;
    if tells {
        // Clients wait for nothing but the device: processors take no time here.
        println!("\nIn virtual time, in which processors take nothing.");
    }
    weir_scenario::cases::deliver(cases.first(), &runs, cases.compared_with())
}

pub(super) fn scenario(engine: EngineKind, sync: Sync, cuts: u64) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small_on(engine, sync.mode()), promise: sync.promise(), cuts, plant: None }
}

pub(super) fn crash(seeds: Seeds, engine: EngineKind, sync: Sync, cuts: u64, rows: &str) -> Result<(), String> {
    let (scenario, name) = (scenario(engine, sync, cuts), sync.name());
    let replay = |seed| format!("weir sim crash {rows}--engine {engine} --sync {name} --cuts {cuts} --seed {seed}");
    let histories = |seed| match rows {
        "--turning " => history::<Turning>(seed, &scenario),
        "--parts " => history::<RowsOfParts>(seed, &scenario),
        "--by-command " => history::<ByCommand>(seed, &scenario),
        _ => history::<NodeStore>(seed, &scenario),
    };
    tell("crash", run(&seeds.plan(), replay, histories))
}

pub(super) fn flip(
    engine: EngineKind,
    at: Option<u64>,
    stride: u64,
    steps: usize,
    threads: usize,
) -> Result<(), String> {
    let scenario = scenario(engine, Sync::Interval, 0);
    for closed in [true, false] {
        let victim = Victim::new::<NodeStore>(1, steps, closed, &scenario)?;
        if let Some(at) = at {
            println!("closed {closed}: {}", victim.flip::<NodeStore>(at, &scenario)?);
            continue;
        }
        let plan = Plan { seeds: 0..0, threads, progress: true };
        let replay = |at| format!("weir sim flip --engine {engine} --steps {steps} --at {at}");
        let name = format!("flip ({}, {} bytes)", if closed { "closed" } else { "killed" }, victim.bytes());
        tell(&name, victim.flip_all::<NodeStore>(stride, &plan, replay, &scenario))?;
    }
    Ok(())
}

pub(super) fn tamper(seeds: Seeds, engines: &Engines, choice: Choice) -> Result<(), String> {
    let replay = |seed| format!("weir sim tamper --engine {engines} --every --seed {seed}");
    let figures = run(&seeds.plan(), replay, |seed| crate::tamper::tamper(seed, engines, choice));
    let figures = figures.map_err(|failure| format!("tamper: {failure}"))?;
    println!("tamper: {figures}");
    for (way, count) in &figures.by_way {
        println!("    {count:>8} {}", way.name());
    }
    match figures.violations(engines) {
        none if none.is_empty() => Ok(()),
        some => Err(format!("tamper: violations\n{some}")),
    }
}

/// The numbers of the operations to fail, one a run: the `nth` alone, or each of all `operations`.
fn numbers(nth: Option<u64>, operations: u64) -> Result<Range<u64>, String> {
    match nth {
        None => Ok(0..operations),
        Some(nth) if nth < operations => Ok(nth..nth + 1),
        Some(nth) => Err(format!("--nth {nth}: there are {operations} operations, from number 0 on")),
    }
}

pub(super) fn fault(
    engine: EngineKind,
    sync: Sync,
    nth: Option<u64>,
    steps: usize,
    threads: usize,
) -> Result<(), String> {
    let (options, promise, name) = (small_on(engine, sync.mode()), sync.promise(), sync.name());
    for way in Way::ALL {
        let operations = operations::<NodeStore>(1, steps, &options, promise, way)?;
        let seeds = match numbers(nth, operations) {
            Ok(seeds) => seeds,
            Err(error) if way == Way::Error => return Err(error),
            // There are fewer operations of one kind than of all.
            Err(_) => continue,
        };
        let plan = Plan { seeds, threads, progress: true };
        let replay = |nth| format!("weir sim fault --engine {engine} --sync {name} --steps {steps} --nth {nth}");
        let failing = |nth| fail_nth::<NodeStore>(1, steps, &options, promise, way, nth);
        tell(&format!("fault ({way:?}, each of {operations} operations)"), run(&plan, replay, failing))?;
    }
    Ok(())
}

pub(super) fn node_fault(seeds: Seeds, setting: &Setting, nth: Option<u64>, for_a_while: bool) -> Result<(), String> {
    let Setting { engines, sync } = setting;
    let command = format!("weir sim node-fault --engine {engines} --sync {}", sync.name());
    for way in node_fault::WAYS.into_iter().filter(|(kind, _)| kind.is_some() || !for_a_while) {
        if for_a_while {
            let replay = |seed| format!("{command} --while --seed {seed}");
            let failing = |seed| node_fault::one_run(seed, setting, way, When::ForAWhile);
            tell(&format!("node-fault ({way:?}, for a while)"), run(&seeds.plan(), replay, failing))?;
            continue;
        }
        let seed = seeds.seed.unwrap_or(1);
        let operations = node_fault::operations(seed, setting, way.0)?;
        let numbers = match numbers(nth, operations) {
            Ok(numbers) => numbers,
            Err(error) if way.0.is_none() => return Err(error),
            // There are fewer operations of one kind than of all.
            Err(_) => continue,
        };
        let plan = Plan { seeds: numbers, threads: seeds.threads, progress: true };
        let replay = |nth| format!("{command} --seed {seed} --nth {nth}");
        let failing = |nth| node_fault::one_run(seed, setting, way, When::Once(nth));
        tell(&format!("node-fault ({way:?}, each of {operations} operations)"), run(&plan, replay, failing))?;
    }
    Ok(())
}

pub(super) fn slow(seeds: Seeds, engine: EngineKind) -> Result<(), String> {
    for seed in seeds.plan().seeds {
        for trouble in [Trouble::Slow, Trouble::Hung] {
            for sync in [SyncMode::Always, SyncMode::Interval] {
                let outcome = survive(seed, engine, trouble, sync);
                let outcome = outcome.map_err(|story| {
                    format!("slow: {trouble:?}, {sync:?}: {story}\nrepeat with: weir sim slow --engine {engine} --seed {seed}")
                })?;
                println!("slow: {trouble:?}, {sync:?}: {outcome}");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_is_not_there_is_refused() {
        assert_eq!((numbers(None, 9), numbers(Some(8), 9)), (Ok(0..9), Ok(8..9)));
        for nth in [9, u64::MAX] {
            assert!(numbers(Some(nth), 9).is_err_and(|error| error.contains("9 operations")), "{nth}");
        }
        let error = fault(EngineKind::default(), Sync::Always, Some(u64::MAX), 5, 1).expect_err("nothing fails");
        assert!(error.contains("--nth"), "{error}");
    }
}
