//! The files of an engine: what is left over, checkpoints, and what a check off line tells.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Owner, Result, Tag, Waiting};

use crate::LogIndex;

/// The files of an engine that runs.
pub trait Files: Send + Sync {
    /// The file that names all others.
    fn manifest_path(&self) -> Waiting<'_, PathBuf>;

    /// Removes the files that nothing named at the opening: outputs of jobs that a crash ended. For the time when the
    /// log has been found whole: before that an older copy of the manifest may be why nothing names them.
    ///
    /// # Errors
    /// What cannot be removed is garbage, for [`Files::tidy`] to try again.
    fn discard_unnamed(&self) -> Waiting<'_, Result<()>>;

    /// Whether [`Files::tidy`] has something to do.
    fn has_garbage(&self) -> bool;

    /// Removes the files that nothing needs any more. Jobs call it when they end; call it after closing scans too.
    ///
    /// # Errors
    /// I/O. What is left is tried again by the next call.
    fn tidy(&self) -> Waiting<'_, Result<()>>;

    /// Holds all that is in files now. What is only in memory is not in it: seal and flush first if it must be.
    fn hold(&self) -> Box<dyn Checkpoint>;
}

/// The files of one moment. While it is held they stay, whatever jobs do. A second directory with the same files and a
/// manifest of its own is the same engine.
pub trait Checkpoint: Send + Sync {
    /// Where the files are.
    fn dir(&self) -> &Path;

    /// How to read them.
    fn fs(&self) -> &Arc<dyn Fs>;

    /// As what.
    fn tag(&self) -> Tag;

    /// Names of the files, without the manifest.
    fn files(&self) -> Vec<String>;

    /// Every log record up to here is in them.
    fn persisted(&self) -> LogIndex;

    /// Makes an engine of `dir`, where all [`Checkpoint::files`] are by now: writes the manifest that names them.
    ///
    /// # Errors
    /// I/O.
    fn write_manifest<'a>(&'a self, dir: &'a Path) -> Waiting<'a, Result<()>>;
}

/// What a check off line found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables read in full.
    pub tables: usize,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The manifest in force.
    pub manifest: PathBuf,
    /// Whose engine it says it is; `None` of a copy that was made for another owner.
    pub owner: Option<Owner>,
    /// Log records up to here are in the tables.
    pub persisted: LogIndex,
    /// Files that nothing names: left by a crash, removed at the next start. No problem.
    pub orphans: Vec<String>,
    /// What is wrong, each with file and offset.
    pub problems: Vec<Error>,
}
