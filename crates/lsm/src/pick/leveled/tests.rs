//! Draw a tree, ask for the pick, read the answer.

use std::sync::Arc;

use weir_model::engine::{Counter, TreeKnobs};

use super::*;
use crate::pick::covered::Covered;

/// The time that the wall clock shows.
const NOW_MS: u64 = 1_000;

/// Draws a table: `"id:from-to"` with an optional `*bytes` (default 10), which are its entries, `!tombstones` among
/// them, and `^expired` ones. What [`covered`] reads may follow.
pub(crate) fn table(text: &str) -> TableMeta {
    let (text, _) = text.split_once('&').unwrap_or((text, ""));
    let (text, expired) = text.split_once('^').unwrap_or((text, "0"));
    let expired: u64 = expired.parse().expect("a number");
    let mut counter = Counter::new(NOW_MS);
    if expired > 0 {
        counter.add(NOW_MS, expired);
    }
    let (text, tombstones) = text.split_once('!').unwrap_or((text, "0"));
    let (text, bytes) = text.split_once('*').unwrap_or((text, "10"));
    let (id, range) = text.split_once(':').expect("id:from-to");
    let (from, to) = range.split_once('-').expect("from-to");
    let id = id.parse().expect("a number");
    TableMeta {
        id,
        epoch: id,
        bytes: bytes.parse().expect("a number"),
        digest: 0,
        entries: bytes.parse().expect("a number"),
        tombstones: tombstones.parse().expect("a number"),
        expiring: expired,
        smallest_seq: 1,
        largest_seq: 1,
        smallest: from.as_bytes().into(),
        largest: to.as_bytes().into(),
        raw_bytes: bytes.parse().expect("a number"),
        tombstone_bytes: tombstones.parse().expect("a number"),
        deadlines: counter.finish(),
    }
}

/// Draws what is covered: `&bytes` behind a table.
fn covered(drawing: &[&str]) -> Covered {
    let drawn = drawing.iter().flat_map(|level| level.split_whitespace()).filter_map(|text| text.split_once('&'));
    Covered::by_table(drawn.map(|(text, bytes)| (table(text).id, bytes.parse().expect("a number"))))
}

/// Answers with `"level->output: ids"`, `"move …"`, or `"nothing"`.
fn ask(drawing: &[&str], claimed: &[u64], scope: Scope) -> String {
    ask_while(false, drawing, claimed, scope, Urgency::Idle)
}

/// Like [`ask`], while more runs are on their way to level 0.
fn ask_while_filling(drawing: &[&str]) -> String {
    ask_while(true, drawing, &[], Scope::All, Urgency::Idle)
}

/// Like [`ask`], in a tree that needs space with this urgency.
fn ask_if(urgency: Urgency, drawing: &[&str], scope: Scope) -> String {
    ask_while(false, drawing, &[], scope, urgency)
}

