//! Request units over loopback: what `RU LAST` tells, what replies tell, and which commands wait or are refused.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_gateway::Settings;
use weir_node::{OnLimit, Unit, UnitLimits};

use crate::support::memory_store::DISTANT_KEY;
use crate::support::{Client, Running, encode};

/// The answer of `RU LAST` by name; the numbers of modules are among them by the modules' names.
fn last(client: &mut Client) -> BTreeMap<String, String> {
    let reply = client.say("RU LAST");
    let words: Vec<&str> = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$', '%'])).collect();
    words.chunks(2).filter(|pair| pair.len() == 2).fold(BTreeMap::new(), |mut all, pair| {
        // "modules" stands alone: the pairs behind it are shifted by one, and are read apart.
        all.insert(pair[0].to_owned(), pair[1].trim_start_matches(':').to_owned());
        all
    })
}

fn modules(client: &mut Client) -> BTreeMap<String, u64> {
    let reply = client.say("RU LAST");
    let (_, modules) = reply.split_once("modules\r\n").expect("a map with modules");
    let words: Vec<&str> = modules.split("\r\n").filter(|line| !line.starts_with(['*', '$', '%'])).collect();
    let number = |text: &str| text.trim_start_matches(':').parse().expect("a number");
    words.chunks_exact(2).map(|pair| (pair[0].to_owned(), number(pair[1]))).collect()
}

#[test]
fn the_last_command_tells_what_it_was_counted_as() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for (line, expected) in [
        ("SET k value", &[("row_written", 1), ("written_byte", 10), ("log_record", 1), ("word", 3)][..]),
        ("GET k", &[("row_found", 1), ("read_byte", 5), ("reply_byte", 11), ("word", 2), ("round", 1)]),
        ("GET none", &[("row_missing", 1), ("reply_byte", 5)]),
        ("MGET k none k", &[("row_found", 2), ("row_missing", 1), ("read_byte", 10), ("command", 1)]),
        ("APPEND k 12345", &[("row_found", 1), ("row_written", 1), ("written_byte", 15), ("locked", 1)]),
        ("INCR k", &[("row_found", 1), ("locked", 1), ("command", 1)]),
        ("SCAN 0", &[("page", 1), ("key_scanned", 1)]),
        ("PING", &[("command", 1), ("word", 1), ("reply_byte", 7)]),
        ("LCS k k LEN", &[("row_found", 2), ("step", 121)]),
        (
            "EVAL return(redis.call('get',KEYS[1])) 1 k",
            &[("script", 1), ("script_call", 1), ("row_found", 1), ("command", 1), ("locked", 1)],
        ),
    ] {
        client.say(line);
        let counted = modules(&mut client);
        for (module, count) in expected {
            assert_eq!(counted.get(*module), Some(count), "{module} of {line}: {counted:?}");
        }
        if !line.starts_with("INCR") {
            continue;
        }
        // The command has failed, and has written nothing.
        assert_eq!((counted.get("row_written"), counted.get("log_record")), (None, None));
    }
    client.say("GET k");
    let told = last(&mut client);
    assert_eq!(told["command"], "get");
    let units: f64 = told["units"].parse().expect("a number");
    assert!(units > 0.0 && units < 10.0, "{units}");
    let bytes: u64 = told["network_bytes"].parse().expect("a number");
    assert_eq!(bytes, encode(&["GET", "k"]).len() as u64 - 2 + "$10\r\nvalue12345\r\n".len() as u64);
    // `RU LAST` tells of the command before, not of itself, however often it is asked.
    assert_eq!(last(&mut client)["command"], "get");
    assert!(client.say("RU LAST now").starts_with("-ERR wrong number of arguments"));
    assert!(client.say("RU NOSUCH").starts_with("-ERR unknown subcommand"));
}

