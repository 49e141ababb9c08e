//! Publish and subscribe, and with it everything that a connection is sent without asking: order, limits, and that no
//! message ever stands within a reply. The answers are compared with Redis in differential.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::pipelines::{Judge, Tally, question};
use crate::support::strict::Reply;
use crate::support::tenants::{connect, start_at};
use crate::support::troubled::Troubled;
use crate::support::{Client, OpenDoor, Running, Served, TestClock, encode};
use weir_gateway::{PushLimits, Settings};
use weir_io::Rng;

/// A message to a channel, in the form of RESP2 or RESP3.
pub fn message(resp3: bool, channel: &str, payload: &str) -> String {
    let kind = if resp3 { '>' } else { '*' };
    format!("{kind}3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{payload}\r\n", channel.len(), payload.len())
}

pub fn subscribed(client: &mut Client, channel: &str) {
    let reply = client.say(&format!("SUBSCRIBE {channel}"));
    assert!(reply.contains("subscribe") && reply.contains(channel), "{reply}");
}

pub fn next(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.reply()).into_owned()
}

/// The figure of `INFO` with this name.
pub fn figure(client: &mut Client, name: &str) -> u64 {
    let info = client.say("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.expect("a figure").parse().expect("a number")
}

/// Repeats the command until its reply is `reply`, because others end on other threads.
pub fn until(client: &mut Client, words: &str, reply: &str) {
    while client.say(words) != reply {
        std::thread::yield_now();
    }
}

#[test]
fn s5_messages_stay_within_their_tenant() {
    let clock = TestClock::new();
    let (weir, _) = start_at(&clock, Settings::default());
    let (mut ada, mut bob) = (connect(&weir, "ada"), connect(&weir, "bob"));
    let mut bobs = connect(&weir, "bob");
    subscribed(&mut bob, "channel");
    assert!(bob.say("PSUBSCRIBE *").contains("psubscribe"));
    assert_eq!(ada.say("PUBLISH channel secret"), ":0\r\n");
    for line in ["PUBSUB CHANNELS", "PUBSUB NUMPAT", "PUBSUB NUMSUB channel"] {
        assert!(!ada.say(line).contains(":1"), "{line}");
    }
    assert_eq!(ada.say("CLIENT KILL TYPE pubsub"), ":0\r\n");
    assert_eq!(bobs.say("PUBLISH channel mine"), ":2\r\n");
    assert_eq!(next(&mut bob), message(false, "channel", "mine"));
    assert!(next(&mut bob).contains("pmessage"));
    // A connection that logs in as somebody else no longer listens.
    assert!(bobs.say("HELLO 3").starts_with('%'));
    subscribed(&mut bobs, "own");
    assert_eq!(bobs.say("AUTH ada ada-secret"), "+OK\r\n");
    assert_eq!(connect(&weir, "bob").say("PUBLISH own x"), ":1\r\n", "the pattern is left");
    assert_eq!(ada.say("PUBLISH own x"), ":0\r\n");
    assert_eq!(bobs.say("PING"), "+PONG\r\n");
    // A stranger listens to nothing.
    assert!(weir.connect().say("SUBSCRIBE x").starts_with("-NOAUTH"));
}

#[test]
fn who_listens_is_told_while_the_connection_waits_for_something_else() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(Settings::default(), Arc::new(OpenDoor::new(store.clone())), clock);
    let (mut listener, mut other) = (served.connect(), served.connect());
    assert!(listener.say("HELLO 3").starts_with('%'));
    subscribed(&mut listener, "news");
    // While the connection waits for its next request, even in the middle of one.
    assert_eq!(other.say("PUBLISH news idle"), ":1\r\n");
    assert_eq!(next(&mut listener), message(true, "news", "idle"));
    listener.send(b"*2\r\n$4\r\nEC");
    assert_eq!(other.say("PUBLISH news half"), ":1\r\n");
    assert_eq!(next(&mut listener), message(true, "news", "half"));
    listener.send(b"HO\r\n$2\r\nhi\r\n");
    assert_eq!(next(&mut listener), "$2\r\nhi\r\n");
    // While it waits for a commit: nothing is acknowledged meanwhile.
    store.trouble.commits_wait.store(true, Ordering::SeqCst);
    listener.send(&[encode(&["SET", "k", "v"]), encode(&["GET", "k"])].concat());
    // What is sent before both are under way stands among their replies, and waits with them.
    until(&mut other, "GET k", "$1\r\nv\r\n");
    assert_eq!(other.say("PUBLISH news commit"), ":1\r\n");
    assert_eq!(next(&mut listener), message(true, "news", "commit"));
    store.trouble.commits_wait.store(false, Ordering::SeqCst);
    assert_eq!([next(&mut listener), next(&mut listener)], ["+OK\r\n", "$1\r\nv\r\n"]);
}

