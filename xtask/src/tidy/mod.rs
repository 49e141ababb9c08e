//! The house rules, as a test. Each rule is one file with one function from the repository to its findings.
//!
//! A rule that old code breaks is a ratchet: a list has each exception with its present figure, which may shrink but
//! not grow. `cargo xtask fix` lowers the figures; to raise one takes an edit by hand, which a reviewer sees.

mod arrows;
mod citations;
mod columns;
mod cycles;
mod documents;
mod programs;
mod ratchet;
mod size;
mod sources;
mod text;
mod unsafety;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A breach of one rule at one place.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Repository-relative path.
    pub path: String,
    /// 1-based; 0 means the whole file.
    pub line: usize,
    /// The rule, and what to do about it.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Every text file of the repository, by relative path.
#[derive(Default)]
pub struct Repo {
    root: std::path::PathBuf,
    files: BTreeMap<String, String>,
}

impl Repo {
    /// Reads what git tracks, and what it would track if it were added.
    pub fn load(root: &Path) -> Result<Self, String> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot run git: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let mut files = BTreeMap::new();
        for name in String::from_utf8_lossy(&output.stdout).split('\0').filter(|name| !name.is_empty()) {
            // A deleted file is still listed until the deletion is staged; a binary one has no lines to judge.
            let Ok(bytes) = std::fs::read(root.join(name)) else { continue };
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(name.to_owned(), text);
            }
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// How many files are judged.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Lowers the figures of every ratchet to what the files need now.
    pub fn tighten(&self) -> Result<(), String> {
        for (path, text) in [size::tightened(self), unsafety::tightened(self), cycles::tightened(self)] {
            std::fs::write(self.root.join(&path), text).map_err(|error| format!("cannot write {path}: {error}"))?;
        }
        Ok(())
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends in `suffix`.
    fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.ends_with(suffix))
    }

    fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }
}

/// Every breach of every rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let rules: [fn(&Repo) -> Vec<Finding>; 10] = [
        size::check,
        columns::check,
        words::check,
        arrows::check,
        cycles::check,
        programs::check,
        documents::check,
        citations::check,
        unsafety::check,
        sources::check,
    ];
    rules.iter().flat_map(|rule| rule(repo)).collect()
}
