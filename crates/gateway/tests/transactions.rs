//! `MULTI`, `EXEC` and `WATCH`: transactions run wholly or not at all, one after the other, and not if a watched key
//! has changed.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::support::world::{World, name};
use crate::support::{Client, Running, TestClock, encode};
use weir_gateway::Settings;
use weir_io::Rng;
use weir_io::real::block_on;
use weir_model::slot;
use weir_node::{EngineKind, OnLimit, Unit, UnitLimits};

fn all(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>()));
    client.send(&words.collect::<Vec<u8>>());
    lines.iter().map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect()
}

#[test]
fn what_is_queued_is_run_as_one_and_answered_in_order() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let mut client = world.tenant_on(engine, "t", 1, 0);
        let lines = ["MULTI", "SET a 1", "INCR a", "HSET h f v", "HGETALL h", "HGET a f", "GET none", "PING", "EXEC"];
        let replies = all(&mut client, &lines);
        assert_eq!(replies[0], "+OK\r\n");
        assert!(replies[1..8].iter().all(|reply| reply == "+QUEUED\r\n"), "{replies:?}");
        assert_eq!(
            replies[8],
            "*7\r\n+OK\r\n:2\r\n:1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n-WRONGTYPE Operation against a key holding the wrong kind \
             of value\r\n$-1\r\n+PONG\r\n"
        );
        assert_eq!(all(&mut client, &["GET a", "EXEC"]), ["$1\r\n2\r\n", "-ERR EXEC without MULTI\r\n"]);
        assert_eq!(all(&mut client, &["MULTI", "EXEC"]), ["+OK\r\n", "*0\r\n"]);
    }
}

#[test]
fn what_has_no_room_in_the_answer_stays_where_it_is() {
    const VALUES: usize = 40;
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let long = "v".repeat(1 << 20);
    for _ in 0..VALUES {
        assert!(client.ask(&["RPUSH", "list", &long]).starts_with(b":"));
    }
    let pops = std::iter::repeat_n("LPOP list", VALUES);
    let lines: Vec<&str> = ["MULTI"].into_iter().chain(pops).chain(["EXEC", "LLEN list"]).collect();
    let replies = all(&mut client, &lines);
    let exec = &replies[VALUES + 1];
    let popped = exec.matches("$1048576\r\n").count();
    assert_eq!(popped + exec.matches("-ERR the reply is longer than 32 MB").count(), VALUES);
    assert!((30..VALUES).contains(&popped), "{popped} values");
    assert_eq!(replies[VALUES + 2], format!(":{}\r\n", VALUES - popped), "{popped} values were answered");

    // A single value may be longer, whether or not other commands come with its own.
    let longest = "v".repeat(33 << 20);
    for lines in [&["MULTI", "GETDEL k", "INCR n", "EXEC"][..], &["GETDEL k", "INCR n"]] {
        assert_eq!(client.ask(&["SET", "k", &longest]), b"+OK\r\n");
        let replies = all(&mut client, lines);
        let answers = replies.iter().filter(|reply| reply.contains("$34603008\r\nv")).count();
        assert_eq!((answers, client.say("EXISTS k")), (1, ":0\r\n".to_owned()), "{lines:?}");
    }
}

#[test]
fn a_command_that_cannot_be_queued_spoils_the_transaction() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for wrong in ["NOSUCH", "GET", "AUTH default x", "HELLO 3", "SUBSCRIBE c"] {
        let replies = all(&mut client, &["MULTI", "SET a 1", wrong, "EXEC", "EXISTS a"]);
        assert!(replies[2].starts_with("-ERR"), "{wrong}: {replies:?}");
        assert_eq!(replies[3], "-EXECABORT Transaction discarded because of previous errors.\r\n", "{wrong}");
        assert_eq!(replies[4], ":0\r\n", "{wrong}");
    }
    let replies = all(&mut client, &["MULTI", "MULTI", "WATCH a", "SET a 1", "DISCARD", "DISCARD", "EXISTS a"]);
    assert_eq!(
        replies,
        [
            "+OK\r\n",
            "-ERR MULTI calls can not be nested\r\n",
            "-ERR WATCH inside MULTI is not allowed\r\n",
            "+QUEUED\r\n",
            "+OK\r\n",
            "-ERR DISCARD without MULTI\r\n",
            ":0\r\n"
        ]
    );
    // As in Redis, a command that is only in the wrong place does not spoil the transaction.
    assert_eq!(all(&mut client, &["MULTI", "MULTI", "SET a 1", "EXEC"])[3], "*1\r\n+OK\r\n");
}

