//! Leveled compaction: each level holds `level_factor` times the one above.
//!
//! 1. The score of level 0 is its number of runs divided by the trigger, or its bytes divided by its target if that is
//!    more: merges within level 0 leave few but large runs. Its target is that of level 1, or the bytes of as many full
//!    memtables as the trigger has runs, whichever is more. The score of a deeper level is its bytes divided by its
//!    target. A compaction is due above a score of 1, for level 0 already at 1.
//! 2. Level 0 goes first, with all its runs at once, so that level 1 is rewritten once for all of them. While more runs
//!    keep coming, level 0 waits for them until it has twice the bytes that it would rewrite, or `l0_gather` runs:
//!    rewriting 256 MiB of level 1 for 4 runs of 64 MiB costs 2 bytes per byte, for 10 runs 1.4. Where jobs merge newer
//!    runs with one another, or level 0 has become very large, only its oldest runs go: the runs that stay above are
//!    newer than all that go. With [`TreeOptions::picks_by_score`], levels with a higher score go before level 0.
//! 3. Where level 0 would overfill level 1, and level 2 is small, it goes through to level 2 at once: that writes fewer
//!    bytes than merging into level 1 and then pushing the excess down.
//! 4. Then the level with the highest score gives one table: the one that drags in the fewest bytes of the next level
//!    for each of its own bytes, because write amplification is made of those bytes.
//! 5. Inputs that overlap nothing in the next level are moved, not rewritten.
//! 6. Where none of this is due, tables are merged for the space that a merge frees ([`reclaim`]).

pub(super) mod reclaim;

use weir_io::Nanos;
use weir_model::engine::{Scope, TreeKnobs, Urgency};

use super::{Claims, Gathering, LevelsView, Means, Pick, Picker, Waiting};
use crate::options::TreeOptions;
use crate::version::{LEVELS, TableMeta};

/// Scores of all levels, by rule 1. Tables that running jobs take away do not count.
pub fn scores(levels_view: &LevelsView<'_>, options: &TreeOptions) -> [f64; LEVELS] {
    std::array::from_fn(|level| {
        let idle = levels_view.levels[level].iter().filter(|table| !levels_view.claims.tables.contains(&table.id));
        score(level, idle.clone().count(), idle.map(|table| table.bytes).sum(), options)
    })
}

/// The score of `level` by rule 1, if it holds `tables` tables of `bytes` bytes that no job takes away.
pub fn score(level: usize, tables: usize, bytes: u64, options: &TreeOptions) -> f64 {
    let of_target = bytes as f64 / bytes_target(level, options) as f64;
    match level {
        0 => of_target.max(tables as f64 / options.l0_trigger as f64),
        _ => of_target,
    }
}

/// Bytes that `level` should hold, by rule 1.
pub fn bytes_target(level: usize, options: &TreeOptions) -> u64 {
    match level {
        0 => options.level1_bytes.max(options.l0_trigger as u64 * options.write_buffer_bytes as u64),
        _ => options.level_bytes_target(level),
    }
}

/// Memtables gather for at most this long before a flush writes them, in nanoseconds. The policy `weir` relies on it in
/// `admission/src/policy/deferral/weir/gather.rs`.
const GATHER_NANOS_MAX: Nanos = 60_000_000_000;

/// The picker of leveled compaction, by the rules of this module.
#[derive(Clone, Copy, Debug)]
pub struct Leveled;

impl Picker for Leveled {
    fn gathering(&self, knobs: &TreeKnobs) -> Gathering {
        Gathering { memtables: knobs.flush_gather, nanos_max: GATHER_NANOS_MAX }
    }

    fn merges_memtables(&self) -> bool {
        false
    }

    /// Memtables become a run of level 0, and need no table for that.
    fn flush(&self, _: &LevelsView<'_>, waiting: Waiting<'_>, _: &TreeOptions) -> Option<Pick> {
        Some(Pick::run_of(waiting))
    }

