//! Signals in the middle of operators' commands, against real servers. The long run is `weir sim interrupt`.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::time::Duration;

use crate::support::Dir;
use weir_node::EngineKind;
use weir_sim::engines::Engines;
use weir_sim::interrupt::{Options, Sent, run};

#[test]
fn nothing_is_lost_or_half_done_whatever_signal_comes_in_the_middle() {
    for engine in EngineKind::ALL {
        let dir = Dir::new();
        let options = Options {
            binary: env!("CARGO_BIN_EXE_weir").into(),
            engines: Engines::only(engine),
            dir: dir.0.join("interrupted"),
            signals: Sent::ALL.to_vec(),
            rounds: 1,
            stopped: Duration::from_millis(20),
            seed: 1,
            progress: false,
        };
        let figures = run(&options).unwrap_or_else(|story| panic!("{engine}: {story}"));
        assert!(figures.signals == 4 && figures.acknowledged > 0, "{engine}: {figures}");
        eprintln!("{engine}: {figures}");
    }
}
