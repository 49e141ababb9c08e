//! Nobody takes more memory than a connection may (S11, S12), and work that must be one turn is bounded (S14).

use std::io::{Read, Write};
use std::sync::atomic::Ordering;

use crate::support::world::World;
use crate::support::{Client, Running, encode};
use crate::turns::{ROUNDS, fill, start};
use weir_gateway::Settings;
use weir_node::{OnLimit, UnitLimits};

#[test]
fn s14_words_that_mean_nothing_are_not_gone_through() {
    let weir = start();
    let mut client = weir.connect();
    let long = "x".repeat(1 << 20);
    for words in [
        &["COMMAND", "LIST", "FILTERBY", "ACLCAT", &long][..],
        &["COMMAND", "LIST", "FILTERBY", &long, "x"],
        &["CLIENT", &long],
        &["EXPIRE", "k", "1", &long],
        &["HELLO", "3", &long],
        &["SORT", "k", &long],
        &["CONFIG", "SET", &long, "x"],
        &["CLIENT", "KILL", "USER", &long],
    ] {
        let reply = client.ask(words);
        assert!(reply.len() < 8 << 10, "{:?} is answered with {} bytes", &words[..2], reply.len());
    }
    assert!(client.ask(&["AUTH", "default", &long]).starts_with(b"-WRONGPASS "));
    assert!(client.ask(&["AUTH", &long, "x"]).starts_with(b"-WRONGPASS "));
    let many = |words: &str, more: &str, count: usize| {
        let words = words.split(' ').chain(std::iter::repeat_n(more, count));
        encode(&words.collect::<Vec<_>>())
    };
    for (words, more) in [
        ("SET k v", "GET"),
        ("EXPIRE k 1", "XX"),
        ("SORT k", "ASC"),
        ("LCS a b", "LEN"),
        ("RESTORE k 0 x", "REPLACE"),
        ("COPY a b", "REPLACE"),
        ("SCAN 0", "COUNT"),
        ("FLUSHALL", "ASYNC"),
        ("MEMORY USAGE k", "SAMPLES"),
        ("LATENCY RESET", "x"),
    ] {
        client.send(&many(words, more, 3000));
        let reply = String::from_utf8_lossy(&client.reply()).into_owned();
        assert!(reply.ends_with(" takes at most 2048 words\r\n"), "{words}: {reply}");
    }
    client.send(&many("BITFIELD k", "OVERFLOW", 0));
    assert_eq!(client.reply(), b"*0\r\n");
    let rules: Vec<&str> =
        ["BITFIELD", "k"].into_iter().chain(std::iter::repeat_n(["OVERFLOW", "SAT"], 10_002).flatten()).collect();
    assert!(client.ask(&rules).starts_with(b"-ERR BITFIELD takes at most 10000 fields"));
    // A key may be named ten thousand times; the sum of the sources is bounded all the same.
    assert_eq!(client.ask(&["SET", "long", &long[..60_000]]), b"+OK\r\n");
    client.send(&many("BITOP OR target", "long", 5000));
    assert_eq!(client.reply(), b"-ERR BITOP takes sources of at most 256 MiB together\r\n");
    client.send(&many("BITOP OR target", "long", 1000));
    assert_eq!(client.reply(), b":60000\r\n");
}

#[test]
fn s14_a_long_value_made_of_a_short_request_is_made_by_the_threads_for_such() {
    let weir = Running::start(Settings { threads: 1, long_threads: 1, ..Settings::default() });
    let words = |line: &str| encode(&line.split(' ').collect::<Vec<_>>());
    for (line, reply) in [
        ("SETRANGE k 1000000 x", ":1000001\r\n"),
        ("SETBIT k 8000000 1", ":0\r\n"),
        ("BITFIELD k GET u8 0 SET u8 #1000000 7", "*2\r\n:0\r\n:0\r\n"),
        ("bitfield k incrby i5 8000000 1", "*1\r\n:1\r\n"),
    ] {
        // The key is absent, and the connection is new each time, so nothing is known of either.
        let mut client = weir.connect();
        assert_eq!(client.say("DEL k"), [":0\r\n", ":1\r\n"][usize::from(line != "SETRANGE k 1000000 x")]);
        assert_eq!(*weir.store.read_by.lock().expect("no panic"), "gateway-0");
        client.send(&[words("ECHO before"), words(line), words("ECHO behind")].concat());
        let replies = [client.reply(), client.reply(), client.reply()].concat();
        assert_eq!(String::from_utf8_lossy(&replies), format!("$6\r\nbefore\r\n{reply}$6\r\nbehind\r\n"));
        assert_eq!(*weir.store.read_by.lock().expect("no panic"), "gateway-long-1", "{line}");
    }
    // Without such threads the request is served where it is.
    let weir = start();
    assert_eq!(weir.connect().say("SETRANGE k 1000000 x"), ":1000001\r\n");
}

