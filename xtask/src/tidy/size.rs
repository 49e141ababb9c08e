//! No source file is longer than [`LINES_MAX`] lines.

use std::collections::BTreeMap;

use super::ratchet::Ratchet;
use super::{Finding, Repo};

/// Beyond this, a file cannot be read in one sitting.
const LINES_MAX: usize = 800;
const LIST: &str = "xtask/tidy/long-files.txt";

fn long_files(repo: &Repo) -> BTreeMap<String, usize> {
    repo.ending(".rs")
        .map(|(path, text)| (path.to_owned(), text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .collect()
}

pub fn check(repo: &Repo) -> Vec<Finding> {
    let (list, mut findings) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    findings.extend(list.judge(&long_files(repo), "lines (the limit is 800: split it along its ideas)"));
    findings
}

pub fn tightened(repo: &Repo) -> (String, String) {
    let (list, _) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    (LIST.to_owned(), list.tightened(&long_files(repo)))
}