    fn compaction(&self, levels_view: &LevelsView<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick> {
        let scores = scores(levels_view, options);
        let l0_due = scores[0] >= 1.0 && !is_gathering(levels_view, options);
        let l0_first = l0_due && (scope != Scope::All || !options.picks_by_score || is_highest(&scores));
        if l0_first && let Some(pick) = pick_l0(levels_view, scope, options) {
            return Some(pick);
        }
        if scope == Scope::L0ToL1 {
            let is_urgent = levels_view.urgency > Urgency::Idle && !l0_due;
            return if is_urgent { reclaim::pick(levels_view, scope, options) } else { None };
        }
        // While level 0 waits for a table of level 1, no other job may take one from level 1: level 0 would wait for
        // ever.
        let deep = pick_deep(levels_view, if l0_first { 2 } else { 1 }, &scores);
        deep.or_else(|| match (l0_due, l0_first) {
            (true, true) => None,
            (true, false) => pick_l0(levels_view, scope, options),
            (false, _) => reclaim::pick(levels_view, scope, options),
        })
    }
}

/// Whether no deeper level has a higher score than level 0.
fn is_highest(scores: &[f64; LEVELS]) -> bool {
    scores[1..LEVELS - 1].iter().all(|score| *score <= scores[0])
}

/// Rule 2: whether level 0 should wait for more runs.
fn is_gathering(levels_view: &LevelsView<'_>, options: &TreeOptions) -> bool {
    let [l0, l1] = [0, 1].map(|level| bytes(&levels_view.levels[level]));
    levels_view.is_filling && levels_view.levels[0].len() < options.l0_gather && l0 < 2 * l1
}

pub(super) fn bounds<'a>(tables: impl Iterator<Item = &'a TableMeta> + Clone) -> Option<(&'a [u8], &'a [u8])> {
    let lo = tables.clone().map(|table| &*table.smallest).min()?;
    let hi = tables.map(|table| &*table.largest).max()?;
    Some((lo, hi))
}

pub(super) fn overlapping<'a>(tables: &[&'a TableMeta], lo: &[u8], hi: &[u8]) -> Vec<&'a TableMeta> {
    let begin = tables.partition_point(|table| &*table.largest < lo);
    let end = tables.partition_point(|table| &*table.smallest <= hi);
    tables.get(begin..end).unwrap_or_default().to_vec()
}

fn is_claimed(claims: &Claims, tables: &[&TableMeta]) -> bool {
    tables.iter().any(|table| claims.tables.contains(&table.id))
}

/// The pick of `inputs` (by level) into `output_level`, unless running jobs are in the way.
fn assemble(output_level: usize, inputs: &[(usize, &[&TableMeta])], claims: &Claims, means: Means) -> Option<Pick> {
    let (lo, hi) = bounds(inputs.iter().flat_map(|(_, tables)| tables.iter().copied()))?;
    if inputs.iter().any(|(_, tables)| is_claimed(claims, tables)) || !claims.is_free(output_level, lo, hi) {
        return None;
    }
    let level = inputs.first()?.0;
    let ids = inputs.iter().flat_map(|(level, tables)| tables.iter().map(|table| (*level, table.id)));
    let (inputs, smallest, largest) = (ids.collect(), lo.into(), hi.into());
    Some(Pick { level, output_level, inputs, means, reclaims: false, smallest, largest })
}

fn bytes(tables: &[&TableMeta]) -> u64 {
    tables.iter().map(|table| table.bytes).sum()
}

