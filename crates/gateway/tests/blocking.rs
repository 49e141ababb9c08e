//! Commands that are answered later: `WAIT`, for replicas that do not exist, and commands that wait for a row to be
//! filled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::tenants::{connect, start_at};
use crate::support::world::World;
use crate::support::{Client, Running, TestClock, encode};
use crate::turns::ROUNDS;
use weir_gateway::Settings;
use weir_io::sim::{Fault, FaultPlan, OpKind};
use weir_node::EngineKind;

/// A frozen clock: a timeout ends only when the test lets it end.
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

/// Sends `lines` together, and waits until `blocked` connections are blocked.
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
fn who_would_move_fails_where_the_other_row_is_no_list() {
    let (weir, _clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    for line in ["BRPOPLPUSH from to 0", "BLMOVE from to LEFT RIGHT 0"] {
        assert_eq!(other.say("SET to text"), "+OK\r\n");
        send(&mut client, &mut other, &[line, "PING"], 1);
        assert_eq!(other.say("SADD from a"), ":1\r\n");
        until_blocked(&mut other, 1);
        assert_eq!(other.say("DEL from"), ":1\r\n");
        assert_eq!(other.say("RPUSH from a"), ":1\r\n");
        assert!(next(&mut client).starts_with("-WRONGTYPE"), "{line}");
        assert_eq!(next(&mut client), "+PONG\r\n");
        assert_eq!(other.say("LRANGE from 0 -1"), "*1\r\n$1\r\na\r\n");
        assert_eq!(other.say("DEL from"), ":1\r\n");
    }
}

#[test]
fn who_has_waited_is_counted_and_logged_when_it_ends() {
    let (weir, _clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    let id = id(&mut client);
    assert_eq!(other.say("CONFIG SET slowlog-log-slower-than 0"), "+OK\r\n");
    send(&mut client, &mut other, &["BLPOP l 0"], 1);
    assert_eq!(other.say("SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
    assert_eq!(next(&mut client), UNBLOCKED);
    assert!(other.say("INFO errorstats").contains("errorstat_UNBLOCKED:count=1\r\n"));
    let stats = other.say("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_blpop:")).expect("it was called");
    assert!(line.contains("calls=1,") && line.ends_with("failed_calls=1"), "{line}");
    assert!(other.say("SLOWLOG GET 100").contains("$5\r\nBLPOP\r\n$1\r\nl\r\n"));
}

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
    // No time passes, so it would wait for ever.
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

/// The first to wait is served first, whoever fills the row, and however.
#[test]
fn who_waits_for_a_row_is_served_in_turn() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let mut other = world.tenant_on(engine, "t", 1, 0);
        for (wait, fill, answers) in [
            ("BLPOP none k 0", vec!["RPUSH k a b c"], ["a", "b", "c"]),
            ("BRPOP k 0", vec!["LPUSH k a", "LPUSH k b", "LPUSH k c"], ["a", "b", "c"]),
            ("BLPOP k 0", vec!["MULTI", "RPUSH k a", "RPUSH k b", "RPUSH k c", "EXEC"], ["a", "b", "c"]),
            ("BLPOP k 0", vec!["RPUSH l a b c", "RENAME l k"], ["a", "b", "c"]),
            ("BLMOVE k done LEFT RIGHT 0", vec!["RPUSH k a b c"], ["a", "b", "c"]),
            ("BRPOPLPUSH k done 0", vec!["RPUSH k c b a"], ["a", "b", "c"]),
            ("BLMPOP 0 2 none k LEFT", vec!["RPUSH k a b c"], ["a", "b", "c"]),
            ("BZPOPMIN none k 0", vec!["ZADD k 1 a 2 b 3 c"], ["a", "b", "c"]),
            ("BZPOPMAX k 0", vec!["ZADD k 3 a 2 b 1 c"], ["a", "b", "c"]),
            ("BZMPOP 0 1 k MIN", vec!["ZUNIONSTORE k 1 from"], ["a", "b", "c"]),
        ] {
            for line in ["FLUSHALL", "ZADD from 1 a 2 b 3 c"] {
                other.ask(&line.split(' ').collect::<Vec<_>>());
            }
            let mut waiting: Vec<Client> = (0..3).map(|_| world.connect("t")).collect();
            for (index, client) in waiting.iter_mut().enumerate() {
                client.send(&encode(&wait.split(' ').collect::<Vec<_>>()));
                until_blocked(&mut other, index + 1);
            }
            // A row of another type fills nothing.
            other.say("SET k string");
            other.say("DEL k");
            until_blocked(&mut other, 3);
            other.send(&fill.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect::<Vec<_>>());
            fill.iter().for_each(|_| drop(other.reply()));
            for (client, answer) in waiting.iter_mut().zip(answers) {
                let reply = next(client);
                assert!(reply.contains(&format!("\r\n{answer}\r\n")), "{engine}: {wait}, {fill:?}: {reply}");
            }
            until_blocked(&mut other, 0);
            assert_eq!(other.say("EXISTS k"), ":0\r\n", "{wait}");
        }
    }
}

/// As in Redis, a row of a wrong type keeps nobody from what another row gets.
#[test]
fn who_waits_for_several_rows_passes_over_those_of_a_wrong_type() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let mut other = world.tenant_on(engine, "t", 1, 0);
        let (mut client, mut behind) = (world.connect("t"), world.connect("t"));
        for (wait, fill) in [
            ("BLPOP wrong k 0", "RPUSH k v"),
            ("BRPOP wrong k 0", "RPUSH k v"),
            ("BLMPOP 0 2 wrong k LEFT", "RPUSH k v"),
            ("BZPOPMIN wrong k 0", "ZADD k 1 v"),
            ("BZPOPMAX wrong k 0", "ZADD k 1 v"),
            ("BZMPOP 0 2 wrong k MIN", "ZADD k 1 v"),
            ("XREAD BLOCK 0 STREAMS wrong k $ $", "XADD k 1-1 f v"),
        ] {
            other.say("FLUSHALL");
            send(&mut client, &mut other, &[wait], 1);
            other.say("SET wrong text");
            other.say(fill);
            let reply = next(&mut client);
            assert!(reply.contains("$1\r\nk\r\n") && reply.contains("$1\r\nv\r\n"), "{engine}: {wait}: {reply}");
            // A command that has not waited fails at that row.
            assert!(client.say(wait).starts_with("-WRONGTYPE"), "{wait}");
        }
        // The row that is passed over is for those behind.
        other.say("FLUSHALL");
        send(&mut client, &mut other, &["BLPOP z k 0"], 1);
        send(&mut behind, &mut other, &["BZPOPMIN z 0"], 2);
        other.say("ZADD z 1 v");
        assert_eq!(next(&mut behind), "*3\r\n$1\r\nz\r\n$1\r\nv\r\n$1\r\n1\r\n", "{engine}");
        until_blocked(&mut other, 1);
        other.say("RPUSH k v");
        assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$1\r\nv\r\n", "{engine}");
    }
}

