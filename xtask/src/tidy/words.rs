//! Finds words that do not belong in the repository: left-over macros, and paths that only one machine has.

use super::text::code_only;
use super::{Finding, Repo};

/// Left-overs of work in progress. Spelt in halves, so that this file does not break its own rule.
const MACROS: [&str; 3] = [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!(")];
/// Marks of postponed work: it belongs in an issue, where somebody finds it.
const MARKS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
/// Folders of one machine, as the start of an absolute path.
const FOLDERS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
/// Hosts of registries: the machine that builds decides where packages come from.
const HOSTS: [&str; 3] =
    [concat!("index.cra", "tes.io"), concat!("static.cra", "tes.io"), concat!("proxy.go", "lang.org")];

pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.iter() {
        let code = if path.ends_with(".rs") { code_only(text) } else { String::new() };
        for (index, line) in code.lines().enumerate() {
            for word in MACROS.iter().filter(|word| line.contains(**word)) {
                findings.push(Finding::new(path, index + 1, format!("left-over `{word}`")));
            }
        }
        for (index, line) in text.lines().enumerate() {
            for word in MARKS.iter().filter(|word| has_word(line, word)) {
                findings.push(Finding::new(path, index + 1, format!("`{word}`: do it now, or open an issue")));
            }
            for folder in FOLDERS.iter().filter(|folder| starts_path(line, folder)) {
                findings.push(Finding::new(path, index + 1, format!("`{folder}` is a path of one machine")));
            }
            for host in HOSTS.iter().filter(|host| line.contains(**host)) {
                findings.push(Finding::new(path, index + 1, format!("`{host}` is a registry host")));
            }
            if path.ends_with(".rs") && line.ends_with([' ', '\t']) {
                findings.push(Finding::new(path, index + 1, "white space at the end of the line"));
            }
        }
    }
    findings
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

/// Whether `folder` stands in `line` as the start of an absolute path, and not in the middle of a path or an address.
fn starts_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '~' | '}'))
    })
}
