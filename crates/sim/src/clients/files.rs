//! Dumps as the user's own files: written by `weir sim clients --dump`, checked by `--check`.
#![allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use weir_scenario::println;

use super::dump;
use super::groups::groups;
use super::linear::{Operation, check};

/// Writes what `history`, made by the command `repeat`, tells of rows to the file at `path`.
///
/// # Errors
/// The file cannot be written.
pub fn write_dump(path: &Path, repeat: &str, history: &[Operation]) -> Result<(), String> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        dump::write(&mut out, repeat, &groups(history.to_vec()))?;
        out.flush()
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Checks the dump at `path`, and prints a verdict on each group.
///
/// # Errors
/// The file cannot be read, or the answers about some groups cannot be explained; the error tells the story of the
/// first.
pub fn check_dump(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let groups = dump::read(BufReader::new(file)).map_err(|error| format!("{}: {error}", path.display()))?;
    let (count, mut refused, mut story) = (groups.len(), 0, None);
    for (group, operations) in groups {
        let (len, verdict) = (operations.len(), check(operations));
        let word = if verdict.is_ok() { "linearizable" } else { "not linearizable" };
        println!("group {group}: {len} operations, {word}");
        if let Err(told) = verdict {
            refused += 1;
            story.get_or_insert_with(|| format!("group {group}: {told}"));
        }
    }
    match story {
        None => Ok(()),
        Some(story) => Err(format!("{refused} of {count} groups are not linearizable\n{story}")),
    }
}
