//! `weir demo` where it cannot begin.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::process::Command;

#[test]
fn a_demo_that_cannot_make_its_directory_says_so() {
    // Nobody can make a directory there.
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["demo", "--dir", "/proc/weir-demo"]).output();
    let output = output.expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("weir: /proc/weir-demo: "), "{said}");
}
