//! No comment is wider than [`COLUMNS_MAX`] columns: rustfmt takes care of the code, but not of comments.

use super::{Finding, Repo};

const COLUMNS_MAX: usize = 120;

pub fn check(repo: &Repo) -> Vec<Finding> {
    let lines = repo.ending(".rs").flat_map(|(path, text)| text.lines().enumerate().map(move |line| (path, line)));
    lines
        .filter(|(_, (_, line))| is_wide_comment(line))
        .map(|(path, (index, line))| {
            let columns = line.chars().count();
            Finding::new(path, index + 1, format!("a comment of {columns} columns (the limit is {COLUMNS_MAX})"))
        })
        .collect()
}

/// A line of a table cannot be broken, nor can a single word.
fn is_wide_comment(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim();
    line.chars().count() > COLUMNS_MAX && !text.starts_with('|') && text.contains(' ')
}
