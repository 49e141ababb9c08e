//! `weir bench` in an environment that was made for something else.
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
