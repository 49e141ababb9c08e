//! Commands that go through all keys, against a real node: a tenant of four partitions answers as one of one partition
//! does.

use std::collections::BTreeSet;

use crate::support::world::{World, name};
use crate::support::{Client, TestClock, encode};
use weir_command::table::{COMMANDS, Command};
use weir_gateway::Settings;

/// The strings of an array.
fn strings(reply: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = reply.split("\r\n").skip(1).collect();
    lines.chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[1].to_owned()).collect()
}

fn scanned(client: &mut Client, options: &str) -> (BTreeSet<String>, usize) {
    let (mut all, mut cursor, mut steps) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let page = client.say(&format!("SCAN {cursor}{options}"));
        let mut lines = page.splitn(4, "\r\n").skip(2);
        cursor = lines.next().expect("a cursor").to_owned();
        all.extend(strings(lines.next().expect("keys")));
        steps += 1;
        if cursor == "0" {
            return (all, steps);
        }
    }
}

#[test]
fn commands_over_all_keys_see_all_partitions() {
    let world = World::new();
    for (tenant, partitions) in [("one", 1), ("four", 4)] {
        let mut client = world.tenant(tenant, partitions, 0);
        let keys: BTreeSet<String> = (0..400).map(|i| format!("key-{i:03}")).collect();
        for key in &keys {
            assert_eq!(client.say(&format!("SET {key} {key}")), "+OK\r\n");
        }
        assert_eq!(client.say("SELECT 5"), "+OK\r\n");
        (0..30).for_each(|i| assert_eq!(client.say(&format!("SET other-{i} 5")), "+OK\r\n"));
        assert_eq!(client.say("DBSIZE"), ":30\r\n");
        assert_eq!(client.say("SELECT 0"), "+OK\r\n");
        assert_eq!(client.say("DBSIZE"), ":400\r\n");
        assert_eq!(strings(&client.say("KEYS *")), keys);
        assert_eq!(strings(&client.say("KEYS key-0?7")).len(), 10);
        for options in ["", " COUNT 7", " COUNT 1000"] {
            assert_eq!(scanned(&mut client, options).0, keys, "SCAN{options} of {tenant}");
        }
        assert!(scanned(&mut client, " COUNT 7").1 > 400 / 7);
        assert_eq!(scanned(&mut client, " MATCH *99").0.len(), 4);
        let found = world.node.tenant(&name(tenant)).expect("there");
        let drawn: BTreeSet<usize> = (0..200)
            .map(|_| {
                let key = client.say("RANDOMKEY").split("\r\n").nth(1).expect("a key").to_owned();
                assert!(keys.contains(&key), "{key}");
                found.index_of(key.as_bytes())
            })
            .collect();
        assert_eq!(drawn.len(), usize::from(partitions), "keys of every partition are drawn");

        assert_eq!(client.say("COPY key-001 key-001 DB 5"), ":1\r\n");
        assert_eq!(client.say("COPY key-001 key-001 DB 5"), ":0\r\n");
        assert_eq!(client.say("MOVE key-002 5"), ":1\r\n");
        assert_eq!(client.say("DBSIZE"), ":399\r\n");
        let crossing = client.say("COPY key-003 elsewhere DB 5");
        assert_eq!(crossing.starts_with("-CROSSSLOT"), partitions > 1, "{crossing}");
        for line in
            ["SORT key-003 STORE elsewhere", "SORT none STORE a STORE elsewhere", "SORT none GET # STORE elsewhere"]
        {
            let crossing = client.say(line);
            let expected = match partitions {
                1 if line.contains("key-003") => "-WRONGTYPE",
                1 => ":0\r\n",
                _ => "-CROSSSLOT",
            };
            assert!(crossing.starts_with(expected), "{line}: {crossing}");
        }
        assert_eq!(client.say("SORT {none}1 BY store GET limit STORE {none}2"), ":0\r\n");
        // Keys that depend on stored values may be in any partition.
        for line in ["SORT none BY x GET {none}*", "SORT_RO none LIMIT 0 1 BY *", "SORT none STORE BY GET a*->b"] {
            let crossing = client.say(line);
            assert_eq!(crossing.starts_with("-CROSSSLOT"), partitions > 1, "{line}: {crossing}");
        }
        client.say("SELECT 5");
        assert_eq!(client.say("GET key-002"), "$7\r\nkey-002\r\n");
        client.say("DEL elsewhere");
        assert_eq!(client.say("DBSIZE"), ":32\r\n");
        assert_eq!(client.say("FLUSHDB"), "+OK\r\n");
        assert_eq!(client.say("DBSIZE"), ":0\r\n");
        client.say("SELECT 0");
        assert_eq!(client.say("DBSIZE"), ":399\r\n", "another database is another's");
        assert_eq!(client.say("CLUSTER KEYSLOT foo{bar}"), ":5061\r\n");
        assert!(client.say("CLUSTER SLOTS").contains("cluster support disabled"));
    }
}

