//! The directory of a backup: claimed by one backup at a time, and not inside anything that others write.
//!
//! The claim is a lock on `BACKUP.lock`, which the kernel gives back when the process ends, however it ends. So of
//! several backups into one directory, of this process or of others, one goes on and the others are refused. A
//! directory that has the file, without its lock and without `CURRENT`, is what a broken-off backup left. The file is
//! removed when the backup is finished, and never before: a process that has it open already would lock a file that has
//! no name any more, while another process makes a new one.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, DirEntry, Error, ErrorKind, Fs, FsLock, OpenOptions, Result, local_path};
use weir_journal::file_name;

use super::manifest::{BackupManifest, is_file_name, is_partition_name};
use crate::layout::{self, TAG};

/// Number of a backup's only manifest.
pub const MANIFEST: u64 = 1;
const LOCK: &str = "BACKUP.lock";
const CURRENT: &str = "CURRENT";
/// The name of the journal's `CURRENT` until it is complete.
const CURRENT_NEW: &str = "CURRENT.tmp";

/// A directory that is this backup's alone until this is dropped.
pub struct BackupTarget {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    _lock: Box<dyn FsLock>,
}

impl BackupTarget {
    /// Claims `to`, which is made if it does not exist, for a backup of the node whose data is in `data`.
    ///
    /// # Errors
    /// `Invalid` if no backup can be there: it is no absolute path of this machine, or inside a data directory or a
    /// backup (links followed); `AlreadyExists` if something is there; `Locked` if another backup is being made there;
    /// I/O.
    pub async fn claim(fs: &Arc<dyn Fs>, data: &Path, to: &Path) -> Result<Self> {
        let dir = real(fs, to).await?;
        let data = fs.real_path(data, TAG).await?;
        if dir.starts_with(&data) {
            return Err(refused(
                &dir,
                "it is inside the data directory, where the server removes files that it does not know: choose a \
                 directory outside",
            ));
        }
        check_surroundings(fs, &dir).await?;
        layout::create_dir(fs, &dir).await?;
        let entries = fs.list(&dir, TAG).await?;
        if !has(&entries, LOCK) {
            // Checked before that file is made: a directory of somebody else's stays as it is.
            check_content(&dir, &entries)?;
        }
        let lock = fs.lock(&dir.join(LOCK)).await.map_err(|error| match error.kind() {
            ErrorKind::Locked => {
                let message = format!(
                    "another backup is being made in it ({error}): choose a separate directory for each backup"
                );
                Error::new(ErrorKind::Locked, ACTION, &dir, message)
            }
            _ => error,
        })?;
        let claimed = Self { fs: Arc::clone(fs), dir, _lock: lock };
        // From now on nobody else can begin here, but somebody may have done so before, here or around us.
        check_content(&claimed.dir, &fs.list(&claimed.dir, TAG).await?)?;
        if let Err(error) = check_surroundings(fs, &claimed.dir).await {
            // The directory around stays claimed, so nobody can begin here, whoever opens the file before it goes.
            claimed.remove_if_there(LOCK).await;
            if let Err(error) = fs.remove_dir(&claimed.dir, TAG).await {
                tracing::debug!(
                    dir = %claimed.dir.display(),
                    %error,
                    "cannot remove the directory of a refused backup"
                );
            }
            return Err(error);
        }
        fs.sync_dir(&claimed.dir, TAG).await?;
        Ok(claimed)
    }

    /// The path of the directory, links followed.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The backup is finished, with a `CURRENT`, and the claim is not needed any more. If removing it fails, what
    /// remains of it harms nothing.
    pub async fn finish(self) {
        self.remove_if_there(LOCK).await;
        self.sync().await;
    }