#[test]
fn s14_what_must_be_one_turn_is_bounded() {
    let weir = start();
    let mut client = weir.connect();
    let pairs = |count: usize| (0..count).flat_map(|i| [format!("k{i}"), "v".to_owned()]);
    let msetnx = |count| std::iter::once("MSETNX".to_owned()).chain(pairs(count)).collect::<Vec<_>>();
    assert_eq!(client.ask(&msetnx(10_000)), b":1\r\n");
    assert!(client.ask(&msetnx(10_001)).starts_with(b"-ERR MSETNX sets at most"));
    let fields = |count: usize| {
        let words = ["BITFIELD", "b"].into_iter().chain((0..count).flat_map(|_| ["INCRBY", "u8", "0", "1"]));
        encode(&words.collect::<Vec<_>>())
    };
    client.send(&fields(10_000));
    assert!(client.reply().starts_with(b"*10000\r\n"));
    client.send(&fields(10_001));
    assert!(client.reply().starts_with(b"-ERR BITFIELD takes at most"));
    let bitop = |sources: usize| {
        let words = ["BITOP", "OR", "target"].into_iter().chain(std::iter::repeat_n("k1", sources));
        encode(&words.collect::<Vec<_>>())
    };
    client.send(&bitop(10_000));
    assert_eq!(client.reply(), b":1\r\n");
    client.send(&bitop(10_001));
    assert_eq!(client.reply(), b"-ERR BITOP takes at most 10000 keys at a time\r\n");
    for (command, thing, word) in
        [("CONFIG GET", "patterns", "*"), ("CLIENT LIST ID", "ids", "1"), ("INFO", "sections", "server")]
    {
        let words = |count| {
            let words = command.split(' ').chain(std::iter::repeat_n(word, count));
            encode(&words.collect::<Vec<_>>())
        };
        client.send(&words(1000));
        assert!(!client.reply().starts_with(b"-"), "{command}");
        client.send(&words(1001));
        let refused = format!("-ERR {command} takes at most 1000 {thing} at a time\r\n");
        assert_eq!(String::from_utf8_lossy(&client.reply()), refused);
    }
    let pattern = "a*".repeat(600);
    for line in ["KEYS PATTERN", "SCAN 0 MATCH PATTERN", "CONFIG GET PATTERN", "COMMAND LIST FILTERBY PATTERN PATTERN"]
    {
        let words: Vec<&str> = line.split(' ').collect();
        let last = words.len() - 1;
        let words: Vec<&str> =
            words.iter().enumerate().map(|(i, word)| if i == last { &pattern } else { *word }).collect();
        assert_eq!(client.ask(&words), b"-ERR a pattern is at most 1024 bytes long\r\n", "{line}");
    }
    assert!(client.ask(&["CLIENT", "SETNAME", &"n".repeat(513)]).starts_with(b"-ERR Client names are at most"));
    // A `MSET` of more than a turn still sets all of its keys.
    let mset = std::iter::once("MSET".to_owned()).chain(pairs(2500)).collect::<Vec<_>>();
    assert_eq!(client.ask(&mset), b"+OK\r\n");
    assert_eq!(client.say("EXISTS k0 k999 k1000 k1999 k2000 k2499"), ":6\r\n");
    // A command that is refused for its last words has set nothing, though these words are far beyond its first turn.
    for behind in [&["k"][..], &[&"x".repeat((64 << 10) + 1), "v"]] {
        let words = ["MSET", "fresh", "v"].map(str::to_owned).into_iter().chain(pairs(1500));
        let words: Vec<String> = words.chain(behind.iter().map(|word| (*word).to_owned())).collect();
        assert!(client.ask(&words).starts_with(b"-ERR "));
        assert_eq!(client.say("EXISTS fresh"), ":0\r\n");
    }
    // A key that is named in two turns is deleted once.
    let del: Vec<String> =
        std::iter::once("DEL".to_owned()).chain((0..2500).map(|i| format!("k{}", i % 1250))).collect();
    assert_eq!(client.ask(&del), b":1250\r\n");
}