/// Whether a call may name several keys.
fn takes_several_keys(command: &Command) -> bool {
    let (first, last, _) = command.keys;
    first != last || command.counted.is_some()
}

/// A command that makes a key for a command of `group`, and one that reads it; `KEY` stands for the key.
fn made_and_read(group: &str) -> [&'static str; 2] {
    match group {
        "set" => ["SADD KEY old", "SMEMBERS KEY"],
        "hyperloglog" => ["PFADD KEY old", "PFCOUNT KEY"],
        "list" => ["RPUSH KEY old", "LRANGE KEY 0 -1"],
        _ => ["SET KEY old", "GET KEY"],
    }
}

/// A call with `count` placeholder keys, and their positions.
fn call(command: &Command, count: usize) -> (Vec<String>, Vec<usize>) {
    let (first, last, step) = command.keys;
    // Valid as a value, an operation or an end, whichever is asked for.
    let filling = if command.group == "list" { "LEFT" } else { "AND" }.to_owned();
    if let Some(place) = command.counted {
        let words = [command.name.to_owned(), count.to_string()];
        let words = words.into_iter().chain(vec![String::new(); count]);
        let end = (command.group == "list").then_some(filling);
        return (words.chain(end).collect(), (place + 1..).take(count).collect());
    }
    let keys: Vec<usize> = match usize::try_from(last) {
        Ok(last) => (first as usize..=last).step_by(step as usize).collect(),
        Err(_) => (first as usize..).step_by(step as usize).take(count).collect(),
    };
    let last = *keys.last().expect("it takes keys");
    // If something follows each key, something follows the last one, too.
    let len = (last + step as usize).max(command.arity.unsigned_abs() as usize);
    let mut words = vec![filling; len];
    words[0] = command.name.to_owned();
    (words, keys)
}