pub(super) fn pick_l0(levels_view: &LevelsView<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick> {
    let runs = oldest_free(levels_view, options)?;
    let (lo, hi) = bounds(runs.iter().copied())?;
    let lower = overlapping(&levels_view.levels[1], lo, hi);
    let mut by_key = runs.to_vec();
    by_key.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let disjoint = by_key.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    // Runs may lie in the gaps of level 1 even where their common range does not.
    let free = runs.iter().all(|run| overlapping(&levels_view.levels[1], &run.smallest, &run.largest).is_empty());
    if disjoint && free {
        return assemble(1, &[(0, runs)], levels_view.claims, Means::Move);
    }
    let (lo, hi) = bounds(runs.iter().chain(&lower).copied())?;
    let lowest = overlapping(&levels_view.levels[2], lo, hi);
    let pays = goes_through(bytes(runs), bytes(&levels_view.levels[1]), bytes(&lowest), runs.len(), options);
    let through = (pays && scope == Scope::All)
        .then(|| assemble(2, &[(0, runs), (1, &lower), (2, &lowest)], levels_view.claims, Means::Merge));
    through.flatten().or_else(|| assemble(1, &[(0, runs), (1, &lower)], levels_view.claims, Means::Merge))
}

/// The runs of level 0 that go down next: the oldest up to the first claimed one, within the bound on bytes. The bound
/// is that of the tree, or the size of level 1 if that is larger: a merge rewrites all of level 1. With a full batch it
/// costs two bytes for a byte of level 0 at most. On a full disk the bound is always that of the tree: a merge frees
/// its inputs only at its end, and a smaller one may fit.
fn oldest_free<'a, 'b>(levels_view: &'b LevelsView<'a>, options: &TreeOptions) -> Option<&'b [&'a TableMeta]> {
    let runs = &levels_view.levels[0];
    let claimed = runs.iter().rposition(|run| is_claimed(levels_view.claims, &[run]));
    let free = &runs[claimed.map_or(0, |at| at + 1)..];
    if free.is_empty() || (claimed.is_some() && free.len() < options.l0_trigger) {
        return None;
    }
    let level1 = if levels_view.disk_is_full { 0 } else { bytes(&levels_view.levels[1]) };
    let bytes_max = options.l0_merge_bytes_max.max(level1);
    let mut taken = 0;
    let fits = free.iter().rev().take_while(|run| {
        taken += run.bytes;
        taken <= bytes_max
    });
    let count = fits.count().max(1);
    Some(&free[free.len() - count..])
}

/// Rule 3, for `l0` bytes in `runs` runs over `l1` and `l2` bytes.
fn goes_through(l0: u64, l1: u64, l2: u64, runs: usize, options: &TreeOptions) -> bool {
    let merged = l0 + l1;
    let excess = merged.saturating_sub(options.level_bytes_target(1));
    // The excess goes down later with its share of level 2, or is moved at no cost where there is none.
    let share = (u128::from(excess) * u128::from(l2) / u128::from(merged.max(1))) as u64;
    let step_by_step = if l2 == 0 { merged } else { merged + excess + share };
    // While the job runs, level 0 must not grow until writes are slowed, even if they come half as fast as the job
    // goes.
    let room = options.l0_slow.saturating_sub(runs) * options.write_buffer_bytes;
    excess > 0 && merged + l2 < step_by_step && merged + l2 <= 2 * room as u64
}

/// Rule 4, from level `first` on.
pub(super) fn pick_deep(levels_view: &LevelsView<'_>, first: usize, scores: &[f64; LEVELS]) -> Option<Pick> {
    let mut due: Vec<usize> = (first..LEVELS - 1).filter(|&level| scores[level] > 1.0).collect();
    due.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    due.into_iter().find_map(|level| pick_level(levels_view, level))
}

fn pick_level(levels_view: &LevelsView<'_>, level: usize) -> Option<Pick> {
    let next = &levels_view.levels[level + 1];
    let candidates =
        levels_view.levels[level].iter().copied().filter(|table| !is_claimed(levels_view.claims, &[table]));
    let mut ranked: Vec<(u64, &TableMeta, Vec<&TableMeta>)> = candidates
        .map(|table| {
            let lower = overlapping(next, &table.smallest, &table.largest);
            (bytes(&lower).saturating_mul(1024) / table.bytes.max(1), table, lower)
        })
        .collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.id.cmp(&b.1.id)));
    ranked.into_iter().find_map(|(_, table, lower)| {
        let means = if lower.is_empty() { Means::Move } else { Means::Merge };
        assemble(level + 1, &[(level, &[table]), (level + 1, &lower)], levels_view.claims, means)
    })
}

#[cfg(test)]
pub(super) mod tests;
