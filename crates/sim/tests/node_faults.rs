//! A whole node on a disk that fails: a sample of `weir sim node-fault`.

use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::engines::Engines;
use weir_sim::runner::{Plan, Tally, run};
use weir_sim::tenants::Setting;
use weir_sim::tenants::fault::{NodeFaults, WAYS, When, one_run, operations};

/// Runs of each way, mode and engine.
const SAMPLES: u64 = 8;

fn settings() -> impl Iterator<Item = Setting> {
    let modes = [SyncMode::Always, SyncMode::Interval, SyncMode::None];
    let engines = EngineKind::ALL.map(Engines::only).into_iter();
    engines.flat_map(move |engines| modes.map(|sync| Setting { engines: engines.clone(), sync }))
}

/// The command that repeats failures in `setting`.
fn command(Setting { engines, sync }: &Setting) -> String {
    format!("weir sim node-fault --engine {engines} --sync {}", sync.name())
}

#[test]
fn an_operation_that_fails_is_answered_and_everything_works_afterwards() {
    for setting in settings() {
        let command = command(&setting);
        let mut all = NodeFaults::default();
        for (number, way) in (0..).zip(WAYS) {
            let operations = operations(1, &setting, way.0).expect("nothing fails");
            // Each way gets other operations.
            let nth = |sample: u64| (sample * operations + number * operations / 20) / SAMPLES % operations.max(1);
            let replay = |sample| format!("{command} --nth {}", nth(sample));
            match run(&Plan::quiet(0..SAMPLES), replay, |sample| one_run(1, &setting, way, When::Once(nth(sample)))) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{command}, {way:?}: {failure}"),
            }
        }
        println!("{command}: {all}");
    }
}

#[test]
fn a_disk_that_fails_for_a_while_is_survived() {
    for setting in settings() {
        let command = command(&setting);
        let mut all = NodeFaults::default();
        for way in WAYS.into_iter().filter(|(kind, _)| kind.is_some()) {
            let replay = |seed| format!("{command} --while --seed {seed}");
            match run(&Plan::quiet(0..4), replay, |seed| one_run(seed, &setting, way, When::ForAWhile)) {
                Ok(faults) => all.merge(faults),
                Err(failure) => panic!("{command}, {way:?}: {failure}"),
            }
        }
        println!("{command}: {all}");
    }
}
