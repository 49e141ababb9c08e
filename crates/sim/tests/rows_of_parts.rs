//! The runs of the other tests of this folder, over rows of many parts, on both engines.

use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::fault::{Faults, Way, fail_nth, operations};
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::metamorphic::compare;
use weir_sim::node_store::{SYNC_EVERY, small_on};
use weir_sim::rows_of_parts::RowsOfParts;
use weir_sim::runner::{Plan, Tally, run};

const MODES: [(SyncMode, Promise); 3] = [
    (SyncMode::Always, Promise::Durable),
    (SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000)),
    (SyncMode::None, Promise::Nothing),
];

fn scenario(engine: EngineKind, (sync, promise): (SyncMode, Promise)) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small_on(engine, sync), promise, cuts: 40, plant: None }
}

fn seed(seed: u64) -> String {
    format!("this test, seed {seed}")
}

#[test]
fn power_cuts_leave_rows_whole_and_no_part_behind() {
    for (engine, mode) in EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode))) {
        let (scenario, name) = (scenario(engine, mode), mode.0.name());
        let replay = |seed| format!("weir sim crash --parts --engine {engine} --sync {name} --cuts 40 --seed {seed}");
        match run(&Plan::quiet(0..40), replay, |seed| history::<RowsOfParts>(seed, &scenario)) {
            Ok(cuts) => assert!(cuts.cuts >= 1_600, "too few cuts to speak of: {cuts}"),
            Err(failure) => panic!("{failure}"),
        }
        if let Err(failure) = run(&Plan::quiet(0..4), seed, |seed| twice::<RowsOfParts>(seed, &scenario)) {
            panic!("{engine}, {name}: {failure}");
        }
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for (engine, mode) in EngineKind::ALL.into_iter().flat_map(|engine| [MODES[0], MODES[2]].map(|mode| (engine, mode)))
    {
        if let Err(story) = every_cut::<RowsOfParts>(1, 40, &scenario(engine, mode)) {
            panic!("{engine}, {mode:?}: {story}");
        }
    }
}

#[test]
fn the_nth_operation_fails_in_every_way() {
    // Every ninth operation of each engine fails, in each way other ones.
    const STRIDE: u64 = 9;
    for engine in EngineKind::ALL {
        let options = small_on(engine, SyncMode::Always);
        let mut all = Faults::default();
        for (number, way) in (0..).zip(Way::ALL) {
            let operations = operations::<RowsOfParts>(1, 60, &options, Promise::Durable, way).expect("nothing fails");
            let nth = |step: u64| step * STRIDE + number % STRIDE;
            let replay = |step| format!("this test, operation {}", nth(step));
            let failing = |step| fail_nth::<RowsOfParts>(1, 60, &options, Promise::Durable, way, nth(step));
            match run(&Plan::quiet(0..operations.div_ceil(STRIDE)), replay, failing) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{engine}, {way:?}: {failure}"),
            }
        }
        assert!(all.felt > all.runs / 10, "{engine}: hardly anything was felt: {all}");
    }
}

#[test]
fn no_flipped_bit_is_believed() {
    for engine in EngineKind::ALL {
        let scenario = scenario(engine, (SyncMode::Interval, Promise::Durable));
        let victim = Victim::new::<RowsOfParts>(1, 100, true, &scenario).expect("nothing fails");
        match victim.flip_all::<RowsOfParts>(23, &Plan::quiet(0..0), |at| format!("this test, byte {at}"), &scenario) {
            Ok(flips) => assert!(flips.refused > flips.flips / 10, "{engine}: hardly anything was noticed: {flips}"),
            Err(failure) => panic!("{engine}: {failure}"),
        }
    }
}

#[test]
fn the_same_operations_give_the_same_answers_on_both_engines() {
    let variants = EngineKind::ALL.map(|engine| small_on(engine, SyncMode::None));
    if let Err(failure) = run(&Plan::quiet(0..30), seed, |seed| compare::<RowsOfParts>(seed, 2_000, &variants, 3)) {
        panic!("{failure}");
    }
}
