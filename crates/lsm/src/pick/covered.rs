//! What covers make dead in the tables of a tree, as far as the facts of the tables tell; and the drop of tables that
//! hold nothing else.
//!
//! 1. A cover counts if every read sees it. Only covers in tables are known here: they are as durable as the edit that
//!    drops what they cover.
//! 2. The parts of its life are taken to be in all tables that may hold some and have not met the cover yet. A merge
//!    drops the parts that covers say are dead, and notes in its outputs up to which cover it looked. So no table is
//!    rewritten twice for one cover, however wrong the guess was.
//! 3. A table that lies within one life is dead as a whole, and is dropped without being read. It hides nothing that
//!    lives: anything older in its range is of the same life. The other bytes of a cover are dealt out to the other
//!    tables by size: these may also hold lives in between, which only a merge finds.
//! 4. A cover whose life no table may hold any more is dead itself. Merges drop it.

use std::collections::{BTreeMap, BTreeSet};

use weir_io::plant::{Plant, is_planted};
use weir_model::engine::Seq;
use weir_model::parts::{COVER_KEY_BYTES, Part};

use super::leveled::bounds;
use super::{LevelsView, Means, Pick};
use crate::table::CoverPoint;
use crate::version::{LEVELS, TableFile, TableMeta};

/// About how many bytes the key and the value of a cover take. Most covers have covered something, and that number of
/// bytes takes a byte or two.
const COVER_BYTES: u64 = COVER_KEY_BYTES as u64 + 2;

/// What is known of a table that may hold parts or covers.
#[derive(Clone, Copy)]
pub struct Holder<'a> {
    /// What the manifest says of it.
    pub meta: &'a TableMeta,
    /// It has met all covers up to this sequence number.
    pub met: Seq,
    /// The covers in it.
    pub covers: &'a [CoverPoint],
}

impl<'a> Holder<'a> {
    /// The table `file`.
    pub fn of(file: &'a TableFile) -> Self {
        let summary = file.table.summary();
        Self { meta: &file.meta, met: summary.covers_met, covers: &summary.covers }
    }

    /// Whether the table may hold some of the parts that `point` says are dead.
    fn may_hold(&self, point: &CoverPoint) -> bool {
        let overlaps = |(first, last): (u64, u64)| first <= point.last && point.first <= last;
        self.met < point.seq && self.meta.smallest_seq < point.seq && self.meta.lives().is_some_and(overlaps)
    }

    /// Whether the table holds nothing but parts that `point` says are dead.
    fn is_within(&self, point: &CoverPoint) -> bool {
        let is_part = |key: &[u8]| Part::parse(key).is_some_and(|part| point.is_of(part.version));
        is_part(&self.meta.smallest) && is_part(&self.meta.largest)
    }
}

/// What is dead in tables because of covers that every read sees.
#[derive(Debug, Default)]
pub struct Covered {
    /// Dead bytes of the file, by table.
    bytes: BTreeMap<u64, u64>,
    /// Tables that hold nothing but dead parts.
    whole: BTreeSet<u64>,
}

impl Covered {
    /// Finds what is dead in `levels`, which hold tables in the order of [`crate::version::Version`], for reads at
    /// `horizon` and later.
    pub fn of(levels: &[Vec<Holder<'_>>; LEVELS], horizon: Seq) -> Self {
        let mut covered = Self::default();
        let mut raw: BTreeMap<u64, u64> = BTreeMap::new();
        let mut holders = Vec::new();
        for owner in levels.iter().flatten() {
            for point in owner.covers {
                let is_seen = point.seq <= horizon;
                if !is_seen && !is_planted(Plant::DroppedLife) {
                    continue;
                }
                find(levels, point, &mut holders);
                let (whole, some): (Vec<&Holder<'_>>, Vec<_>) =
                    holders.iter().partition(|table| table.is_within(point));
                covered.whole.extend(whole.iter().map(|table| table.meta.id));
                if !is_seen {
                    continue;
                }
                raw.extend(whole.iter().map(|table| (table.meta.id, table.meta.raw_bytes)));
                if !holders.iter().any(|table| table.meta.id != owner.meta.id) {
                    let dead = raw.entry(owner.meta.id).or_default();
                    *dead = dead.saturating_add(point.count.saturating_mul(COVER_BYTES));
                }
                let sum = |tables: &[&Holder<'_>]| tables.iter().map(|table| table.meta.raw_bytes).sum::<u64>();
                let (left, size) = (point.bytes.saturating_sub(sum(&whole)), sum(&some));
                for table in some {
                    let share = u128::from(left) * u128::from(table.meta.raw_bytes) / u128::from(size.max(1));
                    let dead = raw.entry(table.meta.id).or_default();
                    *dead = dead.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
                }
            }
        }
        let tables = levels.iter().flatten().filter_map(|table| Some((table.meta, raw.get(&table.meta.id)?)));
        covered.bytes.extend(tables.map(|(meta, raw)| (meta.id, meta.file_bytes(*raw))));
        covered
    }

    /// As if each of these tables had this many dead bytes.
    #[cfg(test)]
    pub(super) fn by_table(bytes: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self { bytes: bytes.into_iter().collect(), whole: BTreeSet::new() }
    }

    /// About how many bytes of `table`'s file are dead.
    pub fn bytes_of(&self, table: &TableMeta) -> u64 {
        self.bytes.get(&table.id).copied().unwrap_or(0)
    }
}

/// Fills `found` with the tables that may hold parts that `point` says are dead.
fn find<'a, 'b>(levels: &'b [Vec<Holder<'a>>; LEVELS], point: &CoverPoint, found: &mut Vec<&'b Holder<'a>>) {
    found.clear();
    for (level, tables) in levels.iter().enumerate() {
        let is_before = |table: &Holder<'_>| table.meta.lives().is_none_or(|(_, last)| last < point.first);
        let begin = if level == 0 { 0 } else { tables.partition_point(is_before) };
        let reached =
            |table: &&Holder<'_>| level == 0 || table.meta.lives().is_none_or(|(first, _)| first <= point.last);
        found.extend(tables[begin..].iter().take_while(reached).filter(|table| table.may_hold(point)));
    }
}

/// All tables that can be dropped now because of covers, as one pick.
pub fn pick(levels_view: &LevelsView<'_>) -> Option<Pick> {
    let whole = &levels_view.covered.whole;
    if whole.is_empty() {
        return None;
    }
    let tables = levels_view.levels.iter().enumerate().flat_map(|(at, tables)| tables.iter().map(move |t| (at, *t)));
    let is_free = |id: u64| whole.contains(&id) && !levels_view.claims.tables.contains(&id);
    let dropped: Vec<(usize, &TableMeta)> = tables.filter(|(_, table)| is_free(table.id)).collect();
    let (lo, hi) = bounds(dropped.iter().map(|(_, table)| *table))?;
    let inputs = dropped.iter().map(|(level, table)| (*level, table.id)).collect();
    let level = dropped.first()?.0;
    let (smallest, largest) = (lo.into(), hi.into());
    Some(Pick { level, output_level: level, inputs, means: Means::DropCovered, reclaims: true, smallest, largest })
}

#[cfg(test)]
mod tests;
