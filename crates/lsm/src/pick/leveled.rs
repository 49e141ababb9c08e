//! Leveled compaction: each level holds `level_factor` times the one above.
//!
//! 1. The score of level 0 is its runs over the trigger; of a deeper level its bytes over its target. Above (for level 0: at) 1
//!    a compaction is due.
//! 2. Level 0 goes first, whole: all its runs at once, so that level 1 is rewritten once for all of them.
//! 3. Then the level with the highest score gives one table: the one that drags in the fewest bytes of the next level for each
//!    of its own (that is what write amplification is made of).
//! 4. Inputs that overlap nothing in the next level are moved, not rewritten.

use super::{Claims, Pick, Picture, Scope};
use crate::options::TreeOptions;
use crate::version::{LEVELS, TableMeta};

/// Scores of all levels, by rule 1. Tables that running jobs take away do not count.
pub fn scores(picture: &Picture<'_>, options: &TreeOptions) -> [f64; LEVELS] {
    std::array::from_fn(|level| {
        let idle = picture.levels[level].iter().filter(|table| !picture.claims.tables.contains(&table.id));
        match level {
            0 => idle.count() as f64 / options.l0_trigger as f64,
            _ => idle.map(|table| table.bytes).sum::<u64>() as f64 / options.level_bytes_target(level) as f64,
        }
    })
}

/// The next compaction, or `None` if nothing is due or what is due is blocked by running jobs.
pub fn pick(picture: &Picture<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick> {
    let scores = scores(picture, options);
    if scope == Scope::IntraL0 {
        return None;
    }
    let l0_due = scores[0] >= 1.0;
    if l0_due && let Some(pick) = pick_l0(picture) {
        return Some(pick);
    }
    if scope == Scope::L0ToL1 {
        return None;
    }
    // While level 0 waits for a table of level 1, no other job may take one from it: it would wait for ever.
    let first = if l0_due { 2 } else { 1 };
    let mut due: Vec<usize> = (first..LEVELS - 1).filter(|&level| scores[level] > 1.0).collect();
    due.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    due.into_iter().find_map(|level| pick_deep(picture, level))
}

fn bounds<'a>(tables: impl Iterator<Item = &'a TableMeta> + Clone) -> Option<(&'a [u8], &'a [u8])> {
    let lo = tables.clone().map(|table| &*table.smallest).min()?;
    let hi = tables.map(|table| &*table.largest).max()?;
    Some((lo, hi))
}

fn overlapping<'a>(tables: &[&'a TableMeta], lo: &[u8], hi: &[u8]) -> Vec<&'a TableMeta> {
    let begin = tables.partition_point(|table| &*table.largest < lo);
    let end = tables.partition_point(|table| &*table.smallest <= hi);
    tables.get(begin..end).unwrap_or_default().to_vec()
}

fn is_claimed(claims: &Claims, tables: &[&TableMeta]) -> bool {
    tables.iter().any(|table| claims.tables.contains(&table.id))
}

fn assemble(level: usize, upper: &[&TableMeta], lower: &[&TableMeta], claims: &Claims, is_move: bool) -> Option<Pick> {
    let output_level = level + 1;
    let (lo, hi) = bounds(upper.iter().chain(lower).copied())?;
    if is_claimed(claims, upper) || is_claimed(claims, lower) || !claims.is_free(output_level, lo, hi) {
        return None;
    }
    let inputs = upper.iter().map(|table| (level, table.id)).chain(lower.iter().map(|table| (output_level, table.id)));
    Some(Pick { level, output_level, inputs: inputs.collect(), is_move, smallest: lo.into(), largest: hi.into() })
}

fn pick_l0(picture: &Picture<'_>) -> Option<Pick> {
    let runs = &picture.levels[0];
    let (lo, hi) = bounds(runs.iter().copied())?;
    let lower = overlapping(&picture.levels[1], lo, hi);
    let mut by_key = runs.clone();
    by_key.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let disjoint = by_key.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    // Runs may lie in the gaps of level 1 even where their common range does not.
    let free = runs.iter().all(|run| overlapping(&picture.levels[1], &run.smallest, &run.largest).is_empty());
    if disjoint && free {
        return assemble(0, runs, &[], picture.claims, true);
    }
    assemble(0, runs, &lower, picture.claims, false)
}

fn pick_deep(picture: &Picture<'_>, level: usize) -> Option<Pick> {
    let next = &picture.levels[level + 1];
    let candidates = picture.levels[level].iter().copied().filter(|table| !is_claimed(picture.claims, &[table]));
    let mut ranked: Vec<(u64, &TableMeta, Vec<&TableMeta>)> = candidates
        .map(|table| {
            let lower = overlapping(next, &table.smallest, &table.largest);
            let dragged: u64 = lower.iter().map(|table| table.bytes).sum();
            (dragged.saturating_mul(1024) / table.bytes.max(1), table, lower)
        })
        .collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.id.cmp(&b.1.id)));
    ranked.into_iter().find_map(|(_, table, lower)| {
        let (table, lower) = ([table], lower);
        assemble(level, &table, &lower, picture.claims, lower.is_empty())
    })
}

#[cfg(test)]
mod tests;
