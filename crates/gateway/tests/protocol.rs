//! The gateway over loopback: what a client may rely on besides the replies themselves.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::{OpenDoor, Running, TestClock, encode};
use weir_gateway::resp::frame::Limits;
use weir_gateway::{Patience, Settings};

fn start() -> Running {
    Running::start(Settings::default())
}

#[test]
fn replies_come_in_the_order_of_the_requests_and_see_the_writes_before_them() {
    let weir = start();
    let mut client = weir.connect();
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for i in 0..2000 {
        let value = format!("value-{i}");
        requests.extend(encode(&["SET", "k", &value]));
        requests.extend(encode(&["GET", "k"]));
        requests.extend(encode(&["NOSUCH"]));
        requests.extend(encode(&["INCR", "n"]));
        expected.push("+OK\r\n".to_owned());
        expected.push(format!("${}\r\n{value}\r\n", value.len()));
        expected.push("-ERR unknown command 'NOSUCH', with args beginning with: \r\n".to_owned());
        expected.push(format!(":{}\r\n", i + 1));
    }
    let mut writer = client.stream.try_clone().expect("a socket");
    let sender = std::thread::spawn(move || writer.write_all(&requests).expect("the gateway reads"));
    for expected in expected {
        assert_eq!(String::from_utf8_lossy(&client.reply()), expected);
    }
    sender.join().expect("sent");
}

#[test]
fn the_plain_writes_of_a_pipeline_become_one_batch() {
    let weir = start();
    let mut client = weir.connect();
    let requests: Vec<u8> = (0..16).flat_map(|i| encode(&["SET", &format!("key-{i}"), "v"])).collect();
    client.send(&requests);
    (0..16).for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
    let batches = weir.store.batches.lock().expect("no panic").clone();
    assert_eq!(batches.iter().sum::<usize>(), 16);
    assert!(batches.len() < 8, "one segment of the network carries all sixteen, they went as {batches:?}");
}

#[test]
fn what_is_not_committed_is_not_acknowledged() {
    let weir = start();
    let mut client = weir.connect();
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    weir.store.fail_commits.store(true, Ordering::Relaxed);
    let requests: Vec<u8> = [&["PING"][..], &["SET", "a", "2"], &["SET", "b", "2"], &["GET", "none"], &["INCR", "n"]]
        .iter()
        .flat_map(|request| encode(request))
        .collect();
    client.send(&requests);
    let replies: Vec<String> = (0..5).map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect();
    let failed = "-MISCONF Errors writing to the log: no space left on the disk. Reading and FLUSHALL still work; the server's operator can \
                  drop a tenant or free space\r\n";
    assert_eq!(replies, ["+PONG\r\n", failed, failed, "$-1\r\n", failed]);
    weir.store.fail_commits.store(false, Ordering::Relaxed);
    assert_eq!(client.say("SET a 3"), "+OK\r\n");
}

