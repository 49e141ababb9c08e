//! The node's directory.
//!
//! ```text
//! LOCK                    held by the running process
//! FORMAT                  "weir 1\n"
//! partitions/000001/log/  segments
//! partitions/000001/tree/ CURRENT, manifest, tables
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, FsLock, OpenOptions, Owner, Result, Tag};

const FORMAT: &[u8] = b"weir 1\n";

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

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
                    "this version of weir reads format `weir 1` only: the directory belongs to another version";
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
async fn create_dir(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
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

/// Locks `dir` and gives the directories of its partitions, without changing anything.
///
/// # Errors
/// `NotFound` if it is not a node's directory, `Locked` if a server has it open.
pub async fn survey(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(Box<dyn FsLock>, Vec<PathBuf>)> {
    let file = fs.open(&dir.join("FORMAT"), OpenOptions::read_buffered(), TAG).await?;
    let found = file.read_at(0, AlignedBuf::with_len(FORMAT.len()), TAG).await?;
    if found[..] != *FORMAT {
        return Err(Error::new(ErrorKind::Invalid, "check", dir, "its FORMAT is not `weir 1`"));
    }
    let lock = fs.lock(&dir.join("LOCK")).await?;
    let partitions = dir.join("partitions");
    let names = fs.list(&partitions, TAG).await?;
    Ok((lock, names.into_iter().filter(|entry| entry.is_dir).map(|entry| partitions.join(entry.name)).collect()))
}

/// The directory of partition `number`, made durably.
pub async fn partition_dir(fs: &Arc<dyn Fs>, dir: &Path, number: u32) -> Result<PathBuf> {
    let partitions = dir.join("partitions");
    create_dir(fs, &partitions).await?;
    let own = partitions.join(format!("{number:06}"));
    create_dir(fs, &own).await?;
    Ok(own)
}
