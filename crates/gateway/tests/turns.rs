//! Nobody takes more than one turn: long commands are run in several, and others are served in between (S14).

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::support::{Client, Running, encode};
use weir_gateway::Settings;

const KEYS: usize = 40_000;
/// Fewer turns than any of the commands below takes.
const TURNS: usize = 6;

/// A gateway with one thread, which serves everybody, whatever they ask for.
pub(crate) fn start() -> Running {
    Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() })
}

/// Sets [`KEYS`] keys.
pub(crate) fn fill(client: &mut Client) {
    for from in (0..KEYS).step_by(1000) {
        let words = (from..from + 1000).flat_map(|i| [format!("key-{i}"), "v".to_owned()]);
        let all: Vec<String> = std::iter::once("MSET".to_owned()).chain(words).collect();
        assert_eq!(client.ask(&all), b"+OK\r\n");
    }
}

/// After this many round trips of a bystander, a server of one thread has read all that another client has sent.
pub(crate) const ROUNDS: usize = 300;

/// What `ask` says of each time that a bystander was served between the last byte of `request` and its reply. One
/// thread acts as both clients, so that nothing is counted while a client waits for a processor. The reply is short,
/// and most of the request was read before, so that neither takes turns.
fn seen_beside<T>(
    weir: &Running,
    client: &mut Client,
    request: &[u8],
    mut ask: impl FnMut(&mut Client) -> T,
) -> Vec<T> {
    let mut bystander = weir.connect();
    let (most, last) = request.split_at(request.len() - 1);
    client.send(most);
    (0..ROUNDS).for_each(|_| assert_eq!(bystander.say("PING"), "+PONG\r\n"));
    client.send(last);
    client.stream.set_nonblocking(true).expect("a socket");
    let mut seen = Vec::new();
    while client.stream.peek(&mut [0]).is_err() {
        seen.push(ask(&mut bystander));
    }
    client.stream.set_nonblocking(false).expect("a socket");
    client.reply();
    seen
}

/// How often a bystander was served between the last byte of `request` and its reply.
fn served_beside(weir: &Running, client: &mut Client, request: &[u8]) -> usize {
    seen_beside(weir, client, request, |bystander| assert_eq!(bystander.say("PING"), "+PONG\r\n")).len()
}

#[test]
fn s14_others_are_served_during_every_long_command() {
    let weir = start();
    let mut client = weir.connect();
    fill(&mut client);
    let keys: Vec<String> = (0..KEYS).map(|i| format!("key-{i}")).collect();
    let with = |name: &str| encode(&std::iter::once(name.to_owned()).chain(keys.iter().cloned()).collect::<Vec<_>>());
    let pairs: Vec<String> =
        std::iter::once("MSET".to_owned()).chain(keys.iter().flat_map(|key| [key.clone(), "w".to_owned()])).collect();
    let line = |text: &str| encode(&text.split(' ').collect::<Vec<_>>());
    for (name, request) in [
        ("KEYS", line("KEYS *7777*")),
        ("DBSIZE", line("DBSIZE")),
        ("SCAN", line("SCAN 0 MATCH *7777* COUNT 1000000")),
        ("EXISTS", with("EXISTS")),
        ("TOUCH", with("TOUCH")),
        (
            "BITOP",
            line(&format!(
                "BITOP AND target {}",
                (0..10_000).map(|i| format!("none-{i}")).collect::<Vec<_>>().join(" ")
            )),
        ),
        (
            "COMMAND INFO",
            encode(&["COMMAND", "INFO"].into_iter().chain(std::iter::repeat_n("no", KEYS)).collect::<Vec<_>>()),
        ),
        ("CONFIG GET", {
            let patterns = std::iter::repeat_n(format!("*{}b", "[^x]".repeat(250)), 1000);
            encode(&["CONFIG".to_owned(), "GET".to_owned()].into_iter().chain(patterns).collect::<Vec<_>>())
        }),
        ("MSET", encode(&pairs)),
        ("UNLINK", with("UNLINK")),
        ("FLUSHDB", line("FLUSHDB")),
    ] {
        // If the command were one turn, the bystander would be served once or twice, however often this is tried. A
        // machine that is busy with other things may leave the bystander without a processor for some turns, so there
        // are several attempts.
        let attempts = (0..100).map(|_| {
            if matches!(name, "UNLINK" | "FLUSHDB") {
                fill(&mut client);
            }
            served_beside(&weir, &mut client, &request)
        });
        let count = attempts
            .inspect(|count| eprintln!("{name}: others were served {count} times"))
            .find(|&count| count >= TURNS);
        assert!(count.is_some(), "{name} is one turn");
    }
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
}

/// How often a bystander is served until `request` is answered, at best. A machine that is busy with other things may
/// leave the bystander without a processor for some turns. A request in one turn leaves room for one or two, however
/// often this is tried.
fn served_at_best(mut attempt: impl FnMut() -> usize) -> usize {
    (0..100).map(|_| attempt()).find(|&count| count >= TURNS).unwrap_or(0)
}

