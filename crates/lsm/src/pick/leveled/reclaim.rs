//! Rule 6: dead entries make room, even where no level is too large.
//!
//! Expired values, tombstones and what they delete, and covered parts take space until a merge meets them, and the
//! sizes of levels alone may never cause that merge. So tables are also merged for the space that this frees. What
//! counts is the number of bytes freed for each byte rewritten:
//!
//! 1. A table with nothing older below its range is rewritten in place, and everything dead in it goes. This is done
//!    only if every read sees all of the table, or it would come out as it went in. Where the bytes that covers make
//!    dead are enough alone, any table is rewritten in place: covered parts are dead wherever they lie
//!    ([`super::super::covered`]).
//! 2. Any other table goes down with the tables that it overlaps in the next level. The bytes that its tombstones free
//!    are estimated by the mean size of the entries below. Where that guess is wrong, because the deleted entries are
//!    gone already, it costs at most one rewrite for each level.
//! 3. How much must be freed depends on the [`Urgency`]. Bytes that one merge has freed are not there for the next one
//!    to find, so this ends.
//! 4. How much is overwritten is not known before the merge. Where the tree is full, the picker assumes that it is as
//!    much as it can be.

use weir_model::engine::{Scope, Urgency};

use super::{LevelsView, Pick, TableMeta, assemble, bytes, is_claimed, is_gathering, overlapping, pick_l0};
use crate::options::TreeOptions;
use crate::pick::Means;
use crate::version::LEVELS;

/// A page: tables do not shrink by less.
const FREED_MIN: u64 = 4096;
/// Freeing less than one part in this many of a full table is not worth a job as long as nobody needs the space.
const TABLE_SHARE: u64 = 256;

/// What a merge must free to be worth it.
struct Worth {
    /// Bytes freed for each byte rewritten.
    gain: f64,
    bytes: f64,
}

impl Worth {
    fn new(levels_view: &LevelsView<'_>, options: &TreeOptions) -> Self {
        let share = options.table_bytes / TABLE_SHARE;
        let gain = match levels_view.urgency {
            // The tree should take no more than 1.5 times what lives in it. If more than a third of all bytes are dead,
            // then more than a third of some table is.
            Urgency::Idle if is_third_dead(levels_view) => 1.0 / 3.0,
            Urgency::Idle => 0.5,
            Urgency::Near => 0.25,
            Urgency::Full => 1.0 / 32.0,
        };
        let bytes = if levels_view.urgency == Urgency::Idle { share } else { share.min(FREED_MIN) };
        Self { gain, bytes: bytes as f64 }
    }

    /// Bytes freed for each byte rewritten, if that is enough.
    fn gain(&self, freed: f64, rewritten: u64) -> Option<f64> {
        let gain = freed / (rewritten as f64).max(1.0);
        (gain >= self.gain && freed > 0.0 && freed >= self.bytes).then_some(gain)
    }
}

fn is_third_dead(levels_view: &LevelsView<'_>) -> bool {
    let sum = |of: &dyn Fn(&TableMeta) -> u64| levels_view.levels.iter().flatten().map(|table| of(table)).sum::<u64>();
    let dead = |table: &TableMeta| {
        let known = table.bytes - table.present_bytes(levels_view.now_ms);
        known.saturating_add(levels_view.covered.bytes_of(table)).min(table.bytes)
    };
    sum(&dead).saturating_mul(3) > sum(&|table| table.bytes)
}

/// The merge that frees most for each byte that it rewrites, if any frees enough.
pub(in crate::pick) fn pick(levels_view: &LevelsView<'_>, scope: Scope, options: &TreeOptions) -> Option<Pick> {
    let worth = Worth::new(levels_view, options);
    let mut found: Vec<(f64, usize, &TableMeta, bool)> = Vec::new();
    let waits = levels_view.urgency == Urgency::Idle && is_gathering(levels_view, options);
    for level in if waits { 1 } else { 0 }..LEVELS {
        for &table in &levels_view.levels[level] {
            if !may_free(levels_view, table) || is_claimed(levels_view.claims, &[table]) {
                continue;
            }
            let is_lowest = level > 0 && lies_lowest(levels_view, level, table);
            let in_place = gain_in_place(levels_view, table, is_lowest, &worth);
            // Level 0 goes down as a whole.
            let down = if level == 0 || is_lowest { None } else { gain(levels_view, level, &[table], &worth) };
            // `None` is less than any gain.
            let (gain, is_in_place) = if in_place >= down { (in_place, true) } else { (down, false) };
            found.extend(gain.map(|gain| (gain, level, table, is_in_place)));
        }
    }
    let level_0 = if waits { None } else { gain(levels_view, 0, &levels_view.levels[0], &worth) };
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.id.cmp(&b.2.id)));
    let best = found.first().map_or(0.0, |best| best.0);
    let pick = level_0.filter(|&gain| gain >= best).and_then(|_| pick_l0(levels_view, scope, options));
    let pick = pick.or_else(|| {
        found.iter().find_map(|&(_, level, table, in_place)| pick_table(levels_view, level, table, in_place))
    });
    pick.map(|pick| Pick { reclaims: true, ..pick })
}

