//! A server that puts compactions off, killed in each stage.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::support::{Dir, Server};

/// FlexEngine enters its first stage when the load needs more than the disk gives, and its second at twelve runs of
/// level 0. The disk gives so little that it is short even of what writes need whose tree slows them to 1 MiB a second:
/// this is how they come on a machine that is busy with something else. Tables are not compressed: values repeat
/// themselves, so compressed merges would cost too little for level 0 to grow.
const CONFIG: &str =
    "profile = \"flexengine\"\ndevice_bandwidth = \"3 MiB\"\nwrite_buffer = \"256 KiB\"\ncompression = \"none\"\n";
const KEYS: u32 = 2_000;
/// Bytes that are written to each key in every round.
const VALUE_BYTES: usize = 992;
/// Rounds in which a stage must have come.
const ROUNDS: u32 = 200;

fn value(round: u32, key: u32) -> String {
    format!("{round:08}{key:08}").repeat(VALUE_BYTES / 16)
}

/// Sends `requests` in one pipeline; gives the answers, which have `answer_bytes` bytes.
fn ask(client: &mut TcpStream, requests: &str, answer_bytes: usize) -> String {
    client.write_all(requests.as_bytes()).expect("it reads");
    let mut answer = vec![0; answer_bytes];
    client.read_exact(&mut answer).expect("it answers");
    String::from_utf8(answer).expect("text")
}

/// Writes all keys, pipelined, and comes back when all are answered.
fn write(client: &mut TcpStream, round: u32) {
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let requests: String = keys.iter().map(|&key| format!("SET key-{key:05} {}\r\n", value(round, key))).collect();
        assert_eq!(ask(client, &requests, 5 * keys.len()), "+OK\r\n".repeat(keys.len()));
    }
}

/// Checks that every key has the value that was acknowledged last.
fn check(client: &mut TcpStream, round: u32) {
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let requests: String = keys.iter().map(|key| format!("GET key-{key:05}\r\n")).collect();
        let answers: String =
            keys.iter().map(|&key| value(round, key)).map(|value| format!("${}\r\n{value}\r\n", value.len())).collect();
        assert!(ask(client, &requests, answers.len()) == answers, "keys {keys:?} are as round {round} left them");
    }
}

fn is_in(server: &Server, stage: &str) -> bool {
    let metrics = server.http("/metrics");
    let series = format!("stage=\"{stage}\"");
    metrics.lines().any(|line| line.starts_with("weir_tenant_stage{") && line.contains(&series) && line.ends_with(" 1"))
}

#[test]
fn what_was_answered_survives_a_kill_in_every_stage() {
    let dir = Dir::new();
    let mut round = 0;
    for stage in ["stage1", "stage2"] {
        let server = Server::start(&dir, CONFIG);
        let mut client = server.connect();
        if round > 0 {
            check(&mut client, round);
        }
        let until = round + ROUNDS;
        while !is_in(&server, stage) {
            round += 1;
            assert!(round < until, "{stage} never came; {}", server.weir(&["why", "default"]));
            write(&mut client, round);
        }
        server.kill();
    }
    let server = Server::start(&dir, CONFIG);
    check(&mut server.connect(), round);
    server.kill();
    let check = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(dir.0.join("data")).output();
    let check = check.expect("the binary starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
