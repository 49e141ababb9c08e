//! I/O that fails while the power is on.

use weir_log::SyncMode;
use weir_sim::fault::{Faults, Way, fail_nth, failing_syncs, full_disk, operations};
use weir_sim::life::Promise;
use weir_sim::node_store::{NodeStore, small};
use weir_sim::runner::{Plan, Tally, run};

const STEPS: usize = 60;

#[test]
fn the_nth_operation_fails_for_every_n_in_every_way() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::Interval, Promise::Nothing)] {
        let options = small(sync);
        let mut all = Faults::default();
        for way in Way::ALL {
            let operations = operations::<NodeStore>(1, STEPS, &options, promise, way).expect("nothing fails");
            let replay = |nth| format!("weir sim fault --sync {} --steps {STEPS} --nth {nth}", sync.name());
            let plan = Plan { threads: 2, ..Plan::quiet(0..operations) };
            match run(&plan, replay, |nth| fail_nth::<NodeStore>(1, STEPS, &options, promise, way, nth)) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{sync:?} {way:?}: {failure}"),
            }
        }
        println!("{sync:?}: {all}");
    }
}

#[test]
fn a_failed_sync_never_becomes_an_acknowledgement() {
    let options = small(SyncMode::Always);
    let replay = |seed| format!("weir sim syncs --seed {seed}");
    match run(&Plan::quiet(0..100), replay, |seed| failing_syncs::<NodeStore>(seed, STEPS, &options, Promise::Durable))
    {
        Ok(faults) => println!("{faults}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_full_disk_is_over_when_there_is_space_again() {
    for (sync, promise) in [(SyncMode::Always, Promise::Durable), (SyncMode::Interval, Promise::Nothing)] {
        let options = small(sync);
        let replay = |seed| format!("weir sim full --sync {} --seed {seed}", sync.name());
        match run(&Plan::quiet(0..25), replay, |seed| full_disk::<NodeStore>(seed, &options, promise)) {
            Ok(faults) => println!("{sync:?}: {faults}"),
            Err(failure) => panic!("{sync:?}: {failure}"),
        }
    }
}