#[test]
fn parts_are_counted_one_by_one_on_rows_that_have_many() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let fields: Vec<String> = (0..1000).flat_map(|index| [format!("field{index}"), "v".repeat(50)]).collect();
    let mut words = vec!["HSET".to_owned(), "h".to_owned()];
    words.extend(fields);
    client.ask(&words);
    let counted = modules(&mut client);
    assert_eq!(counted.get("part_written"), Some(&1000), "{counted:?}");
    client.say("HMGET h field1 field2 nosuch");
    let counted = modules(&mut client);
    assert_eq!((counted.get("part_found"), counted.get("part_missing")), (Some(&2), Some(&1)), "{counted:?}");
    client.say("HGETALL h");
    let counted = modules(&mut client);
    assert_eq!(counted.get("scanned"), Some(&1000), "{counted:?}");
    client.say("ZADD z 1 a");
    client.say("MULTI");
    client.say("SET a 1");
    client.say("GET a");
    client.say("EXEC");
    let counted = modules(&mut client);
    let of = |module| counted.get(module).copied().unwrap_or(0);
    // The command in front of it has written the row, so the engine is not asked for it. Each is also counted as a
    // command when it is queued.
    assert_eq!([of("command"), of("row_written"), of("row_found"), of("in_hand")], [5, 1, 0, 1], "{counted:?}");
    assert_eq!([of("row_command"), of("reply_element")], [1, 2], "{counted:?}");
}

#[test]
fn replies_tell_what_they_cost_where_that_was_asked_for_in_resp3() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    assert_eq!(client.say("RU ATTRIBUTES ON"), "+OK\r\n");
    // RESP2 has no attributes.
    assert_eq!(client.say("SET k v"), "+OK\r\n");
    client.say("HELLO 3");
    client.send(&encode(&["GET", "k"]));
    let told = client.until(b"$1\r\nv\r\n");
    let told = String::from_utf8(told).expect("text");
    assert!(told.contains("|1\r\n$2\r\nru\r\n,0."), "{told}");
    let before = weir.milli_units();
    client.send(&encode(&["GET", "k"]));
    let told = String::from_utf8(client.until(b"$1\r\nv\r\n")).expect("text");
    let units: f64 =
        told.split(',').nth(1).and_then(|rest| rest.split('\r').next()).expect("a number").parse().expect("one");
    assert_eq!((units * 1000.0).round() as u64, weir.milli_units() - before);
    client.send(&encode(&["RU", "ATTRIBUTES", "OFF"]));
    client.until(b"+OK\r\n");
    assert_eq!(client.say("GET k"), "$1\r\nv\r\n");
    // After `RESET` the connection is as new.
    client.send(&encode(&["RU", "ATTRIBUTES", "ON"]));
    client.until(b"+OK\r\n");
    client.send(&[encode(&["RESET"]), encode(&["HELLO", "3"]), encode(&["GET", "k"])].concat());
    client.until(b"+RESET\r\n");
    let told = String::from_utf8(client.until(b"$1\r\nv\r\n")).expect("text");
    assert!(told.contains("proto") && !told.contains("$2\r\nru\r\n"), "{told}");
}

#[test]
fn a_tenant_is_refused_by_its_request_units_alone() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let limits = UnitLimits { ru: 10, on_limit: OnLimit::Refuse, ..UnitLimits::default() };
    weir.store.quota.set_limits(&limits);
    let mut client = weir.connect();
    let mut served = 0;
    let refusal = loop {
        let reply = client.say("SET k v");
        if reply != "+OK\r\n" {
            break reply;
        }
        served += 1;
        assert!(served < 10_000, "nobody is refused");
    };
    assert!(
        served > 0 && refusal.starts_with("-THROTTLED retry_in_ms=") && refusal.contains("reason=tenant_ru"),
        "{refusal}"
    );
    // A client that is refused may still ask what is going on, and pays for that.
    assert_eq!(client.say("PING"), "+PONG\r\n");
    weir.clock.advance(10);
    assert_eq!(client.say("SET k v"), "+OK\r\n");
    // What was charged is what the commands have cost: no more, no less.
    assert_eq!(weir.store.quota.stats(Unit::Request).units, weir.milli_units());
}

