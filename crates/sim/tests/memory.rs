//! The runs of the other tests of this folder, over rows in memory: power cuts, failing I/O, rotten bits, planted bugs.

use weir_io::plant::{Plant, with_planted};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::clients::{Load, clients};
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::fault::{Faults, Way, fail_nth, failing_syncs, full_disk, operations};
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::metamorphic::compare;
use weir_sim::node_store::{NodeStore, SYNC_EVERY, small_on};
use weir_sim::plant::DiskPlant;
use weir_sim::runner::{Failure, Plan, Tally, run};

const MODES: [(SyncMode, Promise); 3] = [
    (SyncMode::Always, Promise::Durable),
    (SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000)),
    (SyncMode::None, Promise::Nothing),
];

fn scenario(sync: SyncMode, promise: Promise, cuts: u64) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small_on(EngineKind::Memory, sync), promise, cuts, plant: None }
}

fn seed(seed: u64) -> String {
    format!("this test, seed {seed}")
}

#[test]
fn power_cuts_take_no_more_than_the_mode_says() {
    for (sync, promise) in MODES {
        let (scenario, name) = (scenario(sync, promise, 40), sync.name());
        let replay = |seed| format!("weir sim crash --engine memory --sync {name} --cuts 40 --seed {seed}");
        match run(&Plan::quiet(0..60), replay, |seed| history::<NodeStore>(seed, &scenario)) {
            Ok(cuts) => assert!(cuts.cuts >= 2_400, "too few cuts to speak of: {cuts}"),
            Err(failure) => panic!("{sync:?}: {failure}"),
        }
        let replay = |seed| format!("weir sim twice --engine memory --sync {name} --cuts 40 --seed {seed}");
        if let Err(failure) = run(&Plan::quiet(0..8), replay, |seed| twice::<NodeStore>(seed, &scenario)) {
            panic!("{sync:?}: {failure}");
        }
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (sync, promise) in [MODES[0], MODES[2]] {
        if let Err(story) = every_cut::<NodeStore>(1, 150, &scenario(sync, promise, 0)) {
            panic!(
                "{story}\nrepeat with: weir sim every-cut --engine memory --sync {} --steps 150 --seed 1",
                sync.name()
            );
        }
    }
}

#[test]
fn the_nth_operation_fails_for_every_n_in_every_way() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::Interval, Promise::Nothing)] {
        let options = small_on(EngineKind::Memory, sync);
        let mut all = Faults::default();
        for way in Way::ALL {
            let operations = operations::<NodeStore>(1, 60, &options, promise, way).expect("nothing fails");
            let plan = Plan { threads: 2, ..Plan::quiet(0..operations) };
            let name = sync.name();
            let replay = |nth| format!("weir sim fault --engine memory --sync {name} --steps 60 --nth {nth}");
            match run(&plan, replay, |nth| fail_nth::<NodeStore>(1, 60, &options, promise, way, nth)) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{sync:?} {way:?}: {failure}"),
            }
        }
    }
}

#[test]
fn failed_syncs_and_full_disks_are_survived() {
    let options = small_on(EngineKind::Memory, SyncMode::Always);
    let syncs = |seed| failing_syncs::<NodeStore>(seed, 60, &options, Promise::Durable);
    let full = |seed| full_disk::<NodeStore>(seed, &options, Promise::Durable);
    let replay = |what| move |seed| format!("weir sim {what} --engine memory --seed {seed}");
    for outcome in [run(&Plan::quiet(0..50), replay("syncs"), syncs), run(&Plan::quiet(0..15), replay("full"), full)] {
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
    }
}

fn flipped(plant: Option<Plant>) -> Option<Failure> {
    let scenario = scenario(SyncMode::Interval, Promise::Durable, 0);
    let victim = Victim::new::<NodeStore>(1, 150, true, &scenario).expect("nothing fails");
    let replay = |at| format!("weir sim flip --engine memory --steps 150 --at {at}");
    with_planted(plant, || victim.flip_all::<NodeStore>(5, &Plan::quiet(0..0), replay, &scenario)).err()
}

fn answers(plant: Option<Plant>, seeds: u64) -> Option<Failure> {
    let variants = [small_on(EngineKind::Memory, SyncMode::None)];
    let hunt = |seed| with_planted(plant, || compare::<NodeStore>(seed, 2_000, &variants, 3));
    run(&Plan::quiet(0..seeds), seed, hunt).err()
}

fn cuts(disk: DiskPlant) -> Option<Failure> {
    let scenario = Scenario { plant: Some(disk), ..scenario(SyncMode::Always, Promise::Durable, 40) };
    run(&Plan::quiet(0..200), seed, |seed| history::<NodeStore>(seed, &scenario)).err()
}

#[test]
fn planted_bugs_are_found_and_nothing_where_there_is_none() {
    for plant in [Plant::HeldVersionLost, Plant::SnapshotBound, Plant::ExpiryOffByOne] {
        assert!(answers(Some(plant), 60).is_some(), "{plant:?}");
    }
    assert!(flipped(Some(Plant::ChecksumIgnored)).is_some(), "a checksum that nobody looks at");
    for plant in DiskPlant::ALL {
        assert!(cuts(plant).is_some(), "{plant:?}");
    }
    let failures: Vec<String> =
        [answers(None, 20), flipped(None)].into_iter().flatten().map(|failure| failure.to_string()).collect();
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn answers_to_many_clients_have_an_order() {
    for (sync, partitions) in [(SyncMode::Interval, 1), (SyncMode::Always, 4)] {
        let load = Load { clients: 500, commands: 12, partitions, sync, engine: EngineKind::Memory, only: Vec::new() };
        if let Err(failure) = run(&Plan::quiet(0..1), seed, |seed| clients(seed, &load)) {
            panic!("{sync:?}: {failure}");
        }
    }
}
