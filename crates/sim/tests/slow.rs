//! A bad disk under load, in virtual time.

use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::slow::{Trouble, survive};

fn is_survived(engine: EngineKind) {
    for trouble in [Trouble::Slow, Trouble::Hung] {
        for sync in [SyncMode::Always, SyncMode::Interval] {
            match survive(1, engine, trouble, sync) {
                Ok(outcome) => println!("{engine}, {trouble:?}, {sync:?}: {outcome}"),
                Err(story) => {
                    panic!("{trouble:?}, {sync:?}: {story}\nrepeat with: weir sim slow --engine {engine} --seed 1")
                }
            }
        }
    }
}

#[test]
fn a_slow_or_hung_disk_is_survived() {
    is_survived(EngineKind::Lsm);
}

#[test]
fn a_slow_or_hung_disk_is_survived_by_rows_in_memory() {
    is_survived(EngineKind::Memory);
}
