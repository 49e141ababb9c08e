//! `weir plan`, whose exit status is a part of its answer.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::process::Command;

use crate::support::Dir;

#[test]
fn a_plan_ends_with_an_error_if_not_all_tenants_are_served() {
    let dir = Dir::new();
    let trace = dir.0.join("trace.csv");
    std::fs::write(&trace, "second,tenant,writes,reads\n0,0,1,1\n10,0,1,1\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    // Such a device takes longer for one page than a read may take.
    command.arg("plan").arg(&trace).args(["--device", "1", "--rcu", "3000", "--seconds", "10"]);
    command.args(["--items", "500000", "--memory", "8", "--precision", "100"]);
    let output = command.output().expect("the binary starts");
    let [told, warned] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(told.contains("As it is          NOT SERVED"), "{told}{warned}");
    assert_eq!(output.status.code(), Some(1), "{told}{warned}");
    assert!(warned.contains("not all tenants are served"), "{warned}");
}
