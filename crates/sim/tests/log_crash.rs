//! The log alone, under power cuts.

use weir_log::SyncMode;
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::log_store::LogStore;
use weir_sim::node_store::SYNC_EVERY;
use weir_sim::plant::DiskPlant;
use weir_sim::runner::{Plan, run};

fn survive(sync: SyncMode, promise: Promise, seeds: u64) {
    let scenario = Scenario { options: sync, promise, cuts: 40, plant: None };
    let replay = |_| format!("this test, in mode {}: `weir sim` has the log in a node only", sync.name());
    match run(&Plan::quiet(0..seeds), replay, |seed| history::<LogStore>(seed, &scenario)) {
        Ok(cuts) => println!("{sync:?}: {cuts}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn always_loses_nothing_acknowledged() {
    survive(SyncMode::Always, Promise::Durable, 25);
}

#[test]
fn interval_loses_at_most_the_interval_and_leaves_no_hole() {
    // A sync that was under way when the acknowledgement came does not cover it; the next one does.
    survive(SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000), 25);
}

#[test]
fn none_leaves_no_hole() {
    survive(SyncMode::None, Promise::Nothing, 25);
}

/// Each mistake towards the disk is found within a few seeds.
#[test]
fn planted_mistakes_are_found() {
    for plant in DiskPlant::ALL {
        let scenario = Scenario { options: SyncMode::Always, promise: Promise::Durable, cuts: 40, plant: Some(plant) };
        match run(&Plan::quiet(0..50), |_| String::new(), |seed| history::<LogStore>(seed, &scenario)) {
            Ok(cuts) => panic!("{plant:?} was not found in {cuts}"),
            Err(failure) => println!("{plant:?}: {failure}"),
        }
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::None, Promise::Nothing)] {
        let scenario = Scenario { options: sync, promise, cuts: 0, plant: None };
        match every_cut::<LogStore>(1, 200, &scenario) {
            Ok(points) => println!("{sync:?}: {points}"),
            Err(story) => panic!("{sync:?}: {story}"),
        }
    }
}

#[test]
fn no_flipped_bit_of_a_closed_log_is_believed() {
    let scenario = Scenario { options: SyncMode::Interval, promise: Promise::Durable, cuts: 0, plant: None };
    for closed in [true, false] {
        let victim = Victim::new::<LogStore>(1, 60, closed, &scenario).expect("nothing fails");
        let flips = victim.flip_all::<LogStore>(1, &Plan::quiet(0..0), |at| format!("--at {at}"), &scenario);
        match flips {
            Ok(flips) => println!("closed {closed}: {} bytes, {flips}", victim.bytes()),
            Err(failure) => panic!("closed {closed}: {failure}"),
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_day() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let scenario = Scenario { options: sync, promise: Promise::Nothing, cuts: 20, plant: None };
        for seed in 0..10 {
            twice::<LogStore>(seed, &scenario).expect("the same day");
        }
    }
}