#[test]
fn hello_changes_the_protocol_of_this_connection_only() {
    let weir = start();
    let (mut three, mut two) = (weir.connect(), weir.connect());
    let hello = three.say("HELLO 3 AUTH default secret SETNAME me");
    assert!(hello.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{hello}");
    for field in ["version", "proto\r\n:3", "id", "mode", "role", "modules"] {
        assert!(hello.contains(field), "{field} in {hello}");
    }
    assert_eq!(three.say("CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(three.say("GET none"), "_\r\n");
    assert_eq!(two.say("GET none"), "$-1\r\n");
    assert_eq!(three.say("RESET"), "+RESET\r\n");
    assert_eq!(three.say("GET none"), "$-1\r\n");
}

#[test]
fn a_scan_gives_every_key_once_over_any_connection() {
    let weir = start();
    let mut client = weir.connect();
    let mut expected: Vec<String> = (0..5000).map(|i| format!("key:{i:012}")).collect();
    for chunk in expected.chunks(500) {
        let words: Vec<&str> =
            std::iter::once("MSET").chain(chunk.iter().flat_map(|key| [key.as_str(), "v"])).collect();
        assert_eq!(client.ask(&words), b"+OK\r\n");
    }
    assert_eq!(client.say("DBSIZE"), ":5000\r\n");
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = weir.connect().say(&format!("SCAN {cursor} COUNT 700 MATCH key:*"));
        let words: Vec<&str> = reply.split("\r\n").collect();
        assert!(words.len() < 2 * 720, "a call is bounded by its count");
        found.extend(words[4..].iter().filter(|word| word.starts_with("key:")).map(|&word| word.to_owned()));
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(client.say("SCAN 12345").starts_with("-ERR invalid cursor"));
    assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
}

#[test]
fn keys_expire_by_the_clock() {
    let weir = start();
    let mut client = weir.connect();
    assert_eq!(client.say("SET k v EX 100"), "+OK\r\n");
    assert_eq!(client.say("TTL k"), ":100\r\n");
    weir.clock.advance(60);
    assert_eq!(client.say("TTL k"), ":40\r\n");
    weir.clock.advance(41);
    assert_eq!(client.say("GET k"), "$-1\r\n");
    assert_eq!(client.say("TTL k"), ":-2\r\n");
    assert_eq!(client.say("INCR k"), ":1\r\n");
    assert_eq!(client.say("TTL k"), ":-1\r\n");
}

#[test]
fn large_values_come_back_as_they_went() {
    let weir = start();
    let mut client = weir.connect();
    let value: Vec<u8> = (0..20_000_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    assert_eq!(client.ask(&[b"SET", b"big", value.as_slice()]), b"+OK\r\n");
    client.send(&[encode(&["GET", "big"]), encode(&["GETRANGE", "big", "19999999", "-1"])].concat());
    let header = format!("${}\r\n", value.len());
    assert!(client.reply() == [header.as_bytes(), &value, b"\r\n"].concat());
    assert_eq!(client.reply().len(), 7);
}

#[test]
fn a_write_that_waits_does_not_wait_for_the_replies_in_front_of_it() {
    let weir = start();
    let mut client = weir.connect();
    let value = "v".repeat(20_000);
    let expected = format!("$20000\r\n{value}\r\n").into_bytes();
    assert_eq!(client.ask(&["SET", "long", &value]), b"+OK\r\n");
    weir.store.writes_wait_for_readers.store(true, Ordering::Relaxed);
    // The copy comes last: it shares its value with the other database, so from then on somebody holds the value.
    for write in [
        &["SET", "k", "v"][..],
        &["INCR", "n"],
        &["MSETNX", "a", "b"],
        &["BITOP", "NOT", "d", "k"],
        &["COPY", "k", "other", "DB", "2"],
    ] {
        // Sent together, so that the value has not been written to the socket when the write comes.
        client.send(&[encode(&["GET", "long"]), encode(write), encode(&["GET", "long"]), encode(&["PING"])].concat());
        assert_eq!(client.reply(), expected, "{write:?}");
        assert!(matches!(&client.reply()[..], b"+OK\r\n" | b":1\r\n"), "{write:?}");
        assert_eq!((client.reply(), client.reply()), (expected.clone(), b"+PONG\r\n".to_vec()));
    }
}

#[test]
fn too_many_connections_are_told_so() {
    // One place of three is kept for strangers.
    let weir = Running::start(Settings { connections_max: 3, ..Settings::default() });
    let (mut first, mut second) = (weir.connect(), weir.connect());
    assert_eq!((first.say("PING"), second.say("PING")), ("+PONG\r\n".into(), "+PONG\r\n".into()));
    let mut third = weir.connect();
    assert_eq!(third.say("PING"), "-ERR max number of clients reached\r\n");
    assert_eq!(third.rest(), b"");
    assert_eq!(first.say("QUIT"), "+OK\r\n");
    assert_eq!(first.rest(), b"");
    // The place is free once the gateway has seen the end, which is a moment after we have.
    let mut next = weir.connect();
    while next.rest_or_pong() != b"+PONG\r\n" {
        next = weir.connect();
    }
}

#[test]
fn who_keeps_us_waiting_is_cut_and_who_waits_for_us_is_not() {
    let patience = Patience { idle_seconds: Some(300), ..Patience::default() };
    let weir = Running::start(Settings { patience, ..Settings::default() });
    let (mut idle, mut half) = (weir.connect(), weir.connect());
    assert_eq!(idle.say("PING"), "+PONG\r\n");
    // The reply to the first request shows that half of the second has arrived with it.
    half.send(b"PING\r\n*2\r\n$3\r\nGET\r\n");
    assert_eq!(half.reply(), b"+PONG\r\n");
    weir.pass(40);
    assert_eq!(half.rest(), b"", "half a request is cut after 30 seconds");
    assert_eq!(idle.say("PING"), "+PONG\r\n", "an idle connection is not");
    weir.pass(310);
    assert_eq!(idle.rest(), b"");
}

#[test]
fn nobody_is_cut_for_a_time_in_which_nobody_could_be_served() {
    let patience = Patience { idle_seconds: Some(60), ..Patience::default() };
    let clock = TestClock::new();
    clock.freeze();
    let settings = Settings { patience, ..Settings::default() };
    let weir = Running::start_with(settings, clock, |store| Arc::new(OpenDoor::new(store)));
    let (mut idle, mut half, mut gone) = (weir.connect(), weir.connect(), weir.connect());
    assert_eq!(idle.say("PING"), "+PONG\r\n");
    for client in [&mut half, &mut gone] {
        client.send(b"PING\r\n*2\r\n$3\r\nGET\r\n");
        assert_eq!(client.reply(), b"+PONG\r\n");
    }
    // The machine stands still, twice, and for longer than any time limit.
    weir.stand_still(90);
    weir.pass(5);
    weir.stand_still(90);
    weir.pass(5);
    assert_eq!(weir.seconds(), 12);
    half.send(b"$1\r\nk\r\n");
    assert_eq!(half.reply(), b"$-1\r\n", "the rest of the request comes in time");
    weir.pass(30);
    assert_eq!(gone.rest(), b"", "who sends nothing is cut, later");
    assert_eq!(half.say("PING"), "+PONG\r\n");
    weir.pass(30);
    assert_eq!(idle.rest(), b"");
    assert_eq!(half.say("PING"), "+PONG\r\n");
}

#[test]
fn the_end_answers_what_was_asked_and_closes() {
    let mut weir = start();
    let mut client = weir.connect();
    assert_eq!(client.say("PING"), "+PONG\r\n");
    weir.ask_to_end();
    assert_eq!(client.rest(), b"");
    drop(weir);
}

#[test]
fn limits_are_checked_on_the_way() {
    let limits = Limits { bulk_bytes_max: 100, args_max: 10, ..Limits::default() };
    let weir = Running::start(Settings { limits, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(client.say("CONFIG GET proto-max-bulk-len"), "*2\r\n$18\r\nproto-max-bulk-len\r\n$3\r\n100\r\n");
    assert_eq!(client.say("SETRANGE k 99 ab"), "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    let key = "k".repeat(70_000);
    assert_eq!(start().connect().ask(&["SET", &key, "v"]), b"-ERR key exceeds maximum allowed size (65536 bytes)\r\n");
    assert_eq!(start().connect().ask(&["GET", &key]), b"$-1\r\n");
    client.send(b"*11\r\n");
    assert_eq!(client.rest(), b"-ERR Protocol error: invalid multibulk length\r\n");
}

#[test]
fn info_names_what_clients_look_for() {
    let weir = start();
    let mut client = weir.connect();
    client.say("HELLO 3");
    let info = client.say("INFO");
    assert!(info.starts_with('=') && info.contains("\r\ntxt:# Server\r\n"), "{info}");
    for fact in [
        "redis_version:7.",
        "loading:0",
        "connected_clients:1",
        "role:master",
        "maxmemory_policy:noeviction",
        "used_cpu_user:0.",
        "instantaneous_ops_per_sec:",
        "evicted_keys:0",
        "migrate_cached_sockets:0",
    ] {
        assert!(info.contains(fact), "{fact} in {info}");
    }
    assert_eq!(client.say("CONFIG GET bind"), "%1\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n");
    assert!(client.say("INFO commandstats").contains("cmdstat_info:calls=2"));
    assert!(client.say("CLIENT LIST").contains("resp=3"));
    assert!(client.say("COMMAND COUNT").starts_with(':'));
}

#[test]
fn memory_usage_counts_a_value_with_all_its_parts() {
    let weir = start();
    let mut client = weir.connect();
    let value = "v".repeat(50_000);
    let once = ["SET k", "HSET k f", "RPUSH k", "SADD k", "XADD k * f"].map(|words| (words, 50_000));
    // A large sorted set has its members by name and by score.
    for (words, stored) in once.into_iter().chain([("ZADD k 1", 100_000)]) {
        client.say("DEL k");
        let request: Vec<&str> = words.split(' ').chain([value.as_str()]).collect();
        assert!(!client.ask(&request).starts_with(b"-"), "{words}");
        let told = client.say("MEMORY USAGE k");
        let bytes: usize = told.trim_start_matches(':').trim_end().parse().expect("a number");
        assert!((stored + 65..stored + 500).contains(&bytes), "{words}: {bytes}");
    }
}

#[test]
fn words_of_migrate_are_checked_before_it_is_refused() {
    let weir = start();
    let mut client = weir.connect();
    let no_number = "-ERR value is not an integer or out of range\r\n";
    let not_empty = "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string\r\n";
    for (line, answer) in [
        ("MIGRATE h 1 k 0 100 KEYS a", not_empty),
        ("MIGRATE h 1 k 0 100 AUTH", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 k 0 100 AUTH2 a", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 k 0 100 COPY nosuch", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 k 0 x", no_number),
        ("MIGRATE h 1 k x 100", no_number),
    ] {
        assert_eq!(client.say(line), answer, "{line}");
    }
    for line in [
        "MIGRATE h 1 k 0 100",
        "MIGRATE h 1 k 0 100 copy replace auth KEYS",
        "MIGRATE h 1  0 100 AUTH2 a b KEYS nosuch",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(client.ask(&words).starts_with(b"-ERR MIGRATE is not supported"), "{line}");
    }
}

#[test]
fn who_wants_no_replies_gets_none_and_what_he_wrote_is_there() {
    let weir = start();
    let mut client = weir.connect();
    let requests: Vec<u8> = [
        &["CLIENT", "REPLY", "SKIP"][..],
        &["SET", "skipped", "1"],
        &["SET", "answered", "1"],
        &["CLIENT", "REPLY", "OFF"],
        &["SET", "a", "1"],
        &["INCR", "a"],
        &["GET", "a"],
        &["NOSUCH"],
        &["CLIENT", "REPLY", "SKIP"],
        &["SET", "b", "1"],
        &["CLIENT", "REPLY", "ON"],
        &["MGET", "skipped", "a", "b"],
    ]
    .iter()
    .flat_map(|request| encode(request))
    .collect();
    client.send(&requests);
    let replies: Vec<String> = (0..3).map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect();
    assert_eq!(replies, ["+OK\r\n", "+OK\r\n", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n1\r\n"]);
    weir.store.fail_commits.store(true, Ordering::Relaxed);
    client.send(&[&encode(&["CLIENT", "REPLY", "SKIP"])[..], &encode(&["SET", "c", "1"]), &encode(&["PING"])].concat());
    assert_eq!(client.reply(), b"+PONG\r\n", "a failure is not told either");
}

#[test]
fn who_wants_no_replies_is_not_told_that_his_stream_is_broken() {
    let weir = start();
    for (request, said) in [
        ("CLIENT REPLY OFF\r\n*1\r\n!\r\n", ""),
        ("PING\r\nCLIENT REPLY OFF\r\nSET \"a\r\n", "+PONG\r\n"),
        ("CLIENT REPLY SKIP\r\n*1\r\n!\r\n", ""),
        ("CLIENT REPLY SKIP\r\nPING\r\n*1\r\n!\r\n", "-ERR Protocol error: expected '$', got '!'\r\n"),
    ] {
        let mut client = weir.connect();
        client.send(request.as_bytes());
        assert_eq!(String::from_utf8_lossy(&client.rest()), said, "{request:?}");
    }
}

#[test]
fn a_pause_holds_writes_until_it_is_ended() {
    let mut weir = start();
    let (mut first, mut second) = (weir.connect(), weir.connect());
    assert_eq!(first.say("CLIENT PAUSE 3600000 WRITE"), "+OK\r\n");
    second.send(&[encode(&["GET", "k"]), encode(&["SET", "k", "v"])].concat());
    assert_eq!(second.reply(), b"$-1\r\n", "reads go on, and are answered before the write waits");
    assert_eq!(first.say("GET k"), "$-1\r\n");
    assert_eq!(first.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(second.reply(), b"+OK\r\n");
    assert_eq!(first.say("CLIENT PAUSE 1000 ALL"), "+OK\r\n");
    second.send(&encode(&["GET", "k"]));
    weir.clock.advance(2);
    assert_eq!(second.reply(), b"$1\r\nv\r\n");
    assert_eq!(first.say("CLIENT PAUSE 3600000 ALL"), "+OK\r\n");
    second.send(&[encode(&["PING"]), encode(&["GET", "k"])].concat());
    assert_eq!(second.reply(), b"+PONG\r\n", "it has received what waits behind it");
    weir.ask_to_end();
    assert_eq!(second.reply(), b"$1\r\nv\r\n", "a server that ends waits for no pause");
}

#[test]
fn a_pause_of_writes_holds_what_replicas_would_be_told() {
    let weir = start();
    let (mut first, mut second) = (weir.connect(), weir.connect());
    let library = "#!lua name=l\nredis.register_function{function_name='f', callback=function() return 1 end, flags={'no-writes'}}";
    assert_eq!(first.ask(&["FUNCTION", "LOAD", library]), b"$1\r\nl\r\n");
    let cases: [(&[&str], &[u8]); 4] = [
        (&["PFCOUNT", "none"], b":0\r\n"),
        (&["PUBLISH", "nobody", "x"], b":0\r\n"),
        (&["EVAL", "return 1", "0"], b":1\r\n"),
        (&["EXEC"], b"*1\r\n+OK\r\n"),
    ];
    for (held, reply) in cases {
        if held == ["EXEC"] {
            assert_eq!(second.say("MULTI"), "+OK\r\n");
            assert_eq!(second.say("SET k v"), "+QUEUED\r\n");
        }
        assert_eq!(first.say("CLIENT PAUSE 3600000 WRITE"), "+OK\r\n");
        second.send(&encode(held));
        while !first.say("INFO clients").contains("blocked_clients:1\r\n") {
            std::thread::yield_now();
        }
        assert_eq!(first.say("CLIENT UNPAUSE"), "+OK\r\n");
        assert_eq!(second.reply(), reply, "{held:?}");
    }
    assert_eq!(first.say("CLIENT PAUSE 3600000 WRITE"), "+OK\r\n");
    let digest = second.ask(&["SCRIPT", "LOAD", "#!lua flags=no-writes\nreturn 2"]);
    let digest = String::from_utf8_lossy(&digest[5..45]).into_owned();
    let free: [(&[&str], &[u8]); 8] = [
        (&["EVAL", "#!lua flags=no-writes\nreturn 1", "0"], b":1\r\n"),
        (&["EVALSHA", &digest, "0"], b":2\r\n"),
        (&["EVAL_RO", "return 3", "0"], b":3\r\n"),
        (&["FCALL", "f", "0"], b":1\r\n"),
        (&["MULTI"], b"+OK\r\n"),
        (&["GET", "none"], b"+QUEUED\r\n"),
        (&["EXEC"], b"*1\r\n$-1\r\n"),
        (&["SET", "k"], b"-ERR wrong number of arguments for 'set' command\r\n"),
    ];
    for (words, reply) in free {
        assert_eq!(second.ask(words), reply, "{words:?}");
    }
}

#[test]
fn slow_commands_are_remembered_without_secrets_and_within_bounds() {
    let weir = start();
    let mut client = weir.connect();
    assert_eq!(client.say("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3"), "+OK\r\n");
    client.say("AUTH default secret");
    let long = "x".repeat(1000);
    let words: Vec<&str> = std::iter::once("DEL").chain((0..40).map(|_| long.as_str())).collect();
    client.ask(&words);
    let log = client.say("SLOWLOG GET");
    assert!(log.contains("$10\r\n(redacted)\r\n") && !log.contains("secret"), "{log}");
    assert!(log.contains(&format!("{}... (872 more bytes)", &long[..128])), "{log}");
    assert!(log.contains("... (10 more arguments)"), "{log}");
    for _ in 0..10 {
        client.say("PING");
    }
    assert_eq!(client.say("SLOWLOG LEN"), ":3\r\n");
    assert_eq!(client.say("CONFIG SET slowlog-log-slower-than -1"), "+OK\r\n");
    assert_eq!(client.say("SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(client.say("SLOWLOG LEN"), ":0\r\n");
}

#[test]
fn random_keys_come_from_everywhere() {
    let weir = start();
    let mut client = weir.connect();
    for i in 0..1000 {
        client.say(&format!("SET key:{i:06} v"));
    }
    let keys: std::collections::BTreeSet<String> = (0..300).map(|_| client.say("RANDOMKEY")).collect();
    assert!(keys.iter().all(|key| key.starts_with("$10\r\nkey:000")), "{keys:?}");
    assert!(keys.len() > 50, "{} of 300 differ", keys.len());
    assert!(keys.iter().any(|key| key.as_str() > "$10\r\nkey:000800"), "{keys:?}");
}

#[test]
fn info_says_which_database_has_the_keys() {
    let weir = start();
    let mut client = weir.connect();
    client.say("SET a 1");
    client.say("SELECT 3");
    assert!(!client.say("INFO keyspace").contains("db3"));
    client.say("SET b 1");
    client.say("SET c 1");
    assert!(client.say("INFO keyspace").contains("\r\ndb3:keys=2,expires=0,avg_ttl=0\r\n"));
}

#[test]
fn a_server_that_ends_waits_for_no_pause() {
    let mut weir = start();
    let (mut first, mut second) = (weir.connect(), weir.connect());
    assert_eq!(first.say("CLIENT PAUSE 600000"), "+OK\r\n");
    second.send(b"SET k v\r\n");
    // The request has been read when another client was served for a while.
    (0..300).for_each(|_| assert!(first.say("CLIENT ID").starts_with(':')));
    weir.ask_to_end();
    assert_eq!(second.reply(), b"+OK\r\n");
}
