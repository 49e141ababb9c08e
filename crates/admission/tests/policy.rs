//! Policies, tested by their decisions: text fixtures (samples in, knobs out), and long runs against a fluid model of
//! trees.
//!
//! A fixture is a script. `at SECONDS` or `at FROM..TO` stands for one sample a second, and the lines under it are
//! partitions: rates in MB/s, sizes of the tree in MB. Lines with `->` are what the profile decided at the last of
//! these samples. `WEIR_BLESS=1 cargo test -p weir-admission --test admission policy::` writes them anew. Every profile
//! plays `shortage.txt`. The valves that only `weir` has open in `valves.txt`. `level-1.txt` shows what `weir` does
//! about a large level 1, and `slowed.txt` what it does about writes that a tree slows. `peak.txt` is a peak of
//! clients, in `unsold.txt` a tenant bought nothing, and `fits.txt` is there for what none of these show.
#![allow(clippy::disallowed_methods, reason = "fixtures are files of the source tree")]

#[path = "policy/fluid.rs"]
mod fluid;
#[path = "policy/script.rs"]
mod script;

use weir_admission::Limits;
use weir_admission::policy::{Ingredient, PartitionKnobs, Policy, Profile};

#[test]
fn every_profile_says_what_its_fixture_says() {
    for profile in Profile::ALL {
        compare(profile.name(), &script::play(profile, include_str!("fixtures/shortage.txt")));
    }
}

/// U-19, U-20, U-22.
#[test]
fn the_valves_of_weir_open_when_they_should() {
    compare("weir-valves", &script::play(Profile::Weir, include_str!("fixtures/valves.txt")));
}

/// C-1: what was bought decides about gates alone. The guard goes by how full a tree is.
#[test]
fn tenants_without_limits_are_slowed_like_those_with_limits() {
    let decided = |script: &str| -> Vec<String> {
        let but_for_gates = |knobs: &PartitionKnobs| {
            let (foreground, weight, borrows) = (Limits::UNLIMITED, None, false);
            format!("{:?}", PartitionKnobs { foreground, weight, borrows, ..*knobs })
        };
        let said = script::play_as(Profile::Weir, script, but_for_gates);
        said.lines().filter(|line| line.contains(" -> ")).map(str::to_owned).collect()
    };
    let limited = include_str!("fixtures/valves.txt");
    let unlimited = limited.replace(" ingest=", " sold=0 ingest=");
    assert!(decided(&unlimited).iter().any(|knobs| knobs.contains("write_rate: Some")), "nobody is slowed");
    assert_eq!(decided(&unlimited), decided(limited));
}

#[test]
fn a_level_1_that_is_too_large_is_left_alone_until_something_is_over() {
    compare("weir-level-1", &script::play(Profile::Weir, include_str!("fixtures/level-1.txt")));
}

/// A closed loop writes as fast as the tree lets it: its writes do not show how much it wants to write.
#[test]
fn level_0_is_merged_within_where_its_length_slows_writes() {
    compare("weir-slowed", &script::play(Profile::Weir, include_str!("fixtures/slowed.txt")));
}

/// C-4: a compaction runs if neither the load of clients nor that of the node forbids it.
#[test]
fn weir_with_pauses_pauses_in_a_peak_of_clients_and_defers_as_before() {
    let pauses = Profile::Varied(Ingredient::Pauses);
    let said = |profile: Profile| {
        let words = |knobs: &PartitionKnobs| format!("{} ({})", knobs.stage.name(), knobs.scope.name());
        decisions(profile, include_str!("fixtures/peak.txt"), words)
    };
    let (runs, is_paused) = ("normal (all)", "stage1 (l0-to-l1)");
    assert_eq!(said(Profile::Weir), [runs; 5]);
    assert_eq!(said(pauses), [runs, runs, is_paused, is_paused, runs]);
    // Clients have no peak here, but the node is short.
    let shortage = include_str!("fixtures/shortage.txt");
    assert_eq!(script::play(pauses, shortage), script::play(Profile::Weir, shortage));
}