#[test]
fn s14_a_long_pattern_goes_through_long_keys_in_turns() {
    let weir = start();
    let mut client = weir.connect();
    // A page of keys, so that only matching them takes turns.
    for i in 0..4 {
        assert_eq!(client.ask(&["SET", &format!("{}{i}", "a".repeat(60_000)), ""]), b"+OK\r\n");
    }
    let pattern = format!("*{}b", "a".repeat(1000));
    for request in [encode(&["KEYS", &pattern]), encode(&["SCAN", "0", "MATCH", &pattern])] {
        assert_ne!(served_at_best(|| served_beside(&weir, &mut client, &request)), 0);
    }
}

#[test]
fn s14_many_requests_in_one_go_are_served_in_turns() {
    let weir = start();
    let mut client = weir.connect();
    let mut bystander = weir.connect();
    // Only what the store says takes time.
    weir.clock.freeze();
    weir.store.read_nanos.store(20_000, Ordering::Relaxed);
    let count = 8000;
    let pipeline = encode(&["STRLEN", "none"]).repeat(count);
    let served = served_at_best(|| {
        let mut writer = client.stream.try_clone().expect("a socket");
        let mut served = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&pipeline).expect("the gateway reads"));
            client.stream.set_nonblocking(true).expect("a socket");
            while client.stream.peek(&mut [0]).is_err() {
                assert_eq!(bystander.say("PING"), "+PONG\r\n");
                served += 1;
            }
            client.stream.set_nonblocking(false).expect("a socket");
            (0..count).for_each(|_| assert_eq!(client.reply(), b":0\r\n"));
        });
        served
    });
    assert_ne!(served, 0);
}

#[test]
fn s14_a_long_transaction_is_run_in_turns() {
    let weir = start();
    let mut client = weir.connect();
    let some = encode(&["SET", "k", "v"]).repeat(1000);
    let served = served_at_best(|| {
        assert_eq!(client.say("MULTI"), "+OK\r\n");
        for _ in 0..20 {
            client.send(&some);
            (0..1000).for_each(|_| assert_eq!(client.reply(), b"+QUEUED\r\n"));
        }
        served_beside(&weir, &mut client, &encode(&["EXEC"]))
    });
    assert_ne!(served, 0);
}

#[test]
fn s14_a_long_command_of_a_transaction_is_run_in_turns() {
    let weir = start();
    let mut client = weir.connect();
    let keys = || (0..KEYS).map(|i| format!("key-{i}"));
    let mset: Vec<String> =
        std::iter::once("MSET".to_owned()).chain(keys().flat_map(|key| [key, "v".to_owned()])).collect();
    let del: Vec<String> = std::iter::once("DEL".to_owned()).chain(keys()).collect();
    for words in [mset, del] {
        let served = served_at_best(|| {
            assert_eq!(client.say("MULTI"), "+OK\r\n");
            assert_eq!(client.ask(&words), b"+QUEUED\r\n");
            served_beside(&weir, &mut client, &encode(&["EXEC"]))
        });
        assert_ne!(served, 0, "{}", words[0]);
    }
}

#[test]
fn s14_keys_that_were_read_are_forgotten_in_turns() {
    let weir = start();
    let (mut client, mut keeper) = (weir.connect(), weir.connect());
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    let keys = (0..KEYS).map(|i| format!("key-{i}"));
    let mget: Vec<String> = std::iter::once("MGET".to_owned()).chain(keys).collect();
    let served = served_at_best(|| {
        assert_eq!(client.say("CONFIG SET tracking-table-max-keys 0"), "+OK\r\n");
        keeper.ask(&mget);
        served_beside(&weir, &mut client, &encode(&["CONFIG", "SET", "tracking-table-max-keys", "1"]))
    });
    assert_ne!(served, 0);
}

#[test]
fn settings_that_are_set_together_are_set_at_once() {
    let weir = start();
    let (mut client, mut keeper) = (weir.connect(), weir.connect());
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    let mget: Vec<String> = std::iter::once("MGET".to_owned()).chain((0..KEYS).map(|i| format!("key-{i}"))).collect();
    let shown = |client: &mut Client| client.say("CONFIG GET tracking-table-max-keys latency-monitor-threshold");
    let set = |keys: &str, millis: &str| {
        encode(&["CONFIG", "SET", "tracking-table-max-keys", keys, "latency-monitor-threshold", millis])
    };
    // A bystander that is not served during the change sees no half of it, whatever the server does.
    let served = served_at_best(|| {
        client.send(&set("0", "0"));
        assert_eq!(client.reply(), b"+OK\r\n");
        keeper.ask(&mget);
        let before = shown(&mut client);
        let between = seen_beside(&weir, &mut client, &set("1", "7"), shown);
        let after = shown(&mut client);
        assert_ne!(before, after);
        assert!(between.iter().all(|shown| *shown == before || *shown == after), "{between:?}");
        between.len()
    });
    assert_ne!(served, 0);
}
