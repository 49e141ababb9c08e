//! Results as files of the user: JSON for programs, and a page to look at.

#![allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]

use std::path::Path;

use serde::Serialize;

use crate::out;

/// Whether `path` stands for standard output, which then takes the JSON alone.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Writes `value` as indented JSON with a newline at the end to `path`, or to standard output if that is `-`.
///
/// # Errors
/// The file cannot be written.
pub fn json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let json = serde_json::to_string_pretty(value).map_err(|error| error.to_string())? + "\n";
    if is_stdout(Some(path)) {
        out::write(json.as_bytes());
        return Ok(());
    }
    std::fs::write(path, json).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes a page with time series to `path`, and says where it is.
///
/// # Errors
/// The file cannot be written.
pub fn page(path: &Path, page: &str) -> Result<(), String> {
    std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    eprintln!("the time series are in {}", path.display());
    Ok(())
}
