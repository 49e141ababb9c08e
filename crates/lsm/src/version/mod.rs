//! Versions: which tables make up the tree at one moment.
//!
//! A [`Version`] never changes; an [`Edit`] makes the next one. Readers hold the version they started with, and with it
//! its files: a table's file is garbage once the last version that names it is gone.

mod edit;
pub mod manifest;
mod meta;
mod table_file;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use edit::Edit;
pub use meta::TableMeta;
pub use table_file::TableFile;

pub use weir_model::engine::LEVELS;
use weir_model::engine::Seq;

/// Totals over the tables of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelSize {
    /// Entries, tombstones included.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

impl LevelSize {
    fn of(tables: &[Arc<TableFile>]) -> Self {
        tables.iter().fold(Self::default(), |size, table| Self {
            entries: size.entries + table.meta.entries,
            bytes: size.bytes + table.meta.bytes,
        })
    }
}

/// The tables of every level. Level 0: newest epoch first, ranges may overlap. Deeper levels: by key, disjoint.
#[derive(Clone, Default)]
pub struct Version {
    levels: [Vec<Arc<TableFile>>; LEVELS],
    sizes: [LevelSize; LEVELS],
    edits: u64,
    holds_heads: bool,
    holds_covers: bool,
    largest_seq: Seq,
}

impl Version {
    /// Edits since the tree was opened: no two versions of an open tree have the same number.
    pub fn number(&self) -> u64 {
        self.edits
    }

    /// Whether some table has a head or a cover.
    pub fn holds_heads(&self) -> bool {
        self.holds_heads
    }

    /// Whether some table has a cover.
    pub fn holds_covers(&self) -> bool {
        self.holds_covers
    }

    /// The largest sequence number in the tables. Memtables are flushed in order, so all covers up to it are in tables,
    /// or gone.
    pub fn largest_seq(&self) -> Seq {
        self.largest_seq
    }

    /// The tables of `level`, in the order given on [`Version`].
    pub fn level(&self, level: usize) -> &[Arc<TableFile>] {
        &self.levels[level]
    }

    /// Totals over the tables of `level`.
    pub fn size(&self, level: usize) -> LevelSize {
        self.sizes[level]
    }

    /// Entries of all tables, tombstones included.
    pub fn entries(&self) -> u64 {
        self.sizes.iter().map(|size| size.entries).sum()
    }

    /// All tables with their level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels.iter().enumerate().flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// The table of `level` (1 or deeper) whose range holds `key`.
    pub fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<TableFile>> {
        let tables = &self.levels[level];
        let index = tables.partition_point(|table| &*table.meta.largest < key);
        tables.get(index).filter(|table| &*table.meta.smallest <= key)
    }

    /// The tables of `level` (1 or deeper) whose ranges share a key with `lo..=hi`.
    pub fn overlapping(&self, level: usize, lo: &[u8], hi: &[u8]) -> &[Arc<TableFile>] {
        let tables = &self.levels[level];
        let begin = tables.partition_point(|table| &*table.meta.largest < lo);
        let end = tables.partition_point(|table| &*table.meta.smallest <= hi);
        tables.get(begin..end).unwrap_or_default()
    }

    /// The version after `edit`. `opened` holds the tables that the edit adds (or moves).
    ///
    /// # Errors
    /// A message if the edit contradicts this version: it removes a table that is not there, adds one twice, breaks the
    /// order of a level, or merges runs of level 0 across one that it leaves there. Then the manifest does not belong
    /// to this tree, or is corrupt.
    pub fn apply(&self, edit: &Edit, opened: &BTreeMap<u64, Arc<TableFile>>) -> Result<Version, String> {
        check_merge_within_l0(&self.levels[0].iter().map(|run| &run.meta).collect::<Vec<_>>(), edit)?;
        let mut next = self.clone();
        next.edits += 1;
        for &(level, id) in &edit.removed {
            let tables = &mut next.levels[level];
            let before = tables.len();
            tables.retain(|table| table.meta.id != id);
            if tables.len() == before {
                return Err(format!("the edit removes table {id}, which is not in level {level}"));
            }
        }
        for (level, meta) in &edit.added {
            let table = opened.get(&meta.id).ok_or_else(|| format!("table {} was not opened", meta.id))?;
            next.levels[*level].push(Arc::clone(table));
        }
        let mut touched: Vec<usize> = edit.added.iter().map(|(level, _)| *level).collect();
        touched.sort_unstable();
        touched.dedup();
        for level in touched {
            let tables = &mut next.levels[level];
            if level == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse(table.meta.epoch));
            } else {
                tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            }
            let metas: Vec<&TableMeta> = tables.iter().map(|table| &table.meta).collect();
            check_level(level, &metas)?;
        }
        let holds_heads = next.tables().any(|(_, file)| file.table.holds_heads());
        let holds_covers = next.tables().any(|(_, file)| !file.table.summary().covers.is_empty());
        let largest_seq = next.tables().map(|(_, file)| file.meta.largest_seq).max().unwrap_or(0);
        (next.holds_heads, next.holds_covers, next.largest_seq) = (holds_heads, holds_covers, largest_seq);
        next.sizes = std::array::from_fn(|level| LevelSize::of(&next.levels[level]));
        Ok(next)
    }
}

