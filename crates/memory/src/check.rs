//! Checking a store off line: every checksum, the order of the rows, every fact of the manifest; and every row of many
//! parts ([`weir_model::parts::audit`]).

use std::path::Path;
use std::sync::Arc;

use weir_io::{Class, Error, Fs, Owner, Result, Tag};
use weir_model::engine::CheckReport;
use weir_model::parts::audit::Audit;

use crate::manifest::Manifest;
use crate::options::StoreOptions;
use crate::snapshot::{self, reader};

/// Reads the whole store in `dir`, which nobody may have open, and tells what is wrong with it. `progress` is called
/// with (files read, files in all).
///
/// # Errors
/// Only if the directory or its manifest cannot be read at all; everything else is listed in the report.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, mut progress: impl FnMut(usize, usize)) -> Result<CheckReport> {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    let recovered = Manifest::recover_known(fs, dir, tag, "store").await?;
    let manifest = recovered.path(dir);
    let edit = recovered
        .edits
        .last()
        .copied()
        .ok_or_else(|| Error::corruption(&manifest, 0, "the manifest contains no edit"))?;
    let mut report = CheckReport { manifest, owner: edit.owner, ..CheckReport::default() };
    if let Some(meta) = edit.snapshot {
        report.persisted = meta.end.persisted;
        report.tables = 1;
        let path = dir.join(snapshot::file_name(meta.number));
        match reader::read(fs, &path, &meta, StoreOptions::default().io_bytes, tag, |_, _, _, _| ()).await {
            Ok(()) => (report.entries, report.bytes) = (meta.end.rows, meta.file_bytes),
            Err(error) => report.problems.push(error),
        }
        progress(1, 1);
    }
    let live = edit.snapshot.map(|meta| meta.number);
    let names = fs.list(dir, tag).await?.into_iter().map(|entry| entry.name);
    report.orphans = names.filter(|name| snapshot::file_number(name).is_some_and(|it| Some(it) != live)).collect();
    Ok(report)
}

/// Lists what is wrong with rows of many parts in the store in `dir`, whose snapshot is sound. The snapshot shows one
/// moment of the log.
///
/// # Errors
/// Something cannot be read.
pub async fn check_rows(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Vec<String>> {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    let recovered = Manifest::recover_known(fs, dir, tag, "store").await?;
    let mut audit = Audit::default();
    if let Some(meta) = recovered.edits.last().and_then(|edit| edit.snapshot) {
        let path = dir.join(snapshot::file_name(meta.number));
        loop {
            let take = |kind, key: &[u8], _, value: &[u8]| audit.entry(kind, key, value);
            reader::read(fs, &path, &meta, StoreOptions::default().io_bytes, tag, take).await?;
            if !audit.next_round() {
                break;
            }
        }
    }
    Ok(audit.into_problems())
}
