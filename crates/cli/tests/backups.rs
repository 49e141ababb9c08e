//! Several backups at a time, and backups to strange places, against a real server.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::{Dir, Server, expect};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A server with some data in `default`, and a tenant `shop`.
fn server(dir: &Dir) -> Server {
    let server = Server::start(dir, "write_buffer = \"256 KiB\"");
    let mut client = server.connect();
    for i in 0..300 {
        let request = format!("SET key-{i:03} {}\r\n", format!("{i:03}").repeat(700));
        expect(&mut client, request.as_bytes(), b"+OK\r\n");
    }
    server.weir(&["tenant", "create", "shop", "--partitions", "2"]);
    server
}

/// Runs `weir backup` for these tenants to these places, all at once.
fn at_once(server: &Server, orders: &[(&str, &str)]) -> Vec<Output> {
    let begin = |(tenant, to): &(&str, &str)| {
        let mut command = server.order(&["backup", tenant, "--to", to]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let running: Vec<_> = orders.iter().map(begin).collect();
    running.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect()
}

/// Whether the backup was made, and can be restored; otherwise it was refused with one of these words.
fn made(server: &Server, to: &str, output: &Output, refusals: &[&str]) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => assert!(server.weir(&["backup", "--verify", to]).contains("all is well")),
        false => assert!(refusals.iter().any(|words| said.contains(words)), "{to}: {said}"),
    }
    output.status.success()
}

#[test]
fn of_backups_into_one_directory_at_a_time_one_is_made_and_can_be_restored() {
    let dir = Dir::new();
    let server = server(&dir);
    for round in 0..3 {
        let to = dir.0.join(format!("backup-{round}"));
        let to = text(&to);
        let orders = ["default", "shop", "default", "default", "shop"].map(|tenant| (tenant, to));
        let outputs = at_once(&server, &orders);
        let refusals = ["is being made", "holds a finished backup"];
        let made: Vec<bool> = outputs.iter().map(|output| made(&server, to, output, &refusals)).collect();
        assert_eq!(made.iter().filter(|&&made| made).count(), 1, "{outputs:?}");
        server.weir(&["restore", to, "--as", &format!("copy-{round}")]);
    }
}

#[test]
fn a_backup_goes_neither_into_another_nor_into_the_data_whatever_the_path() {
    let dir = Dir::new();
    let server = server(&dir);
    let base = dir.0.canonicalize().expect("there");
    let place = |name: &str| base.join(name).into_os_string().into_string().expect("text");
    std::os::unix::fs::symlink(base.join("data/partitions"), base.join("link")).expect("linked");
    std::os::unix::fs::symlink(&base, base.join("around")).expect("linked");
    std::fs::create_dir(base.join("full")).expect("made");
    std::fs::write(base.join("full/file"), "somebody's").expect("written");
    std::fs::write(base.join("file"), "somebody's").expect("written");
    for (to, words) in [
        ("data", "inside the data directory"),
        ("data/backup", "inside the data directory"),
        ("link", "inside the data directory"),
        ("link/backup", "inside the data directory"),
        ("around/data/x", "inside the data directory"),
        ("full/../data/x", "inside the data directory"),
        ("none/../x", "no `..`"),
        ("full", "not empty"),
        ("file", "file"),
        ("file/x", "file"),
        (".", "not empty"),
    ] {
        let to = place(to);
        let (fine, said) = server.try_weir(&["backup", "shop", "--to", &to]);
        // The operating system's own words for a path that is a file.
        let said = said.to_lowercase().replace("directory (os", "file (os").replace("exists (os", "file (os");
        assert!(!fine && said.contains(words), "{to} should be refused with {words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(base.join("full")).expect("there").count(), 1, "left as it was");

    // Through a link, and from another directory: the same place.
    let mut relative = server.order(&["backup", "shop", "--to", "../around/whole"]);
    let output = relative.current_dir(base.join("full")).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    server.weir(&["backup", "--verify", &place("whole")]);
    for to in ["whole", "around/whole"] {
        assert!(server.try_weir(&["backup", "shop", "--to", &place(to)]).1.contains("holds a finished backup"));
    }
    for to in ["whole/partition-000", "whole/partition-000/x", "whole/x", "around/whole/x/y"] {
        let (fine, said) = server.try_weir(&["backup", "shop", "--to", &place(to)]);
        assert!(!fine && said.contains("a backup: choose a directory outside"), "{to}: {said}");
    }
    let all = ["b", "b/c", "b/partition-000", "b/c/d", "beside"].map(place);
    let orders: Vec<_> = all.iter().map(|to| ("default", to.as_str())).collect();
    let outputs = at_once(&server, &orders);
    let refusals = ["choose a directory outside", "not empty", "is being made", "cannot"];
    let made: Vec<bool> = outputs.iter().zip(&all).map(|(output, to)| made(&server, to, output, &refusals)).collect();
    assert!(made[4] && !(made[0] && (made[1] || made[2] || made[3])), "{made:?}");
    for (to, _) in all.iter().zip(&made).filter(|(_, made)| **made) {
        server.weir(&["backup", "--verify", to]);
    }
}

/// The whole answer to a `POST` at the operators' door.
fn post(server: &Server, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.admin).expect("it listens");
    let head = "Host: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json";
    let request = format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn an_address_of_another_place_is_refused_at_every_door() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    for arguments in [
        &["backup", "default", "--to", "s3://bucket/x"][..],
        &["restore", "s3://bucket/x", "--as", "copy"],
        &["serve", "--dir", "s3://bucket"],
        &["serve", "--record-traffic", "https://host/week.csv"],
    ] {
        let (fine, said) = server.try_weir(arguments);
        assert!(!fine && said.contains("of this machine"), "{arguments:?}: {said}");
    }
    for (path, body) in [
        ("/v1/tenants/default/backup", r#"{"dir":"s3://bucket/x"}"#),
        ("/v1/restore", r#"{"dir":"s3://bucket/x","name":"copy"}"#),
        ("/v1/tenants/default/backup", r#"{"dir":"backup/x"}"#),
        ("/v1/restore", r#"{"dir":"backup/x","name":"copy"}"#),
    ] {
        let answer = post(&server, path, body);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("of this machine") || answer.contains("an absolute path is needed"), "{answer}");
    }
    let file = dir.0.join("far.toml");
    std::fs::write(&file, "dir = \"s3://bucket\"\n").expect("written");
    let (fine, said) = server.try_weir(&["serve", "--config", text(&file)]);
    assert!(!fine && said.contains("dir: ") && said.contains("of this machine"), "{said}");
}