/// C-1: CruiseDB's law is for tenants that bought no writes. Where both slow a tenant, it has the lower rate.
#[test]
fn weir_with_admission_limits_tenants_without_a_limit_and_no_others() {
    let said = |profile: Profile| {
        decisions(profile, include_str!("fixtures/unsold.txt"), |knobs| format!("{:?}", knobs.write_rate))
    };
    let (weir, admission) = (said(Profile::Weir), said(Profile::Varied(Ingredient::Admission)));
    assert_eq!(weir, ["None", "None", "None", "None", "Some(150000)", "None"]);
    // CR-6: the rate without a limit becomes the limit.
    assert_eq!(admission[..2], ["Some(300000)", "None"]);
    assert_eq!(admission[4..], weir[4..], "until the flush ends");
    // Nobody here has no limit.
    let shortage = include_str!("fixtures/shortage.txt");
    let play = |profile| script::play(profile, shortage);
    assert_eq!(play(Profile::Varied(Ingredient::Admission)), play(Profile::Weir));
}

/// Stage two could not merge runs that are larger than a quarter of what a merge within level 0 takes.
#[test]
fn four_runs_of_gathered_memtables_fit_into_a_merge_within_level_0() {
    let gathers = |merge_max: &str| {
        let load = "ingest=3 log=3 read=9 merged=4 memory=14 l1=3000 runs=14 l0=2700";
        let script = format!("at 1..40\n  1 {load} {merge_max}\n");
        decisions(Profile::Weir, &script, |knobs| format!("gather={}", knobs.flush_gather))
    };
    assert_eq!(gathers(""), ["gather=12"], "an older recording does not know the bound");
    assert_eq!(gathers("merge-max=2000"), ["gather=12"]);
    assert_eq!(gathers("merge-max=500"), ["gather=7"]);
}

/// What `profile` decides in `script`, in these words.
fn decisions(profile: Profile, script: &str, words: impl Fn(&PartitionKnobs) -> String) -> Vec<String> {
    let said = script::play_as(profile, script, words);
    said.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, said)| said.to_owned()).collect()
}

fn compare(fixture: &str, said: &str) {
    let path = format!("{}/tests/fixtures/{fixture}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, said).expect("the fixture can be written");
    }
    let wanted = std::fs::read_to_string(&path).expect("the fixture is there");
    for (number, (said, wanted)) in said.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(said, wanted, "{path}:{}", number + 1);
    }
    assert_eq!(said.len(), wanted.len(), "{path}");
}

#[test]
fn profiles_truly_differ() {
    let script = include_str!("fixtures/shortage.txt");
    let said = |profile: Profile| {
        let node = Policy::new(profile, script::settings()).node(Limits::bytes(1));
        let tree = (profile.gathers_l0(), profile.slows_at_last_buffer(), profile.keeps_upper_levels());
        let tree = (tree, profile.has_level_0(), profile.preempts());
        format!("{node:?} {tree:?}\n{}", script::play(profile, script))
    };
    let differ: std::collections::BTreeSet<String> = Profile::ALL.into_iter().map(said).collect();
    assert_eq!(differ.len(), Profile::ALL.len());
}

/// If `weir` were the same without an ingredient, the ingredient would be of no use.
#[test]
fn weir_is_another_without_any_of_its_ingredients() {
    let scripts = [
        include_str!("fixtures/shortage.txt"),
        include_str!("fixtures/valves.txt"),
        include_str!("fixtures/level-1.txt"),
        include_str!("fixtures/fits.txt"),
        include_str!("fixtures/peak.txt"),
        include_str!("fixtures/unsold.txt"),
    ];
    let said = |profile: Profile| {
        let tree = (profile.gathers_l0(), profile.slows_at_last_buffer(), profile.keeps_upper_levels());
        let settings = (profile.preempts(), profile.shares_within_a_delay());
        let knobs = scripts.map(|script| script::play_as(profile, script, |knobs| format!("{knobs:?}")));
        format!("{tree:?} {settings:?} {knobs:?}")
    };
    let weir = said(Profile::Weir);
    let same = Ingredient::ALL.map(Profile::Varied).into_iter().filter(|&profile| said(profile) == weir);
    assert_eq!(same.collect::<Vec<_>>(), []);
}