#[test]
fn what_is_charged_is_the_sum_of_what_commands_cost() {
    let weir = Running::start(Settings::default());
    weir.store.quota.set_limits(&UnitLimits { ru: 1_000_000_000, ..UnitLimits::default() });
    let mut client = weir.connect();
    let long = "v".repeat(20_000);
    client.ask(&["SET", "long", &long]);
    for line in [
        "INCR n",
        "HSET h a 1 b 2",
        "HGETALL h",
        "GET long",
        "GETRANGE long 1 5",
        "LPUSH l 1 2 3",
        "LRANGE l 0 -1",
        "KEYS *",
        "DBSIZE",
        "MSET a 1 b 2",
        "DEL a b none",
        "ZADD z 1 a 2 b",
        "ZRANGE z 0 -1",
        "PING",
        "INFO",
        "SINTERSTORE s none",
        "XADD x * f v",
        "MULTI",
        "SET a 1",
        "SCAN 0",
        "INCR a",
        "EXEC",
        "EVAL return(redis.call('incr',KEYS[1])) 1 n",
        "GET",
        "LPUSH n 1",
        "APPEND long x",
    ] {
        client.say(line);
    }
    // A group of a pipeline, and plain writes.
    let pipeline: Vec<u8> = (0..50).flat_map(|index| encode(&["INCR", &format!("n{}", index % 7)])).collect();
    client.send(&pipeline);
    (0..50).for_each(|_| drop(client.reply()));
    let pipeline: Vec<u8> = (0..50).flat_map(|index| encode(&["SET", &format!("n{index}"), "v"])).collect();
    client.send(&pipeline);
    (0..50).for_each(|_| drop(client.reply()));
    assert_eq!(weir.store.quota.stats(Unit::Request).units, weir.milli_units());
}

#[test]
fn a_long_read_of_one_row_waits_while_it_owes_more_than_a_second() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for index in 0..200 {
        let mut words = vec!["HSET".to_owned(), "h".to_owned()];
        words.extend((0..50).flat_map(|field| [format!("f{index}-{field}"), "v".repeat(200)]));
        client.ask(&words);
    }
    let free = weir.milli_units();
    client.say("HVALS h");
    let cost = weir.milli_units() - free;
    // Fifty seconds' worth, and nothing saved up. Most of it is for bytes of the reply, which are paid for at its end.
    weir.clock.freeze();
    weir.store.quota.set_limits(&UnitLimits { ru: (cost / 50_000).max(1), ..UnitLimits::default() });
    client.send(&encode(&["HVALS", "h"]));
    let mut seconds = 0;
    client.stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
    let mut received = 0;
    while received < 10_000 * 200 {
        match client.stream.peek(&mut [0]) {
            Ok(_) => {
                let mut piece = vec![0; 1 << 20];
                received += std::io::Read::read(&mut client.stream, &mut piece).expect("replies");
            }
            Err(_) => {
                weir.clock.advance(1);
                seconds += 1;
                assert!(seconds < 10_000, "it waits for ever");
            }
        }
    }
    assert!(seconds >= 5, "{seconds} seconds");
}

#[test]
fn what_is_not_run_is_not_charged() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let mut client = weir.connect();
    // Refused by one limit, after the other one has let the command pass.
    let limits = UnitLimits { rcu: 100_000, ru: 10, on_limit: OnLimit::Refuse, ..UnitLimits::default() };
    weir.store.quota.set_limits(&limits);
    let served = (0..10_000).take_while(|_| !client.say("GET k").starts_with("-THROTTLED")).count();
    assert!(served < 10_000, "nobody is refused");
    (0..10).for_each(|_| assert!(client.say("GET k").starts_with("-THROTTLED")));
    assert_eq!(weir.store.quota.stats(Unit::Read).units, served as u64);
    // A transaction that is not run, because a watched key was changed.
    weir.store.quota.set_limits(&UnitLimits { wcu: 1000, ru: 1_000_000, ..UnitLimits::default() });
    // The earlier debt is paid.
    weir.clock.advance(1);
    client.say("WATCH k");
    weir.connect().say("SET k other");
    let before = weir.store.quota.stats(Unit::Write).units;
    for line in ["MULTI", "SET k 1", "SET k2 1"] {
        client.say(line);
    }
    assert_eq!(client.say("EXEC"), "*-1\r\n");
    assert_eq!(weir.store.quota.stats(Unit::Write).units, before);
    client.say("MULTI");
    client.say("SET k 1");
    client.say("EXEC");
    assert_eq!(weir.store.quota.stats(Unit::Write).units, before + 1);
}