/// Asks about the tree that is drawn.
pub(crate) fn with_levels<T>(
    drawing: &[&str],
    claims: &Claims,
    urgency: Urgency,
    ask: impl FnOnce(&mut LevelsView<'_>) -> T,
) -> T {
    let tables: Vec<Vec<TableMeta>> =
        drawing.iter().map(|level| level.split_whitespace().map(table).collect()).collect();
    let levels = std::array::from_fn(|level| tables.get(level).map_or(Vec::new(), |tables| tables.iter().collect()));
    let covered = Arc::new(covered(drawing));
    let (is_filling, flush_is_due, memtables_may_wait) = (false, false, true);
    ask(&mut LevelsView {
        levels,
        claims,
        is_filling,
        flush_is_due,
        memtables_may_wait,
        now_ms: NOW_MS,
        horizon: 1,
        covered,
        urgency,
        disk_is_full: false,
    })
}

fn ask_while(is_filling: bool, drawing: &[&str], claimed: &[u64], scope: Scope, urgency: Urgency) -> String {
    ask_of(TreeOptions::default(), is_filling, drawing, claimed, scope, urgency)
}

/// Like [`ask`], in a tree whose fullest level goes first.
fn ask_by_score(drawing: &[&str], claimed: &[u64], scope: Scope) -> String {
    let options = TreeOptions { picks_by_score: true, ..TreeOptions::default() };
    ask_of(options, false, drawing, claimed, scope, Urgency::Idle)
}

fn ask_of(
    options: TreeOptions,
    is_filling: bool,
    drawing: &[&str],
    claimed: &[u64],
    scope: Scope,
    urgency: Urgency,
) -> String {
    let claims = Claims { tables: claimed.iter().copied().collect(), ranges: Vec::new() };
    let options =
        TreeOptions { l0_trigger: 2, l0_gather: 4, level1_bytes: 20, level_factor: 10, table_bytes: 256, ..options };
    let pick = with_levels(drawing, &claims, urgency, |view| {
        view.is_filling = is_filling;
        crate::pick::pick(view, TreeKnobs { scope, ..options.knobs() }, &options)
    });
    let Some(pick) = pick else { return "nothing".into() };
    let ids: Vec<String> = pick.inputs.iter().map(|(level, id)| format!("L{level}.{id}")).collect();
    let verb = if pick.means == Means::Move { "move " } else { "" };
    format!("{verb}{}->{}: {}", pick.level, pick.output_level, ids.join(" "))
}

#[test]
fn nothing_is_due_in_a_tree_of_the_right_shape() {
    assert_eq!(ask(&["9:a-z", "1:a-h 2:i-z"], &[], Scope::All), "nothing");
}

#[test]
fn all_runs_of_level_0_go_down_with_what_they_overlap() {
    assert_eq!(ask(&["9:c-e 8:d-k", "1:a-b 2:c-f 3:g-l 4:m-z"], &[], Scope::All), "0->1: L0.9 L0.8 L1.2 L1.3");
}

#[test]
fn runs_gather_while_more_are_coming() {
    assert_eq!(ask_while_filling(&["9:a-z*9 8:a-z*9", "1:a-z"]), "nothing", "18 bytes for 10 are not enough");
    assert_eq!(ask_while_filling(&["9:a-z*11 8:a-z*11", "1:a-z"]), "0->1: L0.9 L0.8 L1.1");
    let long = "9:a-z*1 8:a-z*1 7:a-z*1 6:a-z*1";
    assert_eq!(ask_while_filling(&[long, "1:a-z"]), "0->1: L0.9 L0.8 L0.7 L0.6 L1.1", "never more than l0_gather");
    assert_eq!(ask_while_filling(&["9:a-z*1 8:a-z*1", "1:a-z*25"]), "move 1->2: L1.1", "level 1 uses the time");
}

#[test]
fn what_would_overfill_level_1_goes_through_to_a_small_level_2() {
    assert_eq!(ask(&["9:a-z*30 8:a-z*30", "1:a-k", "2:a-h 3:k-z"], &[], Scope::All), "0->2: L0.9 L0.8 L1.1 L2.2 L2.3");
    let large = ask(&["9:a-z*30 8:a-z*30", "1:a-k", "2:a-h*90 3:k-z*90"], &[], Scope::All);
    assert_eq!(large, "0->1: L0.9 L0.8 L1.1", "level 2 is too large to be rewritten for this");
    let busy = ask(&["9:a-z*30 8:a-z*30", "1:a-k", "2:a-h 3:k-z"], &[3], Scope::All);
    assert_eq!(busy, "0->1: L0.9 L0.8 L1.1", "somebody else has a table of level 2");
}

#[test]
fn disjoint_runs_in_the_gaps_of_level_1_are_moved() {
    assert_eq!(ask(&["9:x-z 8:c-d", "1:a-b 2:e-f"], &[], Scope::All), "move 0->1: L0.9 L0.8");
}

#[test]
fn level_0_waits_for_a_claimed_table_and_nobody_else_takes_one_from_level_1() {
    let tree = ["9:a-z 8:a-z", "1:a-h*15 2:i-z*15", "3:a-z*200"];
    assert_eq!(ask(&tree, &[1], Scope::All), "nothing");
    assert_eq!(ask(&tree, &[], Scope::All), "0->1: L0.9 L0.8 L1.1 L1.2");
}

#[test]
fn a_deep_level_gives_the_table_that_drags_in_least() {
    assert_eq!(ask(&["", "1:a-h*15 2:i-z*15", "3:a-d*50 4:e-k*30 5:l-z*10"], &[], Scope::All), "1->2: L1.2 L2.4 L2.5");
    assert_eq!(ask(&["", "1:a-h*15 2:i-z*15", "3:a-d*50 4:e-k*30"], &[2], Scope::All), "nothing");
}

#[test]
fn a_table_over_nothing_is_moved() {
    assert_eq!(ask(&["", "1:a-h*15 2:i-z*15", "3:a-d*50"], &[], Scope::All), "move 1->2: L1.2");
}

#[test]
fn scope_forbids_what_deferral_defers() {
    let tree = ["9:a-b", "1:a-h*15 2:i-z*15"];
    assert_eq!(ask(&tree, &[], Scope::L0ToL1), "nothing");
    assert_eq!(ask(&["9:a-z 8:a-z", ""], &[], Scope::L0ToL1), "0->1: L0.9 L0.8");
    assert_eq!(ask(&["9:a-z 8:a-z", ""], &[], Scope::IntraL0), "nothing", "two runs are too few");
    let four = ["9:a-z 8:a-z 7:a-z 6:a-z", ""];
    assert_eq!(ask(&four, &[], Scope::IntraL0), "0->0: L0.9 L0.8 L0.7 L0.6");
}

#[test]
fn the_oldest_runs_go_down_while_newer_ones_are_merged_with_one_another() {
    let tree = ["9:a-z 8:a-z 7:a-z 6:a-z", "1:a-z"];
    assert_eq!(ask(&tree, &[9, 8], Scope::L0ToL1), "0->1: L0.7 L0.6 L1.1");
    assert_eq!(ask(&tree, &[9, 8, 7], Scope::L0ToL1), "nothing", "one run is not worth it");
    assert_eq!(ask(&tree, &[7], Scope::L0ToL1), "nothing", "6 alone is not worth it, and 9 would pass 7");
}

#[test]
fn few_giants_are_due_like_many_small_runs() {
    // Two memtables of 64 MiB are the trigger here.
    assert_eq!(ask(&["9:a-z*134217727", "1:a-z"], &[], Scope::All), "nothing");
    assert_eq!(ask(&["9:a-z*134217728", "1:a-z"], &[], Scope::L0ToL1), "0->1: L0.9 L1.1");
}

#[test]
fn what_has_piled_up_goes_down_step_by_step_the_oldest_first() {
    let giga = 1 << 30;
    let tree = [&*format!("9:a-z*{giga} 8:a-z*{giga} 7:a-z*{giga}"), "1:a-z"];
    assert_eq!(ask(&tree, &[], Scope::L0ToL1), "0->1: L0.8 L0.7 L1.1", "2 GiB at a time");
    let large = [tree[0], &*format!("1:a-z*{}", 3_u64 << 30)];
    let all = "0->1: L0.9 L0.8 L0.7 L1.1";
    assert_eq!(ask(&large, &[], Scope::L0ToL1), all, "as much as is rewritten of level 1");
}

#[test]
fn tables_go_down_for_their_tombstones_where_that_frees_half_of_what_it_rewrites() {
    assert_eq!(ask(&["9:a-z*5!5", "1:a-h*5 2:i-z*5"], &[], Scope::All), "0->1: L0.9 L1.1 L1.2");
    assert_eq!(ask(&["9:a-z*5!2", "1:a-h*5 2:i-z*5"], &[], Scope::All), "nothing", "2 of 15 bytes");
    assert_eq!(ask(&["9:a-z*5!5", "1:a-z*9"], &[], Scope::L0ToL1), "nothing", "not while compactions are put off");
    assert_eq!(ask_while_filling(&["9:a-z*5!5", "1:a-z*9"]), "nothing", "more is coming");
    assert_eq!(
        ask(&["", "1:a-k*5!5 2:l-z*5", "", "3:a-z*100"], &[], Scope::All),
        "move 1->2: L1.1",
        "down to what they delete"
    );
    assert_eq!(ask(&["", "1:a-k*5!5", "", "3:a-z*100"], &[1], Scope::All), "nothing", "somebody has it");
    assert_eq!(
        ask(&["", "", "1:a-k*5!5 2:l-z*5"], &[], Scope::All),
        "2->2: L2.1",
        "nothing lies below: rewritten, they are gone"
    );
    let last = ["", "", "", "", "", "", "1:a-k*5!5"];
    assert_eq!(ask(&last, &[], Scope::All), "6->6: L6.1", "the last level, too");
}

#[test]
fn what_has_expired_is_merged_away_where_a_third_of_the_tree_is_dead() {
    let third = ["", "1:a-h*6^3 2:i-z*6^2"];
    assert_eq!(ask(&third, &[], Scope::All), "1->1: L1.1", "the table that frees most");
    assert_eq!(ask(&third, &[1], Scope::All), "1->1: L1.2");
    assert_eq!(ask(&["", "1:a-h*6^2 2:i-z*6^2"], &[], Scope::All), "nothing", "just a third");
    assert_eq!(ask(&third, &[], Scope::L0ToL1), "nothing", "it is put off like other deep compactions");
    assert_eq!(ask(&["9:a-z*5^5", "1:a-z*5^1"], &[], Scope::All), "0->1: L0.9 L1.1");
}

#[test]
fn what_is_covered_goes_where_it_is() {
    assert_eq!(ask(&["", "1:a-h*10&5 2:i-z*10&4"], &[], Scope::All), "1->1: L1.1");
    assert_eq!(ask(&["", "1:a-h*10&5 2:i-z*10&4"], &[1], Scope::All), "1->1: L1.2", "a third of the tree is dead");
    assert_eq!(ask(&["", "1:a-h*10&3 2:i-z*10&3"], &[], Scope::All), "nothing", "less is");
    assert_eq!(ask(&["", "1:a-z*10&5", "2:a-z*50"], &[], Scope::All), "1->1: L1.1", "whatever lies below");
    assert_eq!(ask(&["", "1:a-z*10!9&5", "2:a-z*10"], &[], Scope::All), "1->2: L1.1 L2.2", "that frees more");
    assert_eq!(ask(&["9:a-z*10&5", "1:a-z*20"], &[], Scope::All), "0->0: L0.9", "in level 0, too");
    assert_eq!(ask_while_filling(&["9:a-z*10&5", "1:a-z*20"]), "nothing", "it will go down soon");
    assert_eq!(ask(&["9:a-z*10&5", "1:a-z*20"], &[], Scope::L0ToL1), "nothing", "it is put off");
    assert_eq!(ask(&["9:a-z*4", "1:a-z*10&8"], &[], Scope::All), "1->1: L1.1", "not with what lies above");
}

#[test]
fn who_is_short_of_space_rewrites_more_for_less() {
    let tree = ["", "1:a-h*16^4 2:i-z*2"];
    assert_eq!(ask_if(Urgency::Idle, &tree, Scope::All), "nothing");
    assert_eq!(ask_if(Urgency::Near, &tree, Scope::All), "1->1: L1.1");
    assert_eq!(ask_if(Urgency::Near, &tree, Scope::L0ToL1), "1->1: L1.1", "its writes would be refused");
    assert_eq!(ask_if(Urgency::Near, &tree, Scope::IntraL0), "nothing");
    let overwritten = ["9:a-z*2", "1:a-h*5 2:i-z*5"];
    assert_eq!(ask_if(Urgency::Near, &overwritten, Scope::All), "nothing", "nobody knows of anything dead");
    assert_eq!(ask_if(Urgency::Full, &overwritten, Scope::All), "0->1: L0.9 L1.1 L1.2", "it may be");
    assert_eq!(ask_if(Urgency::Full, &["", "1:a-h*5 2:i-z*5"], Scope::All), "nothing", "nothing overlaps: it is not");
}

#[test]
fn the_fullest_level_goes_first_where_that_is_asked_for() {
    // Scores: 2 runs of 2; 50 and 70 bytes of 20.
    let (short, long) = ("9:a-z 8:a-z", "9:a-z 8:a-z 7:a-z 6:a-z 5:a-z 4:a-z 3:a-z 10:a-z");
    let level_1 = "1:a-k*50 2:l-z*20";
    assert_eq!(ask(&[short, level_1], &[], Scope::All), "0->1: L0.9 L0.8 L1.1 L1.2");
    assert_eq!(ask_by_score(&[short, level_1], &[], Scope::All), "move 1->2: L1.1");
    assert_eq!(ask_by_score(&[short, level_1], &[1], Scope::All), "nothing", "it waits for the table");
    assert!(ask_by_score(&[long, level_1], &[], Scope::All).starts_with("0->1: L0.9"), "its score is 4");
    assert_eq!(ask_by_score(&[long, level_1], &[1], Scope::All), "nothing", "no other takes one from level 1");
    assert_eq!(ask_by_score(&[short, level_1], &[], Scope::L0ToL1), "0->1: L0.9 L0.8 L1.1 L1.2");
}
