//! Level 0 as a list of sizes, newest first; `!` marks a run that somebody else has claimed.

use std::sync::Arc;

use weir_model::engine::{Scope, TreeKnobs, Urgency};

use super::*;
use crate::pick::Claims;
use proptest::prelude::*;

fn with_levels_view<T>(sizes: &[(u64, bool)], ask: impl FnOnce(&LevelsView<'_>) -> T) -> T {
    let runs: Vec<TableMeta> = sizes.iter().enumerate().map(|(index, &(bytes, _))| run(index, bytes)).collect();
    let claimed = sizes.iter().enumerate().filter(|(_, (_, claimed))| *claimed).map(|(index, _)| index as u64);
    let claims = Claims { tables: claimed.collect(), ranges: Vec::new() };
    let mut levels: [Vec<&TableMeta>; crate::version::LEVELS] = Default::default();
    levels[0] = runs.iter().collect();
    ask(&LevelsView {
        levels,
        claims: &claims,
        is_filling: true,
        flush_is_due: false,
        memtables_may_wait: true,
        now_ms: 0,
        horizon: 1,
        covered: Arc::default(),
        urgency: Urgency::Idle,
        disk_is_full: false,
    })
}

/// The run at `index`, which is its file number too.
fn run(index: usize, bytes: u64) -> TableMeta {
    TableMeta {
        id: index as u64,
        epoch: 1000 - index as u64,
        bytes,
        digest: 0,
        entries: 1,
        tombstones: 0,
        expiring: 0,
        smallest_seq: 1,
        largest_seq: 1,
        smallest: b"a".as_slice().into(),
        largest: b"z".as_slice().into(),
        raw_bytes: bytes,
        tombstone_bytes: 0,
        deadlines: weir_model::engine::Deadlines::default(),
    }
}

fn sizes(drawing: &str) -> Vec<(u64, bool)> {
    let number = |text: &str| text.trim_end_matches('!').parse().expect("a number");
    drawing.split_whitespace().map(|text| (number(text), text.ends_with('!'))).collect()
}

/// Positions of the first and the last run of the answer.
fn span(pick: Option<Pick>) -> Option<(u64, u64)> {
    let inputs = pick?.inputs;
    Some((inputs.first()?.1, inputs.last()?.1))
}

fn options() -> TreeOptions {
    TreeOptions { l0_trigger: 4, l0_slow: 20, l0_merge_bytes_max: 1_000, ..TreeOptions::default() }
}

fn ask(drawing: &str, fan_in: usize) -> Option<(u64, u64)> {
    span(with_levels_view(&sizes(drawing), |levels_view| pick(levels_view, fan_in, u64::MAX, &options())))
}

#[test]
fn none_begins_before_there_are_as_many_runs_as_the_knobs_say() {
    let knobs = TreeKnobs { scope: Scope::IntraL0, intra_l0_from: 6, ..options().knobs() };
    let begins = |runs: usize| {
        with_levels_view(&sizes(&"10 ".repeat(runs)), |levels_view| crate::pick::pick(levels_view, knobs, &options()))
            .is_some()
    };
    assert_eq!([4, 5, 6, 7].map(begins), [false, false, true, true]);
}

#[test]
fn a_merge_of_more_runs_than_fan_in_stays_within_the_bytes_it_is_given() {
    let ask = |drawing: &str, bytes_max| {
        span(with_levels_view(&sizes(drawing), |levels_view| pick(levels_view, 4, bytes_max, &options())))
    };
    assert_eq!(ask("16 16 16 16 16 16", 96), Some((0, 5)));
    assert_eq!(ask("16 16 16 16 16 16", 95), Some((1, 5)));
    assert_eq!(ask("16 16 16 16 16 16", 0), Some((2, 5)), "the fewest runs may always be merged");
    assert_eq!(ask("400 400 400 400", u64::MAX), None, "but for the options' bound");
}

#[test]
fn from_fan_in_runs_on_level_0_may_be_merged() {
    assert_eq!(ask("16 16 16", 4), None);
    assert_eq!(ask("16 16 16 16", 4), Some((0, 3)));
    assert_eq!(ask("16 16 16 16 16 16", 4), Some((0, 5)), "the more runs, the cheaper is each");
    assert_eq!(ask("16 16 16 16 16 16", 7), None);
}

#[test]
fn a_batch_never_crosses_a_claimed_run() {
    assert_eq!(ask("16 16 16 16! 16 16 16", 4), None);
    assert_eq!(ask("16 16 16! 16 16 16 16", 4), Some((3, 6)));
    assert_eq!(ask("16 16 16 16 16! 16 16 16 16", 4), Some((5, 8)), "of equals the older");
}

#[test]
fn a_giant_is_not_rewritten_for_a_few_small_runs() {
    assert_eq!(ask("16 16 16 64", 4), None, "the fourth small one will come");
    assert_eq!(ask("16 16 16 16 64 64", 4), Some((0, 3)));
    assert_eq!(ask("16 16 64 64 64 64", 4), Some((0, 3)));
    assert_eq!(ask("1 64 64 64 64", 4), Some((0, 4)), "64.25 bytes for each of four, not 85 for each of three");
}

#[test]
fn close_to_the_slowdown_a_giant_is_better_rewritten_than_waited_for() {
    let claimed = "9! ".repeat(13);
    assert_eq!(ask(&format!("16 16 16 64 {claimed}"), 4), None, "17 runs");
    assert_eq!(ask(&format!("16 16 16 64 9! {claimed}"), 4), Some((0, 3)), "18 of 20");
}

#[test]
fn a_batch_is_bounded() {
    assert_eq!(ask("300 300 300 300", 4), None);
    assert_eq!(ask("300 300 300 300", 2), Some((1, 3)));
}

proptest! {
    #[test]
    fn every_answer_is_a_contiguous_batch_of_free_runs(
        sizes in proptest::collection::vec((1_u64..200, any::<bool>()), 0..24),
        fan_in in 2_usize..6,
    ) {
        let Some(pick) = with_levels_view(&sizes, |levels_view| pick(levels_view, fan_in, u64::MAX, &options())) else { return Ok(()) };
        let ids: Vec<u64> = pick.inputs.iter().map(|(_, id)| *id).collect();
        prop_assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
        prop_assert!(ids.iter().all(|&id| !sizes[id as usize].1), "{ids:?}");
        let bytes: u64 = ids.iter().map(|&id| sizes[id as usize].0).sum();
        let largest = ids.iter().map(|&id| sizes[id as usize].0).max().unwrap_or(0);
        prop_assert!(ids.len() >= fan_in && bytes <= 1_000);
        prop_assert!(2 * largest <= bytes || sizes.len() >= 18);
    }
}
