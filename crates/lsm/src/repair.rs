//! Examines a tree that nobody has open, for repairs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, Fs, Owner, Result, Tag};
use weir_journal::Anchor;
use weir_model::LogIndex;

use crate::tree::fold;
use crate::version::manifest::Manifest;
use crate::version::{Edit, TableMeta};

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// Looks at the `CURRENT` of the tree in `dir`, which nobody may have open. Changes nothing.
///
/// # Errors
/// I/O: nothing is known about the files then.
pub async fn examine(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Anchor> {
    // Sound means: every table that the manifest names has the length that the manifest says.
    weir_journal::examine::<Edit>(fs, dir, TAG, |recovered, lengths| {
        let is_there = |meta: &TableMeta| lengths.get(&*TableMeta::file_name(meta.id)) == Some(&meta.bytes);
        fold(&recovered).is_ok_and(|folded| folded.tables.values().all(|(_, meta)| is_there(meta)))
    })
    .await
}

/// The manifest in force of the tree in `dir`, and the log index up to which all records are in tables. Changes
/// nothing.
///
/// # Errors
/// `Corruption`, with file and offset; `NotFound` if there is no tree; I/O.
pub async fn persisted(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(PathBuf, LogIndex)> {
    let recovered = Manifest::recover_known(fs, dir, TAG, "tree").await?;
    let path = recovered.path(dir);
    let folded = fold(&recovered).map_err(|message| Error::corruption(&path, 0, message))?;
    Ok((path, folded.persisted))
}
