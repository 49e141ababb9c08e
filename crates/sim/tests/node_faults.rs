//! A whole node on a disk that fails: a sample of `weir sim node-fault`.

use weir_log::SyncMode;
use weir_sim::runner::{Plan, Tally, run};
use weir_sim::tenants::fault::{NodeFaults, WAYS, When, one_run, operations};

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::Interval, SyncMode::None];
/// Runs of each way and mode.
const SAMPLES: u64 = 8;

#[test]
fn an_operation_that_fails_is_answered_and_everything_works_afterwards() {
    for sync in MODES {
        let mut all = NodeFaults::default();
        for (number, way) in (0..).zip(WAYS) {
            let operations = operations(1, sync, way.0).expect("nothing fails");
            // Others in each way.
            let nth = |sample: u64| (sample * operations + number * operations / 20) / SAMPLES % operations.max(1);
            let replay = |sample| format!("weir sim node-fault --sync {} --nth {}", sync.name(), nth(sample));
            match run(&Plan::quiet(0..SAMPLES), replay, |sample| one_run(1, sync, way, When::Once(nth(sample)))) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{sync:?} {way:?}: {failure}"),
            }
        }
        println!("{sync:?}: {all}");
    }
}

#[test]
fn a_disk_that_fails_for_a_while_is_survived() {
    for sync in MODES {
        let mut all = NodeFaults::default();
        for way in WAYS.into_iter().filter(|(kind, _)| kind.is_some()) {
            let replay = |seed| format!("weir sim node-fault --sync {} --while --seed {seed}", sync.name());
            match run(&Plan::quiet(0..4), replay, |seed| one_run(seed, sync, way, When::ForAWhile)) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{sync:?} {way:?}: {failure}"),
            }
        }
        println!("{sync:?}: {all}");
    }
}
