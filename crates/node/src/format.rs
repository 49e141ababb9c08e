//! `FORMAT`: the file that says which version of Weir's formats a directory has, and that it is a node's directory at
//! all.
//!
//! It is the last file that a first start makes. So if it is there, everything else must be, too. If it is not there,
//! the directory is new only if it holds nothing but what a first start may leave.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Clock, Error, ErrorKind, Fs, FsLock, Nanos, OpenOptions, Result, sleep_until};

use crate::catalogue::copy::Role;
use crate::catalogue::survey::{Survey, repair};
use crate::layout::{self, TAG};

/// The version that is written. It goes up whenever older versions would misread what newer ones write.
const VERSION: u32 = 4;
/// The former version, which is read, too: its directories have strings only, and nothing that cannot be read today.
const FORMER: u32 = 3;

/// A start that finds the directory locked waits this long: the last background work of a node that was dropped a
/// moment ago, or a process that was told to end, may still have it.
const LOCK_WAIT: Nanos = 1_000_000_000;
/// And it tries again this often.
const LOCK_RETRY: Nanos = 10_000_000;

fn content(version: u32) -> String {
    format!("weir {version}\n")
}

/// The content of `FORMAT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This version.
    Present,
    /// The version before, which is carried over as it is: the next start writes this version.
    Former,
    /// Another version.
    Other(u32),
    /// Nothing: there is no such file.
    Missing,
    /// Nothing that can be read.
    Damaged,
}

impl Format {
    /// Reads `FORMAT` in `dir`.
    ///
    /// # Errors
    /// I/O.
    pub async fn read(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Format> {
        let file = match fs.open(&dir.join("FORMAT"), OpenOptions::read_buffered(), TAG).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Format::Missing),
            file => file?,
        };
        let length = usize::try_from(file.len().await?).unwrap_or(usize::MAX).min(1024);
        let found = file.read_at(0, AlignedBuf::with_len(length), TAG).await?;
        let text = std::str::from_utf8(&found).unwrap_or_default();
        let version = text.strip_prefix("weir ").and_then(|rest| rest.trim_end().parse().ok());
        Ok(match version.filter(|&version| content(version) == text) {
            Some(VERSION) => Format::Present,
            Some(FORMER) => Format::Former,
            Some(version) => Format::Other(version),
            None => Format::Damaged,
        })
    }

    /// Why a directory with this `FORMAT` is not opened; `None` if it may be.
    pub fn refusal(self, dir: &Path) -> Option<Error> {
        let (path, repair) = (dir.join("FORMAT"), repair(dir));
        match self {
            Format::Present | Format::Former => None,
            Format::Other(version) => {
                let message = format!(
                    "it says `weir {version}`, but this version of Weir reads only `weir {FORMER}` and `weir \
                     {VERSION}`; nothing was changed. Run the version of Weir that made the directory, and copy its \
                     tenants into a new directory with a Redis client. If this version made it, the file is damaged: \
                     {repair} finds out"
                );
                Some(Error::new(ErrorKind::Invalid, "open", path, message))
            }
            Format::Missing => {
                let message =
                    format!("the file is missing, although the directory is not new: {repair} writes it anew");
                Some(Error::corruption(path, 0, message))
            }
            Format::Damaged => {
                let message =
                    format!("it names neither `weir {VERSION}` nor any other version: {repair} writes it anew");
                Some(Error::corruption(path, 0, message))
            }
        }
    }

    /// Makes `FORMAT` in `dir`, durably. It is written under a temporary name first: a power cut may leave a new file's
    /// length without its bytes, and a `FORMAT` that is there must be right.
    ///
    /// # Errors
    /// I/O.
    pub async fn write(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
        let temporary = dir.join("FORMAT.tmp");
        match fs.remove(&temporary, TAG).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs.open(&temporary, OpenOptions::create_new_buffered(), TAG).await?;
        file.write_at(0, AlignedBuf::copy_of(content(VERSION).as_bytes()), TAG).await?;
        file.sync(TAG).await?;
        fs.rename(&temporary, &dir.join("FORMAT"), TAG).await?;
        fs.sync_dir(dir, TAG).await
    }
}

/// The kind of directory that a start finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A directory without anything in it that could be lost.
    New,
    /// A node's directory.
    Existing,
}

/// Locks `dir`, which is made if need be, and says whether it is new. A directory of the former version becomes one of
/// this version; nothing else is changed.
///
/// # Errors
/// `Locked` if another process still has it a second later; `Invalid` if it is of another version; `Corruption` if
/// `FORMAT` is damaged, or missing although the directory is not new.
pub async fn claim(fs: &Arc<dyn Fs>, clock: &Arc<dyn Clock>, dir: &Path) -> Result<(Box<dyn FsLock>, Origin)> {
    layout::create_dir(fs, dir).await?;
    let lock = lock(fs, clock, &dir.join("LOCK")).await?;
    let format = Format::read(fs, dir).await?;
    if format == Format::Missing && is_new(fs, dir).await? {
        return Ok((lock, Origin::New));
    }
    match format.refusal(dir) {
        Some(refusal) => Err(refusal),
        None => {
            if format == Format::Former {
                carry_over(fs, dir).await?;
            }
            // The process that wrote it may have been killed before its name was durable.
            fs.sync_dir(dir, TAG).await?;
            Ok((lock, Origin::Existing))
        }
    }
}

async fn lock(fs: &Arc<dyn Fs>, clock: &Arc<dyn Clock>, path: &Path) -> Result<Box<dyn FsLock>> {
    let until = clock.now() + LOCK_WAIT;
    loop {
        match fs.lock(path).await {
            Err(error) if error.kind() == ErrorKind::Locked && clock.now() < until => {
                sleep_until(clock, clock.now() + LOCK_RETRY).await;
            }
            outcome => return outcome,
        }
    }
}

/// Marks a directory of the former version as one of this version, before anything is written that the former version
/// would not understand.
async fn carry_over(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
    match Format::write(fs, dir).await {
        // A full disk can be read all the same. The former version would refuse what is written later, only with other
        // words: later logs and tables have versions and kinds of their own.
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            tracing::warn!(%error, "cannot write the new version into FORMAT yet");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Whether a directory without `FORMAT` holds nothing but what an interrupted first start may leave: no
/// partition, and of each copy of the catalogue nothing or its very first edit.
pub async fn is_new(fs: &Arc<dyn Fs>, dir: &Path) -> Result<bool> {
    if !layout::partitions(fs, dir).await?.is_empty() {
        return Ok(false);
    }
    let survey = Survey::take(fs, dir, TAG).await;
    for role in Role::ALL {
        let is_first_edit = match survey.copy(role) {
            Ok(state) => state.stamp.epoch == 1,
            Err(unsound) => {
                unsound.only_damage()?;
                // A journal is durable before anything names it.
                unsound.path.ends_with("CURRENT") && unsound.is_missing
            }
        };
        if !is_first_edit {
            return Ok(false);
        }
    }
    Ok(true)
}
