//! Files changed behind a node's back.
//!
//! `weir sim tamper --engine ENGINE --seeds N` does it for more directories, and in more ways for each file.

use std::ops::Range;

use weir_io::plant::{Plant, with_planted};
use weir_node::EngineKind;
use weir_sim::engines::Engines;
use weir_sim::runner::{Plan, run};
use weir_sim::tamper::{Choice, Tamperings, Wrong, tamper};

/// Directories: each sync mode twice, each end of a process at least once.
const SEEDS: u64 = 6;
/// Ways tried on each file, of about twenty that there are.
const WAYS: usize = 2;

fn tampered(engines: &Engines, seeds: Range<u64>, ways: usize) -> Tamperings {
    let replay = |seed| format!("weir sim tamper --engine {engines} --every --seed {seed}");
    match run(&Plan::quiet(seeds), replay, |seed| tamper(seed, engines, Choice::Ways(ways))) {
        Ok(figures) => figures,
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn what_was_durable_is_there_or_an_error_says_where_to_look() {
    // With both engines by turns, files of one are also put in the place of files of the other.
    for engines in [Engines::only(EngineKind::Lsm), Engines::only(EngineKind::Memory), Engines::all()] {
        let figures = tampered(&engines, 0..SEEDS, WAYS);
        println!("{engines}: {figures}");
        let violations = figures.violations(&engines);
        assert!(violations.is_empty(), "{violations}");
        let all: u64 = figures.by_way.values().sum();
        assert!(all > 500 && figures.refused > all / 2, "hardly anything was noticed: {figures}");
    }
}

/// The harness can fail: the tamperings must bring each of these mistakes to light.
#[test]
fn planted_mistakes_are_found() {
    for engines in EngineKind::ALL.map(Engines::only) {
        for (plant, expected) in [(Plant::ChecksumIgnored, Wrong::Invented), (Plant::AnchorIgnored, Wrong::Lost)] {
            // One way for each file, in one directory after the other, until it is found.
            let found = (0..SEEDS).any(|seed| {
                let figures = with_planted(Some(plant), || tampered(&engines, seed..seed + 1, 1));
                println!("{engines}, {plant:?}, seed {seed}: {figures}");
                figures.findings.keys().any(|(_, wrong, ..)| *wrong == expected)
            });
            assert!(found, "{engines}: {plant:?} is not found");
        }
    }
}