#[test]
fn s11_no_reply_is_longer_than_a_connection_may_hold() {
    let weir = start();
    let mut client = weir.connect();
    let long = "k".repeat(60_000);
    for i in 0..700 {
        client.send(&encode(&["SET", &format!("{i:03}{long}"), "v"]));
    }
    (0..700).for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
    let page = client.say("SCAN 0 COUNT 10000");
    assert!(page.len() < 2 << 20, "{} bytes of keys in one page", page.len());
    assert!(!page.starts_with("*2\r\n$1\r\n0\r\n"), "and the client is told where to go on");
    assert_eq!(client.say("KEYS *"), "-ERR more than 32 MB of keys match, use SCAN\r\n");
    // A reply that is sent as it is made has no limit.
    let names: Vec<&str> = ["COMMAND", "INFO"].into_iter().chain(std::iter::repeat_n("get", 600_000)).collect();
    client.send(&encode(&names));
    client.send(&encode(&["ECHO", "<end>"]));
    let told = client.until(b"$5\r\n<end>\r\n");
    assert!(told.len() > 32 << 20 && told.starts_with(b"*600000\r\n"), "{} bytes", told.len());
    // A reply that cannot be sent as it is made is refused.
    let keys: Vec<&str> =
        ["COMMAND", "GETKEYS", "DEL"].into_iter().chain(std::iter::repeat_n(long.as_str(), 700)).collect();
    assert!(client.ask(&keys).starts_with(b"-ERR the reply is longer than 32 MB"));
    assert_eq!(client.say("PING"), "+PONG\r\n");
}

#[test]
fn random_members_are_answered_however_long_the_answer_is() {
    let weir = start();
    let mut client = weir.connect();
    let (value, name) = ("v".repeat(600_000), "n".repeat(60_000));
    for field in 0..60 {
        assert_eq!(client.ask(&["HSET", "hash", &field.to_string(), &value]), b":1\r\n");
    }
    for member in 0..600 {
        assert_eq!(client.ask(&["ZADD", "zset", "1", &format!("{member}{name}")]), b":1\r\n");
    }
    for (question, front) in [("HRANDFIELD hash 59 WITHVALUES", "*118\r\n"), ("ZRANDMEMBER zset 590", "*590\r\n")] {
        client.send(&encode(&question.split(' ').collect::<Vec<_>>()));
        client.send(&encode(&["ECHO", "<end>"]));
        let told = client.until(b"$5\r\n<end>\r\n");
        assert!(told.len() > 32 << 20 && told.starts_with(front.as_bytes()), "{question}: {} bytes", told.len());
    }
}

/// Random members may be asked for without end. A client that gets them ends that when it goes.
#[test]
fn s11_a_reply_without_end_that_nobody_gets_ends_and_costs_what_was_made_of_it() {
    let weir = start();
    let mut client = weir.connect();
    let long = "m".repeat(50_000);
    for fill in [&["SADD", "set", &long][..], &["HSET", "hash", &long, "v"], &["ZADD", "zset", "1", &long]] {
        assert_eq!(client.ask(fill), b":1\r\n");
    }
    let before = weir.milli_units();
    let many = "-9000000000000000000";
    let questions = [["SRANDMEMBER", "set", many], ["HRANDFIELD", "hash", many], ["ZRANDMEMBER", "zset", many]];
    for question in questions {
        client.send(&[encode(&["CLIENT", "REPLY", "OFF"]), encode(&question)].concat());
        assert_eq!(client.say("CLIENT REPLY ON"), "+OK\r\n", "{question:?}");
    }
    for question in questions {
        let (mut reader, before) = (weir.connect(), weir.milli_units());
        reader.send(&encode(&question));
        let mut some = [0; 100_000];
        reader.stream.read_exact(&mut some).expect("as many members as are read");
        drop(reader);
        while weir.milli_units() == before {
            std::thread::yield_now();
        }
    }
    // What was announced and not made costs nothing, and so there is a number for the sum.
    let cost = weir.milli_units() - before;
    assert!(cost < 1 << 40, "{cost}");
}

