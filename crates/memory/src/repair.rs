//! What a store that nobody has open is worth: for repairs of a `CURRENT` that is missing or damaged, where the
//! manifest that it named is still there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, Result, Tag};
use weir_model::LogIndex;

use crate::manifest::{self, Edit, Manifest};
use crate::snapshot;

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// Whether a store's files are in `dir`, and not another engine's.
///
/// # Errors
/// The directory or a manifest in it cannot be read.
pub async fn is_store(fs: &Arc<dyn Fs>, dir: &Path) -> Result<bool> {
    let names = match fs.list(dir, TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        names => names?,
    };
    for entry in &names {
        if snapshot::file_number(&entry.name).is_some() {
            return Ok(true);
        }
        if manifest::file_number(&entry.name).is_some() {
            let bytes = read(fs, &dir.join(&entry.name)).await?;
            return Ok(bytes.starts_with(manifest::MAGIC));
        }
    }
    Ok(false)
}

/// Why `CURRENT` of the store in `dir` names no manifest that can be read, and the newest manifest that can be and
/// whose snapshot is there, if any; `None` where `CURRENT` is sound. Changes nothing.
///
/// # Errors
/// The directory cannot be listed.
pub async fn examine(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Option<(String, Option<u64>)>> {
    let why = match Manifest::recover(fs, dir, TAG).await {
        Ok(Some(_)) => return Ok(None),
        Ok(None) => format!("{} is missing", dir.join("CURRENT").display()),
        Err(error) => error.to_string(),
    };
    let names = fs.list(dir, TAG).await?;
    let lengths: BTreeMap<&str, u64> = names.iter().map(|entry| (entry.name.as_str(), entry.len)).collect();
    let mut numbers: Vec<u64> = names.iter().filter_map(|entry| manifest::file_number(&entry.name)).collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        // Whatever keeps it from being read, it is not the one to believe; an older one may be.
        let Ok(bytes) = read(fs, &dir.join(manifest::file_name(number))).await else { continue };
        let Some(edit) = manifest::decode(&bytes).ok().and_then(|(edits, _)| edits.last().copied()) else { continue };
        let is_there =
            |meta: snapshot::SnapshotMeta| lengths.get(&*snapshot::file_name(meta.number)) == Some(&meta.file_bytes);
        if edit.snapshot.is_none_or(is_there) {
            return Ok(Some((why, Some(number))));
        }
    }
    Ok(Some((why, None)))
}

/// The manifest in force of the store in `dir`, and up to which record of its log everything is in the snapshot.
/// Changes nothing.
///
/// # Errors
/// `Corruption`, with file and offset; `NotFound` if there is no store; I/O.
pub async fn persisted(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(PathBuf, LogIndex)> {
    let none = || Error::new(ErrorKind::NotFound, "find CURRENT in", dir, "this is not a store's directory");
    let recovered = Manifest::recover(fs, dir, TAG).await?.ok_or_else(none)?;
    let persisted = recovered.edits.last().and_then(|edit| edit.snapshot).map_or(0, |meta| meta.end.persisted);
    Ok((dir.join(manifest::file_name(recovered.number)), persisted))
}

/// Makes manifest `number` of the store in `dir` the current one.
///
/// # Errors
/// I/O.
pub async fn point_at(fs: &Arc<dyn Fs>, dir: &Path, number: u64) -> Result<()> {
    weir_journal::point_at::<Edit>(fs, dir, TAG, number).await
}

async fn read(fs: &Arc<dyn Fs>, path: &Path) -> Result<AlignedBuf> {
    let file = fs.open(path, OpenOptions::read_buffered(), TAG).await?;
    let length = file.len().await? as usize;
    file.read_at(0, AlignedBuf::with_len(length), TAG).await
}
