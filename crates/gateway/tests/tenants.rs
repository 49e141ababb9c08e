//! Several tenants behind one gateway, with secrets: who may do what before the login, and what one tenant learns of
//! another (nothing).

use std::sync::atomic::Ordering;

use crate::support::tenants::{connect, start, start_at};
use crate::support::{PANIC_KEY, TestClock, encode};
use weir_gateway::Settings;

const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONG_PASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn s2_strangers_may_say_who_they_are_and_nothing_else() {
    let (weir, _) = start();
    for command in weir_command::table::COMMANDS {
        let mut client = weir.connect();
        let arguments = command.arity.unsigned_abs() as usize;
        let words: Vec<&str> = std::iter::once(command.name).chain(std::iter::repeat("1")).take(arguments).collect();
        let reply = client.say(&words.join(" "));
        match command.name {
            "auth" => assert_eq!(reply, WRONG_PASS),
            "hello" => assert!(reply.starts_with("-NOAUTH HELLO must be called with the client already"), "{reply}"),
            "quit" => assert_eq!(reply, "+OK\r\n"),
            "reset" => assert_eq!(reply, "+RESET\r\n"),
            name => assert_eq!(reply, NO_AUTH, "{name}"),
        }
    }
}

#[test]
fn s2_what_a_stranger_may_send_and_is_told_is_bounded() {
    let (weir, _) = start();
    let last_words = |request: &[u8]| {
        let mut client = weir.connect();
        client.send(request);
        String::from_utf8_lossy(&client.rest()).into_owned()
    };
    assert_eq!(last_words(b"*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert_eq!(last_words(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"), "-ERR Protocol error: unauthenticated bulk length\r\n");
    assert_eq!(last_words(b"*2\r\n$4\r\nAUTH\r\n$99999999999\r\n"), "-ERR Protocol error: invalid bulk length\r\n");
    let told = last_words(&b"PING\r\n".repeat(1000));
    assert!(told.len() <= 1024 && told.len() > 900, "{} bytes were told", told.len());
    // The same over several round trips.
    let (mut client, mut told) = (weir.connect(), 0);
    while let Some(len) = Some(client.rest_or_pong().len()).filter(|&len| len > 0) {
        told += len;
    }
    assert!(told <= 1024, "{told} bytes were told");
    // After the login, neither limit holds any more.
    let mut client = connect(&weir, "ada");
    let words: Vec<String> = (0..20).map(|i| format!("{i}{}", "x".repeat(20_000))).collect();
    let all: Vec<&str> = std::iter::once("DEL").chain(words.iter().map(String::as_str)).collect();
    assert_eq!(client.ask(&all), b":0\r\n");
    (0..100).for_each(|_| assert_eq!(client.say("PING"), "+PONG\r\n"));
    // RESET makes the connection a stranger again.
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert_eq!(client.say("PING"), NO_AUTH);
    client.send(b"*11\r\n");
    assert_eq!(client.rest(), b"-ERR Protocol error: unauthenticated multibulk length\r\n");
}

#[test]
fn s2_a_stranger_has_ten_seconds() {
    let (weir, _) = start();
    let (mut stranger, mut known) = (weir.connect(), connect(&weir, "ada"));
    assert_eq!(stranger.say("PING"), NO_AUTH);
    weir.pass(15);
    assert_eq!(stranger.rest(), b"");
    assert_eq!(known.say("PING"), "+PONG\r\n");
}

#[test]
fn s12_half_a_request_has_thirty_seconds_from_its_last_byte() {
    let (weir, _) = start();
    let mut half = connect(&weir, "ada");
    half.send(b"PING\r\n*2\r\n$3\r\nGET\r\n");
    assert_eq!(half.reply(), b"+PONG\r\n");
    weir.pass(40);
    assert_eq!(half.rest(), b"");
}

