//! Looks for canary secrets in everything that a server writes or says (S4).
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::io::{Read, Write};
use std::path::Path;

use crate::support::{Dir, Server, expect};

const CANARY: &str = "canary-in-the-mine-7391";
const WRONG: &str = "canary-guessed-wrongly-8842";

fn bytes_below(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        if entry.path().is_dir() {
            all.extend(bytes_below(&entry.path()));
        } else {
            all.push((entry.path().display().to_string(), std::fs::read(entry.path()).expect("readable")));
        }
    }
    all
}

#[test]
fn s4_no_secret_is_in_anything_that_the_server_says_logs_or_keeps() {
    let dir = Dir::new();
    let server = Server::start_telling(&dir, "", "trace");
    let (mut said, mut secrets) = (String::new(), vec![CANARY.to_owned(), WRONG.to_owned()]);
    said.push_str(&server.weir(&["tenant", "create", "ada", "--secret", CANARY]));
    // A generated secret is shown once, here.
    let told = server.weir(&["tenant", "create", "bob"]);
    let token = told.split_whitespace().find(|word| word.starts_with("weir_")).expect("a secret").to_owned();
    secrets.push(token[5..].to_owned());

    let mut client = server.connect();
    let wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    expect(&mut client, format!("AUTH ada {CANARY}\r\n").as_bytes(), b"+OK\r\n");
    expect(&mut client, b"CONFIG SET slowlog-log-slower-than 0\r\n", b"+OK\r\n");
    expect(&mut client, format!("AUTH ada {CANARY}\r\n").as_bytes(), b"+OK\r\n");
    expect(&mut client, format!("AUTH bob {token}\r\n").as_bytes(), b"+OK\r\n");
    expect(&mut client, format!("AUTH ada {WRONG}\r\n").as_bytes(), wrong);
    expect(&mut client, format!("AUTH nobody {WRONG}\r\n").as_bytes(), wrong);
    expect(&mut client, format!("HELLO 2 AUTH ada {WRONG}\r\n").as_bytes(), wrong);
    expect(&mut client, format!("AUTH ada {CANARY} more\r\n").as_bytes(), b"-ERR syntax error\r\n");
    expect(&mut client, format!("AUTH ada {CANARY}\r\n").as_bytes(), b"+OK\r\n");
    client
        .write_all(
            b"SLOWLOG GET -1\r\nCLIENT LIST\r\nINFO everything\r\nCONFIG GET *\r\nACL LIST\r\nCOMMAND DOCS auth\r\n",
        )
        .expect("it reads");
    client.write_all(b"ACL GETUSER ada\r\nMONITOR\r\nDEBUG OBJECT k\r\nMEMORY STATS\r\nQUIT\r\n").expect("it reads");
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).expect("replies");
    said.push_str(&String::from_utf8_lossy(&replies));
    assert!(said.contains("(redacted)"), "the slow log has the logins");

    said.push_str(&server.weir(&["tenant", "alter", "ada", "--secret", CANARY, "--wcu", "100000"]));
    for order in [
        &["tenant", "list", "--json"][..],
        &["tenant", "show", "ada"],
        &["tenant", "show", "bob", "--json"],
        &["top", "--once"],
    ] {
        said.push_str(&server.weir(order));
    }
    for path in ["/metrics", "/v1/tenants", "/v1/tenants/ada", "/v1/top", "/v1/ledger.csv", "/healthz", "/"] {
        said.push_str(&server.http(path));
    }
    let backup = dir.0.join("backup");
    server.weir(&["backup", "ada", "--to", backup.to_str().expect("text")]);
    let title = std::fs::read(format!("/proc/{}/cmdline", server.pid())).expect("Linux");
    said.push_str(&String::from_utf8_lossy(&title));
    let log = server.log();
    assert!(log.contains("tenant created") && log.contains("DEBUG"), "the log tells everything it can: {log}");
    said.push_str(&log);
    assert!(server.terminate().success());
    for secret in &secrets {
        if let Some(at) = said.find(secret.as_str()) {
            panic!("{secret} was said: {}", &said[at.saturating_sub(200)..at]);
        }
        for (file, bytes) in bytes_below(&dir.0) {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} is in {file}");
        }
    }
}
