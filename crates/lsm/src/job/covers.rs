//! Which parts of rows a merge may drop: those that a cover says are dead ([`weir_model::parts`]).
//!
//! 1. A cover counts if every read sees it, and if it stands in a table or in the inputs of this very job: then it is
//!    as durable as the job's own output. A power cut may take back a cover that is only in memory and log, and with it
//!    the deletion of the row. The parts of that row would be gone all the same.
//! 2. A cover sorts directly before the parts of its life. A merge that has it among its inputs meets it first. The
//!    parts of a large row span many tables, and a merge has only some of them. So at the first part of each life the
//!    merge asks the other tables for its cover, by filter and index, which are in memory. Now and then that costs a
//!    block, once for a life and never for each part.
//! 3. A cover is dropped when no table outside the inputs may hold an older entry of its life. A table that has met the
//!    cover holds none: it says up to which cover the merge that wrote it looked. Memtables do not matter: the cover is
//!    in a table, and everything older was flushed before it or with it.
//!
//! The version in a part's key decides, not its sequence number: merges set those of values to 0.

use std::collections::BTreeSet;

use weir_io::plant::{Plant, is_planted};
use weir_io::{Class, Result};
use weir_model::engine::{Entry, Kind, Seq};
use weir_model::parts;

use crate::table::{TableGet, filter};
use crate::tree::Tree;
use crate::version::{LEVELS, TableFile, Version};

/// Tells a merge which parts it may drop, by the rules of this module. Entries must come in order.
pub(super) struct Covers<'a> {
    version: &'a Version,
    /// Only a planted bug looks into its memtables: nobody may hold them for as long as a job takes.
    tree: &'a Tree,
    /// Level and number of the tables that are merged.
    inputs: BTreeSet<(usize, u64)>,
    class: Class,
    /// The smallest sequence number that reads may be made at.
    horizon: Seq,
    /// All covers up to this sequence number are in tables or inputs, or gone.
    durable: Seq,
    /// The life whose entries were met last.
    life: Option<u64>,
    /// Whether the parts of `life` are dead.
    is_dead: bool,
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It is a part, and dead.
    Covered,
    /// It is anything else.
    Open,
    /// It is the first of its life: [`Covers::meet`] must be called first.
    Unknown(u64),
}

impl<'a> Covers<'a> {
    /// For a merge of `inputs` (tables of `version`) or of memtables, with reads at `horizons`. All covers up to
    /// `durable` are in tables or inputs, or gone. The blocks that it has to read are read as `class`.
    pub(super) fn new(
        tree: &'a Tree,
        version: &'a Version,
        inputs: &[(usize, u64)],
        durable: Seq,
        horizons: &[Seq],
        class: Class,
    ) -> Self {
        let horizon = horizons.iter().min().copied().unwrap_or(0);
        let inputs = inputs.iter().copied().collect();
        Self { version, tree, inputs, class, horizon, durable, life: None, is_dead: false }
    }

    /// No entry that this lets through is dead by a cover up to this sequence number.
    pub(super) fn met(&self) -> Seq {
        if is_planted(Plant::CoverTakenForMet) { self.durable } else { self.durable.min(self.horizon) }
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
        if let Look::Unknown(life) = look {
            self.meet(life).await?;
            look = self.look(entry);
        }
        Ok(look == Look::Covered)
    }

    fn look(&mut self, entry: &Entry<'_>) -> Look {
        match parts::version_of(entry.key) {
            // Keys in this region that are not parts belong to nobody, and are left alone.
            None => return Look::Open,
            Some(life) if self.life != Some(life) => return Look::Unknown(life),
            Some(_) => {}
        }
        if entry.kind == Kind::Cover {
            self.take(entry.seq);
            return Look::Open;
        }
        if self.is_dead { Look::Covered } else { Look::Open }
    }

    fn take(&mut self, seq: Seq) {
        self.is_dead |= seq <= self.horizon;
    }

    /// Finds the cover of `life`, if a table outside the inputs has it. Must be called when [`Covers::look`] answers
    /// [`Look::Unknown`]; after that, it knows.
    ///
    /// # Errors
    /// I/O, and corruption.
    #[cold]
    async fn meet(&mut self, life: u64) -> Result<()> {
        (self.life, self.is_dead) = (Some(life), false);
        let key = &parts::cover_key(life)[..];
        if is_planted(Plant::CoverInMemory) {
            let view = self.tree.view();
            let memtables = std::iter::once(&view.memtable).chain(view.sealed.iter().map(|sealed| &sealed.memtable));
            let found = memtables.filter_map(|memtable| memtable.get(key, self.horizon)).next();
            found.into_iter().for_each(|found| self.take(found.seq));
        }
        if !self.version.holds_heads() {
            return Ok(());
        }
        let hash = filter::hash(key);
        let upper = self.version.level(0).iter().map(|table| (0, table));
        let deeper = (1..LEVELS).filter_map(|level| Some((level, self.version.find(level, key)?)));
        for (level, file) in upper.chain(deeper) {
            let is_asked = file.table.holds_heads()
                && file.meta.overlaps(key, key)
                && !self.inputs.contains(&(level, file.meta.id));
            if !is_asked {
                continue;
            }
            let found = match file.table.get(key, hash, self.horizon)? {
                TableGet::Absent => None,
                TableGet::Found(found) => Some(found),
                TableGet::Load(address) => {
                    let block = file.table.load(address, self.class, false).await?;
                    file.table.get_in(&block, address, key, self.horizon)?
                }
            };
            if let Some(found) = found.filter(|found| found.kind == Kind::Cover) {
                self.take(found.seq);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether `cover`, which every read sees, has nothing left to cover once the inputs are merged.
    pub(super) fn may_go(&self, cover: &Entry<'_>) -> bool {
        if is_planted(Plant::DroppedCover) {
            return true;
        }
        let Some(life) = parts::version_of(cover.key) else { return false };
        let end = parts::cover_end(life);
        let is_older = |level: usize, table: &TableFile| {
            table.meta.lives().is_some_and(|(first, last)| first <= life && life <= last)
                && table.table.summary().covers_met < cover.seq
                && table.meta.smallest_seq < cover.seq
                && !self.inputs.contains(&(level, table.meta.id))
        };
        !self.version.level(0).iter().any(|table| is_older(0, table))
            && !(1..LEVELS).any(|level| {
                self.version.overlapping(level, cover.key, &end).iter().any(|table| is_older(level, table))
            })
    }
}