/// A writer may still wait for room when its change is applied, and its connection may be cut then.
#[test]
fn who_waits_is_woken_by_a_writer_that_is_cut() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let script = "return redis.call('RPUSH', KEYS[1], 'v')";
    let fills: [&[&[&str]]; 4] = [
        &[&["RPUSH", "k", "v"]],
        &[&["RPUSH", "l", "v"], &["RPUSH", "k", "v"]],
        &[&["MULTI"], &["RPUSH", "k", "v"], &["EXEC"]],
        &[&["EVAL", script, "1", "k"]],
    ];
    for fill in fills {
        send(&mut client, &mut other, &["BLPOP k 0"], 1);
        let mut writer = weir.connect();
        let id = id(&mut writer);
        weir.store.writers_pay.store(true, Ordering::Relaxed);
        writer.send(&fill.iter().flat_map(|words| encode(words)).collect::<Vec<_>>());
        while other.say("LLEN k") == ":0\r\n" {}
        assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
        writer.rest();
        weir.store.writers_pay.store(false, Ordering::Relaxed);
        assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$1\r\nv\r\n", "{fill:?}");
    }
}

/// Whoever is woken tries its command, which would be refused here as the write was.
#[test]
fn a_refused_write_wakes_nobody_who_waits() {
    // With one thread, whoever is woken tries before the next request is served.
    let weir = Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let many = [vec!["DEL", "k"], vec!["l"; 10_000]].concat();
    let script = "return redis.call('RPUSH', KEYS[1], 'v')";
    let writes: [&[&[&str]]; 5] = [
        &[&["RPUSH", "k", "v"]],
        &[&["RPUSH", "l", "v"], &["RPUSH", "k", "v"]],
        &[&["MULTI"], &["RPUSH", "k", "v"], &["EXEC"]],
        &[&["EVAL", script, "1", "k"]],
        &[&many[..]],
    ];
    for write in writes {
        send(&mut client, &mut other, &["BLPOP k 0"], 1);
        weir.store.refuses_writes.store(true, Ordering::Relaxed);
        let mut writer = weir.connect();
        writer.send(&write.iter().flat_map(|words| encode(words)).collect::<Vec<_>>());
        let refused = write.iter().map(|_| next(&mut writer)).last().expect("a reply");
        assert!(refused.starts_with('-'), "{:?}: {refused}", write[0]);
        assert_eq!(other.say("PING"), "+PONG\r\n");
        weir.store.refuses_writes.store(false, Ordering::Relaxed);
        assert_eq!(other.say("RPUSH k w"), ":1\r\n");
        assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$1\r\nw\r\n", "{:?}", write[0]);
    }
}