#[test]
fn a_refused_exec_ends_the_transaction_and_other_refusals_spoil_it() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let replies = all(&mut client, &["MULTI", "SET a 1", "EXEC now", "MULTI", "SET b 1", "EXEC", "EXISTS a"]);
    let refused = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n";
    assert_eq!(replies[2..], [refused, "+OK\r\n", "+QUEUED\r\n", "*1\r\n+OK\r\n", ":0\r\n"]);
    for wrong in ["MULTI now", "DISCARD now", "WATCH"] {
        let replies = all(&mut client, &["MULTI", "SET a 1", wrong, "EXEC", "EXISTS a"]);
        assert!(replies[2].starts_with("-ERR wrong number of arguments"), "{wrong}: {replies:?}");
        assert_eq!(replies[3], "-EXECABORT Transaction discarded because of previous errors.\r\n", "{wrong}");
        assert_eq!(replies[4], ":0\r\n", "{wrong}");
    }
}

#[test]
fn what_is_watched_and_has_changed_ends_it() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let (mut client, mut other) = (world.tenant_on(engine, "t", 1, 0), world.connect("t"));
        for (before, change, is_changed) in [
            ("SET k 1", "SET k 1", true),
            ("SET k 1", "GET k", false),
            ("SET k 1", "DEL k", true),
            ("SET k 1", "SET other 1", false),
            ("SET k 1", "PEXPIRE k 100000", true),
            ("SET k 1", "RENAME k moved", true),
            ("SET k 1", "FLUSHALL", true),
            ("SET k 1", "FLUSHDB", true),
            ("DEL k", "SET k 1", true),
            ("DEL k", "FLUSHALL", false),
            ("DEL k", "DEL k", false),
            ("HSET k f 1", "HSET k f 2", true),
            ("HSET k f 1", "HGET k f", false),
            ("HSET k f 1", "HDEL k f", true),
            ("XADD k 1-1 f v", "XADD k 2-1 f v", true),
        ] {
            other.say("FLUSHALL");
            other.ask(&before.split(' ').collect::<Vec<_>>());
            assert_eq!(client.say("WATCH k"), "+OK\r\n");
            other.ask(&change.split(' ').collect::<Vec<_>>());
            let replies = all(&mut client, &["MULTI", "SET done 1", "EXEC", "EXISTS done"]);
            let expected = if is_changed { ["*-1\r\n", ":0\r\n"] } else { ["*1\r\n+OK\r\n", ":1\r\n"] };
            assert_eq!(replies[2..], expected, "{engine}: {before}, {change}");
        }
        // A row whose parts have keys of their own.
        let fields: Vec<String> = (0..300).flat_map(|field| [format!("f{field}"), "v".into()]).collect();
        other.ask(&["HSET".into(), "large".into()].into_iter().chain(fields).collect::<Vec<String>>());
        client.say("WATCH large");
        other.say("HSET large f7 w");
        assert_eq!(all(&mut client, &["MULTI", "HGET large f7", "EXEC"])[2], "*-1\r\n");
        // A key that is no longer watched does not matter.
        for end in ["UNWATCH", "DISCARD", "EXEC"] {
            client.say("WATCH k");
            let before = if end == "UNWATCH" { "PING" } else { "MULTI" };
            all(&mut client, &[before, end]);
            other.say("SET k 2");
            assert_eq!(all(&mut client, &["MULTI", "PING", "EXEC"])[2], "*1\r\n+PONG\r\n", "{end}");
        }
        client.say("WATCH k");
        client.say("SET k mine");
        assert_eq!(all(&mut client, &["MULTI", "PING", "EXEC"])[2], "*-1\r\n", "its own changes count, too");
    }
}