/// A value of 40 MiB at `k`, and `count` connections.
fn with_long_value(weir: &Running, count: usize) -> Vec<Client> {
    assert_eq!(weir.connect().ask(&[b"SET".as_slice(), b"k", &vec![b'v'; 40 << 20]]), b"+OK\r\n");
    (0..count).map(|_| weir.connect()).collect()
}

/// Reads a reply of 40 MiB without keeping it.
fn take(client: &mut Client) -> usize {
    let (mut taken, mut some) = (0, vec![0; 1 << 20]);
    while taken < (40 << 20) + "$41943040\r\n\r\n".len() {
        match client.stream.read(&mut some) {
            Ok(len) if len > 0 => taken += len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => panic!("{other:?} after {taken} bytes"),
        }
    }
    taken
}

#[test]
fn s11_who_reads_is_never_cut_and_who_does_not_holds_up_the_others_for_a_minute_only() {
    // With one thread, an answer to one connection shows that everything that came before on the others has been
    // handled.
    let weir = Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let mut clients = with_long_value(&weir, 10);
    clients.iter_mut().for_each(|client| client.send(&encode(&["GET", "k"])));
    // All values are asked for before the first is read.
    let mut other = weir.connect();
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(take(client), (40 << 20) + 13, "connection {number}");
    }
    // Nobody reads: the last connections wait for room, and get their turn when the first ones are cut. These are new
    // connections, because the kernel buffers much for connections that have been read from.
    let mut clients: Vec<Client> = (0..10).map(|_| weir.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(&encode(&["GET", "k"])));
    clients.iter().for_each(|client| client.stream.set_nonblocking(true).expect("a socket"));
    let begun = |client: &&Client| client.stream.peek(&mut [0]).is_ok();
    while clients.iter().filter(begun).count() < 6 {
        assert_eq!(other.say("PING"), "+PONG\r\n");
    }
    let mut late = weir.connect();
    late.send(&encode(&["GET", "k"]));
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    // The time limit of the first connections ends, but not that of those that come after them.
    weir.pass(62);
    assert_eq!(take(&mut late), (40 << 20) + 13);
}

#[test]
fn s11_results_that_nobody_takes_are_bounded() {
    let weir = start();
    let mut client = weir.connect();
    let (value, name) = ("v".repeat(1_000_000), "n".repeat(60_000));
    for number in 1..=60 {
        assert_eq!(client.ask(&["RPUSH", "list", &value]), format!(":{number}\r\n").into_bytes());
    }
    for number in 0..500 {
        let member = format!("{number}{name}");
        assert_eq!(client.ask(&["SET", &member, "v"]), b"+OK\r\n");
        assert_eq!(client.ask(&["SADD", "set", &member]), b":1\r\n");
        assert_eq!(client.ask(&["GEOADD", "zset", "1", "1", &member]), b":1\r\n");
    }
    for (key, bytes) in [("long", 30_000_000), ("quarter", 7_500_000)] {
        assert_eq!(client.ask(&["SET", key, &"v".repeat(bytes)]), b"+OK\r\n");
    }
    let dumped = client.ask(&["DUMP", "set"]);
    let payload = &dumped[dumped.iter().position(|&byte| byte == b'\n').expect("a length") + 1..dumped.len() - 2];
    let restore = [&b"RESTORE"[..], b"copy", b"0", payload, b"REPLACE"];
    // From the first byte of the answer on, each of them has 60 MB in hand.
    let mut deaf: Vec<Client> = (0..4).map(|_| weir.connect()).collect();
    for one in &mut deaf {
        one.send(&encode(&["SORT_RO", "list", "BY", "nosort"]));
        assert_eq!(one.stream.peek(&mut [0]).expect("an answer"), 1);
    }
    let large = [
        "SORT_RO list BY nosort",
        "SORT list BY nosort",
        "KEYS *",
        "DUMP set",
        "DUMP long",
        "COPY set twin",
        "LCS none quarter LEN",
        "SUNION set",
        "SUNIONSTORE other set",
        "SRANDMEMBER set 499",
        "ZUNION 1 zset",
        "ZINTER 1 zset",
        "ZRANDMEMBER zset 499",
        "ZRANGESTORE other zset 0 -1",
        "GEOSEARCH zset FROMLONLAT 1 1 BYRADIUS 10 km",
    ];
    for question in large {
        let reply = client.say(question);
        assert!(reply.starts_with("-TRYAGAIN the tenant's commands have more"), "{question}: {}", reply.len());
    }
    assert!(client.ask(&restore).starts_with(b"-TRYAGAIN "));
    assert_eq!(client.say("SORT list BY nosort LIMIT 0 0"), "*0\r\n");
    drop(deaf);
    while client.say(large[0]).starts_with("-TRYAGAIN") {}
    for question in large {
        assert!(!client.say(question).starts_with('-'), "{question}");
    }
    assert_eq!(client.ask(&restore), b"+OK\r\n");
}

