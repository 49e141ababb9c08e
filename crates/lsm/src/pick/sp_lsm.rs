//! A tree without level 0: memtables are merged straight into level 1 (CruiseDB's SP-LSM-tree, CR-14 to CR-17).
//!
//! 1. All memtables that wait go at once, with every table of level 1 that they overlap: level 1 is rewritten once for
//!    all of them. Runs that an earlier picker has left in level 0 go with them, for they are newer than level 1.
//! 2. A level of more than [`TOO_LARGE`] times its target goes first: anything merged into it would be merged once more
//!    with all of that level. Memtables wait meanwhile, which is why such a tree has many.
//! 3. Otherwise memtables go first: while they wait, no other job takes a table from level 1, or they would wait for
//!    ever.

use weir_io::Nanos;
use weir_model::engine::{Scope, TreeKnobs, Urgency};

use super::leveled::{overlapping, pick_deep, pick_l0, reclaim, scores};
use super::{Gathering, LevelsView, Means, Pick, Picker, Waiting};
use crate::options::TreeOptions;
use crate::version::{LEVELS, TableMeta};

/// A level of more than this many times its target goes before memtables (CR-17).
const TOO_LARGE: u64 = 5;

/// How long memtables that fill slowly wait for one another, in nanoseconds: each merge rewrites level 1.
const GATHER_NANOS_MAX: Nanos = 600_000_000_000;

/// The picker of a tree without level 0, by the rules of this module.
#[derive(Clone, Copy, Debug)]
pub struct SpLsm;

impl Picker for SpLsm {
    /// A flush waits for half of the memtables, or for as many as the knob says if these are more.
    fn gathering(&self, knobs: &TreeKnobs) -> Gathering {
        Gathering { memtables: knobs.flush_gather.max(knobs.write_buffers / 2), nanos_max: GATHER_NANOS_MAX }
    }

    fn merges_memtables(&self) -> bool {
        true
    }

    fn flush(&self, levels_view: &LevelsView<'_>, waiting: Waiting<'_>, options: &TreeOptions) -> Option<Pick> {
        if must_wait(levels_view, options) { None } else { merge(levels_view, waiting) }
    }