fn pick_table(levels_view: &LevelsView<'_>, level: usize, table: &TableMeta, in_place: bool) -> Option<Pick> {
    if in_place {
        return assemble(level, &[(level, &[table])], levels_view.claims, Means::Merge);
    }
    let lower = overlapping(&levels_view.levels[level + 1], &table.smallest, &table.largest);
    let means = if lower.is_empty() { Means::Move } else { Means::Merge };
    assemble(level + 1, &[(level, &[table]), (level + 1, &lower)], levels_view.claims, means)
}

/// Whether a merge of `table` could free anything at all.
fn may_free(levels_view: &LevelsView<'_>, table: &TableMeta) -> bool {
    table.tombstones > 0
        || levels_view.urgency == Urgency::Full
        || levels_view.covered.bytes_of(table) > 0
        || table.deadlines.expired_bytes(levels_view.now_ms) > 0
}

/// Rule 1.
fn gain_in_place(levels_view: &LevelsView<'_>, table: &TableMeta, is_lowest: bool, worth: &Worth) -> Option<f64> {
    let goes = is_lowest && table.largest_seq <= levels_view.horizon;
    let known = if goes { table.bytes - table.present_bytes(levels_view.now_ms) } else { 0 };
    let dead = known.saturating_add(levels_view.covered.bytes_of(table)).min(table.bytes);
    worth.gain(dead as f64, table.bytes)
}

/// Rule 2, for `tables` of `level`.
fn gain(levels_view: &LevelsView<'_>, level: usize, tables: &[&TableMeta], worth: &Worth) -> Option<f64> {
    let (lo, hi) = super::bounds(tables.iter().copied())?;
    let now_ms = levels_view.now_ms;
    let present = |tables: &[&TableMeta]| tables.iter().map(|table| table.present_bytes(now_ms)).sum::<u64>();
    let expired = |tables: &[&TableMeta]| tables.iter().map(|table| table.expired_bytes(now_ms)).sum::<u64>();
    let sum = |of: fn(&TableMeta) -> u64| tables.iter().map(|table| of(table)).sum::<u64>();
    let below = |level: usize| overlapping(&levels_view.levels[level], lo, hi);
    let lower = if level + 1 < LEVELS { below(level + 1) } else { Vec::new() };
    let (mut deep_bytes, mut deep_entries, mut is_lowest) = (0, 0, true);
    for deeper in level + 1..LEVELS {
        let tables = below(deeper);
        deep_bytes += present(&tables);
        deep_entries += tables.iter().map(|table| table.entries).sum::<u64>();
        is_lowest &= deeper == level + 1 || tables.is_empty();
    }
    let (own, tombstones) = (bytes(tables), sum(|table| table.tombstones));
    let mean = deep_bytes as f64 / (deep_entries as f64).max(1.0);
    let deleted = (tombstones as f64 * mean).min(deep_bytes as f64);
    let own_tombstones = own as f64 * tombstones as f64 / (sum(|table| table.entries) as f64).max(1.0);
    // Where something older lies below, an expired value becomes a tombstone.
    let of_expired = if is_lowest { 1.0 } else { 0.5 };
    let covered = |tables: &[&TableMeta]| tables.iter().map(|table| levels_view.covered.bytes_of(table)).sum::<u64>();
    let mut freed = deleted + own_tombstones + of_expired * (expired(tables) + expired(&lower)) as f64;
    freed += (covered(tables) + covered(&lower)) as f64;
    if levels_view.urgency == Urgency::Full {
        // Runs of level 0 may overwrite one another, too.
        let within = if tables.len() > 1 { present(tables) / 2 } else { 0 };
        freed = freed.max(present(tables).min(deep_bytes).max(within) as f64);
    }
    worth.gain(freed, own + bytes(&lower))
}

/// Whether nothing that is older than `table` of `level` lies in its range.
fn lies_lowest(levels_view: &LevelsView<'_>, level: usize, table: &TableMeta) -> bool {
    (level + 1..LEVELS).all(|level| overlapping(&levels_view.levels[level], &table.smallest, &table.largest).is_empty())
}
