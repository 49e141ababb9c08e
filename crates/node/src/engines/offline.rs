//! Checks and repairs of engines that nobody has open. The files show which engine it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, Fs, Owner, Result, Tag};
pub use weir_journal::Anchor;
use weir_lsm::version::manifest;
use weir_memory::repair::is_store;
use weir_model::LogIndex;
use weir_model::engine::CheckReport;

/// Reads all that the engine in `dir` has in files, and tells what is wrong. `progress` is called with (files read,
/// files in all).
///
/// # Errors
/// There is no engine in `dir`, or its manifest cannot be read; everything else is in the report.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, progress: impl FnMut(usize, usize)) -> Result<CheckReport> {
    let is_store = is_store(fs, dir).await?;
    let mut report = match is_store {
        true => weir_memory::check::check(fs, dir, progress).await?,
        false => weir_lsm::check::check(fs, dir, progress).await?,
    };
    // If files are damaged, nobody expects that their rows fit together.
    if report.problems.is_empty() {
        let problems = match is_store {
            true => weir_memory::check::check_rows(fs, dir).await?,
            false => weir_lsm::check::check_rows(fs, dir).await?,
        };
        let problems = problems.into_iter().map(|problem| Error::corruption(&report.manifest, 0, problem));
        report.problems = problems.collect();
    }
    Ok(report)
}

/// Looks at the `CURRENT` of the engine in `dir`. Changes nothing.
///
/// # Errors
/// I/O: nothing is known about the files then.
pub async fn examine(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Anchor> {
    match is_store(fs, dir).await? {
        true => weir_memory::repair::examine(fs, dir).await,
        false => weir_lsm::repair::examine(fs, dir).await,
    }
}

/// The manifest in force of the engine in `dir`, and the record of its log up to which everything is in files. Changes
/// nothing.
///
/// # Errors
/// `Corruption`, with file and offset; `NotFound` if there is no engine; I/O.
pub async fn persisted(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(PathBuf, LogIndex)> {
    match is_store(fs, dir).await? {
        true => weir_memory::repair::persisted(fs, dir).await,
        false => weir_lsm::repair::persisted(fs, dir).await,
    }
}

/// Makes manifest `number` of the engine in `dir` the current one: `CURRENT` looks the same, whatever the engine.
///
/// # Errors
/// I/O.
pub async fn point_at(fs: &Arc<dyn Fs>, dir: &Path, number: u64) -> Result<()> {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    weir_journal::point_at::<weir_lsm::version::Edit>(fs, dir, tag, number).await
}

/// The name of manifest `number`, whatever the engine.
pub fn manifest_name(number: u64) -> String {
    manifest::file_name(number)
}
