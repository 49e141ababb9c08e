//! The events that commands on rows are told as.

use weir_command::events::Classes;

use super::payloads::dump;
use super::*;

/// Runs the command of `words`, where events of `classes` are wanted; gives its outcome and the names of its events.
fn run_for(classes: &[u8], store: &mut Store, words: &[&[u8]]) -> (Outcome, Vec<&'static str>) {
    let request = Request::new(0, NOW_MS, words.iter().copied());
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = request.call(VALUE_BYTES_MAX);
    call.wants = Classes::parse(classes).expect("letters");
    let context = Context::locked(&*store, &mut host, &mut call, Draft::default());
    let finished = done(run(command, context, args));
    let (batch, events) = finished.draft.into_parts();
    store.apply(&batch);
    (finished.outcome, events.into_iter().map(|event| event.name).collect())
}

/// Runs the command of `words`; gives the names of the events that it is told as.
fn told(store: &mut Store, words: &[&[u8]]) -> Vec<&'static str> {
    let (outcome, events) = run_for(b"A", store, words);
    assert_eq!(outcome, Ok(()));
    events
}

/// Runs `line`, one command; gives the same.
fn told_of(store: &mut Store, line: &str) -> Vec<&'static str> {
    told(store, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn a_time_that_stays_the_same_is_told_and_written() {
    let mut store = Store::default();
    store.ask("SET s v");
    for line in ["PEXPIREAT s 2000000", "PEXPIREAT s 2000000", "GETEX s PXAT 2000000", "GETEX s EX 1000"] {
        let newest = store.newest;
        assert_eq!(told_of(&mut store, line), ["expire"], "{line}");
        assert_eq!(store.newest, newest + 1, "{line}");
    }
    assert_eq!(told_of(&mut store, "GETEX s PERSIST"), ["persist"]);
    assert!(told_of(&mut store, "GETEX s PERSIST").is_empty() && told_of(&mut store, "GETEX s").is_empty());
}

#[test]
fn a_restored_stream_is_told_as_a_whole() {
    let mut store = Store::default();
    for line in [
        "XADD s 3-0 field value",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g one STREAMS s >",
        "XGROUP CREATECONSUMER s g two",
    ] {
        assert!(!store.ask(line).starts_with('-'), "{line}");
    }
    let (_, payload) = dump(&mut store, "s");
    let mut store = Store::default();
    assert_eq!(told(&mut store, &[&b"RESTORE"[..], b"s", b"0", &payload]), ["restore"]);
    let consumers = store.ask("XINFO CONSUMERS s g");
    assert!(consumers.starts_with("*2\r\n") && consumers.contains("one\r\n$7\r\npending\r\n:1\r\n"), "{consumers}");
    assert_eq!(told_of(&mut store, "XREADGROUP GROUP g two STREAMS s 0"), Vec::<&str>::new(), "it is there already");
    assert_eq!(told_of(&mut store, "XREADGROUP GROUP g three STREAMS s 0"), ["xgroup-createconsumer"]);
}

#[test]
fn what_becomes_of_fields_that_expire_is_told() {
    let long = format!("HSET h long {}", "x".repeat(3000));
    // The second hash is a spread one.
    for first in ["HSET h long short", long.as_str()] {
        let mut store = Store::default();
        assert_eq!(told_of(&mut store, first), ["hset"]);
        for (line, events) in [
            ("HSET h a 1 b 2 c 3", &["hset"][..]),
            ("HDEL h long", &["hdel"]),
            ("HEXPIRE none 10 FIELDS 1 a", &[]),
            ("HEXPIRE h 10 FIELDS 2 a none", &["hexpire"]),
            ("HEXPIRE h 10 NX FIELDS 1 a", &[]),
            ("HPERSIST h FIELDS 2 a b", &["hpersist"]),
            ("HPERSIST h FIELDS 2 a b", &[]),
            ("HGETEX h FIELDS 1 a", &[]),
            ("HGETEX h PX 500 FIELDS 1 a", &["hexpire"]),
            // The same deadline again.
            ("HGETEX h PX 500 FIELDS 1 a", &["hexpire"]),
            ("HGETEX h FIELDS 1 a", &[]),
            ("HGETEX h PERSIST FIELDS 1 a", &["hpersist"]),
            ("HGETEX h PERSIST FIELDS 1 a", &[]),
            ("HPEXPIRE h 0 FIELDS 1 a", &["hdel"]),
            ("HGETEX h PXAT 1 FIELDS 1 b", &["hdel"]),
            ("HGETDEL h FIELDS 1 none", &[]),
            ("HGETDEL h FIELDS 2 none c", &["hdel", "del"]),
            ("HSETEX h PXAT 1 FIELDS 1 a 1", &[]),
            ("HSETEX h FIELDS 1 a 1", &["hset"]),
            ("HSETEX h FNX FIELDS 1 a 2", &[]),
            ("HSETEX h EX 10 FIELDS 1 a 2", &["hset", "hexpire"]),
            ("HSETEX h KEEPTTL FIELDS 1 a 3", &["hset"]),
            ("HSETEX h PXAT 1 FIELDS 1 a 2", &["hset", "hdel", "del"]),
            ("HSETEX h EX 10 FIELDS 1 a 1", &["hset", "hexpire"]),
            ("HEXPIREAT h 1 FIELDS 1 a", &["hdel", "del"]),
        ] {
            assert_eq!(told_of(&mut store, line), events, "{line}");
        }
        assert_eq!(store.ask("EXISTS h"), ":0\r\n");
    }
}

#[test]
fn the_missing_keys_that_a_sort_tells_of_are_bounded() {
    let mut store = Store::default();
    let values: Vec<String> = (0..2000).map(|value| value.to_string()).collect();
    store.ask(&format!("RPUSH l {}", values.join(" ")));
    // Their keys have more than 64 MiB together.
    let long = "x".repeat(60_000) + "*";
    for line in [format!("SORT l BY {long}"), format!("SORT_RO l BY nosort GET {long}->field")] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let outcome = |classes: &[u8], store: &mut Store| run_for(classes, store, &words).0;
        let error = outcome(b"m", &mut store).expect_err("they are too many");
        assert!(error.text().starts_with(b"ERR SORT has at most 64 MB in hand"), "{error:?}");
        assert_eq!(outcome(b"A", &mut store), Ok(()), "nobody is told of them");
    }
    let (outcome, events) = run_for(b"m", &mut store, &[b"SORT", b"l", b"BY", b"x*", b"LIMIT", b"0", b"0"]);
    assert_eq!((outcome, events.len()), (Ok(()), 2000));
}