/// The server does not read all that the client has sent behind its command, and so it does not read of its end.
#[test]
fn who_has_gone_takes_nothing_however_much_it_has_sent() {
    // With one thread, an answer to one connection shows that everything that came before on the others is known.
    let weir = Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let (mut client, mut other) = (weir.connect(), weir.connect());
    send(&mut client, &mut other, &["BLPOP k 0"], 1);
    client.send(&encode(&["PING"]).repeat(7000));
    drop(client);
    (0..ROUNDS).for_each(|_| assert_eq!(other.say("PING"), "+PONG\r\n"));
    assert_eq!(other.say("RPUSH k v"), ":1\r\n");
    until_blocked(&mut other, 0);
    assert_eq!(other.say("LLEN k"), ":1\r\n");
}

/// A connection that waits for its client has no place in the queue of a row, where others would wait behind it.
#[test]
fn who_does_not_read_keeps_nobody_from_a_row() {
    let weir = Running::start(Settings::default());
    let (mut silent, mut client, mut other) = (weir.connect_narrow(), weir.connect(), weir.connect());
    let id = id(&mut silent);
    let long = "v".repeat(200_000);
    assert_eq!(other.say(&format!("SET long {long}")), "+OK\r\n");
    silent.send(&[encode(&["GET", "long"]), encode(&["BLPOP", "k", "0"])].concat());
    while !other.say(&format!("CLIENT LIST ID {id}")).contains(" cmd=blpop ") {}
    send(&mut client, &mut other, &["BLPOP k 0"], 1);
    assert_eq!(other.say("RPUSH k a b"), ":2\r\n");
    assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$1\r\na\r\n");
    // It is served when its client reads.
    assert_eq!(next(&mut silent), format!("$200000\r\n{long}\r\n"));
    assert_eq!(next(&mut silent), "*2\r\n$1\r\nk\r\n$1\r\nb\r\n");
}

/// The reply of a connection that only reads may be long, and it waits for its client in the middle of it.
#[test]
fn who_does_not_read_an_entry_keeps_nobody_from_it() {
    let weir = Running::start(Settings::default());
    let (mut silent, mut client, mut other) = (weir.connect_narrow(), weir.connect(), weir.connect());
    assert_eq!(other.say("XGROUP CREATE s g $ MKSTREAM"), "+OK\r\n");
    send(&mut silent, &mut other, &["XREAD BLOCK 0 STREAMS s $"], 1);
    send(&mut client, &mut other, &["XREADGROUP GROUP g c BLOCK 0 STREAMS s >"], 2);
    let long = "v".repeat(300_000);
    assert_eq!(other.say(&format!("XADD s 1-1 f {long}")), "$3\r\n1-1\r\n");
    let told = format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$300000\r\n{long}\r\n");
    assert!(next(&mut client) == told);
    assert!(next(&mut silent) == told);
}

/// All clients that only read get an entry, and one consumer of each group.
#[test]
fn an_entry_of_a_stream_is_told_to_readers_and_to_one_of_each_group() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let mut other = world.tenant_on(engine, "t", 1, 0);
        for line in ["XADD s 1-1 f old", "XGROUP CREATE s g $", "XGROUP CREATE s h $"] {
            other.ask(&line.split(' ').collect::<Vec<_>>());
        }
        let lines = [
            "XREAD BLOCK 0 STREAMS none s $ $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
            "XREAD BLOCK 0 COUNT 5 STREAMS s 1-1",
            "XREADGROUP GROUP h c BLOCK 0 STREAMS s >",
        ];
        let mut waiting: Vec<Client> = (0..lines.len()).map(|_| world.connect("t")).collect();
        for (index, (client, line)) in waiting.iter_mut().zip(lines).enumerate() {
            client.send(&encode(&line.split(' ').collect::<Vec<_>>()));
            until_blocked(&mut other, index + 1);
        }
        let told = |id: &str, value: &str| {
            format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\nf\r\n$1\r\n{value}\r\n")
        };
        other.say("XADD s 2-1 f a");
        for index in [0, 1, 3, 4] {
            assert_eq!(next(&mut waiting[index]), told("2-1", "a"), "{engine}: {}", lines[index]);
        }
        until_blocked(&mut other, 1);
        // The connection that was passed over is the first now.
        waiting[1].send(&encode(&lines[1].split(' ').collect::<Vec<_>>()));
        until_blocked(&mut other, 2);
        other.say("XADD s 3-1 f b");
        assert_eq!(next(&mut waiting[2]), told("3-1", "b"), "{engine}");
        until_blocked(&mut other, 1);
        assert_eq!(other.say("XPENDING s g - + 9 c").matches("2-1").count(), 1, "{engine}");
    }
}