/// As in Redis, what a group of consumers knows is no part of what is watched or kept.
#[test]
fn what_a_group_of_consumers_does_changes_nothing_for_those_who_watch_its_stream_or_keep_it() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let (mut client, mut other) = (world.tenant_on(engine, "t", 1, 0), world.connect("t"));
        let mut keeper = world.connect("t");
        keeper.say("HELLO 3");
        // Packed, and with keys of its own for each entry.
        for entries in [3, 300] {
            other.say("FLUSHALL");
            for entry in 1..=entries {
                other.say(&format!("XADD s {entry}-1 field value"));
            }
            assert_eq!(other.say("XGROUP CREATE s g 0"), "+OK\r\n");
            assert_eq!(client.say("WATCH s"), "+OK\r\n");
            keeper.say("CLIENT TRACKING ON");
            keeper.say("XLEN s");
            let quiet = [
                "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
                "XACK s g 1-1",
                "XCLAIM s g d 0 2-1",
                "XAUTOCLAIM s g e 0 0",
            ];
            // By themselves, and together.
            for line in quiet {
                assert!(!other.say(line).starts_with('-'), "{line}");
            }
            all(&mut other, &["MULTI", "XREADGROUP GROUP g c COUNT 1 STREAMS s >", "XACK s g 3-1", "EXEC"]);
            assert!(other.say("XPENDING s g").starts_with("*4\r\n:1\r\n"), "what was not acknowledged");
            assert_eq!(keeper.say("PING"), "+PONG\r\n", "{engine}: nobody tells the keeper of it");
            assert_eq!(all(&mut client, &["MULTI", "XLEN s", "EXEC"])[2], format!("*1\r\n:{entries}\r\n"), "{engine}");
            // A change beside them counts.
            client.say("WATCH s");
            all(&mut other, &["MULTI", "XACK s g 2-1", "XDEL s 2-1", "EXEC"]);
            assert_eq!(all(&mut client, &["MULTI", "XLEN s", "EXEC"])[2], "*-1\r\n", "{engine}");
            assert_eq!(keeper.say("PING"), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\ns\r\n", "{engine}");
            assert_eq!(keeper.reply(), b"+PONG\r\n");
            keeper.say("CLIENT TRACKING OFF");
        }
    }
}

/// A random change of a string, as words; whether it changes its key, and what it leaves, if the key existed `before`.
fn change(rng: &mut Rng, key: &str, before: bool) -> (String, bool, bool) {
    match rng.below(8) {
        0 => (format!("SET {key} 1"), true, true),
        1 => (format!("INCR {key}"), true, true),
        2 => (format!("SET {key} 1 NX"), !before, true),
        3 => (format!("GETSET {key} 2"), true, true),
        4 => (format!("EXPIRE {key} 1000"), before, before),
        5 => (format!("GET {key}"), false, before),
        6 => (format!("GETDEL {key}"), before, false),
        _ => (format!("DEL {key}"), before, false),
    }
}

