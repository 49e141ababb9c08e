//! A log and a tree, under power cuts.

use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_sim::crash::{Scenario, history};
use weir_sim::enumerate::every_cut;
use weir_sim::life::Promise;
use weir_sim::log_store::SYNC_EVERY;
use weir_sim::pair_store::{PairOptions, PairStore};
use weir_sim::plant::DiskPlant;
use weir_sim::runner::{Plan, run};

fn small(sync: SyncMode) -> PairOptions {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        level_factor: 3,
        table_bytes: 8 << 10,
        block_bytes: 512,
        io_bytes: 4096,
        l0_trigger: 2,
        ..TreeOptions::default()
    };
    PairOptions { sync, tree, cache_bytes: 64 << 10, segment_bytes: 16 << 10 }
}

fn survive(sync: SyncMode, promise: Promise, seeds: u64) {
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(seeds);
    let scenario = Scenario { options: small(sync), promise, cuts: 40, plant: None };
    let replay = |seed| format!("weir sim crash --sync {sync:?} --seed {seed}");
    match run(&Plan::quiet(0..seeds), replay, |seed| history::<PairStore>(seed, &scenario)) {
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
fn planted_mistakes_are_found() {
    for plant in DiskPlant::ALL {
        let scenario =
            Scenario { options: small(SyncMode::Always), promise: Promise::Durable, cuts: 40, plant: Some(plant) };
        match run(&Plan::quiet(0..50), |_| String::new(), |seed| history::<PairStore>(seed, &scenario)) {
            Ok(cuts) => panic!("{plant:?} was not found in {cuts}"),
            Err(failure) => println!("{plant:?}: {failure}"),
        }
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::None, Promise::Nothing)] {
        let scenario = Scenario { options: small(sync), promise, cuts: 0, plant: None };
        match every_cut::<PairStore>(1, 300, &scenario) {
            Ok(points) => println!("{sync:?}: {points}"),
            Err(story) => panic!("{sync:?}: {story}"),
        }
    }
}
