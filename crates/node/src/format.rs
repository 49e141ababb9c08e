//! `FORMAT`: which version of Weir's formats a directory has, and that it is a node's directory at all.
//!
//! It is the last file that a first start makes. So where it is, everything else must be; and where it is not, the
//! directory is new only if it holds nothing that a first start does not leave.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Clock, Error, ErrorKind, Fs, FsLock, Nanos, OpenOptions, Result, sleep_until};

use crate::catalogue::copy::Role;
use crate::catalogue::survey::{Survey, repair};
use crate::layout::{self, TAG};

/// The version that this one writes. It goes up whenever older versions would misread what newer ones write.
const VERSION: u32 = 4;
/// The version that this one reads, too: it has strings only, and nothing that is not read today.
const FORMER: u32 = 3;

/// Whoever finds the directory locked waits for so long: the last background work of a node that was dropped a moment
/// ago, or a process that was told to end, may still have it.
const LOCK_WAIT: Nanos = 1_000_000_000;
/// And tries as often.
const LOCK_RETRY: Nanos = 10_000_000;

fn content(version: u32) -> String {
    format!("weir {version}\n")
}

/// What `FORMAT` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This version.
    Present,
    /// One before, which is carried over as it is: the next start writes this version.
    Former,
    /// Another one.
    Other(u32),
    /// Nothing: there is no such file.
    Missing,
    /// Nothing that can be read.
    Damaged,
}

impl Format {
    /// What `FORMAT` in `dir` says.
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
                    "it says `weir {version}`, and this version of Weir reads `weir {FORMER}` and `weir {VERSION}` only; nothing was changed. Run the version \
                     that made the directory, and copy its tenants into a new directory with a Redis client. If this version made it, the \
                     file is damaged: {repair} looks whether that is so"
                );
                Some(Error::new(ErrorKind::Invalid, "open", path, message))
            }
            Format::Missing => {
                let message = format!("missing, yet the directory is not new: {repair} makes it anew");
                Some(Error::corruption(path, 0, message))
            }
            Format::Damaged => {
                let message =
                    format!("it does not say `weir {VERSION}`, nor any other version: {repair} makes it anew");
                Some(Error::corruption(path, 0, message))
            }
        }
    }

    /// Makes `FORMAT` in `dir`, durably. Under a temporary name first: a power cut may leave a new file's length
    /// without its bytes, and a file that is there must be right.
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

/// What a start finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A directory without anything in it that could be lost.
    New,
    /// A node's directory.
    Existing,
}

/// Locks `dir`, made if need be, and says whether it is new. A directory of the former version becomes one of this
/// version; nothing else is changed.
///
/// # Errors
/// `Locked` if somebody else has it, and still has it a second later; `Invalid` if it is another version's;
/// `Corruption` if `FORMAT` is damaged, or missing although the directory is not new.
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
            // Whoever wrote it may have been killed before its name was durable.
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

/// Says that a directory of the former version is one of this version, before anything is written that the former one
/// would not understand.
async fn carry_over(fs: &Arc<dyn Fs>, dir: &Path) -> Result<()> {
    match Format::write(fs, dir).await {
        // A full disk can be read all the same. The former version would refuse what is written later, only with other
        // words: its logs and tables have versions and kinds of their own.
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            tracing::warn!(%error, "cannot write down yet that the directory is of this version");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Whether a directory without `FORMAT` holds nothing but what a first start that was broken off may leave: no
/// partition, and of each copy of the catalogue nothing or its very first edit.
pub async fn is_new(fs: &Arc<dyn Fs>, dir: &Path) -> Result<bool> {
    if !layout::partitions(fs, dir).await?.is_empty() {
        return Ok(false);
    }
    let survey = Survey::take(fs, dir, TAG).await;
    for role in Role::ALL {
        let is_first_edit = match survey.copy(role) {
            Ok(state) => state.stamp.epoch == 1,
            Err(unsound) => match &unsound.device {
                Some(error) => return Err(error.clone()),
                // Its journal is durable before anything names it.
                None => unsound.path.ends_with("CURRENT") && unsound.is_missing,
            },
        };
        if !is_first_edit {
            return Ok(false);
        }
    }
    Ok(true)
}
