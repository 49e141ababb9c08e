//! A node, under power cuts.

use weir_log::SyncMode;
use weir_sim::crash::{Scenario, history};
use weir_sim::enumerate::every_cut;
use weir_sim::life::Promise;
use weir_sim::node_store::{NodeStore, SYNC_EVERY, small};
use weir_sim::runner::{Plan, run};

fn survive(sync: SyncMode, promise: Promise, seeds: u64) {
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(seeds);
    let scenario = Scenario { options: small(sync), promise, cuts: 40, plant: None };
    let replay = |seed| format!("weir sim crash --sync {sync:?} --seed {seed}");
    match run(&Plan::quiet(0..seeds), replay, |seed| history::<NodeStore>(seed, &scenario)) {
        Ok(cuts) => println!("{sync:?}: {cuts}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn always_loses_nothing_acknowledged() {
    survive(SyncMode::Always, Promise::Durable, 50);
}

#[test]
fn interval_loses_at_most_the_interval_and_leaves_no_hole() {
    survive(SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000), 50);
}

#[test]
fn none_leaves_no_hole() {
    survive(SyncMode::None, Promise::Nothing, 50);
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::None, Promise::Nothing)] {
        let scenario = Scenario { options: small(sync), promise, cuts: 0, plant: None };
        match every_cut::<NodeStore>(1, 300, &scenario) {
            Ok(points) => println!("{sync:?}: {points}"),
            Err(story) => panic!("{sync:?}: {story}"),
        }
    }
}