#[test]
fn every_command_on_several_keys_wants_them_in_one_slot() {
    let world = World::new();
    let (mut one, mut four) = (world.tenant("one", 1, 0), world.tenant("four", 4, 0));
    let tenant = world.node.tenant(&name("four")).expect("there");
    let own = "{own}";
    let (near, far): (Vec<String>, Vec<String>) = (0..40)
        .map(|i| format!("{{{i}}}"))
        .partition(|tag| tenant.index_of(tag.as_bytes()) == tenant.index_of(own.as_bytes()));
    // Even if two slots are in the same partition: what is allowed does not depend on the number of partitions.
    let others = [&near[0], &far[0]];
    // `WATCH` takes any keys. Commands that wait, and scripts, have tests of their own.
    let several = COMMANDS.iter().filter(|command| {
        let is_elsewhere = command.flags.contains(&"blocking") || command.group == "scripting";
        takes_several_keys(command) && command.name != "watch" && !is_elsewhere
    });
    // Commands on sorted sets take no strings, and have a test of their own.
    let several: Vec<&Command> = several.filter(|command| !["sorted-set", "geo"].contains(&command.group)).collect();
    let names: BTreeSet<&str> = several.iter().map(|command| command.name).collect();
    // The commands that Redis documents, as far as they exist here, so that a mistake in the table cannot leave out its
    // command. `SORT` belongs here, too, but has a test of its own, because its second key is found by name.
    let documented = "bitop copy del exists lcs lmove lmpop mget mset msetnx pfcount pfmerge rename renamenx rpoplpush \
                      sdiff sdiffstore sinter sintercard sinterstore smove sunion sunionstore touch unlink";
    assert_eq!(names, documented.split(' ').collect());
    let mut refused = 0;
    for command in several {
        for count in [2, 3] {
            let (mut words, keys) = call(command, count);
            for (number, &position) in keys.iter().enumerate() {
                words[position] = format!("{own}{number}");
            }
            let [made, read] = made_and_read(command.group);
            let make = |client: &mut Client, key: &str| {
                client.say(&format!("DEL {key}"));
                assert!(!client.say(&made.replace("KEY", key)).starts_with('-'));
                client.say(&read.replace("KEY", key))
            };
            let set_all = |client: &mut Client| {
                for &position in &keys {
                    make(client, &words[position]);
                }
            };
            set_all(&mut four);
            let together = four.say(&words.join(" "));
            assert!(!together.starts_with('-'), "{words:?}: {together}");
            for (&odd, other) in keys.iter().flat_map(|odd| others.map(|other| (odd, other))) {
                let mut apart = words.clone();
                apart[odd] = format!("{other}odd");
                set_all(&mut four);
                make(&mut one, &apart[odd]);
                let old = make(&mut four, &apart[odd]);
                // In a pipeline, behind a write that is being gathered.
                four.send(&[encode(&["SET", own, "v"]), encode(&apart)].concat());
                assert_eq!(four.reply(), b"+OK\r\n");
                let crossing = String::from_utf8_lossy(&four.reply()).into_owned();
                assert!(crossing.starts_with("-CROSSSLOT"), "{apart:?}: {crossing}");
                for key in keys.iter().map(|&position| &apart[position]) {
                    assert_eq!(four.say(&read.replace("KEY", key)), old, "{apart:?} was refused");
                }
                set_all(&mut one);
                let fine = one.say(&apart.join(" "));
                assert!(!fine.starts_with('-'), "{apart:?} of a tenant of one partition: {fine}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "only {refused} calls were refused");
}

#[test]
fn sorted_sets_are_combined_within_one_slot() {
    let world = World::new();
    let (mut one, mut four) = (world.tenant("one", 1, 0), world.tenant("four", 4, 0));
    for line in [
        "ZRANGESTORE {own}d {odd}a 0 -1",
        "ZUNION 2 {own}a {odd}b",
        "ZINTER 2 {own}a {odd}b WITHSCORES",
        "ZDIFF 3 {own}a {own}b {odd}c",
        "ZINTERCARD 2 {own}a {odd}b",
        "ZMPOP 2 {own}a {odd}b MIN",
        "ZUNIONSTORE {own}d 1 {odd}a",
        "ZINTERSTORE {own}d 2 {own}a {odd}b",
        "ZDIFFSTORE {own}d 2 {own}a {odd}b",
        "GEOSEARCHSTORE {own}d {odd}a FROMLONLAT 1 2 BYRADIUS 3 km",
        "GEORADIUS {own}a 1 2 3 km STORE {odd}d",
        "GEORADIUSBYMEMBER {own}a m 3 km STOREDIST {odd}d",
    ] {
        let apart = four.say(line);
        assert!(apart.starts_with("-CROSSSLOT"), "{line}: {apart}");
        let fine = [one.say(line), four.say(&line.replace("{odd}", "{own}"))];
        assert!(fine.iter().all(|answer| !answer.starts_with('-')), "{line}: {fine:?}");
    }
}

#[test]
fn flushall_is_one_step_in_the_order_of_its_connection() {
    let world = World::new();
    let mut client = world.tenant("four", 4, 0);
    for i in 0..3000 {
        client.send(&encode(&["SET", &format!("key-{i}"), &"v".repeat(100)]));
    }
    (0..3000).for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
    let script = [
        "SET a 1", "SELECT 3", "SET b 2", "FLUSHALL", "SET c 3", "DBSIZE", "SELECT 0", "DBSIZE", "EXISTS a", "SET d 4",
    ];
    let all: Vec<u8> = script.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
    client.send(&all);
    let replies: Vec<String> = script.iter().map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect();
    let ok = "+OK\r\n";
    assert_eq!(replies, [ok, ok, ok, ok, ok, ":1\r\n", ok, ":0\r\n", ":0\r\n", ok]);
    // While others write: everything is answered, and what is written after it stays.
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let mut client = world.connect("four");
            std::thread::spawn(move || {
                for i in 0..2000 {
                    assert_eq!(client.say(&format!("SET writer-{writer}-{i} v")), "+OK\r\n");
                }
            })
        })
        .collect();
    (0..20).for_each(|_| assert_eq!(client.say("FLUSHALL"), "+OK\r\n"));
    writers.into_iter().for_each(|writer| writer.join().expect("served"));
    assert_eq!(client.say("FLUSHALL ASYNC"), "+OK\r\n");
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
    assert_eq!(client.say("SET last 1"), "+OK\r\n");
    drop(client);
    let world = world.again();
    let mut client = world.connect("four");
    assert_eq!(client.say("KEYS *"), "*1\r\n$4\r\nlast\r\n", "nothing that was emptied comes back");
}

#[test]
fn s15_a_full_tenant_may_read_and_delete() {
    let world = World::new();
    let mut client = world.tenant("small", 2, 400 << 10);
    let mut other = world.tenant("other", 1, 0);
    let value = "v".repeat(4000);
    let mut stored = 0;
    let refused = loop {
        let reply = client.say(&format!("SET key-{stored} {value}"));
        if reply != "+OK\r\n" {
            break reply;
        }
        stored += 1;
        assert!(stored < 100_000, "the limit is never reached");
    };
    assert!(refused.starts_with("-OOM ") && refused.contains("disk_bytes_max"), "{refused}");
    assert!(stored > 90, "{stored} of about a hundred fit");
    for fine in ["GET key-1", "DEL key-2", "EXPIRE key-3 100", "DBSIZE", "PING"] {
        assert!(!client.say(fine).starts_with('-'), "{fine}");
    }
    for refused in [
        "APPEND key-1 x",
        "INCR n",
        "MSET a{t} 1 b{t} 2",
        "SETRANGE key-1 5 x",
        "COPY a{t} b{t}",
        "XGROUP CREATE s g $ MKSTREAM",
    ] {
        assert!(client.say(refused).starts_with("-OOM "), "{refused}");
    }
    let script = client.ask(&["EVAL", "return redis.call('set', KEYS[1], 'x')", "1", "key-1"]);
    assert!(script.starts_with(b"-OOM "), "{}", script.escape_ascii());
    assert_eq!(other.say("SET k v"), "+OK\r\n", "it is nobody else's business");
    for key in 0..stored {
        assert!(!client.say(&format!("DEL key-{key}")).starts_with('-'));
    }
    // The first refusal sends the deletions to a table. The write is repeated again and again, because deleted data
    // goes in the background.
    let room = (0..500_000).any(|_| client.say("SET k v") == "+OK\r\n");
    assert!(room, "what was deleted makes room");
    assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    assert_eq!(client.say("SET k v"), "+OK\r\n", "room at once");
}

#[test]
fn s15_a_cache_at_its_limit_may_write_again_when_its_keys_have_expired() {
    const LIMIT: u64 = 400 << 10;
    let clock = TestClock::new();
    let world = World::new_at(clock.clone(), Settings { threads: 2, ..Settings::default() });
    let mut client = world.tenant("cache", 1, LIMIT);
    let value = "v".repeat(2000);
    for round in 0..4 {
        let mut stored = 0;
        let refused = loop {
            let reply = client.say(&format!("SET key-{round}-{stored} {value} EX 300"));
            if reply != "+OK\r\n" {
                break reply;
            }
            stored += 1;
            assert!(stored < 100_000, "the limit is never reached");
        };
        assert!(refused.starts_with("-OOM "), "{refused}");
        assert!(stored > 150, "round {round}: {stored} of about two hundred fit");
        for fine in [format!("EXPIRE key-{round}-1 300"), format!("DEL key-{round}-2"), format!("GET key-{round}-3")] {
            assert!(!client.say(&fine).starts_with('-'), "{fine}");
        }
        clock.advance(301);
        assert_eq!(client.say("DBSIZE"), ":0\r\n");
        assert_eq!(client.say(&format!("SET again {value} EX 300")), "+OK\r\n", "round {round}: at once");
    }
    let used = world.node.tenant(&name("cache")).expect("it exists").disk_use();
    assert!(used.stored <= LIMIT + LIMIT / 2 + (1 << 20), "{used:?}");
}

#[test]
fn who_waits_for_rows_of_two_slots_is_refused() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 4, 0), world.connect("t"));
    let refused = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    for line in [
        "BLPOP a b 0",
        "BRPOPLPUSH a b 0",
        "BLMPOP 0 2 a b LEFT",
        "BZPOPMIN a b 0",
        "BZMPOP 0 2 a b MIN",
        "XREAD BLOCK 0 STREAMS a b 0 0",
        "XREADGROUP GROUP g c STREAMS a b > >",
    ] {
        assert_eq!(client.say(line), refused, "{line}");
    }
    client.send(&crate::support::encode(&["BLPOP", "{x}a", "{x}b", "0"]));
    other.say("RPUSH {x}b v");
    assert_eq!(client.reply(), b"*2\r\n$4\r\n{x}b\r\n$1\r\nv\r\n");
}