#[test]
fn s11_a_command_holds_only_the_values_that_it_has_in_hand() {
    let weir = Running::start(Settings { threads: 2, ..Settings::default() });
    let mut clients = with_long_value(&weir, 5);
    clients.iter_mut().for_each(|client| client.send(&encode(&["GET", "k"])));
    let mut other = weir.connect();
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    // Besides the values of the others there is room for some of these, not for all.
    assert_eq!(other.say("EXISTS k k k k k k"), ":6\r\n");
    assert!(other.say("BITOP AND d k k k k k k").starts_with("-TRYAGAIN "));
    clients.iter_mut().for_each(|client| assert_eq!(take(client), (40 << 20) + 13));
    assert_eq!(other.say("BITOP AND d k k k k k k"), ":41943040\r\n", "alone it may have more than there is room for");
}

#[test]
fn a_part_of_a_long_value_may_be_as_long_as_the_value() {
    let weir = start();
    let value: Vec<u8> = (0..40 << 20_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let mut client = weir.connect();
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
    let header = |len: usize| format!("${len}\r\n").into_bytes();
    for (start, end) in [(0, -1), (1, -2), (7 << 20, 39 << 20), (3, 300_000), (3, 200_000)] {
        let last = if end < 0 { value.len() as i64 + end } else { end };
        let part = &value[start..=last as usize];
        let expected = [&header(part.len()), part, b"\r\n"].concat();
        for name in ["GETRANGE", "SUBSTR"] {
            let words = encode(&[name, "k", &start.to_string(), &end.to_string()]);
            // Another request follows: gathered replies must be unchanged.
            client.send(&[words.as_slice(), &encode(&["STRLEN", "k"])].concat());
            assert!(client.reply() == expected, "{name} {start} {end}");
            assert_eq!(client.reply(), b":41943040\r\n");
        }
    }
}

#[test]
fn a_long_value_is_the_reply_to_whoever_asks_for_it_in_whatever_way() {
    let weir = start();
    let value = vec![b'v'; 40 << 20];
    let mut client = weir.connect();
    let expected = [b"$41943040\r\n", &value[..], b"\r\n"].concat();
    for ask in ["GET k", "GETEX k", "GETEX k EX 100", "SET k v GET", "GETSET k v", "GETDEL k"] {
        assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
        client.send(&encode(&ask.split(' ').collect::<Vec<_>>()));
        assert!(client.reply() == expected, "{ask}");
    }
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
    assert!(client.ask(&["MGET", "k", "k"]) == [b"*2\r\n", &expected[..], &expected].concat());
    assert!(client.ask(&["DUMP", "k"]).len() > expected.len());
}

/// They are dumped page by page.
#[test]
fn large_rows_of_every_type_come_back_from_their_dumps() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}{}", "x".repeat(60_000))).collect();
    let pairs: Vec<&str> = names.iter().flat_map(|name| [&name[..], "1"]).collect();
    let scores: Vec<&str> = names.iter().flat_map(|name| ["1.5", &name[..]]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let with = |words: &[&str], names: &[&str]| encode(&[words, names].concat());
    let mut ask = |request: Vec<u8>| {
        client.send(&request);
        client.reply()
    };
    for request in [
        with(&["RPUSH", "list"], &names),
        with(&["SADD", "set"], &names),
        with(&["ZADD", "zset"], &scores),
        with(&["HSET", "hash"], &pairs),
        with(&["HSET", "mortal"], &pairs),
    ] {
        assert_eq!(ask(request), b":20\r\n");
    }
    for (at, name) in [("70000000000007", names[3]), ("70000000000000", names[5])] {
        assert_eq!(ask(encode(&["HPEXPIREAT", "mortal", at, "FIELDS", "1", name])), b"*1\r\n:1\r\n");
    }
    for &name in &names {
        ask(encode(&["XADD", "stream", "*", "field", name]));
    }
    assert_eq!(ask(encode(&["XGROUP", "CREATE", "stream", "g", "0"])), b"+OK\r\n");
    assert!(ask(encode(&["XREADGROUP", "GROUP", "g", "c", "COUNT", "7", "STREAMS", "stream", ">"])).starts_with(b"*1"));
    for (key, shows) in [
        ("stream", vec![(vec!["XINFO", "STREAM"], vec!["FULL", "COUNT", "0"])]),
        ("list", vec![(vec!["LRANGE"], vec!["0", "-1"])]),
        ("set", vec![(vec!["SORT"], vec!["ALPHA"])]),
        ("zset", vec![(vec!["ZRANGE"], vec!["0", "-1", "WITHSCORES"])]),
        ("hash", vec![(vec!["HLEN"], vec![]), (vec!["HMGET"], names.clone())]),
        (
            "mortal",
            vec![(vec!["HMGET"], names.clone()), (vec!["HPEXPIRETIME"], [&["FIELDS", "20"][..], &names].concat())],
        ),
    ] {
        let dump = ask(encode(&["DUMP", key]));
        let payload = &dump[dump.iter().position(|&byte| byte == b'\n').expect("a line") + 1..dump.len() - 2];
        let restore = encode(&[&b"RESTORE"[..], b"copy", b"0", payload, b"REPLACE"]);
        assert_eq!(ask(restore), b"+OK\r\n", "{key}");
        for (name, rest) in shows {
            let mut shown = |key: &str| ask(encode(&[&name[..], &[key], &rest[..]].concat()));
            assert!(shown("copy") == shown(key), "{key}");
        }
    }
}

