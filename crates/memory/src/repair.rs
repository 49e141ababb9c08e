//! Examines a store that nobody has open, for repairs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, ErrorKind, Fs, Owner, Result, Tag};
use weir_journal::{Anchor, read_file};
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
            let bytes = read_file(fs, &dir.join(&entry.name), TAG).await?;
            return Ok(bytes.starts_with(manifest::MAGIC));
        }
    }
    Ok(false)
}

/// Looks at the `CURRENT` of the store in `dir`, which nobody may have open. Changes nothing.
///
/// # Errors
/// I/O: nothing is known about the files then.
pub async fn examine(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Anchor> {
    // Sound means: the snapshot that the manifest names has the length that the manifest says.
    weir_journal::examine::<Edit>(fs, dir, TAG, |recovered, lengths| {
        let is_there =
            |meta: snapshot::SnapshotMeta| lengths.get(&*snapshot::file_name(meta.number)) == Some(&meta.file_bytes);
        recovered.edits.last().is_some_and(|edit| edit.snapshot.is_none_or(is_there))
    })
    .await
}

/// The manifest in force of the store in `dir`, and the log index up to which all records are in the snapshot. Changes
/// nothing.
///
/// # Errors
/// `Corruption`, with file and offset; `NotFound` if there is no store; I/O.
pub async fn persisted(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(PathBuf, LogIndex)> {
    let recovered = Manifest::recover_known(fs, dir, TAG, "store").await?;
    let persisted = recovered.edits.last().and_then(|edit| edit.snapshot).map_or(0, |meta| meta.end.persisted);
    Ok((recovered.path(dir), persisted))
}
