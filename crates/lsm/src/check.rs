//! Checking a tree off line: every checksum, every order, every fact of the manifest; and every row of many parts
//! ([`weir_model::parts::audit`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, Owner, Result, Tag, Turn, yield_now};
use weir_journal::Garbage;
use weir_model::engine::CheckReport;
use weir_model::parts::audit::Audit;

use crate::cache::BlockCache;
use crate::cursor::{Cursor, Step};
use crate::read::merge::MergeCursor;
use crate::read::view::sources_of;
use crate::table::{Caching, CursorOptions, Table};
use crate::tree::{fold, newest_seq};
use crate::version::manifest::Manifest;
use crate::version::{LEVELS, TableFile, TableMeta, Version, check_level};

/// Reads the whole tree in `dir`, which nobody may have open, and tells what is wrong with it. `progress` is called
/// after each table with (tables done, tables in all).
///
/// # Errors
/// Only if the directory or its manifest cannot be read at all; everything else is listed in the report.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, mut progress: impl FnMut(usize, usize)) -> Result<CheckReport> {
    let (owner, tag) = (Owner::default(), Tag::new(Owner::default(), Class::Maintenance));
    let mut report = CheckReport::default();
    let recovered = Manifest::recover_known(fs, dir, tag, "tree").await?;
    let manifest_path = recovered.path(dir);
    let folded = fold(&recovered).map_err(|message| Error::corruption(&manifest_path, 0, message))?;
    (report.persisted, report.owner) = (folded.persisted, folded.owner);
    report.manifest.clone_from(&manifest_path);

    // No block is worth keeping: each is read once.
    let cache = BlockCache::new(0, 1);
    let total = folded.tables.len();
    for (level, meta) in folded.tables.values() {
        match check_table(fs, dir, *level, meta, owner, &cache, tag).await {
            Ok(()) => {
                report.entries += meta.entries;
                report.bytes += meta.bytes;
            }
            Err(error) => report.problems.push(error),
        }
        report.tables += 1;
        progress(report.tables, total);
    }
    for level in 0..LEVELS {
        let mut tables: Vec<&TableMeta> =
            folded.tables.values().filter(|(at, _)| *at == level).map(|(_, meta)| meta).collect();
        match level {
            0 => tables.sort_by_key(|table| std::cmp::Reverse(table.epoch)),
            _ => tables.sort_by(|a, b| a.smallest.cmp(&b.smallest)),
        }
        if let Err(message) = check_level(level, &tables) {
            report.problems.push(Error::corruption(&manifest_path, 0, message));
        }
    }
    let live: BTreeSet<String> = folded.tables.keys().map(|&id| TableMeta::file_name(id)).collect();
    let names = fs.list(dir, tag).await?;
    let orphans = names.into_iter().filter(|entry| entry.name.ends_with(".sst") && !live.contains(&entry.name));
    report.orphans = orphans.map(|entry| entry.name).collect();
    Ok(report)
}

async fn check_table(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    level: usize,
    meta: &TableMeta,
    owner: Owner,
    cache: &Arc<BlockCache>,
    tag: Tag,
) -> Result<()> {
    let path = dir.join(TableMeta::file_name(meta.id));
    let table = Table::open(fs, &path, owner, cache, tag).await?;
    table.verify(Class::Maintenance).await?;
    let found = TableMeta::of(meta.id, meta.epoch, table.summary());
    if found != *meta {
        let message = format!("level {level}: the table holds {found:?}, but the manifest says {meta:?}");
        return Err(Error::corruption(&path, 0, message));
    }
    newest_seq(&table)?;
    Ok(())
}

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Lists what is wrong with rows of many parts in the tree in `dir`, whose tables are sound one by one. The tables
/// alone show one moment of the log: newer records are in none of them.
///
/// # Errors
/// Something cannot be read.
pub async fn check_rows(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Vec<String>> {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    let recovered = Manifest::recover_known(fs, dir, tag, "tree").await?;
    let folded = fold(&recovered).map_err(|message| Error::corruption(recovered.path(dir), 0, message))?;
    let cache = BlockCache::new(0, 1);
    let (garbage, mut opened) = (Arc::new(Garbage::default()), BTreeMap::new());
    for (_, meta) in folded.tables.values() {
        let path = dir.join(TableMeta::file_name(meta.id));
        let table = Table::open(fs, &path, Owner::default(), &cache, tag).await?;
        opened.insert(meta.id, TableFile::new(meta.clone(), table, path, Arc::clone(&garbage)));
    }
    let version = Version::default()
        .apply(&folded.snapshot(), &opened)
        .map(Arc::new)
        .map_err(|message| Error::new(ErrorKind::Corruption, "check the tree in", dir, message))?;
    let options = CursorOptions { class: Class::Maintenance, readahead_bytes: READ_BYTES, caching: Caching::Leave };
    let (mut audit, mut turn) = (Audit::default(), Turn::new());
    loop {
        let mut merge = MergeCursor::new(sources_of(&version, options).collect());
        let (mut step, mut last) = (merge.seek_first(), None::<Vec<u8>>);
        loop {
            while step == Step::Load {
                step = merge.load().await?;
            }
            let Some(entry) = merge.entry() else { break };
            // The newest version of a key comes first.
            if last.as_deref() != Some(entry.key) {
                audit.entry(entry.kind, entry.key, entry.value);
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.key);
            }
            let passed = entry.key.len() + entry.value.len();
            step = merge.next();
            if turn.spend(passed) {
                yield_now().await;
            }
        }
        if !audit.next_round() {
            return Ok(audit.into_problems());
        }
    }
}
