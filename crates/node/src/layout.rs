//! The layout of the node's directory, as in `docs/format/directory.md`; making and removing the directories of
//! partitions.
//!
//! ```text
//! LOCK                    held by the running process
//! FORMAT                  "weir 4\n"
//! catalogue/              CURRENT and the journal of tenants
//! catalogue.mirror/       a second copy of the catalogue
//! partitions/000001/log/  segments
//! partitions/000001/tree/ CURRENT, manifest, tables
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, OpenOptions, Owner, Result, Tag, yield_now};

use crate::engines::TREE;

pub const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// Creates `dir` durably. It may exist and yet not be durable, made by a process that was killed, so its name is synced
/// every time.
pub async fn create_dir(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
    fs.create_dir_all(dir, TAG).await?;
    // The parent of a relative name of one part is the working directory.
    let parents =
        dir.ancestors().skip(1).map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    for (distance, parent) in parents.enumerate() {
        match fs.sync_dir(parent, TAG).await {
            // Farther up are directories that others made, which we may not be allowed to open.
            Err(error) if distance == 0 => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The directory of partition `number` of the node in `dir`.
pub fn partition_path(dir: &Path, number: u32) -> PathBuf {
    dir.join("partitions").join(format!("{number:06}"))
}

/// The partition directories that exist, by number. An entry with any other name is left alone.
pub async fn partitions(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Vec<u32>> {
    let names = match fs.list(&dir.join("partitions"), TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let number = |name: &str| name.parse().ok().filter(|number| format!("{number:06}") == name);
    Ok(names.iter().filter(|entry| entry.is_dir).filter_map(|entry| number(&entry.name)).collect())
}

/// Removes partition `number`, which the catalogue has condemned, and everything in it. Nobody may have it open. A file
/// that is not there counts as removed. Durable after [`sync_partitions`].
pub async fn remove_partition(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<()> {
    let own = partition_path(dir, number);
    for part in [own.join(TREE), own.join("log"), own.clone()] {
        let names = match fs.list(&part, TAG).await {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            names => names?,
        };
        for entry in names.into_iter().filter(|entry| !entry.is_dir) {
            fs.remove(&part.join(entry.name), TAG).await?;
            // Thousands of files: others want the disk, too.
            yield_now().await;
        }
        fs.remove_dir(&part, TAG).await?;
    }
    Ok(())
}

/// Makes the removal of partitions durable.
pub async fn sync_partitions(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
    match fs.sync_dir(&dir.join("partitions"), TAG).await {
        // No partition was ever used.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Whether partition `number` has a tree. It is made when the partition is first used.
pub async fn has_tree(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<bool> {
    let current = partition_path(dir, number).join(TREE).join("CURRENT");
    match fs.open(&current, OpenOptions::read_buffered(), TAG).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether partition `number` has anything in a log of its own. A partition that was never used has no log.
pub async fn has_log(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<bool> {
    match fs.list(&partition_path(dir, number).join("log"), TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(!names?.is_empty()),
    }
}

/// The error for a partition that was used and has no tree.
pub fn lost(dir: &Path, number: u32) -> Error {
    let current = partition_path(dir, number).join(TREE).join("CURRENT");
    let message = format!(
        "the file is missing, although the partition was in use: its data is lost, unless `weir repair {}` finds a \
         manifest whose tables are all there",
        dir.display()
    );
    Error::corruption(current, 0, message)
}

/// The directory of partition `number`, made durably.
pub async fn partition_dir(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<PathBuf> {
    let own = partition_path(dir, number);
    fs.create_dir_all(&own, TAG).await?;
    for parent in own.ancestors().skip(1).take(2) {
        fs.sync_dir(parent, TAG).await?;
    }
    Ok(own)
}
