//! A whole server on a simulated disk that loses its power, under scripts, functions, transactions and clients that
//! wait.

use weir_io::plant::{Plant, with_planted_everywhere};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::runner::{Plan, run};
use weir_sim::served::{Setting, history};

/// As in the other runs, plants are set in all threads; therefore this is one test.
#[test]
fn power_cuts_leave_no_script_and_no_transaction_in_half() {
    for engine in EngineKind::ALL {
        for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
            let setting = Setting { engine, sync, cuts: 8 };
            match run(&Plan::quiet(0..1), |seed| setting.command(seed), |seed| history(seed, setting)) {
                Ok(cuts) => {
                    println!("{engine}, {}: {cuts}", sync.name());
                    assert!(cuts.acknowledged > 10, "too few steps to speak of: {cuts}");
                }
                Err(failure) => panic!("{failure}"),
            }
        }
    }
    // A run that cannot fail proves nothing.
    for plant in [Plant::ScriptInHalf, Plant::FunctionsNotWritten, Plant::RecordSplit] {
        let setting = Setting { engine: EngineKind::Lsm, sync: SyncMode::None, cuts: 10 };
        let hunt = || run(&Plan::quiet(0..10), |seed| format!("seed {seed}"), |seed| history(seed, setting));
        let found = with_planted_everywhere(plant, hunt).err();
        let found = found.unwrap_or_else(|| panic!("not found: {plant:?}"));
        println!("{plant:?}: {}, {}", found.replay, found.story);
    }
}