/// Whatever others do to few keys, in pipelines of any length, and whatever the engine forgets of it: a watched key
/// that was touched ends the transaction, even if it ends as it began, and one that was not touched does not.
#[test]
fn a_transaction_ends_where_a_watched_key_was_touched_in_between() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let (mut client, mut other) = (world.tenant_on(engine, "t", 1, 0), world.connect("t"));
        let tenant = world.node.tenant(&name("t")).expect("there");
        let mut rng = Rng::new(7);
        let (mut there, mut both) = (BTreeSet::new(), [0, 0]);
        for round in 0..600 {
            let keys: Vec<String> = (0..1 + rng.below(2)).map(|_| format!("k{}", rng.below(4))).collect();
            assert_eq!(client.say(&format!("WATCH {}", keys.join(" "))), "+OK\r\n");
            let (mut is_touched, mut lines) = (false, Vec::new());
            for _ in 0..rng.below(4) * rng.below(8) {
                let key = format!("k{}", rng.below(5));
                let (line, touches, is_there) = change(&mut rng, &key, there.contains(&key));
                is_touched |= touches && keys.contains(&key);
                if is_there {
                    there.insert(key)
                } else {
                    there.remove(&key)
                };
                lines.push(line);
            }
            all(&mut other, &lines.iter().map(String::as_str).collect::<Vec<_>>());
            match rng.below(12) {
                // Writes that make an engine forget what was deleted.
                0 => drop(all(&mut other, &["SET more 1", "SET more 2", "DEL more", "SET more 3"])),
                1 => tenant.partitions().iter().for_each(|slot| block_on(slot.sleep())),
                _ => {}
            }
            let reply = all(&mut client, &["MULTI", "PING", "EXEC"]).remove(2);
            let expected = if is_touched { "*-1\r\n" } else { "*1\r\n+PONG\r\n" };
            assert_eq!(reply, expected, "{engine}, round {round}: {keys:?} watched, and then {lines:?}");
            both[usize::from(is_touched)] += 1;
        }
        assert!(both.iter().all(|&rounds| rounds > 100), "{both:?}");
    }
}

#[test]
fn databases_are_chosen_in_the_middle_and_flushes_keep_their_place() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let lines = ["MULTI", "SET k 0", "SELECT 3", "SET k 3", "GET k", "SELECT 0", "GET k", "EXEC", "GET k"];
    let replies = all(&mut client, &lines);
    assert_eq!(replies[7], "*6\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\n3\r\n+OK\r\n$1\r\n0\r\n");
    assert_eq!(replies[8], "$1\r\n0\r\n");
    let replies = all(&mut client, &["MULTI", "FLUSHALL", "SET k 1", "DBSIZE", "KEYS *", "FLUSHDB", "DBSIZE", "EXEC"]);
    assert_eq!(replies[7], "*6\r\n+OK\r\n+OK\r\n:1\r\n*1\r\n$1\r\nk\r\n+OK\r\n:0\r\n");
}

#[test]
fn memory_usage_is_a_part_of_its_transaction() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let replies = all(&mut client, &["MULTI", "SET a 1", "MEMORY USAGE a", "SET b 2", "EXEC"]);
    assert_eq!(replies[4], "*3\r\n+OK\r\n:66\r\n+OK\r\n");
    assert_eq!(weir.store.batches.lock().expect("no panic")[..], [2], "one record");
    let replies = all(&mut client, &["MULTI", "MEMORY DOCTOR", "MEMORY USAGE none", "EXEC"]);
    assert!(replies[3].starts_with("*2\r\n$") && replies[3].ends_with("\r\n$-1\r\n"), "{replies:?}");
}

#[test]
fn a_transaction_whose_commit_fails_is_answered_with_the_error() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    weir.store.fail_commits.store(true, Ordering::Relaxed);
    let replies = all(&mut client, &["MULTI", "SET a 1", "SET b 1", "EXEC"]);
    assert!(replies[3].starts_with("-MISCONF"), "{replies:?}");
    weir.store.fail_commits.store(false, Ordering::Relaxed);
    assert_eq!(weir.store.batches.lock().expect("no panic").last(), Some(&2), "one record of two changes");
}

