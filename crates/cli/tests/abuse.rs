//! Hostile clients: the process's memory is measured from outside (S9, S11, S12, S13).
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Dir, Server, expect};

const MIB: u64 = 1 << 20;

/// Bytes that a server which has done nothing yet may need for itself: background work, other threads' pools.
const OWN_BYTES: u64 = 4 * MIB;

/// Memory at one moment.
struct Memory {
    used: u64,
    asked_for: u64,
}

impl Memory {
    fn of(server: &Server) -> Self {
        Self { used: server.memory_bytes("RssAnon:"), asked_for: server.memory_bytes("VmSize:") }
    }
}

/// Checks that the server still answers, and uses less than `bytes` more; memory that it requested without using it
/// must stay small, too.
fn check(server: &Server, before: &Memory, bytes: u64, what: &str) {
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    let now = Memory::of(server);
    let (used, asked_for) = (now.used.saturating_sub(before.used), now.asked_for.saturating_sub(before.asked_for));
    eprintln!("{what}: {} KiB more in use, {} MiB more asked for", used >> 10, asked_for >> 20);
    assert!(used < bytes + OWN_BYTES, "{what}: {used} bytes more in use");
    assert!(asked_for < 4096 * MIB, "{what}: {asked_for} bytes more asked for");
}

#[test]
fn s09_what_is_announced_costs_nothing() {
    let dir = Dir::new();
    let server = Server::start(&dir, "value_bytes_max = \"512 MiB\"");
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    let before = Memory::of(&server);
    let announced: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = server.connect();
            expect(&mut stream, b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$535822336\r\nabc", b"+PONG\r\n");
            stream
        })
        .collect();
    check(&server, &before, MIB, "64 values of 511 MiB announced");
    let mut arguments = server.connect();
    expect(&mut arguments, b"PING\r\n*1000000\r\n$3\r\nDEL\r\n", b"+PONG\r\n");
    check(&server, &before, MIB, "a million arguments announced");
    let mut too_long = server.connect();
    expect(&mut too_long, b"*2\r\n$3\r\nGET\r\n$1099511627776\r\n", b"-ERR Protocol error: invalid bulk length\r\n");
    drop(announced);
}

#[test]
fn s12_half_commands_are_cheap() {
    // Of 2,470 places 247 are for strangers; one tenant may have nine tenths of the rest, which is one more than these.
    const CONNECTIONS: u64 = 2000;
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    let before = Memory::of(&server);
    let held: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = server.connect();
            expect(&mut stream, b"PING\r\n*2\r\n$3\r\nGET\r\n$100\r\nhalf a ", b"+PONG\r\n");
            stream
        })
        .collect();
    check(&server, &before, CONNECTIONS * (8 << 10), "2,000 half commands, at 8 KiB each");
    drop(held);
}

#[test]
fn s11_replies_that_nobody_reads_are_bounded() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut writer = server.connect();
    let value = vec![b'v'; MIB as usize];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n", &value[..], b"\r\n"].concat();
    expect(&mut writer, &set, b"+OK\r\n");
    let before = Memory::of(&server);
    let mut deaf = server.connect();
    deaf.write_all(&b"GET k\r\n".repeat(200)).expect("it reads");
    // Its neighbour on the same thread is served meanwhile: the deaf client holds up nobody.
    for _ in 0..20 {
        expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    }
    check(&server, &before, 48 * MIB, "200 MiB of replies unread");
    let mut all = 0;
    let mut some = vec![0; 1 << 20];
    while all < 200 * (MIB + 12) {
        all += deaf.read(&mut some).expect("a reply") as u64;
    }
    assert_eq!(all, 200 * (MIB + 12), "a slow reader gets every byte in the end");
}

