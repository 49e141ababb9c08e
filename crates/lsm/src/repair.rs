//! Repairing the anchor of a tree off line: a `CURRENT` that is missing or damaged, where the manifest that it named is
//! still there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, Result, Tag};
use weir_model::LogIndex;

use crate::tree::fold;
use crate::version::manifest::{self, Manifest, Recovered};
use crate::version::{Edit, TableMeta};

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// What the anchor of a tree is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// `CURRENT` names a manifest that can be read.
    Sound,
    /// It does not.
    Broken {
        /// What is wrong, with the file.
        why: String,
        /// The newest manifest that can be read and whose tables are all there, if any.
        newest: Option<u64>,
    },
}

/// Looks at the anchor of the tree in `dir`, which nobody may have open. Changes nothing.
///
/// # Errors
/// The directory cannot be listed.
pub async fn examine(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Anchor> {
    let why = match Manifest::recover(fs, dir, TAG).await {
        Ok(Some(_)) => return Ok(Anchor::Sound),
        Ok(None) => format!("{} is missing", dir.join("CURRENT").display()),
        Err(error) => error.to_string(),
    };
    let names = match fs.list(dir, TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Anchor::Broken { why, newest: None }),
        names => names?,
    };
    let lengths: BTreeMap<&str, u64> = names.iter().map(|entry| (entry.name.as_str(), entry.len)).collect();
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|entry| weir_journal::file_number::<Edit>(&entry.name)).collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        if is_complete(fs, dir, number, &lengths).await {
            return Ok(Anchor::Broken { why, newest: Some(number) });
        }
    }
    Ok(Anchor::Broken { why, newest: None })
}

/// The manifest in force of the tree in `dir`, and up to which record of its log everything is in tables. Changes
/// nothing.
///
/// # Errors
/// `Corruption`, with file and offset; `NotFound` if there is no tree; I/O.
pub async fn persisted(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(PathBuf, LogIndex)> {
    let none = || Error::new(ErrorKind::NotFound, "find CURRENT in", dir, "this is not a tree's directory");
    let recovered = Manifest::recover(fs, dir, TAG).await?.ok_or_else(none)?;
    let path = dir.join(manifest::file_name(recovered.number));
    let folded = fold(&recovered).map_err(|message| Error::corruption(&path, 0, message))?;
    Ok((path, folded.persisted))
}

/// Whether manifest `number` can be read, and every table that it names has the length that it says.
async fn is_complete(fs: &Arc<dyn Fs>, dir: &Path, number: u64, lengths: &BTreeMap<&str, u64>) -> bool {
    let path = dir.join(manifest::file_name(number));
    let read = async {
        let file = fs.open(&path, OpenOptions::read_buffered(), TAG).await?;
        let length = file.len().await? as usize;
        file.read_at(0, AlignedBuf::with_len(length), TAG).await
    };
    // Whatever keeps it from being read, it is not the one to believe; an older one may be.
    let Ok(bytes) = read.await else { return false };
    let Ok((edits, torn_at)) = manifest::decode(&bytes) else { return false };
    let Ok(folded) = fold(&Recovered { number, edits, torn_at }) else { return false };
    folded.tables.values().all(|(_, meta)| lengths.get(&*TableMeta::file_name(meta.id)) == Some(&meta.bytes))
}

/// Makes manifest `number` of the tree in `dir` the current one.
///
/// # Errors
/// I/O.
pub async fn point_at(fs: &Arc<dyn Fs>, dir: &Path, number: u64) -> Result<()> {
    weir_journal::point_at::<Edit>(fs, dir, TAG, number).await
}
