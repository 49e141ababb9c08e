//! Tests of one crate are modules of one program; a file that no program names would never run.
//!
//! If a manifest says `autotests = false`, cargo does not look for tests: each file in `tests/` is a module of
//! `tests/main.rs`, or a program of its own that the manifest names. If it says `doctest = false`, cargo does not look
//! for examples in the documentation, which takes some seconds for a crate: then there is none.

use super::{Finding, Repo};

pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (manifest, text) in repo.ending("/Cargo.toml") {
        if text.lines().any(|line| line.trim() == "doctest = false") {
            let sources = format!("{}src/", manifest.trim_end_matches("Cargo.toml"));
            for (path, text) in repo.ending(".rs").filter(|(path, _)| path.starts_with(&sources)) {
                let message = format!("{manifest} says `doctest = false`: this example never runs");
                findings.extend(examples(text).map(|line| Finding::new(path, line, message.as_str())));
            }
        }
        if !text.lines().any(|line| line.trim() == "autotests = false") {
            continue;
        }
        let tests = format!("{}tests/", manifest.trim_end_matches("Cargo.toml"));
        let main = repo.text(&format!("{tests}main.rs")).unwrap_or_default();
        for (path, _) in repo.ending(".rs") {
            let Some(name) = path.strip_prefix(&tests).and_then(|file| file.strip_suffix(".rs")) else { continue };
            // Deeper files are modules of modules; a folder is named by its `mod.rs`.
            let name = name.strip_suffix("/mod").unwrap_or(name);
            if name == "main" || name.contains('/') {
                continue;
            }
            let is_module = main.lines().any(|line| line == format!("mod {name};"));
            let is_program = text.lines().any(|line| line == format!("name = \"{name}\""));
            if !is_module && !is_program {
                findings.push(Finding::new(path, 0, format!("no program names it: `mod {name};` in {tests}main.rs")));
            }
        }
    }
    findings
}

/// The lines in which examples in the documentation begin: fences that do not say that what follows is text.
fn examples(text: &str) -> impl Iterator<Item = usize> {
    let fences = text.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim_start();
        let words = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some((number + 1, words.trim().strip_prefix("```")?))
    });
    // Every other fence ends what the one before it has begun.
    fences.step_by(2).filter(|(_, language)| *language != "text").map(|(line, _)| line)
}
