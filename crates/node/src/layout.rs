//! The node's directory, as in `docs/format/directory.md`.
//!
//! ```text
//! LOCK                    held by the running process
//! FORMAT                  "weir 2\n"
//! catalogue/              CURRENT and the journal of tenants
//! partitions/000001/log/  segments
//! partitions/000001/tree/ CURRENT, manifest, tables
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, FsLock, OpenOptions, Owner, Result, Tag, yield_now};

const FORMAT: &[u8] = b"weir 2\n";

pub const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// Makes `dir` a node's directory, or checks that it is one, and locks it.
pub async fn prepare(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Box<dyn FsLock>> {
    create_dir(fs, dir).await?;
    let lock = fs.lock(&dir.join("LOCK")).await?;
    let path = dir.join("FORMAT");
    match fs.open(&path, OpenOptions::read_buffered(), TAG).await {
        Ok(file) => {
            let length = usize::try_from(file.len().await?).unwrap_or(usize::MAX).min(1024);
            let found = file.read_at(0, AlignedBuf::with_len(length), TAG).await?;
            if found[..] != *FORMAT {
                let message =
                    "this version of weir reads format `weir 2` only: the directory belongs to another version";
                return Err(Error::new(ErrorKind::Invalid, "open", &path, message));
            }
            // Whoever wrote it may have been killed before its name was durable.
            fs.sync_dir(dir, TAG).await?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if has_partitions(fs, dir).await? {
                return Err(Error::new(ErrorKind::Corruption, "open", &path, "missing, yet there are partitions"));
            }
            write_format(fs, dir, &path).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(lock)
}

/// Under a temporary name first: a power cut may leave a new file's length without its bytes, and a file that is there must
/// be right.
async fn write_format(fs: &Arc<dyn Fs>, dir: &Path, path: &Path) -> Result<()> {
    let temporary = dir.join("FORMAT.tmp");
    match fs.remove(&temporary, TAG).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = fs.open(&temporary, OpenOptions::create_new_buffered(), TAG).await?;
    file.write_at(0, AlignedBuf::copy_of(FORMAT), TAG).await?;
    file.sync(TAG).await?;
    fs.rename(&temporary, path, TAG).await?;
    fs.sync_dir(dir, TAG).await
}

async fn has_partitions(fs: &Arc<dyn Fs>, dir: &Path) -> Result<bool> {
    Ok(fs.list(dir, TAG).await?.iter().any(|entry| entry.name == "partitions"))
}

/// Creates `dir` durably. It may exist and yet not be durable, made by a process that was killed: so its name is synced
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

/// Locks `dir`, without changing anything.
///
/// # Errors
/// `NotFound` if it is not a node's directory, `Locked` if a server has it open.
pub async fn survey(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Box<dyn FsLock>> {
    let file = fs.open(&dir.join("FORMAT"), OpenOptions::read_buffered(), TAG).await?;
    let found = file.read_at(0, AlignedBuf::with_len(FORMAT.len()), TAG).await?;
    if found[..] != *FORMAT {
        return Err(Error::new(ErrorKind::Invalid, "check", dir, "its FORMAT is not `weir 2`"));
    }
    fs.lock(&dir.join("LOCK")).await
}

/// Where partition `number` of the node in `dir` is.
pub fn partition_path(dir: &Path, number: u32) -> PathBuf {
    dir.join("partitions").join(format!("{number:06}"))
}

/// The partition directories that are there, by number. What is not named like one is left alone.
pub async fn partitions(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Vec<u32>> {
    let names = match fs.list(&dir.join("partitions"), TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let number = |name: &str| name.parse().ok().filter(|number| format!("{number:06}") == name);
    Ok(names.iter().filter(|entry| entry.is_dir).filter_map(|entry| number(&entry.name)).collect())
}

/// Removes partition `number` and everything in it; nobody may have it open. What is not there is removed already.
pub async fn remove_partition(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<()> {
    let own = partition_path(dir, number);
    for part in [own.join("tree"), own.join("log"), own.clone()] {
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
    match fs.sync_dir(&dir.join("partitions"), TAG).await {
        // No partition was ever used.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Whether partition `number` has a tree. It is made when the partition is first used.
pub async fn has_tree(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<bool> {
    let current = partition_path(dir, number).join("tree").join("CURRENT");
    match fs.open(&current, OpenOptions::read_buffered(), TAG).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A partition that was used has no tree.
pub fn lost(dir: &Path, number: u32) -> Error {
    let current = partition_path(dir, number).join("tree").join("CURRENT");
    Error::corruption(current, 0, "missing, yet the partition was in use: its data is lost")
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
