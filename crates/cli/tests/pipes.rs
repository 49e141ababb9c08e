//! Commands whose output nobody reads any more.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::process::Stdio;

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
