//! Messages that a connection does not take, or that come in the middle of its own request.

use std::io::Write;
use std::time::Duration;

use crate::pubsub::{message, next, subscribed};
use crate::support::{Client, Running, encode};
use weir_gateway::Settings;

/// After this many round trips of a bystander, a server of one thread has handled all that came before.
const ROUNDS: usize = 300;

/// A connection for which the kernel keeps next to nothing, in the middle of a request for `SET k`, with a message on
/// its way to it that is longer than that. Gives the message, and the rest of the request.
fn told_within_a_request(weir: &Running) -> (Client, String, Vec<u8>) {
    let (mut client, mut other) = (weir.connect_narrow(), weir.connect());
    assert!(client.say("HELLO 3").starts_with('%'));
    subscribed(&mut client, "c");
    let request = encode(&["SET", "k", &"v".repeat(10_000)]);
    let (first, rest) = request.split_at(100);
    client.send(first);
    let long = "m".repeat(10_000);
    assert_eq!(other.say(&format!("PUBLISH c {long}")), ":1\r\n");
    (client, message(true, "c", &long), rest.to_vec())
}

#[test]
fn who_is_told_something_within_its_request_may_send_the_rest_before_it_reads() {
    let weir = Running::start(Settings::default());
    let (mut client, message, rest) = told_within_a_request(&weir);
    // It would wait for ever.
    client.stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a socket");
    client.send(&rest);
    assert!(next(&mut client) == message, "whole, and in front of the reply");
    assert_eq!(next(&mut client), "+OK\r\n");
    assert_eq!(client.say("STRLEN k"), ":10000\r\n");
}

#[test]
fn s11_who_takes_no_message_is_cut_even_if_it_goes_on_sending() {
    let weir = Running::start(Settings::default());
    let (mut client, ..) = told_within_a_request(&weir);
    let mut goes_on = || {
        weir.pass(20);
        client.stream.write_all(b"v").is_ok()
    };
    assert!((0..100).any(|_| !goes_on()));
}

#[test]
fn s11_who_was_slow_to_take_messages_holds_nothing_when_they_are_taken() {
    // With one thread, an answer to one connection shows that everything that came before on the others has been
    // handled.
    let weir = Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let (mut other, mut slow) = (weir.connect(), weir.connect_narrow());
    assert_eq!(other.ask(&[b"SET".as_slice(), b"k", &vec![b'v'; 32 << 20]]), b"+OK\r\n");
    assert!(slow.say("SUBSCRIBE news").contains("subscribe"));
    // Each of these is more than the kernel keeps for that connection.
    let payload = "m".repeat(10_000);
    for _ in 0..3 {
        assert_eq!(other.ask(&["PUBLISH", "news", &payload]), b":1\r\n");
    }
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    for _ in 0..3 {
        assert!(slow.reply().ends_with(format!("{payload}\r\n").as_bytes()));
    }
    // That takes all the room that there is, so it is possible only where nobody else holds any.
    assert_eq!(other.say("BITOP AND d k k k k k k k k"), ":33554432\r\n");
}
