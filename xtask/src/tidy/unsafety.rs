//! `unsafe` stands only in listed files, and no more often than listed.

use std::collections::BTreeMap;

use super::ratchet::Ratchet;
use super::text::code_only;
use super::{Finding, Repo};

const LIST: &str = "xtask/tidy/unsafe-files.txt";

fn uses(repo: &Repo) -> BTreeMap<String, usize> {
    repo.ending(".rs")
        .map(|(path, text)| {
            let code = code_only(text);
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            (path.to_owned(), words.filter(|word| *word == "unsafe").count())
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

pub fn check(repo: &Repo) -> Vec<Finding> {
    let (list, mut findings) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    findings.extend(list.judge(&uses(repo), "uses of `unsafe`"));
    findings
}

pub fn tightened(repo: &Repo) -> (String, String) {
    let (list, _) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    (LIST.to_owned(), list.tightened(&uses(repo)))
}
