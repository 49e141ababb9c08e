//! Commands whose output goes into a pipe.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::process::{Command, Stdio};

use crate::support::{Dir, Server, expect};

/// The writing end of a pipe whose reader is gone.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_command_whose_output_nobody_reads_ends_without_a_word() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    expect(&mut client, b"SET k v\r\n", b"+OK\r\n");
    let backup = dir.0.join("backup");
    let backup = backup.to_str().expect("text");
    for words in [
        &["bill"][..],
        &["bill", "--json"],
        &["bill", "--csv"],
        &["why", "default"],
        &["why", "--json"],
        &["tenant", "list"],
        &["tenant", "show", "default"],
        &["backup", "default", "--to", backup],
        &["backup", "--verify", backup],
        &["completions", "bash"],
    ] {
        let output = server.order(words).stdout(unread()).output().expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    }
}

#[test]
fn a_simulation_whose_output_nobody_reads_writes_its_files() {
    let dir = Dir::new();
    let path = |name: &str| dir.0.join(name).to_str().expect("text").to_owned();
    let (json, page) = (path("outcome.json"), path("page.html"));
    let simulate = |files: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["sim", "shortage", "--partitions", "1", "--seconds", "1", "--preload-items", "200000"]);
        let output = command.args(["--profile", "weir"]).args(files).stdout(unread()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("panicked"), "{files:?}: {said}");
    };
    simulate(&["--json", &json]);
    assert!(std::fs::read_to_string(&json).is_ok_and(|text| text.starts_with('[')), "the figures are stored");
    simulate(&["--json", "-", "--report", &page]);
    assert!(std::fs::read_to_string(&page).is_ok_and(|text| text.contains("</html>")), "so is the page");
}

#[test]
fn a_command_whose_errors_nobody_reads_ends_as_if_they_were_read() {
    let dir = Dir::new();
    let path = |name: &str| dir.0.join(name).to_str().expect("text").to_owned();
    let (missing, page) = (path("missing"), path("page.html"));
    let weir = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(words).stderr(unread()).output().expect("it starts").status
    };
    assert_eq!(weir(&["check", &missing]).code(), Some(1));
    let simulate = ["sim", "shortage", "--partitions", "1", "--seconds", "1", "--preload-items", "200000"];
    let status = weir(&[&simulate[..], &["--profile", "weir", "--report", &page]].concat());
    assert!(status.success(), "{status}");
    assert!(std::fs::read_to_string(&page).is_ok_and(|text| text.contains("</html>")), "the page is stored");
}

#[test]
fn json_on_standard_output_is_alone() {
    for words in [
        "shortage --partitions 1 --seconds 1 --preload-items 200000",
        "ycsb --workload C --seconds 1 --warm-up 0 --records 20000",
        "density --from 1 --tries 1 --seconds 10 --preload-items 200000",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("sim").args(words.split(' ')).args(["--profile", "weir", "--json", "-"]);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        let parsed = serde_json::from_slice::<serde_json::Value>(&output.stdout);
        assert!(parsed.is_ok(), "{words}: {}", String::from_utf8_lossy(&output.stdout));
    }
}