#[test]
fn a_transaction_ends_with_its_connection_or_a_reset() {
    let weir = Running::start(Settings { threads: 2, long_threads: 1, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(all(&mut client, &["MULTI", "RESET", "SET a 1"]), ["+OK\r\n", "+RESET\r\n", "+OK\r\n"]);
    assert_eq!(all(&mut client, &["MULTI", "QUIT"]), ["+OK\r\n", "+OK\r\n"]);
    assert_eq!(client.rest(), b"");
    assert_eq!(weir.connect().say("SET a 2"), "+OK\r\n");
    // The watch moves with its connection from thread to thread.
    let mut client = weir.connect();
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let long = encode(&[&b"SET"[..], b"long", &vec![b'v'; 400 << 10]]);
    for _ in 0..3 {
        client.send(&long);
        assert_eq!(client.reply(), b"+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), "*3\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(client.say("STRLEN long"), ":409600\r\n");
}

#[test]
fn rows_of_several_slots_are_refused_where_they_may_be_apart() {
    let world = World::new();
    let mut client = world.tenant("t", 4, 0);
    let replies = all(&mut client, &["MULTI", "SET {a}1 1", "SET {a}2 2", "EXEC"]);
    assert_eq!(replies[3], "*2\r\n+OK\r\n+OK\r\n");
    let replies = all(&mut client, &["MULTI", "SET a 1", "SET b 2", "EXEC", "EXISTS a", "EXISTS b"]);
    assert_eq!(replies[3..], ["-CROSSSLOT Keys in request don't hash to the same slot\r\n", ":0\r\n", ":0\r\n"]);
}

#[test]
fn what_cannot_be_run_behind_what_was_run_is_refused_alone() {
    let world = World::new();
    let mut client = world.tenant("t", 4, 0);
    let lines =
        ["MULTI", "SET a 1", "DBSIZE", "SET b 2", "SET c 3", "ECHO on", "GET a", "EXEC", "EXISTS a", "EXISTS b"];
    let replies = all(&mut client, &lines);
    let refused = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    let told = ["*6\r\n+OK\r\n:1\r\n", refused, refused, "$2\r\non\r\n$1\r\n1\r\n"].concat();
    assert_eq!(replies[7..], [told.as_str(), ":1\r\n", ":0\r\n"]);
}

#[test]
fn slots_of_one_partition_are_together_for_who_knows_partitions() {
    let world = World::new();
    let mut client = world.tenant("t", 4, 0);
    let tenant = world.node.tenant(&name("t")).expect("it was made");
    let home = tenant.index_of(b"a");
    let key = |is_near: bool| {
        let keys = (0..).map(|number| format!("key-{number}"));
        keys.into_iter().find(|key| (tenant.index_of(key.as_bytes()) == home) == is_near).expect("there are some")
    };
    let (near, far) = (key(true), key(false));
    assert_ne!(slot(b"a"), slot(near.as_bytes()));
    let both = |client: &mut Client, key: &str| {
        let write = format!("SET {key} 2");
        all(client, &["WATCH a", "MULTI", "SET a 1", &write, "EXEC"]).pop().expect("an answer")
    };
    let refused = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    assert_eq!(both(&mut client, &near), refused);
    assert_eq!(client.say("CLIENT CAPA redirect partition-transactions"), "+OK\r\n");
    assert_eq!(both(&mut client, &near), "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(both(&mut client, &far), refused);
    assert_eq!(both(&mut world.connect("t"), &near), refused, "another connection has not said it");
}

/// Several clients transfer between two accounts, some watching, some not, while others look: the sum is always the
/// same.
#[test]
fn nobody_sees_half_of_a_transaction() {
    for engine in EngineKind::ALL {
        let world = World::new();
        let mut client = world.tenant_on(engine, "t", 1, 0);
        all(&mut client, &["SET a 500", "HSET h b 500"]);
        std::thread::scope(|scope| {
            for number in 0..3 {
                let mut client = world.connect("t");
                scope.spawn(move || {
                    for round in 0..200 {
                        let amount = (number * 7 + round) % 13;
                        let lines = ["MULTI", &format!("DECRBY a {amount}"), &format!("HINCRBY h b {amount}"), "EXEC"];
                        assert!(all(&mut client, &lines)[3].starts_with("*2\r\n:"));
                    }
                });
            }
            let mut client = world.connect("t");
            scope.spawn(move || {
                for _ in 0..300 {
                    let reply = all(&mut client, &["MULTI", "GET a", "HGET h b", "EXEC"]).remove(3);
                    let numbers: Vec<i64> = reply.lines().filter_map(|line| line.parse().ok()).collect();
                    assert_eq!(numbers.iter().sum::<i64>(), 1000, "{reply}");
                }
            });
        });
    }
}

#[test]
fn nothing_is_told_in_silence() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for line in ["CLIENT REPLY OFF", "MULTI", "SET a 1", "EXEC", "SET b 1"] {
        client.send(&encode(&line.split(' ').collect::<Vec<_>>()));
    }
    assert_eq!(client.say("CLIENT REPLY ON"), "+OK\r\n");
    assert_eq!(client.say("MGET a b"), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

/// A look at an expired key deletes it. That is no change.
#[test]
fn what_had_expired_before_it_was_watched_has_not_changed() {
    let clock = TestClock::new();
    let world = World::new_at(clock.clone(), Settings { threads: 2, ..Settings::default() });
    for engine in EngineKind::ALL {
        drop(world.tenant_on(engine, &format!("stale-{engine}"), 1, 0));
        let mut client = world.connect(&format!("stale-{engine}"));
        assert_eq!(client.say("SET x y EX 5"), "+OK\r\n");
        clock.advance(6);
        for line in ["WATCH x", "MULTI"] {
            assert_eq!(client.say(line), "+OK\r\n");
        }
        assert_eq!(client.say("PING"), "+QUEUED\r\n");
        assert_eq!(client.say("EXEC"), "*1\r\n+PONG\r\n");
        // A key that expires while it is watched does change.
        assert_eq!(client.say("SET x y EX 5"), "+OK\r\n");
        assert_eq!(client.say("WATCH x"), "+OK\r\n");
        clock.advance(6);
        assert_eq!(client.say("MULTI"), "+OK\r\n");
        assert_eq!(client.say("PING"), "+QUEUED\r\n");
        assert_eq!(client.say("EXEC"), "*-1\r\n");
    }
}

/// One read unit a second: a read of [`LONG_BYTES`] is a debt of twenty seconds.
const ONE_READ_A_SECOND: UnitLimits =
    UnitLimits { rcu: 1, wcu: 0, ru: 0, spare: false, burst_seconds: 0, on_limit: OnLimit::Delay { max_ms: 25_000 } };
const LONG_BYTES: usize = 80 << 10;

fn until_a_read_waits(weir: &Running) {
    while weir.store.quota.waiting(Unit::Read) == 0 {
        std::thread::yield_now();
    }
}

/// Sends these requests and reads the reply to the first of them, which leaves a debt of read units, and the replies to
/// those that are queued. Returns when `EXEC` waits.
fn wait_in_exec(weir: &Running, client: &mut Client, is_one_pipeline: bool, queued: &[&str]) {
    let lines = [&["GET long", "MULTI"], queued, &["EXEC", "ECHO behind"]].concat();
    let mut requests = lines.iter().map(|line| encode(&line.split(' ').collect::<Vec<_>>()));
    let mut long = requests.next().expect("the first");
    if is_one_pipeline {
        long.extend(requests.flatten());
        client.send(&long);
        assert_eq!(client.reply().len(), LONG_BYTES + "$81920\r\n\r\n".len());
    } else {
        client.send(&long);
        assert_eq!(client.reply().len(), LONG_BYTES + "$81920\r\n\r\n".len());
        client.send(&requests.flatten().collect::<Vec<u8>>());
    }
    assert_eq!(client.reply(), b"+OK\r\n");
    queued.iter().for_each(|_| assert_eq!(client.reply(), b"+QUEUED\r\n"));
    until_a_read_waits(weir);
}

/// The replies in front of a command that waits for units are written; no part of the answer to `EXEC` is among them.
#[test]
fn nothing_of_the_answer_leaves_while_a_transaction_waits_for_units() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    client.ask(&[&b"SET"[..], b"long", &[b'v'; LONG_BYTES]]);
    for is_touched in [true, false] {
        for is_one_pipeline in [false, true] {
            weir.store.quota.set_limits(&UnitLimits::default());
            assert_eq!(client.say("WATCH k"), "+OK\r\n");
            weir.store.quota.set_limits(&ONE_READ_A_SECOND);
            wait_in_exec(&weir, &mut client, is_one_pipeline, &["GET a", "PING"]);
            if is_touched {
                assert_eq!(other.say("SET k 1"), "+OK\r\n");
            }
            weir.clock.advance(25);
            let expected = if is_touched { "*-1\r\n" } else { "*2\r\n$-1\r\n+PONG\r\n" };
            assert_eq!(String::from_utf8_lossy(&client.reply()), expected, "touched: {is_touched}, {is_one_pipeline}");
            assert_eq!(client.reply(), b"$6\r\nbehind\r\n");
        }
    }
}

#[test]
fn a_transaction_that_is_refused_when_it_has_waited_is_answered_with_the_error_and_pays_nothing() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let dear = "v".repeat(LONG_BYTES);
    client.ask(&["SET", "long", &dear]);
    weir.clock.freeze();
    weir.store.quota.set_limits(&UnitLimits { wcu: 1, ..ONE_READ_A_SECOND });
    // A debt of eighty seconds: the read units come in time, and the write units do not.
    client.ask(&["SET", "dear", &dear]);
    wait_in_exec(&weir, &mut client, true, &["GET a", "SET b 1"]);
    weir.clock.advance(25);
    let reply = String::from_utf8_lossy(&client.reply()).into_owned();
    assert!(reply.starts_with("-THROTTLED ") && reply.ends_with("reason=tenant_wcu\r\n"), "{reply}");
    assert_eq!(client.reply(), b"$6\r\nbehind\r\n");
    assert_eq!(client.say("GET a"), "$-1\r\n", "what was charged is back");
}

/// A command that goes through all keys cuts a transaction in two; all of it is paid for before any of it is run.
#[test]
fn a_transaction_without_the_units_for_its_end_runs_nothing_of_it() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    weir.clock.freeze();
    // Two units are there.
    weir.store.quota.set_limits(&UnitLimits { rcu: 0, wcu: 20, on_limit: OnLimit::Refuse, ..ONE_READ_A_SECOND });
    assert_eq!(client.say("SET x 1"), "+OK\r\n");
    let replies = all(&mut client, &["MULTI", "SET a 1", "DBSIZE", "SET b 1", "EXEC", "EXISTS a"]);
    assert!(replies[4].starts_with("-THROTTLED "), "{}", replies[4]);
    assert_eq!(replies[5], ":0\r\n");
    // By itself, the first part passes.
    let replies = all(&mut client, &["MULTI", "SET a 1", "DBSIZE", "EXEC"]);
    assert_eq!(replies[3], "*2\r\n+OK\r\n:2\r\n");
}

/// The commands of a transaction do not wait for the debt of those in front of them.
#[test]
fn a_transaction_with_a_command_that_costs_many_seconds_passes_as_that_command_does_alone() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let dear = format!("SET a {}", "v".repeat(LONG_BYTES));
    let lines = ["MULTI", dear.as_str(), "SET mark 1", "EXEC"];
    weir.clock.freeze();
    for on_limit in [OnLimit::default(), OnLimit::Refuse] {
        weir.store.quota.set_limits(&UnitLimits::default());
        weir.store.quota.set_limits(&UnitLimits { rcu: 0, wcu: 1, on_limit, ..ONE_READ_A_SECOND });
        assert_eq!(all(&mut client, &lines)[3], "*2\r\n+OK\r\n+OK\r\n", "{on_limit:?}");
        // What is beyond the units that were there is a debt.
        let reply = client.say("SET b 1");
        assert!(reply.starts_with("-THROTTLED "), "{on_limit:?}: {reply}");
    }
    // `MULTI` costs request units itself, so here the transaction waits for a moment.
    weir.clock.thaw();
    weir.store.quota.set_limits(&UnitLimits::default());
    weir.store.quota.set_limits(&UnitLimits { rcu: 0, ru: 1, on_limit: OnLimit::default(), ..ONE_READ_A_SECOND });
    assert_eq!(all(&mut client, &lines)[3], "*2\r\n+OK\r\n+OK\r\n");
}

#[test]
fn s12_keys_that_are_watched_are_bounded() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let key = |number: usize| format!("{number:060000}");
    let refused = (0..1000).find(|&number| client.ask(&["WATCH", &key(number)]) != b"+OK\r\n");
    // Three times the key, and some bytes.
    assert_eq!(refused, Some((64 << 20) / (3 * 60_000 + 512)));
    let told = other.ask(&["WATCH", &key(0)]);
    assert!(told.starts_with(b"-ERR the tenant's clients watch too many bytes"), "{}", told.escape_ascii());
    assert_eq!(client.say("UNWATCH"), "+OK\r\n");
    assert_eq!(other.ask(&["WATCH", &key(0)]), b"+OK\r\n");
}

#[test]
fn s12_what_a_transaction_writes_is_bounded() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    // Five of them have more than 256 MiB together.
    let long: Vec<String> = (0..6).map(|key| format!("SETRANGE k{key} 60000000 x")).collect();
    let long = || long.iter().map(String::as_str);
    let lines: Vec<&str> = ["MULTI", "SET a 1"].into_iter().chain(long()).chain(["EXEC", "RU LAST"]).collect();
    let replies = all(&mut client, &lines);
    assert!(replies[8].starts_with("-ERR the transaction writes more than 256 MB"), "{}", replies[8]);
    assert!(replies[9].contains("\r\nrow_written\r\n"), "the work is counted: {}", replies[9]);
    assert_eq!(all(&mut client, &["EXISTS a k0 k4", "SET a 1"]), [":0\r\n", "+OK\r\n"]);
    // What was written in front of a command that is not about keys stays, and the error does not deny that.
    let lines: Vec<&str> = ["MULTI", "SET a 2", "PING"].into_iter().chain(long()).chain(["EXEC", "GET a"]).collect();
    let replies = all(&mut client, &lines);
    let refused = "-ERR the transaction writes more than 256 MB at once, or has more than 256 MB of events, messages \
         and undeclared keys: these commands wrote nothing, send smaller ones\r\n";
    assert_eq!(replies[9], format!("*8\r\n+OK\r\n+PONG\r\n{}", refused.repeat(6)));
    assert_eq!(replies[10], "$1\r\n2\r\n");
}

#[test]
fn s12_what_a_transaction_tells_is_bounded() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let elements: Vec<String> = (0..1000).map(|element| element.to_string()).collect();
    assert_eq!(client.say(&format!("RPUSH l {}", elements.join(" "))), ":1000\r\n");
    assert_eq!(client.say("CONFIG SET notify-keyspace-events Km"), "+OK\r\n");
    // Each of them tells of missing keys with 60 MB, so five of them have more than 256 MiB together.
    let sort = format!("SORT l BY {}*", "x".repeat(60_000));
    let lines: Vec<&str> = ["MULTI", "SET a 1"].into_iter().chain([sort.as_str(); 6]).chain(["EXEC"]).collect();
    let replies = all(&mut client, &lines);
    assert!(replies[8].starts_with("-ERR the transaction writes more than 256 MB at once, or "), "{:.200}", replies[8]);
    assert_eq!(all(&mut client, &["EXISTS a", "SET a 1"]), [":0\r\n", "+OK\r\n"]);
}
