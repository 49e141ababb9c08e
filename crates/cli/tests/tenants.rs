//! Tenants as their operator sees them: `weir tenant`, `weir backup`, `weir restore`, `weir top` against a real
//! server.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::path::Path;
use std::process::Command;

use crate::support::{Dir, Server, expect};

fn refused(server: &Server, arguments: &[&str], named: &str) {
    let (fine, said) = server.try_weir(arguments);
    assert!(!fine && said.contains(named), "{arguments:?} should say {named}: {said}");
}

/// Flips a bit in the middle of the first table below `dir`.
fn damage_a_table(dir: &Path) {
    let names = std::fs::read_dir(dir.join("partition-000")).expect("a partition");
    let table = names.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = table.expect("a table");
    let mut bytes = std::fs::read(&table).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&table, bytes).expect("writable");
}

#[test]
fn tenants_come_change_and_go_and_outlive_a_kill() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let made = server.weir(&["tenant", "create", "shop", "--rcu", "1000", "--partitions", "2", "--log", "shared"]);
    let secret = made.split_whitespace().find(|word| word.starts_with("weir_")).expect("a generated secret");
    assert!(!server.weir(&["tenant", "show", "shop", "--json"]).contains(&secret[5..]), "it is told once");
    refused(&server, &["tenant", "create", "shop"], "tenant of that name");
    refused(&server, &["tenant", "create", "No/Name"], "1 to 63 characters");
    refused(&server, &["tenant", "create", "many", "--partitions", "1000"], "256");
    refused(&server, &["tenant", "create", "odd", "--log", "mine"], "own, shared");
    refused(&server, &["tenant", "show", "none"], "weir tenant list");
    refused(&server, &["tenant", "alter", "shop"], "nothing to change");
    refused(&server, &["tenant", "alter", "shop", "--weight", "0"], "1 to 1000");
    refused(&server, &["tenant", "alter", "shop", "--delta-ms", "soon"], "`never` or `node`");
    server.weir(&["tenant", "alter", "shop", "--weight", "3", "--delta-ms", "never"]);
    server.weir(&["tenant", "alter", "shop", "--wcu", "70", "--on-limit", "refuse", "--connections-max", "5"]);
    server.weir(&["tenant", "suspend", "shop"]);
    let shown = server.weir(&["tenant", "show", "shop"]);
    let shares = "weight 3; waits as long as it takes";
    let limits = ["1000 units/s", "70 units/s", "refused at once", "5 connections", shares];
    for word in ["suspended", "2 partitions", "log      shared"].into_iter().chain(limits) {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    server.kill();

    let server = Server::start(&dir, "");
    assert_eq!(server.weir(&["tenant", "show", "shop"]), shown, "a kill changes nothing");
    server.weir(&["tenant", "resume", "shop"]);
    let listed = server.weir(&["tenant", "list"]);
    assert!(listed.contains("default") && listed.contains("shop") && !listed.contains("suspended"), "{listed}");
    refused(&server, &["tenant", "drop", "shop"], "--yes");
    server.weir(&["tenant", "drop", "shop", "--yes"]);
    server.kill();

    let server = Server::start(&dir, "");
    let json = server.weir(&["tenant", "list", "--json"]);
    assert!(json.contains("\"default\"") && !json.contains("shop"), "{json}");
}

#[test]
fn a_promise_that_cannot_be_kept_is_refused_with_the_arithmetic() {
    // U-14.
    let dir = Dir::new();
    let server = Server::start(&dir, "write_memory_shares = \"delta 350 ms\"\n");
    let arithmetic = "tenants, 1 at a time, may claim up to 805306368, of which 0 come back within 0 ms";
    refused(&server, &["tenant", "create", "shop", "--weight", "3", "--delta-ms", "0"], arithmetic);
    server.weir(&["tenant", "create", "shop", "--weight", "3", "--delta-ms", "200"]);
    refused(
        &server,
        &["tenant", "alter", "shop", "--delta-ms", "0"],
        "more than half of 1073741824, which is 536870912",
    );
    let json = server.weir(&["tenant", "alter", "shop", "--delta-ms", "node", "--json"]);
    assert!(json.contains("\"weight\": 3") && json.contains("\"delta_ms\": \"node\""), "{json}");
    let listed = server.weir(&["tenant", "list"]);
    assert!(listed.contains("WEIGHT") && listed.contains("DELTA"), "{listed}");
}

