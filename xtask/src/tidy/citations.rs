//! Citations: every number that a comment or a page cites has a row on the page that explains it.
//!
//! `docs/papers.md` explains mechanisms (`FX` and six more prefixes, a dash, a number) and goals (`G` and a number),
//! `docs/security.md` explains promises (`S` and a number). The first cell of a row is one number, several ("SI-13,
//! SI-14"), or a range ("CR-14 to CR-17").

use std::collections::BTreeSet;

use super::{Finding, Repo};

const PAPERS: &str = "docs/papers.md";
const SECURITY: &str = "docs/security.md";
/// The prefixes before the dash of a mechanism's number.
const PREFIXES: [&str; 7] = ["FX", "CR", "SI", "DF", "XS", "U", "C"];

pub fn check(repo: &Repo) -> Vec<Finding> {
    let rows: BTreeSet<String> =
        [PAPERS, SECURITY].iter().flat_map(|page| rows(repo.text(page).unwrap_or_default())).collect();
    let mut findings = tests_that_are_gone(repo);
    for (path, text) in repo.iter() {
        for (index, line) in text.lines().enumerate() {
            let mechanisms = words(line).filter(|word| is_mechanism(word)).map(|word| (word, PAPERS));
            // In code, a letter with digits could be anything.
            let promises = words(prose(path, line)).filter_map(|word| Some((word, page_of_promise(word)?)));
            for (number, page) in mechanisms.chain(promises) {
                // A part of a number, such as its b, is explained with the whole number.
                let whole = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
                if !rows.contains(number) && !rows.contains(whole) {
                    findings.push(Finding::new(path, index + 1, format!("{number} has no row in {page}")));
                }
            }
        }
    }
    findings
}

/// Runs of letters, digits and dashes.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').map(|word| word.trim_matches('-'))
}

/// The prose of a line: the whole line of a page, the comment of a line in a source file.
fn prose<'a>(path: &str, line: &'a str) -> &'a str {
    if path.ends_with(".md") {
        line
    } else if path.ends_with(".rs") {
        line.split_once("//").map_or("", |(_, comment)| comment)
    } else {
        ""
    }
}

/// Whether `word` is a prefix, a dash, perhaps an `E` or a `Q`, digits, perhaps one letter.
fn is_mechanism(word: &str) -> bool {
    let Some((prefix, number)) = word.split_once('-') else { return false };
    let number = number.strip_prefix(['E', 'Q']).unwrap_or(number);
    let digits = number.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(number);
    PREFIXES.contains(&prefix) && is_digits(digits)
}

/// The page that explains `word`, if it is the number of a goal or a promise.
fn page_of_promise(word: &str) -> Option<&'static str> {
    let (page, number) = match (word.strip_prefix('G'), word.strip_prefix('S')) {
        (Some(number), _) => (PAPERS, number),
        (_, Some(number)) => (SECURITY, number),
        _ => return None,
    };
    (is_digits(number) && number.len() <= 2).then_some(page)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The numbers in the first cells of a page's tables.
fn rows(page: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).flat_map(expand).collect()
}

/// "CR-14 to CR-17" as four numbers; anything else as it is.
fn expand(cell: &str) -> Vec<String> {
    let parts = |number: &str| {
        let stem = number.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let digits = number[stem.len()..].parse::<u32>().ok()?;
        Some((stem, digits))
    };
    let ends = cell.split_once(" to ").and_then(|(first, last)| Some((parts(first)?, parts(last)?)));
    match ends {
        Some(((stem, first), (same, last))) if stem == same => {
            (first..=last).map(|digits| format!("{stem}{digits}")).collect()
        }
        _ => vec![cell.to_owned()],
    }
}

/// Finds tests that the page of papers names and links to, in files that have no such function.
fn tests_that_are_gone(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in repo.text(PAPERS).unwrap_or_default().lines().enumerate() {
        for link in line.split("[`").skip(1) {
            let Some((name, rest)) = link.split_once("`](../") else { continue };
            let Some((path, _)) = rest.split_once(')') else { continue };
            let is_function =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            let source = repo.text(path).unwrap_or_default();
            if is_function && !source.contains(&format!("fn {name}(")) {
                findings.push(Finding::new(PAPERS, index + 1, format!("{path} has no test `{name}`")));
            }
        }
    }
    findings
}
