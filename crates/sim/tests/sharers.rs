//! Power cuts and kills of several tenants that share a log.

use weir_log::SyncMode;
use weir_node::{EngineKind, NodeConfig};
use weir_sim::life::Promise;
use weir_sim::node_store::{SYNC_EVERY, small_on};
use weir_sim::plant::DiskPlant;
use weir_sim::runner::{Plan, run};
use weir_sim::sharers::{Sharing, history, twice};

const MODES: [(SyncMode, Promise); 3] = [
    (SyncMode::Always, Promise::Durable),
    (SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000)),
    (SyncMode::None, Promise::Nothing),
];

fn sharing(engine: EngineKind, (sync, promise): (SyncMode, Promise)) -> Sharing {
    // A log so short that cascades happen.
    let config = NodeConfig { shared_log_bytes: 48 << 10, ..small_on(engine, sync) };
    Sharing { config, promise, members: 3, cuts: 150, look_every: 25, plant: None }
}

fn seed(seed: u64) -> String {
    format!("this test, seed {seed}")
}

#[test]
fn power_cuts_and_kills_take_from_no_member_more_than_the_mode_says() {
    for (engine, mode) in EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode))) {
        let sharing = sharing(engine, mode);
        match run(&Plan::quiet(0..5), seed, |seed| history(seed, &sharing)) {
            Ok(cuts) => {
                println!("{engine} {:?}: {cuts}", mode.0);
                assert!(cuts.cuts >= 750 && cuts.acknowledged > 500, "too little to speak of: {cuts}");
            }
            Err(failure) => panic!("{engine} {:?}: {failure}", mode.0),
        }
        if let Err(failure) = run(&Plan::quiet(0..1), seed, |seed| twice(seed, &sharing)) {
            panic!("{engine} {:?}: {failure}", mode.0);
        }
    }
}

#[test]
fn at_every_change_of_some_lives_a_cut_is_survived() {
    for mode in MODES {
        let sharing = Sharing { look_every: 1, cuts: 300, ..sharing(EngineKind::Lsm, mode) };
        if let Err(failure) = run(&Plan::quiet(100..102), seed, |seed| history(seed, &sharing)) {
            panic!("{:?}: {failure}", mode.0);
        }
    }
}

#[test]
fn planted_mistakes_towards_the_disk_are_found() {
    for plant in DiskPlant::ALL {
        let sharing = Sharing { plant: Some(plant), ..sharing(EngineKind::Lsm, MODES[0]) };
        if let Ok(cuts) = run(&Plan::quiet(0..100), seed, |seed| history(seed, &sharing)) {
            panic!("{plant:?} was not found in {cuts}");
        }
    }
}