/// XS-25: the units go back to what was saved up, and are not there a second time.
#[test]
fn queries_that_are_not_run_make_no_units() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let mut client = weir.connect();
    let quota = &weir.store.quota;
    quota.set_limits(&UnitLimits { ru: 1000, burst_seconds: 60, ..UnitLimits::default() });
    weir.clock.advance(30);
    assert_eq!(client.say("WATCH k"), "+OK\r\n");
    assert_eq!(weir.connect().say("SET k other"), "+OK\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.ask(&[vec!["SUNION"], vec!["none"; 100]].concat()), b"+QUEUED\r\n");
    // Nothing is left but what was saved up.
    while quota.try_admit(Unit::Request, 100) || quota.try_admit(Unit::Request, 1) {}
    assert_eq!(client.say("EXEC"), "*-1\r\n");
    assert_eq!(quota.units(Unit::Request), 0);
}

#[test]
fn who_is_cut_while_it_waits_has_paid_nothing() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let id = client.say("CLIENT ID")[1..].trim().to_owned();
    let quota = &weir.store.quota;
    let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
    quota.set_limits(&UnitLimits { rcu: 1000, ru: 1, on_limit, ..UnitLimits::default() });
    // A debt of a hundred seconds.
    quota.settle(Unit::Request, 0, 0, 100_000);
    client.send(&encode(&["GET", "k"]));
    while quota.waiting(Unit::Request) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(quota.stats(Unit::Read).units, 1);
    assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(client.rest(), b"");
    assert_eq!(quota.stats(Unit::Read).units, 0);
}

#[test]
fn who_is_cut_in_the_middle_pays_for_what_was_done() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let keys: Vec<String> = (0..3000).flat_map(|index| [format!("k{index}"), "v".to_owned()]).collect();
    client.ask(&[vec!["MSET".to_owned()], keys].concat());
    let id = client.say("CLIENT ID")[1..].trim().to_owned();
    weir.clock.freeze();
    let quota = &weir.store.quota;
    let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
    quota.set_limits(&UnitLimits { ru: 1, on_limit, ..UnitLimits::default() });
    let (paid, before) = (quota.stats(Unit::Request).units, weir.milli_units());
    // It owes for its first page, and waits.
    client.send(&encode(&["KEYS", "*"]));
    while quota.waiting(Unit::Request) == 0 {
        std::thread::yield_now();
    }
    let owed = quota.stats(Unit::Request).units - paid;
    assert!(owed > 1000 && weir.milli_units() == before, "{owed}");
    assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(client.rest(), b"");
    let cost = weir.milli_units() - before;
    assert!(cost >= owed, "{cost} of {owed}");
    // The other client has paid for its command, too.
    assert_eq!(quota.stats(Unit::Request).units - paid, cost);
}

/// What was written stays, and is on the bill, although the tenant has no limit.
#[test]
fn who_is_cut_between_two_parts_of_a_write_pays_for_those_that_were_written() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let id = client.say("CLIENT ID")[1..].trim().to_owned();
    let keys = |name: char| (0..1000).map(move |index| format!("{name}{index}"));
    let delete = |keys: &mut dyn Iterator<Item = String>| -> Vec<String> {
        std::iter::once("DEL".to_owned()).chain(keys).collect()
    };
    for name in ['a', 'b'] {
        let pairs = keys(name).flat_map(|key| [key, "v".to_owned()]);
        client.ask(&std::iter::once("MSET".to_owned()).chain(pairs).collect::<Vec<_>>());
    }
    let before = weir.milli_units();
    let one_part = delete(&mut keys('a'));
    assert_eq!(client.ask(&one_part), b":1000\r\n");
    let one_part = weir.milli_units() - before;
    weir.store.batches.lock().expect("no panic").clear();
    weir.store.disk_is_stuck.store(true, Ordering::Relaxed);
    // The second part waits for the disk.
    let distant = String::from_utf8_lossy(DISTANT_KEY).into_owned();
    let two_parts = delete(&mut keys('b').chain([distant]));
    client.send(&encode(&two_parts));
    while weir.store.batches.lock().expect("no panic").is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(client.rest(), b"");
    assert!(weir.milli_units() - before > one_part + one_part / 2);
}

