//! Versions: which tables make up the tree at one moment.
//!
//! A [`Version`] never changes; an [`Edit`] makes the next one. Readers hold the version they started with, and with it
//! its files: a table's file is garbage once the last version that names it is gone.

mod edit;
pub mod journal;
pub mod manifest;
mod meta;
mod table_file;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use edit::Edit;
pub use meta::TableMeta;
pub use table_file::{Garbage, TableFile};

/// Levels of a tree, level 0 included. With 256 MiB in level 1 and a factor of 10 the last holds 25 TiB.
pub const LEVELS: usize = 7;

/// The tables of every level. Level 0: newest epoch first, ranges may overlap. Deeper levels: by key, disjoint.
#[derive(Clone, Default)]
pub struct Version {
    levels: [Vec<Arc<TableFile>>; LEVELS],
}

impl Version {
    /// The tables of `level`, in the order given on [`Version`].
    pub fn level(&self, level: usize) -> &[Arc<TableFile>] {
        &self.levels[level]
    }

    /// All tables with their level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels.iter().enumerate().flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Bytes of all tables of `level`.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|table| table.meta.bytes).sum()
    }

    /// The table of `level` (1 or deeper) whose range holds `key`.
    pub fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<TableFile>> {
        let tables = &self.levels[level];
        let index = tables.partition_point(|table| &*table.meta.largest < key);
        tables.get(index).filter(|table| &*table.meta.smallest <= key)
    }

    /// The version after `edit`. `opened` holds the tables that the edit adds (or moves).
    ///
    /// # Errors
    /// A message if the edit contradicts this version: it removes a table that is not there, adds one twice, or breaks the
    /// order of a level. Then the manifest does not belong to this tree, or is corrupt.
    pub fn apply(&self, edit: &Edit, opened: &BTreeMap<u64, Arc<TableFile>>) -> Result<Version, String> {
        let mut next = self.clone();
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
        Ok(next)
    }
}

/// Checks the order of one level: epochs strictly falling in level 0, disjoint ascending ranges below.
pub fn check_level(level: usize, tables: &[&TableMeta]) -> Result<(), String> {
    for table in tables {
        if table.smallest > table.largest {
            return Err(format!("table {} ends before it begins", table.id));
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