#[test]
fn a_backup_is_made_while_serving_verified_and_restored() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    for i in 0..200 {
        let (key, value) = (format!("key-{i:03}"), "v".repeat(500));
        let request = format!("SET {key} {value}\r\n");
        expect(&mut client, request.as_bytes(), b"+OK\r\n");
    }
    let backup = dir.0.join("backup");
    let to = backup.to_str().expect("text");
    let said = server.weir(&["backup", "default", "--to", to]);
    assert!(said.contains("1 partitions"), "{said}");
    refused(&server, &["backup", "default", "--to", to], "not empty");
    let inside = dir.0.join("data/backup");
    refused(&server, &["backup", "default", "--to", inside.to_str().expect("text")], "inside the data directory");
    expect(&mut client, b"SET key-000 changed\r\n", b"+OK\r\n");
    assert!(server.weir(&["backup", "--verify", to]).contains("all is well"));
    server.weir(&["restore", to, "--as", "copy"]);
    refused(&server, &["restore", to, "--as", "copy"], "tenant of that name");
    server.kill();

    // The restored tenant is there after a kill, and can be backed up itself.
    let server = Server::start(&dir, "");
    let again = dir.0.join("again");
    let again = again.to_str().expect("text");
    server.weir(&["backup", "copy", "--to", again]);
    assert!(server.weir(&["backup", "--verify", again]).contains("tenant copy"));

    damage_a_table(&backup);
    refused(&server, &["backup", "--verify", to], "checksum");
    refused(&server, &["restore", to, "--as", "damaged"], "checksum");
    assert!(!server.weir(&["tenant", "list"]).contains("damaged"));
    std::fs::remove_file(Path::new(again).join("CURRENT")).expect("there");
    refused(&server, &["restore", again, "--as", "half"], "no finished backup");
    assert!(server.terminate().success());
}

#[test]
fn top_prints_and_commands_say_when_no_server_runs() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    expect(&mut server.connect(), b"SET k v\r\n", b"+OK\r\n");
    let top = server.weir(&["top", "--once"]);
    assert!(top.contains("default") && top.contains("D.FLUSH"), "{top}");
    for arguments in [&["tenant", "list"][..], &["top", "--once"], &["backup", "default", "--to", "/nowhere"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).args(["--admin", "127.0.0.1:1"]).output();
        let said = String::from_utf8(output.expect("it starts").stderr).expect("text");
        assert!(said.contains("weir serve") && said.contains("--admin"), "{said}");
    }
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["completions", shell]).output().expect("it starts");
        let script = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && script.contains("calibrate") && script.contains("restore"), "{shell}");
    }
}

#[test]
fn a_server_killed_in_a_backup_or_a_restore_leaves_a_whole_one_or_none() {
    let dir = Dir::new();
    let mut server = Server::start(&dir, "write_buffer = \"256 KiB\"");
    let mut client = server.connect();
    for i in 0..600 {
        let request = format!("SET key-{i:03} {}\r\n", format!("{i:03}").repeat(700));
        expect(&mut client, request.as_bytes(), b"+OK\r\n");
    }
    let whole = dir.0.join("whole");
    let whole = whole.to_str().expect("text").to_owned();
    server.weir(&["backup", "default", "--to", &whole]);
    let (mut finished, mut cut, mut restored) = (0, 0, 0);
    for round in 0..12_u64 {
        let to = dir.0.join(format!("backup-{round}"));
        let to = to.to_str().expect("text");
        let copy = format!("copy-{round}");
        let orders = [["backup", "default", "--to", to], ["restore", whole.as_str(), "--as", copy.as_str()]];
        let children = orders.map(|order| {
            let mut command = server.order(&order);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("it starts")
        });
        // Kill in the middle of their work: the moments are spread over it, and none of them may matter.
        std::thread::sleep(std::time::Duration::from_millis(5 + round * 9));
        server.kill();
        // The children end, as nobody answers them any more.
        for mut child in children {
            child.wait().expect("it ends");
        }
        server = Server::start(&dir, "write_buffer = \"256 KiB\"");
        // The backup can be verified, or it is said to be none.
        let (fine, said) = server.try_weir(&["backup", "--verify", to]);
        assert!(
            fine && said.contains("all is well")
                || said.contains("no finished backup")
                || said.to_lowercase().contains("no such"),
            "{said}"
        );
        (finished, cut) = (finished + u32::from(fine), cut + u32::from(!fine));
        // The restored tenant is there as a whole, or not at all.
        if server.weir(&["tenant", "list"]).contains(&copy) {
            restored += 1;
            server.weir(&["tenant", "alter", &copy, "--secret", "known"]);
            let mut client = server.connect();
            expect(&mut client, format!("AUTH {copy} known\r\nDBSIZE\r\n").as_bytes(), b"+OK\r\n:600\r\n");
        }
        expect(&mut server.connect(), b"DBSIZE\r\n", b":600\r\n");
    }
    eprintln!("of 12 backups {finished} were whole and {cut} none; {restored} tenants were restored whole");
    let fresh = dir.0.join("fresh");
    server.weir(&["backup", "default", "--to", fresh.to_str().expect("text")]);
}

#[test]
fn a_limit_on_memory_is_for_rows_in_memory() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let with = |engine: &'static str| ["tenant", "create", engine, "--engine", engine, "--memory-max", "1GiB"];
    refused(&server, &with("lsm"), "on disk");
    refused(&server, &with("sp-lsm"), "on disk");
    assert!(!server.weir(&["tenant", "list"]).contains("lsm"), "what was refused was not created");
    server.weir(&with("memory"));
    server.weir(&["tenant", "alter", "memory", "--memory-max", "2GiB"]);
    refused(&server, &["tenant", "alter", "default", "--memory-max", "2GiB"], "on disk");
    // 0 is what it has: no limit.
    server.weir(&["tenant", "alter", "default", "--memory-max", "0"]);
}