#[test]
fn s10_s17_nested_arrays_and_other_protocols_are_cut_at_once() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    for (request, last_words) in [
        (b"*1\r\n".repeat(100_000), &b"-ERR Protocol error: expected '$', got '*'\r\n"[..]),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n".to_vec(), b""),
        (vec![0x16, 0x03, 0x01, 0x02, 0x00, b'\n'], b"-ERR Protocol error: this port does not speak TLS\r\n"),
        (vec![b'x'; 70_000], b"-ERR Protocol error: too big inline request\r\n"),
    ] {
        let mut stream = server.connect();
        // The server may close before it has taken everything.
        let _ = stream.write_all(&request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.starts_with(last_words), "{:?}", String::from_utf8_lossy(&said));
    }
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn s13_idle_connections_are_cheap_and_one_too_many_is_told_so() {
    const CONNECTIONS: u64 = 2000;
    let dir = Dir::new();
    let server = Server::start(&dir, "connections_max = 2470");
    expect(&mut server.connect(), b"PING\r\n", b"+PONG\r\n");
    let before = Memory::of(&server);
    let held: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = server.connect();
            expect(&mut stream, b"PING\r\n", b"+PONG\r\n");
            stream
        })
        .collect();
    check(&server, &before, CONNECTIONS * (8 << 10), "2,000 idle connections, at 8 KiB each");
    // The connections that the check made may or may not be gone yet: one of the next few is one too many.
    let mut more = Vec::new();
    let refused = (0..4).find(|_| {
        let (mut stream, mut word) = (server.connect(), [0; 5]);
        // A refused client may find the connection closed before it has sent its request.
        let _ = stream.write_all(b"PING\r\n");
        stream.read_exact(&mut word).expect("an answer");
        let mut rest = String::new();
        if &word == b"-ERR " {
            let _ = stream.read_to_string(&mut rest);
            assert_eq!(rest, "max number of clients reached\r\n");
        }
        more.push(stream);
        !rest.is_empty()
    });
    assert!(refused.is_some(), "nobody was refused");
    drop(held);
}

#[test]
fn s13_who_needs_no_login_and_takes_all_its_places_keeps_nobody_from_logging_in() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    server.weir(&["tenant", "create", "shop", "--secret", "right-canary"]);
    server.weir(&["tenant", "alter", "default", "--connections-max", "1"]);
    let mut only = server.connect();
    expect(&mut only, b"PING\r\n", b"+PONG\r\n");
    for first in [&b"PING\r\n"[..], b"HELLO 3\r\n", b"RESET\r\nGET key\r\n"] {
        let (mut next, mut said) = (server.connect(), String::new());
        next.write_all(first).expect("a connection");
        next.read_to_string(&mut said).expect("an end");
        assert_eq!(said.trim_start_matches("+RESET\r\n"), "-ERR max number of clients reached\r\n");
    }
    expect(&mut server.connect(), b"AUTH shop right-canary\r\nSET key v\r\n", b"+OK\r\n+OK\r\n");
    expect(&mut server.connect(), b"HELLO 3 AUTH shop right-canary\r\n", b"%");
    expect(&mut only, b"GET key\r\n", b"$-1\r\n");
}

#[test]
fn s11_long_replies_of_many_parts_are_bounded() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    let value = vec![b'v'; MIB as usize];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n", &value[..], b"\r\n"].concat();
    expect(&mut client, &set, b"+OK\r\n");
    let before = Memory::of(&server);
    // Twenty megabytes of descriptions that nobody reads, and a hundred megabytes of values that nobody wants.
    let mut deaf = server.connect();
    let names = [&b"*100002\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n"[..], &b"$3\r\nget\r\n".repeat(100_000)].concat();
    deaf.write_all(&names).expect("it reads");
    let mut silent = server.connect();
    let keys = [&b"CLIENT REPLY OFF\r\n*101\r\n$4\r\nMGET\r\n"[..], &b"$1\r\nk\r\n".repeat(100)].concat();
    silent.write_all(&[&keys[..], b"CLIENT REPLY ON\r\n"].concat()).expect("it reads");
    let mut ok = [0; 5];
    silent.read_exact(&mut ok).expect("a reply");
    assert_eq!(&ok, b"+OK\r\n");
    check(&server, &before, 32 * MIB, "replies of many parts");
    drop(deaf);
}
