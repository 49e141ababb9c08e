//! A compaction: tables of one level are merged with the tables that they overlap in the next, or moved there. In a
//! tree without level 0, memtables are merged with the tables that they overlap in level 1: that is a flush, too.
//!
//! 1. Entries come in tree order from the merge. [`Retention`] says which versions no read can see.
//! 2. An expired value counts as a tombstone. A tombstone goes when every read sees it and no deeper level can hold its
//!    key.
//! 3. Under the same two conditions a value's sequence number becomes 0: it is the only version left, and 0 is short.
//!    Heads and covers keep theirs, so that the tree never again gives out a number that is not larger than all their
//!    versions.
//! 4. Parts that a cover says are dead are dropped, and so are covers that have nothing left to cover ([`Covers`]). The
//!    head of a row of many parts stays when it has expired: it is reported, so that somebody deletes the row.
//! 5. A merge within level 0 writes one run: one table, at the place of its inputs (U-19b). Runs older than its inputs
//!    lie below it.
//! 6. Elsewhere a table ends at `table_bytes`, or earlier where it would drag in too much of the level below the output
//!    when it is compacted in its turn. It never ends between versions of one key: levels below 0 must stay disjoint.

use std::sync::Arc;

use weir_io::plant::{Plant, is_planted};
use weir_io::{Class, Result};
use weir_model::engine::{Entry, JobControl, JobReport, Kind};

use super::covers::Covers;
use super::output::Writer;
use super::retention::{Retention, Verdict};
use crate::cursor::{Cursor, Step};
use crate::pick::{Means, Pick};
use crate::read::level::LevelCursor;
use crate::read::merge::MergeCursor;
use crate::read::source::Source;
use crate::read::view::{Sealed, View};
use crate::table::{Caching, CursorOptions};
use crate::tree::{Outputs, Tree};
use crate::version::{Edit, LEVELS, TableFile, Version};

/// A table may overlap at most this many tables' worth of bytes in the level below its own.
const GRANDPARENT_OVERLAP_TABLES: u64 = 10;

pub(super) async fn run(
    tree: &Arc<Tree>,
    pick: Pick,
    version: &Arc<Version>,
    sealed: Vec<Sealed>,
    class: Class,
    control: &JobControl,
) -> Result<JobReport> {
    match pick.means {
        Means::Merge => merge(tree, pick, version, sealed, class, control).await,
        Means::Move => move_tables(tree, pick, version, class, control).await,
        Means::Drop | Means::DropCovered => drop_tables(tree, pick, version, class, control).await,
    }
}

async fn merge(
    tree: &Arc<Tree>,
    pick: Pick,
    version: &Arc<Version>,
    sealed: Vec<Sealed>,
    class: Class,
    control: &JobControl,
) -> Result<JobReport> {
    let memtables = sealed.iter().map(|sealed| Source::Memtable(sealed.memtable.cursor()));
    let mut merge = MergeCursor::new(memtables.chain(sources(tree, &pick, version, class)).collect());
    let newest = sealed.last().map(|newest| (newest.last_index, newest.last_seq));
    let durable = newest.map_or(version.largest_seq(), |(_, seq)| seq);
    let horizons = tree.horizons();
    let mut covers = Covers::new(tree, version, &pick.inputs, durable, &horizons, class);
    let mut retention = Retention::new(horizons);
    let now_ms = tree.env.clock.unix_ms();
    let is_run = pick.output_level == 0;
    let epoch = if is_run { oldest_epoch(&pick, version) } else { 0 };
    let mut below = Below::new(version, pick.output_level, epoch);
    let mut boundaries = Boundaries::new(version, pick.output_level + 1, tree.options.table_bytes);
    let mut writer = Writer::new(tree, class, pick.output_level, epoch, covers.met(), control);

    let mut step = merge.seek_first();
    loop {
        while step == Step::Load {
            step = merge.load().await?;
        }
        let Some(mut entry) = merge.entry() else { break };
        let same_key = retention.is_same_key(entry.key);
        let verdict = retention.judge(&entry);
        if entry.kind == Kind::Put && entry.is_expired(now_ms) {
            entry = Entry { kind: Kind::Delete, expire_at_ms: 0, value: &[], ..entry };
        }
        let nothing_below = !below.may_hold(entry.key) || is_planted(Plant::DroppedTombstone);
        let is_oldest = verdict == Verdict::Visible { oldest: true };
        let last = is_oldest && nothing_below && entry.kind != Kind::Cover;
        let is_covered = covers.cover(&entry).await?;
        let is_spent = is_oldest && entry.kind == Kind::Cover && covers.may_go(&entry);
        if is_covered {
            writer.skip_covered(&entry).await;
        } else if verdict == Verdict::Shadowed || (last && entry.kind == Kind::Delete) || is_spent {
            writer.skip(&entry).await;
        } else {
            writer.note_expired_head(&entry, now_ms);
            if !is_run && !same_key && boundaries.cut_before(entry.key, writer.table_bytes()) {
                writer.cut().await?;
            }
            let forgets = last && entry.kind == Kind::Put;
            let seq = if forgets { 0 } else { entry.seq };
            writer.add(Entry { seq, ..entry }).await?;
        }
        step = merge.next();
    }
    drop(merge);
    let (outputs, report) = writer.finish().await?;

    control.begin_commit();
    let persisted = newest.map(|(index, _)| index);
    let edit = Edit { persisted, removed: pick.inputs, added: outputs.added(), ..Edit::default() };
    let install = |_: &mut _, view: &mut View| view.sealed.truncate(view.sealed.len() - sealed.len());
    tree.commit(class, edit, outputs, install).await?;
    Ok(report)
}

