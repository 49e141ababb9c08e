//! Rule 6: what was deleted makes room, even where no level is too large.
//!
//! A tombstone frees nothing before it meets what it deletes, and sizes alone may never bring them together: a user who deletes all of a
//! level's data adds next to nothing to the one above. So tables go down for their tombstones where that frees at least half of what it
//! rewrites, by the mean size of the entries below them; in a tree where that guess is wrong (what is deleted is gone already) it costs a
//! rewrite for each level at most, as the table goes down by one each time.

use super::{Pick, Picture, TableMeta, assemble, bytes, is_claimed, is_gathering, overlapping, pick_l0};
use crate::options::TreeOptions;
use crate::pick::Scope;
use crate::version::LEVELS;

/// The compaction that frees most for each byte that it rewrites, if any frees enough.
pub(super) fn pick(picture: &Picture<'_>, options: &TreeOptions) -> Option<Pick> {
    let deep = (1..LEVELS - 1).flat_map(|level| picture.levels[level].iter().map(move |&table| (level, table)));
    let deep = deep.filter(|(_, table)| table.tombstones > 0 && !is_claimed(picture.claims, &[table]));
    let mut worth: Vec<(f64, usize, &TableMeta)> =
        deep.filter_map(|(level, table)| Some((gain(picture, level, &[table])?, level, table))).collect();
    let runs = &picture.levels[0];
    let level_0 = if is_gathering(picture, options) { None } else { gain(picture, 0, runs) };
    worth.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.id.cmp(&b.2.id)));
    let best = worth.first().map_or(0.0, |best| best.0);
    if level_0.is_some_and(|gain| gain >= best)
        && let Some(pick) = pick_l0(picture, Scope::All, options)
    {
        return Some(pick);
    }
    worth.into_iter().find_map(|(_, level, table)| {
        let lower = overlapping(&picture.levels[level + 1], &table.smallest, &table.largest);
        let is_above = lies_above(picture, level + 1, table);
        assemble(level + 1, &[(level, &[table]), (level + 1, &lower)], picture.claims, lower.is_empty() && is_above)
    })
}

/// Bytes freed for each byte rewritten when `tables` of `level` go down; `None` if that is too little.
fn gain(picture: &Picture<'_>, level: usize, tables: &[&TableMeta]) -> Option<f64> {
    let sum = |of: fn(&TableMeta) -> u64| tables.iter().map(|table| of(table)).sum::<u64>() as f64;
    let (own, tombstones) = (bytes(tables) as f64, sum(|table| table.tombstones));
    if tombstones == 0.0 {
        return None;
    }
    let (lo, hi) = super::bounds(tables.iter().copied())?;
    let below = |level: usize| overlapping(&picture.levels[level], lo, hi);
    let (mut deep_bytes, mut deep_entries) = (0.0, 0.0);
    for level in level + 1..LEVELS {
        for table in below(level) {
            deep_bytes += table.bytes as f64;
            deep_entries += table.entries as f64;
        }
    }
    let mean = if deep_entries > 0.0 { deep_bytes / deep_entries } else { 0.0 };
    let freed = (tombstones * mean).min(deep_bytes) + own * tombstones / sum(|table| table.entries).max(1.0);
    let gain = freed / (own + bytes(&below(level + 1)) as f64).max(1.0);
    (gain >= 0.5).then_some(gain)
}

/// Whether something that `table` may delete lies in `level` or deeper: where nothing does, its tombstones are dropped by rewriting it.
fn lies_above(picture: &Picture<'_>, level: usize, table: &TableMeta) -> bool {
    (level..LEVELS).any(|level| !overlapping(&picture.levels[level], &table.smallest, &table.largest).is_empty())
}
