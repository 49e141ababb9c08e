//! The bill: its sum is what the metrics say, an orderly end loses nothing of it, and a kill at most the part that
//! nobody had asked for.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::process::Command;

use crate::support::{Dir, Server, expect};

/// Request units of the tenant `default`, in thousandths.
fn in_metrics(server: &Server) -> u64 {
    let metrics = server.http("/metrics");
    let line = metrics.lines().find(|line| line.starts_with("weir_tenant_request_units_total{tenant=\"default\"}"));
    let units: f64 = line.and_then(|line| line.rsplit(' ').next()).expect("a sample").parse().expect("a number");
    (units * 1000.0).round() as u64
}

/// The same on the bill, with the number of commands: over all hours, as an hour may end while the test runs.
fn on_the_bill(server: &Server) -> (u64, u64) {
    let csv = server.weir(&["bill", "default", "--csv"]);
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let place = |name: &str| names.iter().position(|other| *other == name).expect("a column");
    let (units, commands) = (place("request_units"), place("commands"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == names.len()), "{csv}");
    let milli = |row: &Vec<&str>| row[units].replace('.', "").parse::<u64>().expect("a number");
    let calls = |row: &Vec<&str>| row[commands].parse::<u64>().expect("a number");
    (rows.iter().map(milli).sum(), rows.iter().map(calls).sum())
}

#[test]
fn the_sum_of_the_bill_is_what_metrics_say_and_outlives_the_server() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    for _ in 0..100 {
        expect(&mut client, b"SET k v\r\n", b"+OK\r\n");
        expect(&mut client, b"GET k\r\n", b"$1\r\nv\r\n");
    }
    let (units, commands) = on_the_bill(&server);
    assert_eq!(units, in_metrics(&server));
    assert!(units > 0 && commands >= 200, "{units} {commands}");
    expect(&mut client, b"SET k w\r\n", b"+OK\r\n");
    let all = in_metrics(&server);
    assert!(all > units);
    assert!(server.terminate().success());

    let server = Server::start(&dir, "");
    assert_eq!(on_the_bill(&server), (all, commands + 1), "what an orderly end has written");
    let mut client = server.connect();
    expect(&mut client, b"SET k x\r\n", b"+OK\r\n");
    let more = in_metrics(&server);
    let told = on_the_bill(&server);
    assert_eq!(told, (all + more, commands + 2));
    // Nobody has asked for the bill since: this command may be lost from it.
    expect(&mut client, b"SET k y\r\n", b"+OK\r\n");
    server.kill();

    let server = Server::start(&dir, "");
    assert_eq!(on_the_bill(&server), told, "what was told is durable");
    let json = server.weir(&["bill", "--json"]);
    assert!(json.contains("\"request_milli_units\""), "{json}");
    let (fine, said) = server.try_weir(&["bill", "--to", "0"]);
    assert!(fine && !said.contains("default"), "{said}");
    let (fine, said) = server.try_weir(&["bill", "nosuch"]);
    assert!(!fine && said.contains("there is no tenant `nosuch`"), "{said}");
    let (fine, said) = server.try_weir(&["bill", "default", "--to", "0"]);
    assert!(fine && said.lines().count() == 1, "{said}");
}

#[test]
fn a_bill_that_cannot_be_read_is_left_alone_and_the_node_serves() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    assert!(server.terminate().success());
    let current = dir.0.join("data").join("bill").join("CURRENT");
    std::fs::write(&current, "nonsense").expect("writable");
    let server = Server::start(&dir, "");
    let mut client = server.connect();
    expect(&mut client, b"SET k v\r\n", b"+OK\r\n");
    let (fine, said) = server.try_weir(&["bill"]);
    assert!(!fine && said.contains("CURRENT"), "{said}");
    assert!(server.terminate().success());
    assert_eq!(std::fs::read(&current).expect("there"), b"nonsense");
    let check =
        Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(dir.0.join("data")).output().expect("it runs");
    let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(!check.status.success() && said.contains("CURRENT"), "{said}");
}
