//! Rows of every type, written by commands in transactions of several, on both engines: after power cuts, and when
//! operations of the disk fail.

use weir_io::plant::{Plant, with_planted};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::by_command::ByCommand;
use weir_sim::crash::{Scenario, history, twice};
use weir_sim::enumerate::every_cut;
use weir_sim::fault::{Faults, Way, fail_nth, operations};
use weir_sim::life::Promise;
use weir_sim::node_store::{SYNC_EVERY, small_on};
use weir_sim::runner::{Plan, Tally, run};

const MODES: [(SyncMode, Promise); 3] = [
    (SyncMode::Always, Promise::Durable),
    (SyncMode::Interval, Promise::Within(2 * SYNC_EVERY + 50_000_000)),
    (SyncMode::None, Promise::Nothing),
];

fn scenario(engine: EngineKind, (sync, promise): (SyncMode, Promise)) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small_on(engine, sync), promise, cuts: 20, plant: None }
}

fn modes() -> impl Iterator<Item = (EngineKind, (SyncMode, Promise))> {
    EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode)))
}

#[test]
fn power_cuts_leave_no_row_torn_and_no_transaction_in_half() {
    for (engine, mode) in modes() {
        let (scenario, name) = (scenario(engine, mode), mode.0.name());
        let replay =
            |seed| format!("weir sim crash --by-command --engine {engine} --sync {name} --cuts 20 --seed {seed}");
        match run(&Plan::quiet(0..40), replay, |seed| history::<ByCommand>(seed, &scenario)) {
            Ok(cuts) => assert!(cuts.cuts >= 800, "too few cuts to speak of: {cuts}"),
            Err(failure) => panic!("{failure}"),
        }
    }
    let scenario = scenario(EngineKind::Lsm, MODES[0]);
    if let Err(failure) = run(&Plan::quiet(0..2), |seed| format!("{seed}"), |seed| twice::<ByCommand>(seed, &scenario))
    {
        panic!("{failure}");
    }
}

#[test]
fn every_cut_of_one_workload_is_survived() {
    for engine in EngineKind::ALL {
        if let Err(story) = every_cut::<ByCommand>(1, 12, &scenario(engine, MODES[0])) {
            panic!("{engine}: {story}");
        }
    }
}

#[test]
fn the_nth_operation_fails_in_every_way() {
    // Every 29th operation of each engine fails, in each way other ones.
    const STRIDE: u64 = 29;
    for engine in EngineKind::ALL {
        let options = small_on(engine, SyncMode::Always);
        let mut all = Faults::default();
        for (number, way) in (0..).zip(Way::ALL) {
            let operations = operations::<ByCommand>(1, 40, &options, Promise::Durable, way).expect("nothing fails");
            let nth = |step: u64| step * STRIDE + number % STRIDE;
            let replay = |step| format!("this test, operation {}", nth(step));
            let failing = |step| fail_nth::<ByCommand>(1, 40, &options, Promise::Durable, way, nth(step));
            match run(&Plan::quiet(0..operations.div_ceil(STRIDE)), replay, failing) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{engine}, {way:?}: {failure}"),
            }
        }
        assert!(all.felt > all.runs / 10, "{engine}: hardly anything was felt: {all}");
    }
}

/// A run that cannot fail proves nothing.
#[test]
fn planted_mistakes_of_commands_are_found() {
    for (plant, mode) in [
        (Plant::CountLeft, MODES[0]),
        (Plant::RecordSplit, MODES[2]),
        (Plant::IndexEntryLeft, MODES[0]),
        (Plant::AgendaLeft, MODES[0]),
    ] {
        let scenario = scenario(EngineKind::Lsm, mode);
        let hunt = |seed| with_planted(Some(plant), || history::<ByCommand>(seed, &scenario));
        let found = run(&Plan::quiet(0..300), |seed| format!("seed {seed}"), hunt).err();
        let found = found.unwrap_or_else(|| panic!("not found: {plant:?}"));
        println!("{plant:?}: {}, {}", found.replay, found.story);
    }
}