/// A refused write counts once the log is replaced. Until then reads leave it out, and who only reads waits on.
#[test]
fn who_waits_to_read_a_refused_entry_is_told_when_that_counts() {
    let (world, disk) = World::on_simulated_disk();
    let mut other = world.tenant("t", 1, 0);
    let (mut early, mut late) = (world.connect("t"), world.connect("t"));
    assert_eq!(other.say("XADD s 1-1 f v"), "$3\r\n1-1\r\n");
    send(&mut early, &mut other, &["XREAD BLOCK 0 STREAMS s $"], 1);
    disk.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::Error, 1.0));
    let refusal = other.say("XADD s 2-1 f v");
    assert!(refusal.starts_with('-'), "{refusal}");
    send(&mut late, &mut other, &["XREAD BLOCK 0 STREAMS s 1-1"], 2);
    disk.set_faults(FaultPlan::none());
    while other.say("SET j v") != "+OK\r\n" {}
    for client in [&mut early, &mut late] {
        let told = next(client);
        assert!(told.contains("2-1"), "{told}");
    }
}

/// The text is that of Redis 7.0.15.
#[test]
fn who_waits_for_a_group_is_told_that_it_is_gone() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    let no_stream = "-UNBLOCKED the stream key no longer exists\r\n";
    for (end, reply) in [
        ("DEL s", no_stream),
        ("SET s x", no_stream),
        ("RENAME s away", no_stream),
        ("RENAME string s", no_stream),
        ("FLUSHALL", no_stream),
        ("FLUSHDB", no_stream),
        ("XGROUP DESTROY s g", "-NOGROUP the consumer group this client was blocked on no longer exists\r\n"),
    ] {
        for line in ["FLUSHALL", "SET string x", "XGROUP CREATE s g $ MKSTREAM"] {
            other.say(line);
        }
        client.send(&encode(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
        until_blocked(&mut other, 1);
        other.say(end);
        assert_eq!(next(&mut client), reply, "{end}");
    }
    // A client that only reads waits on, even for another stream of that name.
    other.say("FLUSHALL");
    other.say("XADD s 5-1 f v");
    client.send(&encode(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
    until_blocked(&mut other, 1);
    for line in ["DEL s", "SET s x", "DEL s", "XADD s 1-1 f v"] {
        other.say(line);
        until_blocked(&mut other, 1);
    }
    other.say("XADD s 5-2 f v");
    assert!(next(&mut client).contains("5-2"));
}

#[test]
fn a_wait_for_a_row_ends_by_time_by_others_and_with_its_client() {
    let (weir, clock) = start();
    let (mut client, mut other) = (connect(&weir, "ada"), connect(&weir, "ada"));
    let id = id(&mut client);
    send(&mut client, &mut other, &["BLPOP k 2", "PING"], 1);
    clock.advance(2);
    assert_eq!([next(&mut client), next(&mut client)], ["*-1\r\n", "+PONG\r\n"]);
    send(&mut client, &mut other, &["BLMOVE k l LEFT LEFT 0"], 1);
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {id}")), ":1\r\n");
    assert_eq!(next(&mut client), "*-1\r\n");
    send(&mut client, &mut other, &["BZPOPMIN k 0"], 1);
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
    assert_eq!(next(&mut client), UNBLOCKED);
    // A connection that goes leaves its turn to the next.
    let mut gone = connect(&weir, "ada");
    send(&mut gone, &mut other, &["BLPOP k 0"], 1);
    send(&mut client, &mut other, &["BLPOP k 0"], 2);
    drop(gone);
    until_blocked(&mut other, 1);
    other.say("RPUSH k v");
    assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
    // A row of the same name of another tenant fills nothing.
    let mut eve = connect(&weir, "eve");
    send(&mut client, &mut other, &["BLPOP k 0"], 1);
    eve.say("RPUSH k theirs");
    other.say("RPUSH k ours");
    assert_eq!(next(&mut client), "*2\r\n$1\r\nk\r\n$4\r\nours\r\n");
}

#[test]
fn what_is_there_is_answered_at_once_and_a_transaction_does_not_wait() {
    let (weir, _clock) = start();
    let mut client = connect(&weir, "ada");
    client.say("RPUSH k a b");
    assert_eq!(client.say("BLPOP k 0"), "*2\r\n$1\r\nk\r\n$1\r\na\r\n");
    client.say("MULTI");
    for line in ["BLPOP k 0", "BLPOP k 0", "BLMOVE k l LEFT LEFT 0", "BZPOPMIN z 0"] {
        assert_eq!(client.say(line), "+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), "*4\r\n*2\r\n$1\r\nk\r\n$1\r\nb\r\n*-1\r\n$-1\r\n*-1\r\n");
    // Nobody can end a wait that there was not.
    let (mut other, number) = (connect(&weir, "ada"), id(&mut client));
    for (line, reply) in [("MULTI", "+OK\r\n"), ("WAIT 1 0", "+QUEUED\r\n"), ("EXEC", "*1\r\n:0\r\n")] {
        assert_eq!(client.say(line), reply, "{line}");
    }
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {number}")), ":0\r\n");
    for (line, error) in [
        ("BLPOP k x", "-ERR timeout is not a float or out of range\r\n"),
        ("BLPOP k -1", "-ERR timeout is negative\r\n"),
        ("BLPOP k inf", "-ERR timeout is not a float or out of range\r\n"),
        ("BLMPOP 0 0 k LEFT", "-ERR numkeys should be greater than 0\r\n"),
    ] {
        assert_eq!(client.say(line), error, "{line}");
    }
    client.say("SET s v");
    assert!(client.say("BLPOP s 0").starts_with("-WRONGTYPE"));
}

/// Many clients wait, many fill rows, and some of those who wait go: every value comes to one of them, and nobody waits
/// while there is a value.
#[test]
fn every_value_comes_to_one_who_waits() {
    for engine in EngineKind::ALL {
        let world = World::new();
        drop(world.tenant_on(engine, "t", 1, 0));
        let taken = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let mut client = world.connect("t");
                let taken = &taken;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let reply = client.say("BLPOP a b 0");
                        taken.lock().expect("no panic").push(reply.lines().nth(4).unwrap_or_default().to_owned());
                    }
                });
            }
            for filler in 0..4 {
                let mut client = world.connect("t");
                scope.spawn(move || {
                    for round in 0..100 {
                        let key = if round % 3 == 0 { "b" } else { "a" };
                        client.say(&format!("RPUSH {key} {filler}-{round}-0 {filler}-{round}-1"));
                    }
                });
            }
        });
        let mut taken = taken.into_inner().expect("no panic");
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 800, "{engine}");
    }
}

