//! The files of an engine: leftover files, checkpoints, and the report of an offline check.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Owner, Result, Tag, Waiting};

use crate::LogIndex;

/// The files of a running engine.
pub trait Files: Send + Sync {
    /// The file that names all others.
    fn manifest_path(&self) -> Waiting<'_, PathBuf>;

    /// Makes certain that the device has the manifest that was read when the engine was opened. Call it before anything
    /// goes by [`persisted`](super::Engine::persisted) that cannot be taken back.
    ///
    /// # Errors
    /// I/O. The next call tries again.
    fn confirm(&self) -> Waiting<'_, Result<()>>;

    /// Removes the files that nothing named when the engine was opened: outputs of jobs that a crash ended. Call it
    /// only after the log has been found whole: until then an old copy of the manifest may be the reason why nothing
    /// names them.
    ///
    /// # Errors
    /// As [`Files::confirm`], then the files stay. Files that cannot be removed become garbage, for [`Files::tidy`] to
    /// try again.
    fn discard_unnamed(&self) -> Waiting<'_, Result<()>>;

    /// Whether [`Files::tidy`] has something to do.
    fn has_garbage(&self) -> bool;

    /// Removes the files that nothing needs any more. Jobs call it when they end; call it after closing scans too.
    ///
    /// # Errors
    /// I/O errors. The next call tries the remaining files again.
    fn tidy(&self) -> Waiting<'_, Result<()>>;

    /// Holds the files of this moment. Data that is only in memory is not in them: seal and flush first if it must be.
    fn hold(&self) -> Box<dyn Checkpoint>;
}

/// The files of one moment. While the checkpoint is held they stay, whatever jobs do. A second directory with the same
/// files and a manifest of its own is the same engine.
pub trait Checkpoint: Send + Sync {
    /// The directory of the files.
    fn dir(&self) -> &Path;

    /// The file system to read them from.
    fn fs(&self) -> &Arc<dyn Fs>;

    /// The tag to read them with.
    fn tag(&self) -> Tag;

    /// Names of the files, without the manifest.
    fn files(&self) -> Vec<String>;

    /// Every log record up to this one is in the files.
    fn persisted(&self) -> LogIndex;

    /// Makes an engine of `dir`, which must hold all [`Checkpoint::files`] by now: writes the manifest that names them.
    ///
    /// # Errors
    /// I/O.
    fn write_manifest<'a>(&'a self, dir: &'a Path) -> Waiting<'a, Result<()>>;
}

/// The findings of an offline check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables read in full.
    pub tables: usize,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of these tables.
    pub bytes: u64,
    /// The manifest in force.
    pub manifest: PathBuf,
    /// The owner that the manifest names; `None` for a copy that was made for another owner.
    pub owner: Option<Owner>,
    /// Every log record up to this one is in the tables.
    pub persisted: LogIndex,
    /// Files that nothing names: left by a crash, removed at the next start. They are no problem.
    pub orphans: Vec<String>,
    /// Everything that is wrong, each with file and offset.
    pub problems: Vec<Error>,
}