#[test]
fn a_connection_tells_what_its_commands_have_cost_in_all() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    client.say("SET before 1");
    let sum = |client: &mut Client| {
        let reply = client.say("RU SUM");
        let lines: Vec<&str> = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$', '%'])).collect();
        let of = |name: &str| {
            let at = lines.iter().position(|line| *line == name);
            at.map_or(0, |at| (lines[at + 1].trim_start_matches(':').parse::<f64>().expect("a number") * 1000.0) as u64)
        };
        ["commands", "units", "row_written", "row_found", "command"].map(of)
    };
    assert_eq!(sum(&mut client), [0; 5], "nothing is summed up before anybody asks");
    let before = weir.milli_units();
    let pipeline: Vec<u8> = (0..50).flat_map(|_| encode(&["SET", "k", "v"])).collect();
    client.send(&pipeline);
    (0..50).for_each(|_| drop(client.reply()));
    client.say("GET k");
    client.say("RU LAST");
    let cost = weir.milli_units() - before;
    other.say("GET k");
    let [commands, units, written, found, counted] = sum(&mut client);
    assert_eq!([commands, written, found, counted], [51_000, 50_000, 1000, 51_000]);
    // The cost of `RU` itself is charged, and not shown.
    assert!(units > 0 && units <= cost, "{units} of {cost}");
    assert_eq!(client.say("RU RESET"), "+OK\r\n");
    assert_eq!(sum(&mut client), [0; 5]);
    assert!(client.say("RU SUM all").starts_with("-ERR wrong number of arguments"));
}

#[test]
fn what_handlers_do_by_themselves_is_counted() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for line in ["ZADD z 1 a 2.5 b 3 c", "SADD s x y z", "SET n 5", "PFADD p a b", "RPUSH l 1 2 3"] {
        client.say(line);
    }
    for (line, module, count) in [
        ("ZADD z 1.5 d 2 e", "fraction", 1),
        ("ZRANGE z 0 -1 WITHSCORES", "fraction", 2),
        ("ZRANGE z 0 -1", "fraction", 0),
        ("ZSCORE z b", "fraction", 1),
        ("ZSCORE z a", "fraction", 0),
        ("INCRBYFLOAT n 1", "fraction", 16),
        ("SISMEMBER s z", "packed_part", 3),
        ("SMEMBERS s", "packed_part", 3),
        ("LINDEX l 1", "packed_part", 2),
        ("PFCOUNT p p", "registers", 1),
        ("PFCOUNT p", "registers", 1),
        ("PFMERGE p2 p", "registers", 1),
        // Three numbers that are in order: each is read, and compared with the one in front of it.
        ("SORT l", "step", 3 * 12),
        ("SORT l", "compared", 2),
        ("SORT l", "value_copied", 3 * 3),
        ("SORT s ALPHA", "part_copied", 3),
        ("DUMP n", "step", 13),
        ("DUMP l", "part_copied", 3),
        ("LPOS l 3", "value_copied", 3),
        ("EVAL return(1) 1 n 5", "script_word", 2),
        ("PUBLISH c m", "published", 1),
        ("SCAN 0", "key_scanned", 6),
    ] {
        client.say(line);
        let counted = modules(&mut client);
        assert_eq!(counted.get(module).copied().unwrap_or(0), count, "{module} of {line}: {counted:?}");
    }
}

#[test]
fn what_is_written_again_by_the_same_group_is_counted_as_left_out() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let counts = |client: &mut Client| {
        let counted = modules(client);
        ["row_written", "left_out", "written_byte", "part_written"].map(|name| counted.get(name).copied().unwrap_or(0))
    };
    // Of ten numbers only the last is left: a kind, `n` behind its database, and two digits, with two lengths.
    client.say("MULTI");
    (0..10).for_each(|_| drop(client.say("INCR n")));
    client.say("EXEC");
    assert_eq!(counts(&mut client), [1, 9, 7, 0]);
    client.ask(&["EVAL", "for i=11,20 do redis.call('set',KEYS[1],i) end", "1", "n"]);
    assert_eq!(counts(&mut client), [1, 9, 7, 0]);
    // A few changes are not searched for ones that are written again.
    client.say("MULTI");
    (0..8).for_each(|_| drop(client.say("INCR n")));
    client.say("EXEC");
    assert_eq!(counts(&mut client), [8, 0, 8 * 7, 0]);
}

