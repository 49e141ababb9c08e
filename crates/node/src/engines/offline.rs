//! Engines that nobody has open: checks and repairs.

use std::path::Path;
use std::sync::Arc;

use weir_io::{Fs, Result};
pub use weir_lsm::repair::{Anchor, examine, persisted, point_at};
use weir_lsm::version::manifest;
use weir_model::engine::CheckReport;

/// Reads all that the engine in `dir` has in files, and tells what is wrong. `progress` is called with (files read,
/// files in all).
///
/// # Errors
/// There is no engine in `dir`, or its manifest cannot be read; everything else is in the report.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, progress: impl FnMut(usize, usize)) -> Result<CheckReport> {
    weir_lsm::check::check(fs, dir, progress).await
}

/// The name of manifest `number`.
pub fn manifest_name(number: u64) -> String {
    manifest::file_name(number)
}