#[test]
fn a_command_waits_for_a_bounded_number_of_keys() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let words = |count: usize| -> Vec<String> {
        let keys = (0..count).map(|key| key.to_string());
        ["BLPOP".to_owned()].into_iter().chain(keys).chain(["0.001".to_owned()]).collect()
    };
    let told = client.ask(&words(10_001));
    assert_eq!(String::from_utf8_lossy(&told), "-ERR a command waits for at most 10000 keys\r\n");
    assert_eq!(client.ask(&words(10_000)), b"*-1\r\n");
    // If it finds something at once, it does not wait.
    assert_eq!(client.say("RPUSH 7 x"), ":1\r\n");
    assert_eq!(client.ask(&words(10_001)), b"*2\r\n$1\r\n7\r\n$1\r\nx\r\n");
}

/// A wait may last for ever, and others of the tenant have to get on meanwhile.
#[test]
fn s12_who_waits_holds_no_unfinished_request() {
    let weir = Running::start(Settings::default());
    let (mut other, long) = (weir.connect(), vec![b'x'; 60 << 20]);
    assert_eq!(other.say("XGROUP CREATE s g $ MKSTREAM"), "+OK\r\n");
    let command = b"XREADGROUP".as_slice();
    let words = [command, b"GROUP", &long, b"c", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"s", b">"];
    let request = encode(&words);
    let mut waiting: Vec<Client> = (0..4).map(|_| weir.connect()).collect();
    for (number, client) in (1..).zip(&mut waiting) {
        client.send(&request);
        until_blocked(&mut other, number);
    }
    // Their requests took 240 MiB of the 256 MiB that unfinished ones may take.
    assert_eq!(other.ask(&[b"SET".as_slice(), b"k", &long[..40 << 20]]), b"+OK\r\n");
}