#[test]
fn auth_and_hello_say_what_redis_says() {
    let (weir, _) = start();
    let mut client = weir.connect();
    assert_eq!(client.say("AUTH nobody x"), WRONG_PASS);
    assert_eq!(client.say("AUTH ada x"), WRONG_PASS);
    assert_eq!(client.say("AUTH wrong"), WRONG_PASS);
    assert_eq!(client.say("AUTH a b c"), "-ERR syntax error\r\n");
    assert_eq!(client.say("HELLO 3 AUTH ada x"), WRONG_PASS);
    assert_eq!(client.say("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
    assert_eq!(client.say("PING"), NO_AUTH);
    let hello = client.say("HELLO 3 AUTH ada ada-secret SETNAME me");
    assert!(hello.starts_with("%7\r\n"), "{hello}");
    assert_eq!(client.say("ACL WHOAMI"), "$7\r\ndefault\r\n", "the user within the tenant");
    assert_eq!(client.say("SET whose ada"), "+OK\r\n");
    assert_eq!(client.say("CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(client.say("AUTH bob x"), WRONG_PASS);
    assert_eq!(client.say("GET whose"), "$3\r\nada\r\n", "a failed login changes nothing");
    // A secret without a name is for the default tenant.
    assert_eq!(client.say("AUTH default-secret"), "+OK\r\n");
    assert_eq!(client.say("GET whose"), "_\r\n");
}

#[test]
fn writes_in_a_pipeline_go_to_whom_they_were_sent_as() {
    let (weir, _) = start();
    let mut client = weir.connect();
    let requests = [
        "AUTH ada ada-secret",
        "SET k ada",
        "AUTH bob bob-secret",
        "SET k bob",
        "SELECT 3",
        "SET k bob3",
        "RESET",
        "AUTH bob bob-secret",
        "GET k",
        "SELECT 3",
        "GET k",
        "AUTH ada ada-secret",
        "GET k",
        "SELECT 0",
        "GET k",
        "SELECT 16",
        "SELECT 15",
        "SELECT -1",
    ];
    let all: Vec<u8> = requests.iter().flat_map(|text| encode(&text.split(' ').collect::<Vec<_>>())).collect();
    client.send(&all);
    let replies: Vec<String> = requests.iter().map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect();
    let ok = "+OK\r\n";
    let out_of_range = "-ERR DB index is out of range\r\n";
    assert_eq!(
        replies,
        [
            ok,
            ok,
            ok,
            ok,
            ok,
            ok,
            "+RESET\r\n",
            ok,
            "$3\r\nbob\r\n",
            ok,
            "$4\r\nbob3\r\n",
            ok,
            "$-1\r\n",
            ok,
            "$3\r\nada\r\n",
            out_of_range,
            ok,
            out_of_range
        ]
    );
}

#[test]
fn s5_clients_and_cursors_of_others_are_as_if_they_were_not_there() {
    let (weir, _) = start();
    let (mut ada, mut bob) = (connect(&weir, "ada"), connect(&weir, "bob"));
    assert_eq!(ada.say("CLIENT SETNAME ada-app"), "+OK\r\n");
    let id = ada.say("CLIENT ID")[1..].trim().to_owned();
    let list = bob.say("CLIENT LIST");
    assert_eq!(list.matches("id=").count(), 1, "{list}");
    assert!(list.contains("user=default") && !list.contains("ada"), "{list}");
    assert_eq!(bob.say(&format!("CLIENT LIST ID {id}")), "$0\r\n\r\n");
    assert_eq!(bob.say(&format!("CLIENT KILL ID {id}")), ":0\r\n");
    let address = ada.stream.local_addr().expect("bound").to_string();
    assert_eq!(bob.say(&format!("CLIENT KILL {address}")), "-ERR No such client\r\n");
    assert_eq!(bob.say("CLIENT KILL USER ada"), "-ERR No such user 'ada'\r\n");
    assert_eq!(bob.say("CLIENT KILL TYPE normal SKIPME yes"), ":0\r\n");
    assert!(bob.say("INFO clients").contains("connected_clients:1\r\n"));
    assert!(!bob.say("INFO everything").contains("cmdstat_select"));
    assert_eq!(ada.say("PING"), "+PONG\r\n", "nobody killed it");

    let words: Vec<String> =
        std::iter::once("MSET".into()).chain((0..100).flat_map(|i| [format!("ada-{i}"), "v".into()])).collect();
    assert_eq!(ada.ask(&words), b"+OK\r\n");
    let page = ada.say("SCAN 0 COUNT 10");
    let cursor = page.split("\r\n").nth(2).expect("a cursor").to_owned();
    assert_ne!(cursor, "0");
    assert!(bob.say(&format!("SCAN {cursor}")).starts_with("-ERR invalid cursor"));
    assert_eq!(ada.say("SELECT 1"), "+OK\r\n");
    assert!(ada.say(&format!("SCAN {cursor}")).starts_with("-ERR invalid cursor"), "nor in another database");
    assert_eq!(ada.say("SELECT 0"), "+OK\r\n");
    assert!(ada.say(&format!("SCAN {cursor}")).contains("ada-"));

    let mut second = connect(&weir, "ada");
    assert_eq!(second.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(ada.rest(), b"");
}

#[test]
fn s5_a_connection_is_listed_where_it_belongs_now() {
    let (weir, _) = start();
    let (mut ada, mut second, mut bob) = (connect(&weir, "ada"), connect(&weir, "ada"), connect(&weir, "bob"));
    let mut listed = || [&mut ada, &mut bob].map(|client| client.say("CLIENT LIST").matches("id=").count());
    assert_eq!(listed(), [2, 1]);
    assert_eq!(second.say("AUTH bob bob-secret"), "+OK\r\n");
    assert_eq!(listed(), [1, 2]);
    assert_eq!(second.say("AUTH bob bob-secret"), "+OK\r\n");
    assert_eq!(listed(), [1, 2], "the same tenant again");
    assert_eq!(second.say("RESET"), "+RESET\r\n");
    assert_eq!(listed(), [1, 1]);
}

#[test]
fn a_suspended_tenant_is_told_so_and_a_dropped_one_is_closed() {
    let (weir, keys) = start();
    let (mut ada, mut bob) = (connect(&weir, "ada"), connect(&weir, "bob"));
    let (_, _, knobs) = &keys.tenants["ada"];
    knobs.standing.store(1, Ordering::SeqCst);
    let suspended = "-NOPERM tenant ada is suspended\r\n";
    assert_eq!(ada.say("GET k"), suspended);
    assert_eq!(weir.connect().say("AUTH ada ada-secret"), suspended);
    assert_eq!(weir.connect().say("AUTH ada guess"), WRONG_PASS, "only who knows the secret is told");
    knobs.standing.store(0, Ordering::SeqCst);
    assert_eq!(ada.say("GET k"), "$-1\r\n");
    let mut idle = connect(&weir, "ada");
    knobs.standing.store(2, Ordering::SeqCst);
    assert!(ada.say("GET k").starts_with("-NOPERM"));
    assert_eq!(ada.rest(), b"");
    weir.pass(1);
    assert_eq!(idle.rest(), b"", "an idle connection is closed within a second");
    assert_eq!(weir.connect().say("AUTH ada ada-secret"), WRONG_PASS);
    assert_eq!(bob.say("PING"), "+PONG\r\n");
}

#[test]
fn s13_a_tenant_has_its_share_of_connections() {
    let (weir, keys) = start();
    keys.tenants["ada"].2.connections_max.store(2, Ordering::SeqCst);
    let (mut first, mut second) = (connect(&weir, "ada"), connect(&weir, "ada"));
    assert!(first.say("INFO clients").contains("maxclients:2\r\n"));
    assert_eq!(second.say("AUTH ada ada-secret"), "+OK\r\n", "logging in again needs no second place");
    let mut third = weir.connect();
    assert_eq!(third.say("AUTH ada ada-secret"), "-ERR max number of clients reached\r\n");
    assert_eq!(third.rest(), b"");
    assert_eq!(connect(&weir, "bob").say("PING"), "+PONG\r\n");
    assert_eq!(first.say("AUTH bob bob-secret"), "+OK\r\n");
    assert_eq!(connect(&weir, "ada").say("PING"), "+PONG\r\n", "its place is free again");
}

#[test]
fn s13_nobody_is_kept_out_by_who_takes_all_there_is() {
    let (weir, _) = start_at(&TestClock::new(), Settings { connections_max: 20, ..Settings::default() });
    let mut greedy = Vec::new();
    loop {
        let mut next = weir.connect();
        if next.say("AUTH ada ada-secret") != "+OK\r\n" {
            break;
        }
        greedy.push(next);
    }
    assert_eq!(greedy.len(), 17, "nine tenths of eighteen");
    // Three places are left, one of them for a tenant. Clients that say nothing have them all, but not for long.
    let mut silent: Vec<_> = (0..20).map(|_| weir.connect()).collect();
    assert_eq!(connect(&weir, "bob").say("PING"), "+PONG\r\n");
    assert_eq!(silent[0].rest(), b"", "the oldest made room");
    assert!(greedy.iter_mut().all(|client| client.say("PING") == "+PONG\r\n"), "who has logged in stays");
}

#[test]
fn s16_a_panic_ends_one_connection() {
    let (weir, _) = start();
    let (mut ada, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    ada.send(&encode(&[b"GET".as_slice(), PANIC_KEY]));
    assert_eq!(ada.rest(), b"");
    assert_eq!(other.say("GET k"), "$-1\r\n");
    let list = other.say("CLIENT LIST");
    assert_eq!(list.matches("id=").count(), 1, "its record is gone: {list}");
}

#[test]
fn s17_other_protocols_are_closed_at_once() {
    let (weir, _) = start();
    for request in ["POST / HTTP/1.1\r\nHost: x\r\n\r\n", "Host: x\r\nPING\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut client = weir.connect();
        client.send(request.as_bytes());
        let said = String::from_utf8_lossy(&client.rest()).into_owned();
        // `GET / HTTP/1.1` is a GET with a wrong number of arguments; the next line gives it away.
        assert!(said.is_empty() || said.starts_with("-ERR wrong number of arguments"), "{said}");
    }
}