    /// The backup has failed: removes what it wrote, so that it does not fill the disk and the directory can be used
    /// again. The lock's file stays (see the module).
    pub async fn clear(self) {
        // First the files that make it a backup.
        for name in [CURRENT, CURRENT_NEW, &file_name::<BackupManifest>(MANIFEST)] {
            self.remove_if_there(name).await;
        }
        self.sync().await;
        let entries = self.fs.list(&self.dir, TAG).await;
        for part in entries.into_iter().flatten().filter(|entry| entry.is_dir && is_partition_name(&entry.name)) {
            let files = self.fs.list(&self.dir.join(&part.name), TAG).await;
            for file in files.into_iter().flatten().filter(|file| is_file_name(&file.name) || file.name == CURRENT_NEW)
            {
                self.remove_if_there(&Path::new(&part.name).join(file.name)).await;
            }
            if let Err(error) = self.fs.remove_dir(&self.dir.join(&part.name), TAG).await {
                tracing::warn!(
                    dir = %self.dir.display(),
                    %error,
                    "cannot remove the files of a failed backup: remove them by hand"
                );
            }
        }
        self.sync().await;
    }

    async fn remove_if_there(&self, name: impl AsRef<Path>) {
        match self.fs.remove(&self.dir.join(name), TAG).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(
                    dir = %self.dir.display(),
                    %error,
                    "cannot remove a file that a backup no longer needs: remove it by hand"
                );
            }
            _ => {}
        }
    }

    async fn sync(&self) {
        if let Err(error) = self.fs.sync_dir(&self.dir, TAG).await {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot sync the directory of a backup");
        }
    }
}

const ACTION: &str = "back up to";

fn refused(dir: &Path, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, ACTION, dir, message)
}

/// Where `path`, which somebody typed, really is.
pub async fn real(fs: &Arc<dyn Fs>, path: &Path) -> Result<PathBuf> {
    let path = local_path(path.to_path_buf())?;
    let wrong = || {
        let message = "an absolute path is needed, because the server has another working directory; and no `..` may \
                       follow a directory that does not exist yet";
        Error::new(ErrorKind::Invalid, "find", &path, message)
    };
    if !path.is_absolute() {
        return Err(wrong());
    }
    let real = fs.real_path(&path, TAG).await?;
    if real.components().any(|part| part == Component::ParentDir) { Err(wrong()) } else { Ok(real) }
}

/// Whether `dir` was claimed for a backup that is not finished.
pub async fn is_claimed(fs: &Arc<dyn Fs>, dir: &Path) -> Result<bool> {
    Ok(has(&fs.list(dir, TAG).await?, LOCK))
}

/// Refuses a directory with anything in it but the lock's file.
fn check_content(dir: &Path, entries: &[DirEntry]) -> Result<()> {
    if entries.iter().all(|entry| entry.name == LOCK) {
        return Ok(());
    }
    let is_finished = has(entries, CURRENT) && has(entries, &file_name::<BackupManifest>(MANIFEST));
    let message = match has(entries, LOCK) {
        _ if is_finished => {
            "it is not empty but holds a finished backup: choose a new directory for each backup".into()
        }
        true => format!(
            "it is not empty: a backup into it was interrupted. Remove it (rm -r {}) or choose another directory",
            dir.display()
        ),
        false => "it is not empty: choose a new directory for each backup".into(),
    };
    Err(Error::new(ErrorKind::AlreadyExists, ACTION, dir, message))
}

fn has(entries: &[DirEntry], name: &str) -> bool {
    entries.iter().any(|entry| entry.name == name)
}

/// Refuses a directory inside a backup, finished or not, or inside any node's data.
async fn check_surroundings(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
    let manifest = file_name::<BackupManifest>(MANIFEST);
    for around in dir.ancestors().skip(1) {
        let is_backup =
            begins_with(fs, &around.join(LOCK), b"").await || begins_with(fs, &around.join(&manifest), b"").await;
        let what = match is_backup {
            true => "a backup",
            false if begins_with(fs, &around.join("FORMAT"), b"weir ").await => "a data directory",
            false => continue,
        };
        return Err(refused(
            dir,
            format!("it is inside {}, which is {what}: choose a directory outside", around.display()),
        ));
    }
    Ok(())
}

/// Whether there is such a file. A file that cannot be opened is not ours: farther up are directories that others made.
async fn begins_with(fs: &Arc<dyn Fs>, path: &Path, bytes: &[u8]) -> bool {
    let read = async {
        let file = fs.open(path, OpenOptions::read_buffered(), TAG).await?;
        file.read_at(0, AlignedBuf::with_len(bytes.len()), TAG).await
    };
    read.await.is_ok_and(|found| found[..] == *bytes)
}