#[test]
fn s11_parts_of_long_values_are_let_go_one_after_the_other() {
    let weir = start();
    // These clients leave room for one more value, and do not read.
    let mut clients = with_long_value(&weir, 5);
    clients.iter_mut().for_each(|client| client.send(&encode(&["GET", "k"])));
    let mut other = weir.connect();
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    for _ in 0..20 {
        other.send(&encode(&["GETRANGE", "k", "1", "2097152"]).repeat(3));
        (0..3).for_each(|_| assert_eq!(other.reply().len(), (2 << 20) + "$2097152\r\n\r\n".len()));
    }
    clients.iter_mut().for_each(|client| assert_eq!(take(client), (40 << 20) + 13));
}

/// While `requests` wait, the connection does not hold the value of `short`: it lets go of it when it comes to the
/// point where it waits.
fn waits_without_values(weir: &Running, other: &mut Client, requests: &[&str]) -> Client {
    let mut client = weir.connect();
    let requests: Vec<u8> = requests.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
    client.send(&requests);
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    assert!(!weir.store.is_held("short"), "{}", String::from_utf8_lossy(&requests));
    client.stream.set_nonblocking(true).expect("a socket");
    assert!(client.stream.peek(&mut [0]).is_err(), "it waits: {}", String::from_utf8_lossy(&requests));
    client
}

/// A gateway with a value that is long enough to be replied from where it lies.
fn start_with_short_value() -> (Running, Client) {
    let weir = start();
    let mut client = weir.connect();
    assert_eq!(client.ask(&["SET", "short", &"v".repeat(20_000)]), b"+OK\r\n");
    (weir, client)
}

#[test]
fn s11_who_waits_for_those_who_do_not_read_has_no_values_in_hand() {
    let (weir, mut other) = start_with_short_value();
    let mut clients = with_long_value(&weir, 10);
    clients.iter_mut().for_each(|client| client.send(&encode(&["GET", "k"])));
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    for requests in [&["GET short", "GET k"][..], &["MGET short k"], &["LCS short k"], &["BITOP AND d short k"]] {
        clients.push(waits_without_values(&weir, &mut other, requests));
    }
}