/// Checks that a merge within level 0, whose `runs` are given newest first, takes a contiguous batch and leaves one run
/// in its place (FX-23).
fn check_merge_within_l0(runs: &[&TableMeta], edit: &Edit) -> Result<(), String> {
    let removed: Vec<u64> = edit.removed.iter().filter(|(level, _)| *level == 0).map(|(_, id)| *id).collect();
    let mut added = edit.added.iter().filter(|(level, _)| *level == 0).map(|(_, meta)| meta);
    let (Some(output), false) = (added.next(), removed.is_empty()) else { return Ok(()) };
    let batch = || runs.iter().skip_while(|run| !removed.contains(&run.id)).take(removed.len());
    let is_contiguous = batch().count() == removed.len() && batch().all(|run| removed.contains(&run.id));
    let is_in_place = batch().map(|run| run.epoch).min() == Some(output.epoch) && added.next().is_none();
    match is_contiguous && is_in_place {
        true => Ok(()),
        false => Err(format!(
            "the runs {removed:?} of level 0 cannot be replaced by table {}: they are not contiguous, or its epoch is \
             not theirs",
            output.id
        )),
    }
}

/// Checks the order of one level: epochs strictly falling in level 0, disjoint ascending ranges below.
pub fn check_level(level: usize, tables: &[&TableMeta]) -> Result<(), String> {
    for table in tables {
        if table.smallest > table.largest {
            return Err(format!("the largest key of table {} is below its smallest key", table.id));
        }
    }
    for pair in tables.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if level == 0 && a.epoch <= b.epoch {
            return Err(format!("tables {} and {} of level 0 are not ordered by epoch", a.id, b.id));
        }
        if level > 0 && a.largest >= b.smallest {
            return Err(format!("tables {} and {} of level {level} overlap", a.id, b.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: u64, epoch: u64) -> TableMeta {
        TableMeta {
            id,
            epoch,
            bytes: 1,
            digest: 0,
            entries: 1,
            tombstones: 0,
            expiring: 0,
            smallest_seq: 1,
            largest_seq: 1,
            smallest: b"a".as_slice().into(),
            largest: b"z".as_slice().into(),
            raw_bytes: 1,
            tombstone_bytes: 0,
            deadlines: weir_model::engine::Deadlines::default(),
        }
    }

    #[test]
    fn a_merge_within_level_0_takes_a_contiguous_batch_and_its_place() {
        // File numbers say nothing about age: 9 was merged out of old runs.
        let runs = [run(12, 8), run(11, 7), run(9, 4), run(10, 3)];
        let runs: Vec<&TableMeta> = runs.iter().collect();
        let merge = |removed: &[u64], outputs: &[TableMeta]| {
            let edit = Edit {
                removed: removed.iter().map(|&id| (0, id)).collect(),
                added: outputs.iter().map(|meta| (0, meta.clone())).collect(),
                ..Edit::default()
            };
            check_merge_within_l0(&runs, &edit)
        };
        assert_eq!(merge(&[11, 9], &[run(20, 4)]), Ok(()));
        assert_eq!(merge(&[9, 11, 12, 10], &[run(20, 3)]), Ok(()));
        assert_eq!(merge(&[], &[run(20, 9)]), Ok(()), "a flush");
        assert_eq!(merge(&[12, 11, 9, 10], &[]), Ok(()), "all of it goes down");
        assert!(merge(&[12, 9], &[run(20, 4)]).is_err(), "across 11");
        assert!(merge(&[10, 13], &[run(20, 3)]).is_err(), "13 is not there");
        assert!(merge(&[11, 9], &[run(20, 7)]).is_err(), "in the newest's place");
        assert!(merge(&[11, 9], &[run(20, 4), run(21, 5)]).is_err(), "two runs for one place");
    }

    #[test]
    fn a_level_whose_tables_are_out_of_order_is_refused() {
        let table = |id, smallest: &[u8], largest: &[u8]| TableMeta {
            smallest: smallest.into(),
            largest: largest.into(),
            ..run(id, id)
        };
        let check = |level, tables: &[TableMeta]| check_level(level, &tables.iter().collect::<Vec<_>>());
        assert_eq!(check(1, &[table(1, b"a", b"c"), table(2, b"d", b"f")]), Ok(()));
        assert!(check(1, &[table(1, b"a", b"c"), table(2, b"c", b"f")]).is_err(), "both may have c");
        assert!(check(1, &[table(2, b"d", b"f"), table(1, b"a", b"c")]).is_err(), "they fall");
        assert_eq!(check(0, &[run(1, 8), run(2, 7)]), Ok(()), "runs may overlap");
        assert!(check(0, &[run(1, 7), run(2, 8)]).is_err(), "the newest comes first");
        assert!(check(0, &[run(1, 7), run(2, 7)]).is_err(), "two runs in one place");
        assert!([0, 1].into_iter().all(|level| check(level, &[table(1, b"b", b"a")]).is_err()), "the ends are swapped");
    }
}
