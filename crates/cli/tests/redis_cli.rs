//! The tools of redis-cli, if it is installed, against a real server: docs/operations.md says what each of them does.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::support::{Dir, Server, expect};
use rustix::process::{Pid, Signal, kill_process};

/// Runs `redis-cli` with these words and this input, against `server`: gives whether it succeeds, and what it says.
fn run(server: &Server, words: &[&str], input: &[u8]) -> Option<(bool, String)> {
    let port = server.clients.port().to_string();
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: no redis-cli is installed");
        return None;
    };
    child.stdin.take().expect("piped").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn its_tools_work_or_say_why_not() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    expect(&mut client, b"RPUSH list a b c\r\nHSET hash f v\r\nSET text hello\r\n", b":3\r\n:1\r\n+OK\r\n");
    let script = dir.0.join("get.lua");
    std::fs::write(&script, "return redis.call('get', KEYS[1])").expect("the test's directory");
    let script = script.to_str().expect("text");
    let out = dir.0.join("out.rdb");
    let out = out.to_str().expect("text");
    let piped = b"SET p 1\r\nINCR p\r\nSET q 2\r\n";
    for (words, input, works, says) in [
        (&["--bigkeys"][..], &b""[..], true, "1 lists with 3 items"),
        (&["--memkeys"], b"", true, "1 hashs with"),
        (&["--hotkeys"], b"", false, "An LFU maxmemory policy is not selected"),
        (&["--scan", "--pattern", "te*"], b"", true, "text\n"),
        (&["--latency", "-i", "1"], b"", true, ""),
        (&["--intrinsic-latency", "1"], b"", true, "total runs"),
        (&["--eval", script, "text"], b"", true, "hello"),
        (&["--pipe"], piped, true, "errors: 0, replies: 3"),
        (&["GET", "p"], b"", true, "2"),
        (&["--cluster", "help"], b"", false, "Cluster Manager Commands"),
        (&["--cluster", "info", &server.clients.to_string()], b"", false, "is not configured as a cluster node"),
        (&["--rdb", out], b"", true, "Transfer finished with success"),
        (&["--functions-rdb", out], b"", true, "Transfer finished with success"),
        (&["--replica"], b"", false, "SYNC with master failed: -ERR this server has no replicas"),
    ] {
        let Some((fine, said)) = run(&server, words, input) else { return };
        assert!(fine == works && said.contains(says), "{words:?}: {fine}, {said}");
    }
}

#[test]
fn its_monitors_show_what_goes_on() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let port = server.clients.port().to_string();
    // Its output goes through a pseudo-terminal: into a pipe it writes nothing until it ends.
    for (words, shown) in [("--stat -i 0.1", "requests"), ("--latency-history -i 1", "samples")] {
        let line = format!("redis-cli -p {port} {words}");
        let mut command = Command::new("script");
        command.args(["-qfec", &line, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: no script(1) is installed");
            return;
        };
        let mut told = child.stdout.take().expect("piped");
        let (mut said, mut piece) = (Vec::new(), [0; 256]);
        while !String::from_utf8_lossy(&said).contains(shown) {
            let read = told.read(&mut piece).expect("text");
            let so_far = String::from_utf8_lossy(&said).into_owned();
            if read == 0 && so_far.contains("not found") {
                eprintln!("skipped: no redis-cli is installed");
                return;
            }
            assert!(read > 0, "{words}: it ended with {so_far}");
            said.extend_from_slice(&piece[..read]);
        }
        // If it were killed, it could not end what it runs.
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        child.wait().expect("it ends");
    }
}