#[test]
fn s11_who_waits_for_the_disk_has_no_values_in_hand() {
    let (weir, mut other) = start_with_short_value();
    weir.store.disk_is_stuck.store(true, Ordering::Relaxed);
    let mut clients = Vec::new();
    for requests in [
        &["GET short", "GET distant"][..],
        &["GET short", "SCAN 0"],
        &["MGET short distant"],
        &["LCS short distant"],
        &["BITOP AND d short distant"],
    ] {
        clients.push(waits_without_values(&weir, &mut other, requests));
    }
    weir.store.disk_is_stuck.store(false, Ordering::Relaxed);
}

#[test]
fn s11_who_is_paused_has_no_values_in_hand() {
    let (weir, mut other) = start_with_short_value();
    let paused = ["GET short", "CLIENT PAUSE 1000000", "CLIENT REPLY OFF", "GET short"];
    waits_without_values(&weir, &mut other, &paused);
}

#[test]
fn s11_who_waits_for_units_has_no_values_in_hand() {
    for requests in
        [&["GET short", "DBSIZE"][..], &["GET short", "CLIENT REPLY OFF", "GET short", "GET short", "GET short"]]
    {
        let (weir, mut other) = start_with_short_value();
        fill(&mut other);
        weir.clock.freeze();
        let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
        weir.store.quota.set_limits(&UnitLimits { rcu: 10, burst_seconds: 1, on_limit, ..UnitLimits::default() });
        // The units of a second: enough to begin.
        weir.clock.advance(1);
        let _client = waits_without_values(&weir, &mut other, requests);
        weir.store.quota.set_limits(&UnitLimits::default());
    }
}

#[test]
fn s12_what_is_not_complete_is_bounded_by_tenant() {
    let weir = Running::start(Settings { threads: 2, ..Settings::default() });
    let part = vec![b'v'; 1 << 20];
    let mut clients: Vec<Client> = (0..20).map(|_| weir.connect()).collect();
    let mut taken = 0;
    for client in &mut clients {
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$41943040\r\n");
        client.stream.set_write_timeout(Some(std::time::Duration::from_millis(200))).expect("a socket");
        for _ in 0..40 {
            // A write that times out does not tell how much of it was sent: at most this much.
            taken += part.len();
            if client.stream.write_all(&part).is_err() {
                break;
            }
        }
    }
    assert!(taken < 20 * (40 << 20) * 3 / 4, "{} MiB of half requests were taken", taken >> 20);
    drop(clients);
    let mut client = weir.connect();
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &vec![b'v'; 40 << 20]]), b"+OK\r\n", "room again");
    assert_eq!(client.say("STRLEN k"), ":41943040\r\n");
}

#[test]
fn who_sends_long_values_moves_there_and_back_and_notices_nothing() {
    let weir = Running::start(Settings { threads: 2, long_threads: 1, ..Settings::default() });
    let mut clients: Vec<Client> = (0..4).map(|_| weir.connect()).collect();
    let long = vec![b'l'; 300 << 10];
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.say(&format!("SELECT {number}")), "+OK\r\n");
        assert_eq!(client.say(&format!("CLIENT SETNAME n{number}")), "+OK\r\n");
    }
    for round in 0..3 {
        for client in &mut clients {
            // Sent together, so that the requests after the long one move with it.
            let mut pipeline = encode(&["INCR".as_bytes(), b"n"]);
            pipeline.extend(encode(&["SET".as_bytes(), b"long", &long]));
            pipeline.extend(encode(&["INCR", "n"]));
            client.send(&pipeline);
            let replies = [client.reply(), client.reply(), client.reply()];
            assert_eq!(replies.concat(), format!(":{}\r\n+OK\r\n:{}\r\n", 2 * round + 1, 2 * round + 2).as_bytes());
            assert_eq!(client.ask(&["GET", "long"]).len(), long.len() + "$307200\r\n\r\n".len());
        }
        // Enough rounds to move back.
        for (number, client) in clients.iter_mut().enumerate() {
            (0..200).for_each(|_| assert_eq!(client.say("PING"), "+PONG\r\n"));
            assert_eq!(client.say("CLIENT GETNAME"), format!("$2\r\nn{number}\r\n"));
        }
    }
    assert_eq!(weir.connect().say("DBSIZE"), ":2\r\n");
}
