//! Which parts of rows a merge may drop: those that a cover says are dead ([`weir_model::parts`]).
//!
//! 1. A cover counts if every read sees it, and if it stands in a table or in the inputs of this very job: then it is
//!    as durable as the job's own output. What is only in memory and log may be taken back by a power cut, and with it
//!    the deletion of the row, whose parts would be gone all the same.
//! 2. A cover sorts directly before the parts of its row. A merge that has it among its inputs meets it first. The
//!    parts of a large row span many tables, and a merge has only some: so at the first part of each row the other
//!    tables are asked for the row's cover, by filter and index, which are in memory. That costs a block now and then,
//!    once for a row and never for a part.
//! 3. A cover goes when no table outside the inputs may hold anything of its row that is older. Memtables do not
//!    matter: the cover stands in a table, and what is older was flushed before it or with it.
//!
//! It is the version in a part's key that decides, not its sequence number: merges let values forget theirs.

use std::collections::BTreeSet;

use weir_io::plant::{Plant, is_planted};
use weir_io::{Class, Result};
use weir_model::engine::{Entry, Kind, Seq};
use weir_model::parts;

use crate::table::{TableGet, filter};
use crate::tree::Tree;
use crate::version::{LEVELS, TableFile, Version};

/// See the module. Entries must come in order.
pub(super) struct Covers<'a> {
    version: &'a Version,
    /// Its memtables are asked by a planted bug only: nobody may hold them as long as a job takes.
    tree: &'a Tree,
    /// Level and number of the tables that are merged.
    inputs: BTreeSet<(usize, u64)>,
    class: Class,
    /// The smallest sequence number that reads may be made at.
    horizon: Seq,
    /// The key of the cover of the row that was met last; empty before the first.
    prefix: Vec<u8>,
    /// Parts of that row with smaller versions are dead.
    below: u64,
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It is a part, and dead.
    Covered,
    /// It is anything else.
    Open,
    /// It is the first of its row: [`Covers::meet`] has to be asked before.
    Unknown,
}

impl<'a> Covers<'a> {
    /// For a merge of `inputs`, tables of `version`, or of memtables, for reads at `horizons`. What it has to read has
    /// `class`.
    pub(super) fn new(
        tree: &'a Tree,
        version: &'a Version,
        inputs: &[(usize, u64)],
        horizons: &[Seq],
        class: Class,
    ) -> Self {
        let horizon = horizons.iter().min().copied().unwrap_or(0);
        let inputs = inputs.iter().copied().collect();
        Self { version, tree, inputs, class, horizon, prefix: Vec::new(), below: 0 }
    }

    /// Whether the next entry is a part that a cover says is dead.
    ///
    /// # Errors
    /// I/O, and corruption.
    #[inline]
    pub(super) async fn cover(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if !parts::is_part(entry.key) {
            return Ok(false);
        }
        let mut look = self.look(entry);
        if look == Look::Unknown {
            self.meet(entry.key).await?;
            look = self.look(entry);
        }
        Ok(look == Look::Covered)
    }

    fn look(&mut self, entry: &Entry<'_>) -> Look {
        if self.prefix.is_empty() || !entry.key.starts_with(&self.prefix) {
            // Keys in this region that are no parts are nobody's: they are left alone.
            return if parts::prefix_of(entry.key).is_some() { Look::Unknown } else { Look::Open };
        }
        if entry.kind == Kind::Cover {
            self.take(entry.seq, entry.value);
            return Look::Open;
        }
        let version = entry.key[self.prefix.len()..].first_chunk().map(|version| u64::from_be_bytes(*version));
        if version.is_some_and(|version| version < self.below) { Look::Covered } else { Look::Open }
    }

    fn take(&mut self, seq: Seq, value: &[u8]) {
        if seq <= self.horizon
            && let Some(below) = parts::below(value)
        {
            self.below = self.below.max(below);
        }
    }

    /// Finds the cover of the row that `key` is a part of, if a table outside the inputs has it. To be called where
    /// [`Covers::look`] says so, which then knows.
    ///
    /// # Errors
    /// I/O, and corruption.
    #[cold]
    async fn meet(&mut self, key: &[u8]) -> Result<()> {
        let Some(prefix) = parts::prefix_of(key) else { return Ok(()) };
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.below = 0;
        if is_planted(Plant::CoverInMemory) {
            let view = self.tree.view();
            let memtables = std::iter::once(&view.memtable).chain(view.sealed.iter().map(|sealed| &sealed.memtable));
            let found = memtables.filter_map(|memtable| memtable.get(prefix, self.horizon)).next();
            found.into_iter().for_each(|found| self.take(found.seq, &found.value));
        }
        if !self.version.holds_heads() {
            return Ok(());
        }
        let hash = filter::hash(prefix);
        let upper = self.version.level(0).iter().map(|table| (0, table));
        let deeper = (1..LEVELS).filter_map(|level| Some((level, self.version.find(level, prefix)?)));
        // From the newest on: covers of a row never go back, so that the first one found says most.
        for (level, file) in upper.chain(deeper) {
            let is_asked = file.table.holds_heads()
                && file.meta.overlaps(prefix, prefix)
                && !self.inputs.contains(&(level, file.meta.id));
            if !is_asked {
                continue;
            }
            let found = match file.table.get(prefix, hash, self.horizon)? {
                TableGet::Absent => None,
                TableGet::Found(found) => Some(found),
                TableGet::Load(address) => {
                    let block = file.table.load(address, self.class, false).await?;
                    file.table.get_in(&block, address, prefix, self.horizon)?
                }
            };
            if let Some(found) = found.filter(|found| found.kind == Kind::Cover) {
                self.take(found.seq, &found.value);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether `cover`, which every read sees, has nothing left to cover when the inputs are merged.
    pub(super) fn may_go(&self, cover: &Entry<'_>) -> bool {
        if is_planted(Plant::DroppedCover) {
            return true;
        }
        let end = parts::prefix_end(cover.key);
        let is_older = |level: usize, table: &TableFile| {
            table.meta.overlaps(cover.key, &end)
                && table.meta.smallest_seq < cover.seq
                && !self.inputs.contains(&(level, table.meta.id))
        };
        !self.version.level(0).iter().any(|table| is_older(0, table))
            && !(1..LEVELS).any(|level| {
                self.version.overlapping(level, cover.key, &end).iter().any(|table| is_older(level, table))
            })
    }
}
