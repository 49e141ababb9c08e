//! `weir serve` as its users see it: an unchanged client library, kills, signals, a second start, bad addresses.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::process::Stdio;

use crate::support::{Dir, Server, command};
use redis::{Commands, Connection, ErrorKind, RedisError, pipe};

fn connect(server: &Server, query: &str) -> Connection {
    let client = redis::Client::open(format!("redis://{}/{query}", server.clients)).expect("an address");
    client.get_connection().expect("it listens")
}

#[test]
fn a_client_library_works_unchanged_in_both_protocols() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    for query in ["", "?protocol=resp3"] {
        let mut client = connect(&server, query);
        let _: () = client.set("greeting", "hello").expect("set");
        assert_eq!(client.get::<_, String>("greeting").expect("get"), "hello");
        assert_eq!(client.get::<_, Option<String>>("nothing").expect("get"), None);
        assert_eq!(client.incr::<_, _, i64>("n", 5).expect("incr") % 5, 0);
        let _: () = client.set_ex("short", "v", 100).expect("setex");
        assert!((99..=100).contains(&client.ttl::<_, i64>("short").expect("ttl")));
        let (a, b): (String, i64) =
            pipe().cmd("SET").arg("a").arg("1").cmd("INCR").arg("a").query(&mut client).expect("a pipeline");
        assert_eq!((a.as_str(), b), ("OK", 2));
        let error: RedisError = client.incr::<_, _, i64>("greeting", 1).expect_err("not a number");
        assert!(error.to_string().contains("not an integer"), "{error}");
        assert_ne!(error.kind(), ErrorKind::Io);
        let mut keys: Vec<String> = client.scan().expect("scan").collect::<Result<_, _>>().expect("keys are text");
        keys.sort();
        assert_eq!(keys, ["a", "greeting", "n", "short"]);
        assert_eq!(client.del::<_, i64>(&["a", "none"]).expect("del"), 1);
    }
}

#[test]
fn the_books_are_open_by_tenant_and_agree_with_the_kernel() {
    let dir = Dir::new();
    let server = Server::start(&dir, "sync = \"always\"");
    let mut client = connect(&server, "");
    for i in 0..200 {
        let _: () = client.set(format!("key-{i}"), "v".repeat(50_000)).expect("set");
    }
    let answer = server.http("/v1/ledger.csv");
    let (_, csv) = answer.split_once("\r\n\r\n").expect("a body");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    let tenant = lines.find(|line| line[column("name")] == "default").expect("the only tenant");
    let number = |name: &str| tenant[column(name)].parse::<f64>().expect("a number");
    assert_eq!(number("user_writes"), 200.0);
    assert!(number("user_written_bytes") >= 1e7 && number("log_written_bytes") >= 1e7, "{csv}");
    assert!(number("write_amplification") >= 1.0, "{csv}");
    // Every byte is written directly: the two sides can differ only by pages of names, pids and the file system's own
    // bookkeeping.
    let metrics = server.http("/metrics");
    let series = "weir_ledger_deviation{direction=\"write\"} ";
    let deviation = metrics.lines().find_map(|line| line.strip_prefix(series)).expect("Linux tells");
    let deviation: f64 = deviation.parse().expect("a number");
    assert!(deviation.abs() < 0.01, "{deviation}");
}