/// Only the first of several commands looks for the head and the chunk: the others are left them by the one in front.
#[test]
fn commands_of_a_group_look_for_the_chunk_at_the_end_of_a_list_once() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let values: Vec<String> = (0..200).map(|value| value.to_string()).collect();
    for key in ["queued", "scripted"] {
        client.say(&format!("RPUSH {key} {}", values.join(" ")));
    }
    let looks = |client: &mut Client| {
        let counted = modules(client);
        ["row_found", "head_read", "part_found", "in_hand"].map(|name| counted.get(name).copied().unwrap_or(0))
    };
    // Nothing tells yet which part is at the front, so the first command finds it on a page.
    for (name, value, found) in [("LPOP", "", 0), ("LPOP", "", 1), ("RPOP", "", 1), ("RPUSH", "v", 1)] {
        client.say("MULTI");
        (0..3).for_each(|_| drop(client.say(format!("{name} queued {value}").trim_end())));
        client.say("EXEC");
        assert_eq!(looks(&mut client), [1, 1, found, 2 + 2], "{name} in a transaction");
        let script = "for i=1,3 do redis.call(ARGV[1],KEYS[1],unpack(ARGV,2)) end";
        let words = ["EVAL", script, "1", "scripted", name, value];
        client.ask(&words[..if value.is_empty() { 5 } else { 6 }]);
        assert_eq!(looks(&mut client), [1, 1, found, 2 + 2], "{name} in a script");
    }
    assert_eq!(client.say("LRANGE queued 0 -1"), client.say("LRANGE scripted 0 -1"));
}

/// A push cuts off what a pop in front of it has taken out of the chunk in hand, and goes through the values that stay.
#[test]
fn a_push_that_cuts_the_chunk_in_hand_passes_the_values_that_stay() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let values: Vec<String> = (0..200).map(|value| value.to_string()).collect();
    client.say(&format!("RPUSH l {}", values.join(" ")));
    let mut passed = |lines: &[&str]| {
        client.say("MULTI");
        lines.iter().for_each(|line| drop(client.say(line)));
        client.say("EXEC");
        modules(&mut client).get("packed_part").copied().unwrap_or(0)
    };
    let all = passed(&["RPOP l"]);
    assert!(all > 1, "the value that goes is the last of several");
    assert_eq!(passed(&["RPUSH l v"]), all, "what is read is gone through to its end");
    assert_eq!(passed(&["RPOP l", "RPUSH l v"]), all + (all - 1));
    assert_eq!(passed(&["RPUSH l v", "RPUSH l v"]), all, "nothing is cut from what is in hand");
}