#[test]
fn nothing_overtakes_the_word_that_somebody_listens() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(Settings::default(), Arc::new(OpenDoor::new(store.clone())), clock);
    let (mut listener, mut other) = (served.connect(), served.connect());
    store.trouble.commits_wait.store(true, Ordering::SeqCst);
    // The confirmation waits behind the write.
    listener.send(&[encode(&["SET", "k", "v"]), encode(&["SUBSCRIBE", "news"])].concat());
    while other.say("PUBLISH news early") == ":0\r\n" {}
    store.trouble.commits_wait.store(false, Ordering::SeqCst);
    assert_eq!(next(&mut listener), "+OK\r\n");
    assert!(next(&mut listener).starts_with("*3\r\n$9\r\nsubscribe"));
    assert_eq!(next(&mut listener), message(false, "news", "early"));
}

#[test]
fn all_get_every_message_in_order_but_for_the_slow_one() {
    const LISTENERS: usize = 20;
    const MESSAGES: usize = 1500;
    /// How many messages a sender may be ahead of those who read.
    const AHEAD: usize = 50;
    let push_limits = PushLimits { hard_bytes: 2 << 20, soft_bytes: 2 << 20, soft_seconds: 60 };
    let weir = Running::start(Settings { push_limits, ..Settings::default() });
    let mut slow = weir.connect();
    subscribed(&mut slow, "news");
    let payload = "x".repeat(8 << 10);
    // For each sender: how many messages have come, to all listeners together.
    let received = [0, 0].map(AtomicUsize::new);
    let listen = |mut client: Client| {
        let mut told = Vec::new();
        while told.len() < 2 * MESSAGES {
            let text = next(&mut client);
            let word = text.split("\r\n").nth(6).expect("a payload").split(' ').next().expect("a word").to_owned();
            let (by, number) = word.split_once('-').expect("who and what");
            let by: usize = by.parse().expect("a number");
            told.push((by, number.parse::<usize>().expect("a number")));
            received[by].fetch_add(1, Ordering::SeqCst);
        }
        told
    };
    let send = |by: usize| {
        let mut client = weir.connect();
        for number in 0..MESSAGES {
            let reply = client.ask(&["PUBLISH", "news", &format!("{by}-{number} {payload}")]);
            let count: usize = String::from_utf8_lossy(&reply)[1..].trim().parse().expect("a number");
            assert!((LISTENERS..=LISTENERS + 1).contains(&count), "{count}");
            while received[by].load(Ordering::SeqCst) + AHEAD * LISTENERS < (number + 1) * LISTENERS {
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        let (listen, send) = (&listen, &send);
        let listeners: Vec<_> = (0..LISTENERS)
            .map(|number| {
                let mut client = weir.connect();
                if number % 2 == 1 {
                    assert!(client.say("HELLO 3").starts_with('%'));
                }
                subscribed(&mut client, "news");
                scope.spawn(move || listen(client))
            })
            .collect();
        (0..2).for_each(|by| drop(scope.spawn(move || send(by))));
        let told: Vec<_> = listeners.into_iter().map(|listener| listener.join().expect("no panic")).collect();
        for by in 0..2 {
            let order = told[0].iter().filter(|(sender, _)| *sender == by).map(|(_, number)| *number);
            assert!(order.eq(0..MESSAGES), "a sender's order, without a gap");
        }
        assert!(told.iter().all(|of_one| *of_one == told[0]), "one order for all");
    });
    let mut other = weir.connect();
    assert_eq!(figure(&mut other, "client_output_buffer_limit_disconnections"), 1);
    until(&mut other, "PUBSUB NUMSUB news", "*2\r\n$4\r\nnews\r\n:0\r\n");
    // The slow one was sent some messages, and then no more.
    assert!(slow.rest().len() < 2 * MESSAGES * payload.len());
}

#[test]
fn no_message_stands_within_a_reply() {
    const PIPELINES: usize = 400;
    /// Messages sent during a pipeline.
    const MESSAGES: usize = 30;
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 1);
    let settings = Settings { threads: 1, long_threads: 1, ..Settings::default() };
    let served = Served::start(settings, Arc::new(OpenDoor::new(store.clone())), clock);
    let mut rng = Rng::new(7);
    let (mut listener, mut judge, mut tally) = (served.connect(), Judge::new(false), Tally::default());
    assert!(listener.say("HELLO 3").starts_with('%'));
    judge.resp3 = true;
    subscribed(&mut listener, "n");
    assert!(listener.say("PSUBSCRIBE lo*").starts_with('>'));
    // The sender is never more than two pipelines' messages behind its permits. So what is left at the end, when nobody
    // reads while the test waits for the sender, is far below what a listener may leave untaken.
    let (permits, permitted) = std::sync::mpsc::sync_channel::<()>(MESSAGES);
    let mut other = served.connect();
    let sender = std::thread::spawn(move || {
        let (mut rng, mut sent) = (Rng::new(8), 0_usize);
        while permitted.recv().is_ok() {
            let (channel, len) = if rng.chance(0.95) { ("n", rng.below(2000)) } else { ("long", 100_000) };
            let payload = format!("{sent} {}", "y".repeat(len as usize));
            assert_eq!(other.ask(&["PUBLISH", channel, &payload]), b":1\r\n");
            sent += 1;
        }
        assert_eq!(other.ask(&["PUBLISH", "n", "last"]), b":1\r\n");
        sent
    });
    let mut number = 0;
    for _ in 0..PIPELINES {
        let failing = [0, 30, 200][rng.below(3) as usize];
        store.trouble.failing.store(failing, Ordering::Relaxed);
        let questions = std::iter::from_fn(|| {
            number += 1;
            Some(question(&mut rng, number))
        });
        // In RESP2 a connection with subscriptions may send nothing else.
        let questions = questions.filter(|question| question.words[0] != b"HELLO");
        // A reply of which a part was sent when something fails closes the connection.
        let questions = questions.filter(|question| failing == 0 || !question.streams);
        let questions = questions.take(20).collect();
        (0..MESSAGES).for_each(|_| permits.send(()).expect("the sender runs"));
        assert!(judge.ask(&mut listener, questions, &mut tally));
    }
    drop(permits);
    let sent = sender.join().expect("no panic");
    let mut got: Vec<Reply> = std::mem::take(&mut judge.pushes).into_iter().filter_map(|mut push| push.pop()).collect();
    while got.last() != Some(&Reply::Bulk(b"last".to_vec())) {
        let text = listener.reply();
        let Ok(Some((Reply::Push(mut push), _))) = crate::support::strict::parse(&text, true) else {
            panic!("no push")
        };
        got.extend(push.pop());
    }
    got.pop();
    let numbers = got.iter().map(|payload| {
        let Reply::Bulk(payload) = payload else { panic!("no payload: {payload:?}") };
        String::from_utf8_lossy(payload).split(' ').next().expect("a word").parse::<usize>().expect("a number")
    });
    eprintln!("{tally:?}, {sent} messages");
    assert!(numbers.eq(0..sent), "every message once, in order");
}

