//! Dependencies come from the public registry and from nowhere else.

use super::{Finding, Repo};

const PUBLIC: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending("Cargo.lock") {
        for (index, line) in text.lines().enumerate() {
            if let Some(source) = line.strip_prefix("source = ")
                && source.trim_matches('"') != PUBLIC
            {
                findings.push(Finding::new(path, index + 1, format!("{source} is not the public registry")));
            }
        }
    }
    for (path, text) in repo.ending(".cargo/config.toml") {
        for (index, line) in text.lines().enumerate() {
            if line.starts_with("[source") || line.starts_with("[registr") {
                findings.push(Finding::new(path, index + 1, "registries are configured on the machine, not here"));
            }
        }
    }
    findings
}