#[test]
fn what_was_answered_survives_kill_and_orderly_end() {
    let dir = Dir::new();
    for round in 0..4_u32 {
        let server = Server::start(&dir, if round == 2 { "sync = \"always\"" } else { "" });
        let mut client = connect(&server, "");
        let expected: Vec<String> = (0..round * 100).map(|i| format!("value-{i}")).collect();
        for (i, expected) in expected.iter().enumerate() {
            assert_eq!(&client.get::<_, String>(format!("key-{i}")).expect("survived"), expected, "round {round}");
        }
        for i in round * 100..(round + 1) * 100 {
            let _: () = client.set(format!("key-{i}"), format!("value-{i}")).expect("set");
        }
        let _: () = client.del("gone").expect("del");
        if round % 2 == 0 {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
    }
}

#[test]
fn the_door_for_operators_shows_what_happened() {
    let dir = Dir::new();
    let server = Server::start(&dir, "sync = \"always\"");
    let mut client = connect(&server, "");
    let _: () = client.set("k", "v").expect("set");
    assert!(server.http("/healthz").ends_with("ok\n"));
    let metrics = server.http("/metrics");
    for line in [
        "weir_commands_total{command=\"set\"} 1",
        "weir_connections 1",
        "weir_writes_total 1",
        "weir_device_bytes_total{class=\"log\",direction=\"write\"} ",
        "# TYPE weir_commands_total counter",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(!metrics.contains("class=\"log\",direction=\"write\"} 0\n"), "the log has been written:\n{metrics}");
    // Once a second the server looks at what the threads did.
    let used = "\nweir_tenant_gateway_processor_seconds_total{tenant=\"default\"} ";
    let metrics = std::iter::repeat_with(|| server.http("/metrics")).find(|metrics| metrics.contains(used));
    assert!(metrics.is_some_and(|metrics| metrics.contains("weir_tenant_noisy{tenant=\"default\"} 0\n")));
}

fn refused(arguments: &[&str]) -> String {
    let output = command(arguments).stdin(Stdio::null()).output().expect("the binary starts");
    assert!(!output.status.success(), "{arguments:?} was accepted");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_served_is_said_clearly() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let data = dir.0.join("data");
    let (data, taken) = (data.to_str().expect("text"), server.clients.to_string());
    let second = refused(&["--dir", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert!(second.contains("in use by another weir"), "{second}");
    let port = refused(&["--dir", "unused", "--listen", &taken, "--admin", "127.0.0.1:0"]);
    assert!(port.contains("choose another with --listen"), "{port}");
    for reachable in ["0.0.0.0:0", "[::]:0"] {
        let other = dir.0.join("reachable");
        let other = other.to_str().expect("text");
        let client = refused(&["--listen", reachable, "--admin", "127.0.0.1:0", "--dir", other]);
        assert!(client.contains("--insecure"), "{client}");
        assert!(refused(&["--admin", reachable]).contains("--insecure"));
    }
    let file = dir.0.join("bad.toml");
    std::fs::write(&file, "cache = \"1 GiB\"\nwrite_bufer = 5\n").expect("written");
    let bad = refused(&["--config", file.to_str().expect("text")]);
    assert!(bad.contains("write_bufer") && bad.contains("bad.toml"), "{bad}");
    assert!(refused(&["--config", "/nowhere/weir.toml"]).contains("/nowhere/weir.toml"));
}

#[test]
fn s1_the_other_loopback_address_is_this_machine_too() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: there is no ::1 here");
        return;
    }
    let dir = Dir::new();
    let server = Server::start_at(&dir, "", "info", "[::1]:0");
    let mut client = connect(&server, "");
    let _: () = client.set("greeting", "hello").expect("no secret is asked for");
    assert!(server.http("/metrics").contains("weir_"));
    assert!(server.weir(&["tenant", "list"]).contains("default"));
    // A client that connects to `localhost` may mean either address.
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut four = connect(&server, "");
    let _: () = four.set("greeting", "hello").expect("no secret is asked for");
    let six = redis::Client::open(format!("redis://[::1]:{}/", server.clients.port())).expect("an address");
    let mut six = six.get_connection().expect("it listens there, too");
    assert_eq!(six.get::<_, String>("greeting").expect("get"), "hello");
}

#[test]
fn clients_are_told_no_path_and_no_process_id() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = connect(&server, "");
    let info: String = redis::cmd("INFO").arg("everything").query(&mut client).expect("info");
    let settings: Vec<String> = redis::cmd("CONFIG").arg("GET").arg("*").query(&mut client).expect("config");
    let name = dir.0.file_name().and_then(|name| name.to_str()).expect("text");
    for said in std::iter::once(&info).chain(&settings) {
        assert!(!said.contains(name) && !said.contains('/'), "{said}");
    }
    assert!(settings.chunks(2).any(|pair| pair == ["dir", "."]), "clients find what they look for: {settings:?}");
    assert!(info.contains("\r\nprocess_id:0\r\n"), "{info}");
    // A port may happen to be the same number, and so may a counter.
    let facts = info.split("\r\n\r\n").next().expect("the section of the server");
    let pid = server.pid().to_string();
    let tells = |line: &&str| line.split_once(':').is_some_and(|(name, value)| name != "tcp_port" && value == pid);
    assert_eq!(facts.lines().find(tells), None);
}

#[test]
fn each_start_records_traffic_in_a_file_of_its_own() {
    let dir = Dir::new();
    let file = dir.0.join("week.csv");
    std::fs::write(&file, "a recording").expect("written");
    for name in ["week.1.csv", "week.2.csv"] {
        // A supervisor gives the same arguments each time.
        let server = Server::start_with(&dir, &["--record-traffic", file.to_str().expect("text")]);
        assert!(server.log().contains(name), "{}", server.log());
        server.kill();
        let recorded = std::fs::read_to_string(dir.0.join(name)).expect("a recording");
        assert!(recorded.starts_with("second,tenant,writes,reads\n"), "{recorded}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "a recording");
}
