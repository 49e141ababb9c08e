//! Tables in which nothing lives are dropped without being read: one manifest edit.
//!
//! Such a table still hides older versions of its keys. A value that expires may have been written over one that does
//! not, which the drop would bring back. So a table is dropped only together with everything older in its range, which
//! must be dead, too.
//!
//! Snapshots and scans do not matter. At whatever sequence number a read is made, all that it finds of these keys is
//! tombstones and expired values, before the drop as well as after it. A scan that has begun keeps its files, and
//! judges by the time at which it began.

use weir_io::plant::{Plant, is_planted};

use super::leveled::{bounds, overlapping};
use super::{LevelsView, Means, Pick};
use crate::version::{LEVELS, TableMeta};

/// All tables that can be dropped now, as one pick.
pub fn pick(levels_view: &LevelsView<'_>) -> Option<Pick> {
    let is_dead =
        |table: &TableMeta| table.is_dead(levels_view.now_ms) && !levels_view.claims.tables.contains(&table.id);
    if !levels_view.levels.iter().flatten().any(|table| is_dead(table)) {
        return None;
    }
    // From the oldest to the newest: newer tables may hide entries of the tables that are kept.
    let mut kept: [Vec<&TableMeta>; LEVELS] = Default::default();
    let mut dropped: Vec<(usize, &TableMeta)> = Vec::new();
    for level in (0..LEVELS).rev() {
        let (this, deeper) = kept.split_at_mut(level + 1);
        let this = &mut this[level];
        let older_first = levels_view.levels[level].iter().rev().filter(|_| level == 0);
        let by_key = levels_view.levels[level].iter().filter(|_| level > 0);
        for &table in older_first.chain(by_key) {
            let hides = |older: &&TableMeta| older.overlaps(&table.smallest, &table.largest);
            let in_level_0 = level == 0 && this.iter().any(hides);
            let hides_any = in_level_0
                || deeper.iter().any(|tables| !overlapping(tables, &table.smallest, &table.largest).is_empty());
            if is_dead(table) && (!hides_any || is_planted(Plant::DroppedTable)) {
                dropped.push((level, table));
            } else {
                this.push(table);
            }
        }
    }
    let (lo, hi) = bounds(dropped.iter().map(|(_, table)| *table))?;
    let inputs = dropped.iter().map(|(level, table)| (*level, table.id)).collect();
    let level = dropped.first()?.0;
    let (smallest, largest) = (lo.into(), hi.into());
    Some(Pick { level, output_level: level, inputs, means: Means::Drop, reclaims: true, smallest, largest })
}

#[cfg(test)]
mod tests;
