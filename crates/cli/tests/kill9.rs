//! Real `kill -9`, on both engines and with both logs. The long run is `weir sim kill9`.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use crate::support::Dir;
use weir_node::{EngineKind, LogKind};
use weir_sim::kill9::{Line, Load, Options, run};
use weir_sim::process::Launch;
use weir_sim::steps::Steps;

fn killed<L: Load>(engine: EngineKind, log: LogKind) {
    let dir = Dir::new();
    let launch = Launch { binary: env!("CARGO_BIN_EXE_weir").into(), dir: dir.0.join("killed"), arguments: Vec::new() };
    let kills = run::<L>(&Options { launch, engine, log, rounds: 2, seed: 1 });
    let kills = kills.unwrap_or_else(|story| panic!("{engine}, {log}: {story}"));
    assert!(kills.rounds == 2 && kills.acknowledged > 0, "{engine}, {log}: {kills}");
    eprintln!("{engine}, {log}: {kills}");
}

#[test]
fn no_acknowledged_write_is_lost_by_a_kill() {
    EngineKind::ALL.into_iter().for_each(|engine| killed::<Line>(engine, LogKind::Own));
    killed::<Line>(EngineKind::Lsm, LogKind::Shared);
}

#[test]
fn no_script_and_no_transaction_is_left_in_half_by_a_kill() {
    EngineKind::ALL.into_iter().for_each(|engine| killed::<Steps>(engine, LogKind::Own));
    killed::<Steps>(EngineKind::Memory, LogKind::Shared);
}