/// What one tenant's events cost to send is that tenant's own matter.
#[test]
fn s14_the_time_goes_on_while_events_take_long_to_send() {
    const PATTERNS: usize = 1000;
    // With one thread, an answer to one connection shows that the others have begun with what came before.
    let clock = TestClock::new();
    let (weir, _) = start_at(&clock, Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let [mut listener, mut first, mut second] = [0; 3].map(|_| connect(&weir, "ada"));
    let mut bob = connect(&weir, "bob");
    assert_eq!(listener.say("CONFIG SET notify-keyspace-events KA"), "+OK\r\n");
    // None of these fits, which shows only at the end of a channel.
    let pattern = |number: usize| format!("{}!{number}", "*?".repeat(300));
    let patterns: Vec<String> = (0..PATTERNS).map(pattern).collect();
    let words: Vec<&str> = std::iter::once("PSUBSCRIBE").chain(patterns.iter().map(String::as_str)).collect();
    listener.send(&encode(&words));
    listener.until(format!("!{}\r\n:{PATTERNS}\r\n", PATTERNS - 1).as_bytes());
    // The second event waits for the first.
    for (writer, letter) in [(&mut first, "a"), (&mut second, "b")] {
        writer.send(&encode(&["SET", &letter.repeat(60_000), "v"]));
    }
    (0..100).for_each(|_| assert_eq!(bob.say("PING"), "+PONG\r\n"));
    weir.pass(3);
    // A connection is answered when it has sent its events.
    for writer in [&first, &second] {
        writer.stream.set_nonblocking(true).expect("a socket");
        let answered = writer.stream.peek(&mut [0]);
        assert!(
            answered.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
            "it was answered before the time went on"
        );
    }
}

#[test]
fn who_ends_listens_no_more() {
    let weir = Running::start(Settings::default());
    let mut other = weir.connect();
    let (none, one) = ("*2\r\n$1\r\na\r\n:0\r\n", "*2\r\n$1\r\na\r\n:1\r\n");
    let listening = || {
        let mut client = weir.connect();
        subscribed(&mut client, "a");
        client
    };
    let client = listening();
    assert_eq!(other.say("PUBSUB NUMSUB a"), one);
    drop(client);
    until(&mut other, "PUBSUB NUMSUB a", none);
    let mut client = listening();
    assert_eq!(other.say("CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert_eq!(client.rest(), b"");
    until(&mut other, "PUBSUB NUMSUB a", none);
    let mut client = listening();
    assert_eq!(client.say("QUIT"), "+OK\r\n");
    until(&mut other, "PUBSUB NUMSUB a", none);
    assert_eq!(other.say("PUBSUB CHANNELS"), "*0\r\n");
}

#[test]
fn who_listens_is_not_idle_and_goes_from_thread_to_thread() {
    let mut settings = Settings { threads: 1, long_threads: 1, ..Settings::default() };
    settings.patience.idle_seconds = Some(60);
    let weir = Running::start(settings);
    let (mut listener, mut other, mut idle) = (weir.connect(), weir.connect(), weir.connect());
    assert!(listener.say("HELLO 3").starts_with('%'));
    subscribed(&mut listener, "news");
    let long = encode(&[&b"SET"[..], b"long", &vec![b'v'; 400 << 10]]);
    for number in 0..3 {
        listener.send(&long);
        assert_eq!(next(&mut listener), "+OK\r\n");
        assert_eq!(other.say(&format!("PUBLISH news {number}")), ":1\r\n");
        assert_eq!(next(&mut listener), message(true, "news", &number.to_string()));
    }
    assert_eq!(idle.say("PING"), "+PONG\r\n");
    for _ in 0..2 {
        assert_eq!(other.say("PING"), "+PONG\r\n");
        weir.pass(40);
    }
    assert_eq!(idle.rest(), b"", "this one was");
    assert_eq!(other.say("PUBLISH news on"), ":1\r\n");
    assert_eq!(next(&mut listener), message(true, "news", "on"));
}

#[test]
fn what_one_connection_listens_to_is_bounded() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let names = |from: usize, to: usize| (from..to).map(|number| format!("name-{number}"));
    let all: Vec<String> = ["SUBSCRIBE".to_owned()].into_iter().chain(names(0, 10_001)).collect();
    let refused = "-ERR a connection subscribes to at most 10000 channels and patterns\r\n";
    assert_eq!(client.ask(&all), refused.as_bytes());
    assert_eq!(client.say("PUBSUB CHANNELS"), "*0\r\n", "all or none");
    client.send(&encode(&all[..10_001]));
    (0..10_000).for_each(|_| assert!(next(&mut client).contains("subscribe")));
    assert_eq!(client.say("PSUBSCRIBE x"), refused);
    let mut other = weir.connect();
    assert_eq!(other.say("PUBLISH name-9999 x"), ":1\r\n");
    assert_eq!(next(&mut client), message(false, "name-9999", "x"));
    client.send(b"UNSUBSCRIBE\r\n");
    (0..10_000).for_each(|_| assert!(next(&mut client).contains("unsubscribe")));
    assert_eq!(client.say("PUBSUB CHANNELS"), "*0\r\n");
    let long = "c".repeat((64 << 10) + 1);
    for line in [format!("SUBSCRIBE a {long}"), format!("PUBLISH {long} x")] {
        assert_eq!(client.say(&line), "-ERR channel exceeds maximum allowed size (65536 bytes)\r\n");
    }
    assert_eq!(client.say(&format!("PSUBSCRIBE {long}")), "-ERR a pattern is at most 1024 bytes long\r\n");
    assert_eq!(client.say("GET k"), "$-1\r\n", "it listens to nothing");
}

#[test]
fn a_long_message_goes_to_all_who_listen() {
    let weir = Running::start(Settings::default());
    let mut other = weir.connect();
    let mut listeners: Vec<Client> = (0..5).map(|_| weir.connect()).collect();
    listeners.iter_mut().for_each(|client| subscribed(client, "news"));
    let long = "m".repeat(8 << 20);
    assert_eq!(other.say(&format!("PUBLISH news {long}")), ":5\r\n");
    assert_eq!(other.say("PUBLISH news short"), ":5\r\n");
    for client in &mut listeners {
        assert!(next(client) == message(false, "news", &long), "all of it");
        assert_eq!(next(client), message(false, "news", "short"));
    }
    assert_eq!(figure(&mut other, "client_output_buffer_limit_disconnections"), 0);
    // Longer than what may wait for any connection.
    let longer = "m".repeat(33 << 20);
    assert_eq!(other.say(&format!("PUBLISH news {longer}")), ":5\r\n");
    listeners.iter_mut().for_each(|client| drop(client.rest()));
    assert_eq!(figure(&mut other, "client_output_buffer_limit_disconnections"), 5);
}

/// Redis 7.0 puts such messages between the answers of the transaction's commands, where no client looks for them.
/// Later versions put them after the answer, as Weir does.
#[test]
fn what_a_transaction_publishes_to_its_own_connection_comes_behind_its_answer() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    assert!(client.say("HELLO 3").starts_with('%'));
    subscribed(&mut client, "c");
    let lines = ["MULTI", "SET a 1", "PUBLISH c x", "GET a", "PUBLISH c y", "EXEC", "PING the-end"];
    client.send(&lines.map(|line| encode(&line.split(' ').collect::<Vec<_>>())).concat());
    let told = String::from_utf8_lossy(&client.until(b"the-end\r\n")).into_owned();
    let answers = ["+OK\r\n", &"+QUEUED\r\n".repeat(4), "*4\r\n+OK\r\n:1\r\n$1\r\n1\r\n:1\r\n"].concat();
    let messages = ["x", "y"].map(|payload| message(true, "c", payload)).concat();
    assert_eq!(told, [&answers, &messages, "$7\r\n"].concat());
}
