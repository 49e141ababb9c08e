//! `MULTI` and what follows it, as long as there are no transactions: nothing is executed, and every client can tell.

use crate::support::{Client, Running, encode};
use weir_gateway::Settings;

const REFUSED: &str = "-ERR transactions are not supported yet: nothing between MULTI and EXEC is executed, use a plain pipeline \
                       (redis-py: pipeline(transaction=False))\r\n";
const DISCARDED: &str = "-EXECABORT Transaction discarded because of previous errors: transactions are not supported yet, use a \
                         plain pipeline\r\n";

fn all(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>()));
    client.send(&words.collect::<Vec<u8>>());
    lines.iter().map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect()
}

/// redis-py, go-redis, ioredis and jedis send this in one go, take six replies and make an error of the last, or of the
/// first that is one.
#[test]
fn nothing_between_multi_and_exec_is_executed() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let replies = all(&mut client, &["MULTI", "INCR n", "SET a 1", "FLUSHALL", "NOSUCH", "EXEC"]);
    assert_eq!(replies[..4], ["+OK\r\n", REFUSED, REFUSED, REFUSED]);
    assert!(replies[4].starts_with("-ERR unknown command"));
    assert_eq!(replies[5], DISCARDED);
    assert_eq!(
        all(&mut client, &["EXISTS n a", "INCR n", "EXEC"]),
        [":0\r\n", ":1\r\n", "-ERR EXEC without MULTI\r\n"]
    );
    // One reply after the other, as jedis does it.
    for (line, reply) in [
        ("MULTI", "+OK\r\n"),
        ("SET a 1", REFUSED),
        ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed\r\n"),
        ("AUTH default x", REFUSED),
        ("CLIENT REPLY OFF", REFUSED),
        ("DISCARD", "+OK\r\n"),
        ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
        ("GET a", "$-1\r\n"),
        // Nobody checked what it watches: also where there is nothing to do it was not done.
        ("MULTI", "+OK\r\n"),
        ("EXEC", DISCARDED),
    ] {
        assert_eq!(client.say(line), reply, "{line}");
    }
}

#[test]
fn nothing_is_watched() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    assert!(client.say("WATCH a").starts_with("-ERR WATCH is not supported yet"));
    assert_eq!(client.say("UNWATCH"), "+OK\r\n");
    assert_eq!(client.say("GET a"), "$-1\r\n");
}

#[test]
fn a_transaction_ends_with_its_connection_or_a_reset() {
    let weir = Running::start(Settings { threads: 2, long_threads: 1, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(all(&mut client, &["MULTI", "RESET", "SET a 1"]), ["+OK\r\n", "+RESET\r\n", "+OK\r\n"]);
    assert_eq!(all(&mut client, &["MULTI", "QUIT"]), ["+OK\r\n", "+OK\r\n"]);
    assert_eq!(client.rest(), b"");
    assert_eq!(weir.connect().say("SET a 2"), "+OK\r\n");
    // It goes with its connection from thread to thread.
    let mut client = weir.connect();
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let long = encode(&[&b"SET"[..], b"long", &vec![b'v'; 400 << 10]]);
    for _ in 0..3 {
        client.send(&long);
        assert_eq!(client.reply(), REFUSED.as_bytes());
    }
    assert_eq!(client.say("EXEC"), DISCARDED);
    assert_eq!(client.say("EXISTS long"), ":0\r\n");
}

#[test]
fn nothing_is_executed_in_silence_either() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for line in ["CLIENT REPLY OFF", "MULTI", "SET a 1", "EXEC", "SET b 1"] {
        client.send(&encode(&line.split(' ').collect::<Vec<_>>()));
    }
    assert_eq!(client.say("CLIENT REPLY ON"), "+OK\r\n");
    assert_eq!(client.say("MGET a b"), "*2\r\n$-1\r\n$1\r\n1\r\n");
}