async fn move_tables(
    tree: &Arc<Tree>,
    pick: Pick,
    version: &Version,
    class: Class,
    control: &JobControl,
) -> Result<JobReport> {
    let moved: Vec<(usize, Arc<TableFile>)> =
        inputs(&pick, version).map(|(_, table)| (pick.output_level, table)).collect();
    let report = JobReport { tables_moved: moved.len(), ..JobReport::default() };
    let edit = Edit {
        added: moved.iter().map(|(level, table)| (*level, table.meta.clone())).collect(),
        removed: pick.inputs,
        ..Edit::default()
    };
    control.begin_commit();
    tree.commit(class, edit, Outputs::new(tree), |_, _| {}).await?;
    Ok(report)
}

/// No other job has claimed the tables or anything older in their range, so what the picker saw still holds. A cover
/// stays as long as some table may hold parts of its life, and these tables do.
async fn drop_tables(
    tree: &Arc<Tree>,
    pick: Pick,
    version: &Version,
    class: Class,
    control: &JobControl,
) -> Result<JobReport> {
    let mut report = JobReport { tables_dropped: pick.inputs.len(), ..JobReport::default() };
    if pick.means == Means::DropCovered {
        for (_, table) in inputs(&pick, version) {
            report.covered_entries += table.meta.entries;
            report.covered_bytes += table.meta.raw_bytes;
        }
    }
    control.begin_commit();
    tree.commit(class, Edit { removed: pick.inputs, ..Edit::default() }, Outputs::new(tree), |_, _| {}).await?;
    Ok(report)
}

fn inputs<'a>(pick: &'a Pick, version: &'a Version) -> impl Iterator<Item = (usize, Arc<TableFile>)> + 'a {
    let chosen = |level: usize, id: u64| pick.inputs.contains(&(level, id));
    version
        .tables()
        .filter(move |(level, table)| chosen(*level, table.meta.id))
        .map(|(l, table)| (l, Arc::clone(table)))
}

fn oldest_epoch(pick: &Pick, version: &Version) -> u64 {
    inputs(pick, version).map(|(_, table)| table.meta.epoch).min().unwrap_or(0)
}

fn sources(tree: &Tree, pick: &Pick, version: &Version, class: Class) -> Vec<Source> {
    let caching = if tree.is_warm(pick.output_level) { Caching::Pass } else { Caching::Leave };
    let options = CursorOptions { class, readahead_bytes: tree.options.io_bytes, caching };
    let mut sources = Vec::new();
    let mut levels: [Vec<Arc<TableFile>>; LEVELS] = Default::default();
    for (level, table) in inputs(pick, version) {
        match level {
            0 => sources.push(Source::Table(table.table.cursor(options))),
            _ => levels[level].push(table),
        }
    }
    let runs = levels.into_iter().filter(|tables| !tables.is_empty());
    sources.extend(runs.map(|tables| Source::Level(LevelCursor::new(tables, options))));
    sources
}

/// Says whether tables below the output may hold a key. It walks along them beside the merge, so keys must come in
/// order.
pub(super) struct Below<'a> {
    levels: Vec<&'a [Arc<TableFile>]>,
}

impl<'a> Below<'a> {
    /// Below `output_level`; in level 0, below the run of `epoch`.
    pub(super) fn new(version: &'a Version, output_level: usize, epoch: u64) -> Self {
        let older = version.level(0).iter().filter(|run| output_level == 0 && run.meta.epoch < epoch);
        let deeper = (output_level + 1..LEVELS).map(|level| version.level(level));
        let sorted = older.map(std::slice::from_ref).chain(deeper);
        Self { levels: sorted.filter(|tables| !tables.is_empty()).collect() }
    }

    pub(super) fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|tables| {
            while let Some((first, rest)) = tables.split_first()
                && &*first.meta.largest < key
            {
                *tables = rest;
            }
            tables.first().is_some_and(|first| &*first.meta.smallest <= key)
        })
    }
}

/// Decides where output tables end.
struct Boundaries<'a> {
    table_bytes: u64,
    /// Tables of the level below the output that are not yet passed.
    grandparents: &'a [Arc<TableFile>],
    /// Bytes of the grandparents that the table being written has passed.
    overlap_bytes: u64,
}

impl<'a> Boundaries<'a> {
    fn new(version: &'a Version, level: usize, table_bytes: u64) -> Self {
        let grandparents = if level < LEVELS { version.level(level) } else { &[] };
        Self { table_bytes, grandparents, overlap_bytes: 0 }
    }

    /// Whether the table being written, `bytes` long, should end before `key`.
    fn cut_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let mut passed = false;
        while let Some((first, rest)) = self.grandparents.split_first()
            && &*first.meta.largest < key
        {
            passed = true;
            self.overlap_bytes += first.meta.bytes;
            self.grandparents = rest;
        }
        // A table that ends where a grandparent ends keeps the next compaction from dragging that grandparent in twice.
        // Tiny tables are not ended for that.
        let aligned = passed && bytes >= self.table_bytes / 2;
        let too_wide = self.overlap_bytes >= GRANDPARENT_OVERLAP_TABLES * self.table_bytes;
        let cut = bytes > 0 && (aligned || too_wide || bytes >= self.table_bytes);
        if cut || bytes == 0 {
            // A new table begins here: grandparents before its first key do not count.
            self.overlap_bytes = 0;
        }
        cut
    }
}
