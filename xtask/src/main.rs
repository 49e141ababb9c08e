//! House rules and chores of the repository: `cargo xtask check` checks, `cargo xtask fix` also mends.

#![allow(clippy::disallowed_methods, reason = "a tool for the repository: it reads and mends files")]

mod peer;
mod redis_tests;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask COMMAND

  check   verify only: formatting, clippy, house rules, licences (if cargo-deny is installed)
  fix     the same, mending what can be mended: formats, applies clippy's suggestions, tightens the ratchets
  tidy    the house rules alone (a second or so)
  peer    fetch what the benchmarks compare with: cargo xtask peer rocksdb
  redis-tests    run Redis' own tests against `weir serve`: cargo xtask redis-tests --help
";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let result = match command.as_str() {
        "check" => check(),
        "fix" => fix(),
        "tidy" => tidy_only(),
        "peer" => peer::fetch(std::env::args().nth(2).as_deref(), &root()),
        "redis-tests" => redis_tests::command(std::env::args().skip(2), &root()),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {command}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), String> {
    tidy_only()?;
    run("cargo", &["fmt", "--all", "--check"])?;
    run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    deny()
}

fn fix() -> Result<(), String> {
    run("cargo", &["fmt", "--all"])?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged", "--quiet"];
    run("cargo", &clippy)?;
    tidy::Repo::load(&root())?.tighten()?;
    tidy_only()
}

/// Prints every breach of a house rule; fails if there is one.
fn tidy_only() -> Result<(), String> {
    let repo = tidy::Repo::load(&root())?;
    let findings = tidy::check(&repo);
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, every house rule kept", repo.len());
            Ok(())
        }
        count => Err(format!("{count} breaches of the house rules (CONTRIBUTING.md lists them)")),
    }
}

/// Checks licences, bans and sources. Advisories need a download, so they are left to `cargo deny check advisories`.
fn deny() -> Result<(), String> {
    let installed = Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|o| o.status.success());
    if !installed {
        println!("deny: skipped, cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Ok(());
    }
    run("cargo", &["deny", "--offline", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).current_dir(root()).status();
    match status.map_err(|error| format!("cannot start `{line}`: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("`{line}` failed: {status}")),
    }
}

/// The root of the repository, wherever the command was started.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the repository").to_path_buf()
}