    fn compaction(&self, levels_view: &LevelsView<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick> {
        let scores = scores(levels_view, options);
        let memtables_first = levels_view.flush_is_due && !must_wait(levels_view, options);
        // Runs that an earlier picker has left in level 0, and that no memtable takes along.
        let runs_are_left = scores[0] > 0.0 && !memtables_first;
        if runs_are_left && let Some(pick) = pick_l0(levels_view, scope, options) {
            return Some(pick);
        }
        let is_waited_for = runs_are_left || memtables_first;
        let reclaim = || if is_waited_for { None } else { reclaim::pick(levels_view, scope, options) };
        if scope == Scope::L0ToL1 {
            return if levels_view.urgency > Urgency::Idle { reclaim() } else { None };
        }
        pick_deep(levels_view, if is_waited_for { 2 } else { 1 }, &scores).or_else(reclaim)
    }
}

/// Rule 2. Memtables wait even while writes are about to stop. When they were merged into a level that large,
/// `weir sim steady` did 13,000 operations a second where waiting did 22,000, and the longest wait was twice as long.
fn must_wait(levels_view: &LevelsView<'_>, options: &TreeOptions) -> bool {
    levels_view.memtables_may_wait && is_too_large(levels_view, options)
}

/// Whether some level is so large that it goes before memtables.
fn is_too_large(levels_view: &LevelsView<'_>, options: &TreeOptions) -> bool {
    // The last level has nowhere to go.
    (1..LEVELS - 1).any(|level| {
        let bytes: u64 = levels_view.levels[level].iter().map(|table| table.bytes).sum();
        bytes > options.level_bytes_target(level).saturating_mul(TOO_LARGE)
    })
}

/// The merge of `waiting` into level 1, or `None` if running jobs are in its way.
fn merge(levels_view: &LevelsView<'_>, waiting: Waiting<'_>) -> Option<Pick> {
    let runs = &levels_view.levels[0];
    let (mut lo, mut hi) = (waiting.smallest, waiting.largest);
    for run in runs {
        (lo, hi) = (lo.min(&run.smallest), hi.max(&run.largest));
    }
    let lower = overlapping(&levels_view.levels[1], lo, hi);
    for table in &lower {
        (lo, hi) = (lo.min(&table.smallest), hi.max(&table.largest));
    }
    let is_claimed = |table: &&TableMeta| levels_view.claims.tables.contains(&table.id);
    if runs.iter().chain(&lower).any(is_claimed) || !levels_view.claims.is_free(1, lo, hi) {
        return None;
    }
    let inputs = runs.iter().map(|run| (0, run.id)).chain(lower.iter().map(|table| (1, table.id)));
    Some(Pick {
        level: 0,
        output_level: 1,
        inputs: inputs.collect(),
        means: Means::Merge,
        reclaims: false,
        smallest: lo.into(),
        largest: hi.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PickerKind;
    use crate::pick::Claims;
    use crate::pick::leveled::tests::with_levels;

    const OPTIONS: fn() -> TreeOptions =
        || TreeOptions { level1_bytes: 100, level_factor: 10, picker: PickerKind::SpLsm, ..TreeOptions::default() };

    fn inputs(drawing: &[&str], claimed: &[u64]) -> Option<Vec<(usize, u64)>> {
        let claims = Claims { tables: claimed.iter().copied().collect(), ranges: Vec::new() };
        let waiting = Waiting { smallest: b"d", largest: b"m" };
        with_levels(drawing, &claims, Urgency::Idle, |view| {
            SpLsm.flush(view, waiting, &OPTIONS()).map(|pick| pick.inputs)
        })
    }

    #[test]
    fn memtables_take_all_that_they_overlap_in_level_1() {
        assert_eq!(inputs(&["", "1:a-c 2:c-e 3:f-g 4:n-p"], &[]), Some(vec![(1, 2), (1, 3)]));
        assert_eq!(inputs(&["", ""], &[]), Some(vec![]));
        assert_eq!(inputs(&["", "1:a-c 2:c-e"], &[2]), None, "a running job has one of them");
        assert_eq!(
            inputs(&["7:a-b 6:x-z", "1:a-c 4:n-p 5:y-z"], &[]),
            Some(vec![(0, 7), (0, 6), (1, 1), (1, 4), (1, 5)])
        );
    }

    #[test]
    fn only_a_level_of_more_than_five_times_its_target_goes_first() {
        let is = |drawing: &[&str]| {
            with_levels(drawing, &Claims::default(), Urgency::Idle, |view| is_too_large(view, &OPTIONS()))
        };
        assert!(!is(&["", "1:a-c*490"]) && is(&["", "1:a-c*510"]));
        assert!(!is(&["", "1:a-c*100", "2:a-c*4900"]) && is(&["", "", "2:a-c*5100"]));
    }

    #[test]
    fn while_memtables_wait_nobody_takes_a_table_from_level_1() {
        let level = |flush_is_due| {
            with_levels(&["", "1:a-c*200", "2:a-c*1100"], &Claims::default(), Urgency::Idle, |view| {
                view.flush_is_due = flush_is_due;
                SpLsm.compaction(view, Scope::All, &OPTIONS()).map(|pick| pick.level)
            })
        };
        assert_eq!((level(false), level(true)), (Some(1), Some(2)));
    }

    #[test]
    fn runs_that_are_left_in_level_0_go_down_alone_where_no_memtable_takes_them() {
        let level = |flush_is_due| {
            with_levels(&["7:a-z", "1:a-c*10"], &Claims::default(), Urgency::Idle, |view| {
                view.flush_is_due = flush_is_due;
                SpLsm.compaction(view, Scope::All, &OPTIONS()).map(|pick| (pick.level, pick.output_level))
            })
        };
        assert_eq!((level(false), level(true)), (Some((0, 1)), None));
    }

    #[test]
    fn nothing_is_reclaimed_from_level_1_while_memtables_wait() {
        // A quarter of the table has expired.
        let options = TreeOptions { level1_bytes: 20, table_bytes: 256, ..OPTIONS() };
        let reclaims = |flush_is_due| {
            with_levels(&["", "1:a-h*16^4 2:i-z*2"], &Claims::default(), Urgency::Near, |view| {
                view.flush_is_due = flush_is_due;
                SpLsm.compaction(view, Scope::All, &options).is_some_and(|pick| pick.reclaims)
            })
        };
        assert_eq!((reclaims(false), reclaims(true)), (true, false));
    }
}
