//! Signals that a person, a terminal or the kernel may send: only those that mean to end the server do end it.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::Write;

use crate::support::{Dir, Server, expect};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

fn send(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a number of a process")).expect("not 0");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn only_the_signals_that_mean_the_end_end_a_server() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    expect(&mut client, b"SET kept 1\r\n", b"+OK\r\n");
    for signal in [
        Signal::HUP,
        Signal::PIPE,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::POWER,
        Signal::STKFLT,
        Signal::XFSZ,
        Signal::WINCH,
        Signal::CHILD,
        Signal::URG,
    ] {
        send(&server, signal);
        expect(&mut client, b"GET kept\r\n", b"$1\r\n1\r\n");
    }
    expect(&mut server.connect(), b"GET kept\r\n", b"$1\r\n1\r\n");
    assert!(server.terminate().success(), "SIGTERM is the end, in order");
}

#[test]
fn a_hang_up_reads_the_configuration_again_and_says_what_a_restart_would_change() {
    let dir = Dir::new();
    let server = Server::start(&dir, "connections_max = 50\n");
    send(&server, Signal::HUP);
    server.log_with("it says what the server runs under", 1);
    let file = dir.0.join("weir.toml");
    std::fs::write(&file, "connections_max = 60\ncache = \"1 MiB\"\n").expect("written");
    send(&server, Signal::HUP);
    let log = server.log_with("take effect at a restart", 1);
    for change in ["connections_max: 50 -> 60", "cache: 268435456 bytes -> 1048576 bytes"] {
        assert!(log.contains(change), "{change} in {log}");
    }
    std::fs::write(&file, "device_bandwidth = \"100\"\n").expect("written");
    send(&server, Signal::HUP);
    server.log_with("a restart would fail", 1);
    // The log says what is wrong, and what to write. That is some lines further down, which may not have been read yet.
    server.log_with("write \"100 MB\"", 1);
    std::fs::remove_file(&file).expect("there");
    send(&server, Signal::HUP);
    server.log_with("cannot read", 1);
    assert!(server.terminate().success());
}

#[test]
fn connections_are_accepted_while_a_hang_up_waits_for_a_slow_disk() {
    let dir = Dir::new();
    let server = Server::start(&dir, "connections_max = 50\n");
    // A pipe is as slow as its writer.
    let file = dir.0.join("weir.toml");
    std::fs::remove_file(&file).expect("there");
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
    let write = || std::fs::OpenOptions::new().write(true).open(&file).expect("a pipe");
    send(&server, Signal::HUP);
    // Open once the server is reading.
    let mut slow = write();
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    // The next reading begins when this one has ended.
    send(&server, Signal::HUP);
    writeln!(slow, "connections_max = 60").expect("it reads");
    drop(slow);
    server.log_with("connections_max: 50 -> 60", 1);
    let mut slow = write();
    writeln!(slow, "connections_max = 70").expect("it reads");
    drop(slow);
    server.log_with("connections_max: 50 -> 70", 1);
    assert!(server.terminate().success());
}

#[test]
fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let dir = Dir::new();
    let server = Server::start_deaf(&dir);
    // Each of these makes the server log a line, to a pipe that is closed.
    for _ in 0..20 {
        send(&server, Signal::HUP);
        expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    }
    assert!(server.terminate().success());
}