#[test]
fn what_rows_and_replies_take_beside_each_row_is_counted() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for line in ["HSET h a 1 b 2 c 3", "RPUSH l x y z", "SADD s a b c", "ZADD z 1 a 2 b 3 c", "SET k 1"] {
        client.say(line);
    }
    client.say("XADD x 1-1 f v");
    for (line, expected) in [
        ("MGET k none k", &[("row_command", 1), ("reply_element", 3), ("head_read", 0)][..]),
        ("GET k", &[("row_command", 1), ("reply_element", 0)]),
        ("PING", &[("row_command", 0), ("reply_element", 0)]),
        ("TIME", &[("row_command", 0), ("reply_element", 2)]),
        ("EVAL return{1,2,{3}} 0", &[("reply_element", 4)]),
        ("EVAL return(redis.call('mget','k','k')) 1 k", &[("row_command", 1), ("reply_element", 4)]),
        ("HLEN h", &[("row_found", 1), ("head_read", 1), ("packed_part", 0)]),
        ("HGETALL h", &[("packed_part", 3), ("part_copied", 0), ("reply_element", 6)]),
        ("HGET h b", &[("packed_part", 2), ("packed_compared", 2), ("part_copied", 1), ("value_copied", 1)]),
        ("HGET h bb", &[("packed_part", 3), ("packed_compared", 0), ("part_copied", 0), ("value_copied", 0)]),
        (
            "SINTER s s",
            &[("part_copied", 6), ("reply_element", 3), ("row_found", 2), ("row_command", 1), ("moment", 1)],
        ),
        ("ZRANGE z 0 0", &[("packed_part", 3), ("part_copied", 3), ("reply_element", 1)]),
        // A tag, a name and a value with their lengths.
        ("HSET h b 9", &[("packed_change", 1), ("packed_byte", 15), ("packed_part", 5), ("head_written", 1)]),
        ("HSET h a 1 b 2", &[("packed_change", 2), ("head_written", 1), ("row_written", 1), ("head_read", 1)]),
        ("SADD s a", &[("packed_change", 0), ("head_written", 0)]),
        ("LSET l 1 v", &[("packed_change", 1), ("packed_byte", 9)]),
        ("ZINCRBY z 5 a", &[("packed_change", 1), ("head_written", 1)]),
        ("XADD x 2-1 f v", &[("packed_change", 1), ("head_written", 1)]),
        // In the form of the log: a kind, the length of a key and the key behind its database, the length of a value
        // and the value.
        ("SET k 2", &[("row_command", 0), ("gathered", 1), ("head_written", 0), ("log_record", 1), ("commit", 1)]),
        ("SET k 2", &[("written_byte", 1 + 1 + 2 + 1 + 1), ("member", 0)]),
        ("SET k 2 EX 1000", &[("written_byte", 1 + 1 + 2 + 6 + 1 + 1)]),
        ("GET k", &[("commit", 0)]),
        ("INCR k", &[("log_record", 1), ("commit", 1)]),
        ("DEL h", &[("row_written", 1), ("head_written", 0)]),
    ] {
        client.say(line);
        let counted = modules(&mut client);
        for (module, count) in expected {
            assert_eq!(counted.get(*module).copied().unwrap_or(0), *count, "{module} of {line}: {counted:?}");
        }
    }
    // Commands that a script calls do not count as its slices.
    client.ask(&["EVAL", "for i=1,100 do redis.call('get',KEYS[1]) end", "1", "k"]);
    let counted = modules(&mut client);
    let slices = counted.get("script_slice").copied().unwrap_or(0);
    assert!(counted["script_call"] == 100 && (5..60).contains(&slices), "{counted:?}");
    // Those that are not about rows, and those that are refused, cost as much.
    let calls = "redis.call('ping') redis.call('publish','c','m') redis.pcall('nosuch') redis.pcall('get')";
    client.ask(&["EVAL", &format!("for i=1,100 do {calls} end"), "0"]);
    let counted = modules(&mut client);
    let of = |module| counted.get(module).copied().unwrap_or(0);
    assert_eq!([of("script_call"), of("published")], [400, 100], "{counted:?}");
    assert!(of("word") >= 600, "{counted:?}");
    client.send(&[encode(&["RENAME", "k", "r"]), encode(&["RENAME", "r", "k"])].concat());
    (0..2).for_each(|_| drop(client.reply()));
    let counted = modules(&mut client);
    let of = |module| counted.get(module).copied().unwrap_or(0);
    assert_eq!([of("log_record"), of("commit")], [1, 0], "the first has paid: {counted:?}");
    // The second of a pipeline takes what the first has written.
    client.send(&[encode(&["RPUSH", "l", "v"]), encode(&["RPOP", "l"])].concat());
    (0..2).for_each(|_| drop(client.reply()));
    let counted = modules(&mut client);
    let of = |module| counted.get(module).copied().unwrap_or(0);
    assert_eq!([of("in_hand"), of("row_found"), of("row_missing")], [1, 0, 0], "{counted:?}");
    assert_eq!([of("row_command"), of("locked"), of("member")], [0, 0, 1], "the first of them has paid: {counted:?}");
}
