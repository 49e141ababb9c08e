//! A node, under power cuts.

use weir_log::SyncMode;
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::life::Promise;
use weir_sim::node_store::{NodeStore, SYNC_EVERY, small};
use weir_sim::runner::{Plan, run};
use weir_sim::turning::Turning;

/// Together the three tests survive more than 20,000 cuts.
const SEEDS: u64 = 132;
const CUTS_MIN: u64 = 6_700;

fn survive(sync: SyncMode, promise: Promise) {
    let scenario = Scenario { options: small(sync), promise, cuts: 40, plant: None };
    let replay = |seed| format!("weir sim crash --sync {} --cuts 40 --seed {seed}", sync.name());
    match run(&Plan::quiet(0..SEEDS), replay, |seed| history::<NodeStore>(seed, &scenario)) {
        Ok(cuts) => {
            println!("{sync:?}: {cuts}");
            assert!(cuts.cuts >= CUTS_MIN, "too few cuts to speak of: {cuts}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn always_loses_nothing_acknowledged() {
    survive(SyncMode::Always, Promise::Durable);
}

#[test]
fn interval_loses_at_most_the_interval_and_leaves_no_hole() {
    survive(SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000));
}

#[test]
fn none_leaves_no_hole() {
    survive(SyncMode::None, Promise::Nothing);
}

/// U-19: power cuts in every stage of deferral, and wherever a job is parked.
#[test]
fn nothing_is_lost_while_scopes_and_buffers_change_all_the_time() {
    let scenario = Scenario { options: small(SyncMode::Always), promise: Promise::Durable, cuts: 40, plant: None };
    let replay = |seed| format!("weir sim crash --turning --cuts 40 --seed {seed}");
    match run(&Plan::quiet(0..SEEDS), replay, |seed| history::<Turning>(seed, &scenario)) {
        Ok(cuts) => assert!(cuts.cuts >= CUTS_MIN, "too few cuts to speak of: {cuts}"),
        Err(failure) => panic!("{failure}"),
    }
    let replay = |_| "this test: the command turns no knobs when it lives a day twice".to_owned();
    if let Err(failure) = run(&Plan::quiet(0..10), replay, |seed| twice::<Turning>(seed, &scenario)) {
        panic!("{failure}");
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::None, Promise::Nothing)] {
        let scenario = Scenario { options: small(sync), promise, cuts: 0, plant: None };
        match every_cut::<NodeStore>(1, 150, &scenario) {
            Ok(points) => println!("{sync:?}: {points}"),
            Err(story) => {
                panic!("{story}\nrepeat with: weir sim every-cut --sync {} --steps 150 --seed 1", sync.name());
            }
        }
    }
}

/// Everything that happened happens again in the same order: every other run depends on that.
#[test]
fn the_same_seed_gives_the_same_day() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let scenario = Scenario { options: small(sync), promise: Promise::Nothing, cuts: 10, plant: None };
        let replay = |seed| format!("weir sim twice --sync {} --cuts 10 --seed {seed}", sync.name());
        if let Err(failure) = run(&Plan::quiet(0..25), replay, |seed| twice::<NodeStore>(seed, &scenario)) {
            panic!("{failure}");
        }
    }
}
