//! Imports between crates follow the arrows that `docs/architecture.md` draws in its table of rooms.
//!
//! The table is the rule: a row ``| `lsm` | `model`, `io` | … |`` allows exactly these two. Tests may depend on
//! anything. The data plane, whose time and threads are handed in, may not depend on a runtime.

use std::collections::BTreeMap;

use super::{Finding, Repo};

const PAGE: &str = "docs/architecture.md";
/// Crates that must not bring a runtime, sockets or timers of their own (house rule 2 and 4).
const WITHOUT_RUNTIME: [&str; 9] = ["io", "model", "journal", "log", "lsm", "memory", "admission", "command", "script"];
const RUNTIMES: [&str; 4] = ["tokio", "async-std", "smol", "rayon"];

pub fn check(repo: &Repo) -> Vec<Finding> {
    let allowed = arrows(repo.text(PAGE).unwrap_or_default());
    let mut findings = Vec::new();
    for (path, text) in repo.ending("/Cargo.toml").filter(|(path, _)| path.starts_with("crates/")) {
        let name = path.split('/').nth(1).unwrap_or_default();
        let dependencies = match dependencies(text) {
            Ok(dependencies) => dependencies,
            Err(error) => {
                findings.push(Finding::new(path, 0, error));
                continue;
            }
        };
        let Some(row) = allowed.get(name) else {
            findings.push(Finding::new(path, 0, format!("crate `{name}` has no row in the rooms table of {PAGE}")));
            continue;
        };
        for dependency in &dependencies {
            if let Some(room) = dependency.strip_prefix("weir-")
                && !row.iter().any(|allowed| allowed == room || allowed == "anything")
            {
                findings.push(Finding::new(path, 0, format!("`{name}` may not import `{room}` ({PAGE})")));
            }
            if WITHOUT_RUNTIME.contains(&name) && RUNTIMES.contains(&dependency.as_str()) {
                findings.push(Finding::new(
                    path,
                    0,
                    format!("`{name}` is handed its threads and may not use `{dependency}`"),
                ));
            }
        }
    }
    findings
}

/// What each crate may import according to the page: the rows whose first cell is one name in back-quotes.
fn arrows(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [first, second, ..] = cells[..] else { continue };
        let Some(name) = first.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else { continue };
        let imports = second.split(',').map(|word| word.trim().trim_matches('`').to_owned());
        rows.entry(name.to_owned()).or_insert_with(|| imports.collect());
    }
    rows
}

/// The names under `[dependencies]`, `[build-dependencies]` and the target-specific tables like them. The manifest is
/// read line by line, so that no crate is compiled only for these rules; a line that is not plain enough is an error.
fn dependencies(manifest: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let (mut table, mut depth) = (String::new(), 0);
    for (number, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let is_continued = depth > 0;
        depth += brackets(line);
        if line.is_empty() || is_continued {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_matches(['[', ']']).trim().to_owned();
            // `[dependencies.lz4]`
            if let Some((of, name)) = table.rsplit_once('.')
                && is_of_dependencies(of)
            {
                names.push(name.to_owned());
            }
        } else if table.is_empty() {
            return Err(format!("line {}: write tables with a header, so that the house rules see them", number + 1));
        } else if is_of_dependencies(&table) {
            let name = line.split(['.', '=']).next().unwrap_or_default().trim();
            names.push(name.trim_matches('"').to_owned());
        }
    }
    Ok(names)
}

/// Whether the entries below this header are dependencies, other than of tests.
fn is_of_dependencies(table: &str) -> bool {
    let last = table.rsplit_once('.').map_or(table, |(_, last)| last);
    ["dependencies", "build-dependencies"].contains(&last) && (last == table || table.starts_with("target."))
}

/// How many brackets `line` leaves open: values may go on over lines.
fn brackets(line: &str) -> i32 {
    line.chars().map(|c| i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'))).sum()
}
