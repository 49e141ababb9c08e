//! Many clients, all commands on rows, in virtual time.

use weir_log::SyncMode;
use weir_sim::clients::{Load, clients};
use weir_sim::runner::{Plan, run};

#[test]
fn a_thousand_clients_repeat_and_their_answers_have_an_order() {
    for (sync, partitions) in [(SyncMode::Interval, 1), (SyncMode::Always, 4), (SyncMode::None, 1)] {
        let load = Load { clients: 1000, commands: 12, partitions, sync };
        let replay = |seed| format!("weir sim clients --sync {} --partitions {partitions} --seed {seed}", sync.name());
        match run(&Plan::quiet(0..1), replay, |seed| clients(seed, load)) {
            Ok(histories) => {
                println!("{sync:?}: {histories}");
                assert!(histories.overlapping > histories.commands / 10, "they hardly meet: {histories}");
            }
            Err(failure) => panic!("{sync:?}: {failure}"),
        }
    }
}
