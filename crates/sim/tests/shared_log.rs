//! The runs of the other tests of this folder, over a partition that writes to a shared log: power cuts, failing I/O,
//! rotten bits.

use weir_log::SyncMode;
use weir_node::{EngineKind, LogKind, NodeConfig};
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::fault::{Faults, Way, fail_nth, failing_syncs, full_disk, operations};
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::node_store::{NodeStore, SYNC_EVERY, small_on};
use weir_sim::plant::DiskPlant;
use weir_sim::runner::{Plan, Tally, run};

const MODES: [(SyncMode, Promise); 3] = [
    (SyncMode::Always, Promise::Durable),
    (SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000)),
    (SyncMode::None, Promise::Nothing),
];

fn shared(engine: EngineKind, sync: SyncMode) -> NodeConfig {
    NodeConfig { log: LogKind::Shared, ..small_on(engine, sync) }
}

fn scenario(engine: EngineKind, sync: SyncMode, promise: Promise, cuts: u64) -> Scenario<NodeConfig> {
    Scenario { options: shared(engine, sync), promise, cuts, plant: None }
}

fn seed(seed: u64) -> String {
    format!("this test, seed {seed}")
}

#[test]
fn power_cuts_take_no_more_than_the_mode_says() {
    for (engine, (sync, promise)) in EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode))) {
        let scenario = scenario(engine, sync, promise, 40);
        match run(&Plan::quiet(0..30), seed, |seed| history::<NodeStore>(seed, &scenario)) {
            Ok(cuts) => assert!(cuts.cuts >= 1_200, "too few cuts to speak of: {cuts}"),
            Err(failure) => panic!("{engine} {sync:?}: {failure}"),
        }
        if let Err(failure) = run(&Plan::quiet(0..4), seed, |seed| twice::<NodeStore>(seed, &scenario)) {
            panic!("{engine} {sync:?}: {failure}");
        }
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [MODES[0], MODES[2]] {
        if let Err(story) = every_cut::<NodeStore>(1, 150, &scenario(EngineKind::Lsm, sync, promise, 0)) {
            panic!("{sync:?}: {story}");
        }
    }
}

#[test]
fn the_nth_operation_fails_for_every_n_in_every_way() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::Interval, Promise::Nothing)] {
        let options = shared(EngineKind::Lsm, sync);
        let mut all = Faults::default();
        for way in Way::ALL {
            let operations = operations::<NodeStore>(1, 60, &options, promise, way).expect("nothing fails");
            let plan = Plan { threads: 2, ..Plan::quiet(0..operations) };
            match run(&plan, seed, |nth| fail_nth::<NodeStore>(1, 60, &options, promise, way, nth)) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{sync:?} {way:?}: {failure}"),
            }
        }
    }
}

#[test]
fn failed_syncs_and_full_disks_are_survived() {
    let options = shared(EngineKind::Lsm, SyncMode::Always);
    let syncs = |seed| failing_syncs::<NodeStore>(seed, 60, &options, Promise::Durable);
    let full = |seed| full_disk::<NodeStore>(seed, &options, Promise::Durable);
    for outcome in [run(&Plan::quiet(0..40), seed, syncs), run(&Plan::quiet(0..15), seed, full)] {
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
    }
}

#[test]
fn no_flipped_bit_is_believed() {
    let scenario = scenario(EngineKind::Lsm, SyncMode::Interval, Promise::Durable, 0);
    for closed in [true, false] {
        let victim = Victim::new::<NodeStore>(1, 100, closed, &scenario).expect("nothing fails");
        let replay = |at| format!("this test, bit {at}, closed {closed}");
        match victim.flip_all::<NodeStore>(11, &Plan::quiet(0..0), replay, &scenario) {
            Ok(flips) => println!("closed {closed}: {} bytes, {flips}", victim.bytes()),
            Err(failure) => panic!("closed {closed}: {failure}"),
        }
    }
}

#[test]
fn planted_mistakes_towards_the_disk_are_found() {
    for plant in DiskPlant::ALL {
        let scenario =
            Scenario { plant: Some(plant), ..scenario(EngineKind::Lsm, SyncMode::Always, Promise::Durable, 40) };
        if let Ok(cuts) = run(&Plan::quiet(0..200), seed, |seed| history::<NodeStore>(seed, &scenario)) {
            panic!("{plant:?} was not found in {cuts}");
        }
    }
}
