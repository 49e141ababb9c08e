//! The script `run`, with programs in the place of cargo and weir that only say what they are asked.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Dir;

/// A program at `path` that does what the shell does with `words`. A shell writes it: a file that this process has open
/// for writing, or a child that another test is just starting, cannot be run.
fn program(path: &Path, words: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    let script = r##"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod +x "$0""##;
    let written = Command::new("sh").args(["-c", script]).arg(path).arg(words).status().expect("a shell");
    assert!(written.success());
}

#[test]
fn serve_gets_the_options_that_were_given_and_no_others() {
    let dir = Dir::new();
    for name in ["cargo", "rustfmt", "cc"] {
        program(&dir.0.join("bin").join(name), "exit 0");
    }
    program(&dir.0.join("target/release/weir"), "echo \"$@\"");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../run");
    let path = format!("{}:{}", dir.0.join("bin").display(), std::env::var("PATH").expect("text"));
    for options in [&["--config", "weir.toml"][..], &["--dir", "elsewhere"], &[]] {
        let mut command = Command::new(&script);
        command.arg("serve").args(options).env("PATH", &path);
        command.env("CARGO_HOME", &dir.0).env("CARGO_TARGET_DIR", dir.0.join("target"));
        let output = command.output().expect("bash is there");
        let said = String::from_utf8_lossy(&output.stdout);
        let asked: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(asked, [&["serve"], options].concat(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
