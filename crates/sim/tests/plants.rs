//! Twelve bugs are planted, one after the other; each must be found by one of the runs.
//!
//! `cargo test -p weir-sim --test sim plants:: -- --nocapture` prints the table.
#![allow(clippy::disallowed_methods, reason = "the table shows how long each hunt took")]

use std::time::Instant;

use weir_io::plant::{Plant, with_planted};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::clients::{Load, clients};
use weir_sim::crash::{Scenario, history};
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::metamorphic::compare;
use weir_sim::node_store::{NodeStore, small, small_on};
use weir_sim::plant::DiskPlant;
use weir_sim::rows_of_parts::RowsOfParts;
use weir_sim::runner::{Failure, Plan, run};

/// Seeds that a hunt may take. A bug that needs more counts as not found.
const SEEDS: u64 = 200;

fn power_cuts(disk: Option<DiskPlant>, plant: Option<Plant>) -> Option<Failure> {
    let options = small(SyncMode::Always);
    let scenario = Scenario { options, promise: Promise::Durable, cuts: 40, plant: disk };
    let hunt = |seed| with_planted(plant, || history::<NodeStore>(seed, &scenario));
    run(&Plan::quiet(0..SEEDS), |seed| format!("seed {seed}"), hunt).err()
}

fn same_answers(plant: Option<Plant>, seeds: u64) -> Option<Failure> {
    let variants = [small(SyncMode::None)];
    let hunt = |seed| with_planted(plant, || compare::<NodeStore>(seed, 2_000, &variants, 3));
    run(&Plan::quiet(0..seeds), |seed| format!("seed {seed}"), hunt).err()
}

/// Hunts in rows of many parts on `engine`, in mode `none`, where a cut takes most.
fn cut_parts(engine: EngineKind, plant: Plant) -> Option<Failure> {
    let options = small_on(engine, SyncMode::None);
    let scenario = Scenario { options, promise: Promise::Nothing, cuts: 40, plant: None };
    let hunt = |seed| with_planted(Some(plant), || history::<RowsOfParts>(seed, &scenario));
    run(&Plan::quiet(0..SEEDS), |seed| format!("seed {seed}"), hunt).err()
}

fn flipped_bits(plant: Plant) -> Option<Failure> {
    let options = small(SyncMode::Interval);
    let scenario = Scenario { options, promise: Promise::Durable, cuts: 0, plant: None };
    let victim = Victim::new::<NodeStore>(1, 150, true, &scenario).expect("nothing fails");
    let plan = Plan::quiet(0..0);
    // Every fifth byte of the tables; the plant is asked for inside, on the thread that flips.
    with_planted(Some(plant), || victim.flip_all::<NodeStore>(5, &plan, |at| format!("byte {at}"), &scenario)).err()
}

fn histories(plant: Option<Plant>, seeds: u64) -> Option<Failure> {
    let load = Load {
        clients: 200,
        commands: 12,
        partitions: 1,
        sync: SyncMode::None,
        only: Vec::new(),
        engine: EngineKind::Lsm,
    };
    let hunt = |seed| with_planted(plant, || clients(seed, &load));
    run(&Plan::quiet(0..seeds), |seed| format!("seed {seed}"), hunt).err()
}

#[test]
fn every_planted_bug_is_found() {
    println!("| planted | found by | at | after | as |\n|---|---|---|---|---|");
    let mut missed = Vec::new();
    let mut judge = |name: String, by: &str, hunt: &dyn Fn() -> Option<Failure>| {
        let started = Instant::now();
        match hunt() {
            Some(failure) => {
                let story: String = failure.story.lines().next().unwrap_or_default().chars().take(110).collect();
                println!("| {name} | {by} | {} | {} ms | {story} |", failure.replay, started.elapsed().as_millis());
            }
            None => missed.push(name),
        }
    };
    for plant in DiskPlant::ALL {
        judge(format!("{plant:?}"), "power cuts", &|| power_cuts(Some(plant), None));
    }
    for plant in [Plant::DroppedTombstone, Plant::SnapshotBound, Plant::ExpiryOffByOne, Plant::DroppedTable] {
        judge(format!("{plant:?}"), "same answers", &|| same_answers(Some(plant), SEEDS));
    }
    for (plant, engine) in [
        (Plant::CoverInMemory, EngineKind::Lsm),
        (Plant::DroppedCover, EngineKind::Lsm),
        (Plant::DroppedCover, EngineKind::Memory),
    ] {
        judge(format!("{plant:?}, {engine}"), "power cuts, rows of parts", &|| cut_parts(engine, plant));
    }
    judge(format!("{:?}", Plant::ChecksumIgnored), "flipped bits", &|| flipped_bits(Plant::ChecksumIgnored));
    judge(format!("{:?}", Plant::RowsNotLatched), "histories", &|| histories(Some(Plant::RowsNotLatched), 20));
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The other half of the proof: without a plant the same hunts find nothing. For those that cut the power or flip bits
/// the tests of these runs show it.
#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for found in [same_answers(None, 20), histories(None, 5)] {
        assert!(found.is_none(), "{}", found.expect("just looked"));
    }
}
