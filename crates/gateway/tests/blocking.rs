//! Commands that are answered later. `WAIT` is the one that there is: for replicas, of which there are none.

use std::sync::Arc;

use crate::support::tenants::{connect, start_at};
use crate::support::{Client, Running, TestClock, encode};
use weir_gateway::Settings;

/// A frozen clock: no timeout ends but one that the test lets end.
fn start() -> (Running, Arc<TestClock>) {
    let clock = TestClock::new();
    clock.freeze();
    let (weir, _) = start_at(&clock, Settings::default());
    (weir, clock)
}

fn id(client: &mut Client) -> String {
    client.say("CLIENT ID")[1..].trim().to_owned()
}

fn next(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.reply()).into_owned()
}

/// Sends `lines` in one go; waits until so many connections are blocked.
fn send(client: &mut Client, other: &mut Client, lines: &[&str], blocked: usize) {
    client.send(&lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect::<Vec<_>>());
    until_blocked(other, blocked);
}

fn until_blocked(other: &mut Client, blocked: usize) {
    while !other.say("INFO clients").contains(&format!("blocked_clients:{blocked}\r\n")) {
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_lasts_as_long_as_it_was_asked_to_and_what_follows_waits_too() {
    let (weir, clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    send(&mut client, &mut other, &["SET k v", "WAIT 1 2000", "SET k w", "PING"], 1);
    assert_eq!(next(&mut client), "+OK\r\n", "what came before is answered");
    assert_eq!(other.say("GET k"), "$1\r\nv\r\n");
    assert!(other.say("CLIENT LIST").contains(" flags=b "));
    clock.advance(1);
    assert_eq!(other.say("GET k"), "$1\r\nv\r\n");
    until_blocked(&mut other, 1);
    clock.advance(1);
    assert_eq!([next(&mut client), next(&mut client), next(&mut client)], [":0\r\n", "+OK\r\n", "+PONG\r\n"]);
    assert_eq!(other.say("GET k"), "$1\r\nw\r\n");
    assert_eq!(client.say("WAIT 0 0"), ":0\r\n", "none are wanted");
}

#[test]
fn who_waits_is_unblocked_by_his_own_tenant_only() {
    let (weir, _clock) = start();
    let (mut client, mut other, mut eve) = (connect(&weir, "ada"), connect(&weir, "ada"), connect(&weir, "eve"));
    let id = id(&mut client);
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {id}")), ":0\r\n", "it waits for nothing");
    for (words, reply) in [("", ":0\r\n"), (" TIMEOUT", ":0\r\n"), (" error", UNBLOCKED)] {
        send(&mut client, &mut other, &["WAIT 3 0", "PING"], 1);
        assert_eq!(eve.say(&format!("CLIENT UNBLOCK {id}")), ":0\r\n");
        assert_eq!(
            other.say(&format!("CLIENT UNBLOCK {id} soon")),
            "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"
        );
        assert_eq!(other.say(&format!("CLIENT UNBLOCK {id}{words}")), ":1\r\n");
        assert_eq!(other.say(&format!("CLIENT UNBLOCK {id}{words}")), ":0\r\n");
        assert_eq!([next(&mut client), next(&mut client)], [reply, "+PONG\r\n"]);
    }
    until_blocked(&mut other, 0);
}

const UNBLOCKED: &str = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";

#[test]
fn who_goes_or_is_killed_waits_no_more() {
    let (weir, _clock) = start();
    let mut other = connect(&weir, "ada");
    let mut client = connect(&weir, "ada");
    send(&mut client, &mut other, &["WAIT 1 0", "PING"], 1);
    drop(client);
    until_blocked(&mut other, 0);
    let mut client = connect(&weir, "ada");
    let id = id(&mut client);
    send(&mut client, &mut other, &["WAIT 1 0", "SET k v"], 1);
    assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(client.rest(), b"");
    until_blocked(&mut other, 0);
    assert_eq!(other.say("GET k"), "$-1\r\n", "what was behind is not served");
}

#[test]
fn the_end_of_the_server_waits_for_nobody_who_waits() {
    let (mut weir, _clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    send(&mut client, &mut other, &["WAIT 1 0"], 1);
    // No time passes: it would wait for ever.
    weir.ask_to_end();
    assert_eq!(client.rest(), b"");
}

#[test]
fn who_waits_is_sent_messages() {
    let (weir, clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    assert!(client.say("HELLO 3").starts_with('%'));
    assert!(client.say("SUBSCRIBE news").starts_with('>'));
    send(&mut client, &mut other, &["WAIT 1 1000"], 1);
    assert_eq!(other.say("PUBLISH news x"), ":1\r\n");
    assert_eq!(next(&mut client), ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
    until_blocked(&mut other, 1);
    clock.advance(1);
    assert_eq!(next(&mut client), ":0\r\n");
}

#[test]
fn a_wait_in_silence_is_not_answered_and_much_may_follow_it() {
    let (weir, clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    let value = "v".repeat(100_000);
    let set = format!("SET k {value}");
    send(&mut client, &mut other, &["ECHO before", "CLIENT REPLY SKIP", "WAIT 1 1000", &set, "STRLEN k"], 1);
    assert_eq!(next(&mut client), "$6\r\nbefore\r\n");
    clock.advance(1);
    assert_eq!([next(&mut client), next(&mut client)], ["+OK\r\n", ":100000\r\n"]);
}
