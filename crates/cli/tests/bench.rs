//! `weir bench` where not all is as it wants it.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::process::Command;

use crate::support::Dir;

#[test]
fn a_benchmark_understands_its_own_server_whatever_form_the_users_logs_have() {
    let dir = Dir::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "ledger", "--seconds", "0", "--sync", "interval", "--dir"]).arg(dir.0.join("bench"));
    let output = command.env("WEIR_LOG_FORMAT", "json").env("WEIR_LOG", "warn").output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("deviation"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn results_are_shown_even_if_their_file_cannot_be_written() {
    let dir = Dir::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "ledger", "--seconds", "0", "--sync", "interval", "--dir"]).arg(dir.0.join("bench"));
    let output = command.arg("--json").arg(dir.0.join("missing/books.json")).output().expect("the binary starts");
    let [told, warned] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(told.contains("deviation"), "{told}{warned}");
    assert!(!output.status.success() && warned.contains("missing/books.json"), "{warned}");
}

#[test]
fn results_may_be_written_into_the_directory_that_is_measured() {
    let dir = Dir::new();
    let file = dir.0.join("bench/books.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "ledger", "--seconds", "0", "--sync", "interval", "--dir"]).arg(dir.0.join("bench"));
    let output = command.arg("--json").arg(&file).output().expect("the binary starts");
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && written.starts_with('['), "{written}{warned}");
}
