//! A whole server on a simulated disk that loses its power, under scripts, functions, transactions and clients that
//! wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_io::plant::{Plant, with_planted_everywhere};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::runner::{Plan, run};
use weir_sim::served::{DiskFaults, Setting, history};

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::Interval, SyncMode::None];

/// Mistakes are planted in all threads: each test runs by itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn power_cuts_leave_no_script_and_no_transaction_in_half() {
    let _alone = alone();
    let modes = EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|sync| (engine, sync)));
    let settings: Vec<Setting> = modes.map(|(engine, sync)| Setting { engine, sync, cuts: 8, faults: None }).collect();
    // A seed for each setting. Clients wait for the server, so several servers run at a time.
    let setting = |seed: u64| settings[seed as usize];
    let plan = Plan { threads: 4, ..Plan::quiet(0..settings.len() as u64) };
    let live = |seed| {
        let cuts = history(seed, setting(seed))?;
        println!("{}: {cuts}", setting(seed).command(seed));
        if cuts.acknowledged > 10 { Ok(cuts) } else { Err(format!("too few steps to speak of: {cuts}")) }
    };
    if let Err(failure) = run(&plan, |seed| setting(seed).command(seed), live) {
        panic!("{failure}");
    }
    // A run that cannot fail proves nothing.
    for plant in [Plant::ScriptInHalf, Plant::FunctionsNotWritten, Plant::RecordSplit] {
        let setting = Setting { engine: EngineKind::Lsm, sync: SyncMode::None, cuts: 10, faults: None };
        let hunt = || run(&Plan::quiet(0..10), |seed| format!("seed {seed}"), |seed| history(seed, setting));
        let found = with_planted_everywhere(plant, hunt).err();
        let found = found.unwrap_or_else(|| panic!("not found: {plant:?}"));
        println!("{plant:?}: {}, {}", found.replay, found.story);
    }
}

#[test]
fn a_disk_that_fails_for_a_while_refuses_steps_as_a_whole_and_loses_none() {
    let _alone = alone();
    let modes = EngineKind::ALL.into_iter().flat_map(|engine| MODES.map(|sync| (engine, sync)));
    let settings: Vec<Setting> = modes
        .flat_map(|(engine, sync)| {
            [DiskFaults::Eio, DiskFaults::Full].map(|faults| Setting { engine, sync, cuts: 3, faults: Some(faults) })
        })
        .collect();
    // A seed for each setting. Clients that were refused rest, so several servers run at a time.
    let setting = |seed: u64| settings[seed as usize];
    let plan = Plan { threads: 4, ..Plan::quiet(0..settings.len() as u64) };
    match run(&plan, |seed| setting(seed).command(seed), |seed| history(seed, setting(seed))) {
        Ok(cuts) => {
            println!("{cuts}");
            assert!(cuts.acknowledged > 200 && cuts.refused > 50, "too little to speak of: {cuts}");
        }
        Err(failure) => panic!("{failure}"),
    }
    let faults = Some(DiskFaults::Eio);
    let setting = Setting { engine: EngineKind::Lsm, sync: SyncMode::Always, cuts: 10, faults };
    let plan = Plan { threads: 4, ..Plan::quiet(0..40) };
    let hunt = || run(&plan, |seed| setting.command(seed), |seed| history(seed, setting));
    let found = with_planted_everywhere(Plant::FailedCommitHidden, hunt).err();
    let found = found.expect("a write that failed is acknowledged, and nobody notices");
    println!("{}, {}", found.replay, found.story);
}
