//! Streams: damaged ones, what their heads know, and many that are read together.

use std::collections::BTreeMap;

use weir_command::rdb::file::Writer;
use weir_command::rdb::{Loaded, load};
use weir_command::snapshot::push_row;
use weir_model::parts::stream::{EntryId, PendingValue, StreamDetail, consumer_subkey, pending_subkey};
use weir_model::parts::{GroupShape, StreamShape};

use super::*;

const DAMAGED: &str = "-ERR stored data is damaged: a stream has a part that cannot be read, or lacks one\r\n";

/// A stream `x` of `entries` entries, the first of which is pending for the consumer `worker-1` of the group `g`.
fn with_stream(entries: usize) -> Store {
    let mut store = Store::default();
    for id in 1..=entries {
        store.ask(&format!("XADD x {id}-1 field value"));
    }
    assert_eq!(store.ask("XGROUP CREATE x g 0"), "+OK\r\n");
    assert!(store.ask("XREADGROUP GROUP g worker-1 COUNT 1 STREAMS x >").starts_with("*1\r\n"));
    store
}

/// A host that keeps what it is answered.
fn host() -> Headless {
    Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1))
}

/// The stream that is written as `body`, without its times.
fn stream_in(body: &[u8]) -> StreamShape {
    let Ok(Loaded::Stream(mut stream)) = done(load(body, usize::MAX, Yield::PLAIN)) else { panic!("no stream") };
    for group in stream.groups.values_mut() {
        group.consumers.values_mut().for_each(|seen_ms| *seen_ms = 0);
        group.pending.values_mut().for_each(|pending| pending.delivered_ms = 0);
    }
    *stream
}

/// The stream `x` as `DUMP` writes it.
fn dumped(store: &Store) -> Outcome<StreamShape> {
    let request = Request::new(0, NOW_MS, [&b"DUMP"[..], b"x"]);
    let (mut host, mut call) = (host(), request.call(VALUE_BYTES_MAX));
    let context = Context::reading(store, &mut host, &mut call);
    let outcome = done(run(table::find(b"DUMP").expect("a command"), context, request.args())).outcome;
    let answer = host.take_answer(&outcome);
    outcome?;
    let start = answer.iter().position(|&byte| byte == b'\n').expect("a length") + 1;
    // Behind the value are a version, a checksum, and the end of the line.
    Ok(stream_in(&answer[start..answer.len() - 12]))
}

/// The stream `x` as it is written while all that a tenant has is streamed.
fn streamed(store: &Store) -> Outcome<StreamShape> {
    let (mut host, mut call) = (host(), Call::new(0, NOW_MS, VALUE_BYTES_MAX));
    let mut file = Writer::default();
    let outcome = done(push_row(&mut Context::reading(store, &mut host, &mut call), b"x", &mut file));
    let written = [host.take_answer(&outcome), file.take()].concat();
    outcome?;
    // The key, with its length in front, stands behind the type.
    Ok(stream_in(&[&written[..1], &written[3..]].concat()))
}

#[test]
fn a_stream_of_many_pages_is_dumped_as_it_is() {
    const CONSUMERS: u64 = 600;
    const ENTRIES: u64 = 2 * CONSUMERS;
    let (id, name) = (|id: u64| EntryId::new(id, 1), |number: u64| format!("name-{number:03}"));
    let mut store = with_stream(ENTRIES as usize);
    store.ask("XGROUP CREATE x h 0");
    let mut groups: BTreeMap<Vec<u8>, GroupShape> = BTreeMap::new();
    for number in 0..CONSUMERS {
        store.ask(&format!("XGROUP CREATE x {} 0", name(number)));
        store.ask(&format!("XREADGROUP GROUP h {} COUNT 2 STREAMS x >", name(number)));
        groups.insert(name(number).into_bytes(), GroupShape::default());
    }
    let pending = |id, consumer: &str| (id, PendingValue { delivered_ms: 0, deliveries: 1, consumer: consumer.into() });
    let worker = GroupShape {
        delivered: id(1),
        read: Some(1),
        consumers: BTreeMap::from([(b"worker-1".to_vec(), 0)]),
        pending: BTreeMap::from([pending(id(1), "worker-1")]),
    };
    let many = GroupShape {
        delivered: id(ENTRIES),
        read: Some(ENTRIES),
        consumers: (0..CONSUMERS).map(|number| (name(number).into_bytes(), 0)).collect(),
        pending: (0..ENTRIES).map(|entry| pending(id(entry + 1), &name(entry / 2))).collect(),
    };
    groups.extend([(b"g".to_vec(), worker), (b"h".to_vec(), many)]);
    let words = || vec![b"field".to_vec(), b"value".to_vec()];
    let entries = (1..=ENTRIES).map(|entry| (id(entry), words())).collect();
    let expected = StreamShape { entries, last: id(ENTRIES), max_deleted: EntryId::MIN, added: ENTRIES, groups };
    assert!(dumped(&store) == Ok(expected.clone()));
    assert!(streamed(&store) == Ok(expected));
}

/// `DUMP` gathers what it writes, and the dump of a tenant does not.
#[test]
fn a_stream_of_more_than_64_mb_is_streamed() {
    const ENTRIES: usize = 65;
    let (mut store, long) = (Store::default(), "v".repeat(1 << 20));
    for id in 1..=ENTRIES {
        store.ask(&format!("XADD x {id}-1 f {long}"));
    }
    assert_eq!(dumped(&store).err().map(|error| error.text().starts_with(b"ERR the key is too large")), Some(true));
    let stream = streamed(&store).expect("it is written");
    assert!(stream.entries.len() == ENTRIES && stream.entries.values().all(|words| words[1] == long.as_bytes()));
}

#[test]
fn a_stream_that_has_more_or_fewer_groups_than_it_says_is_an_error() {
    for (entries, groups) in [(1, 0), (1, 2), (300, 0), (300, u64::MAX)] {
        let mut store = with_stream(entries);
        for line in ["XINFO GROUPS x", "XINFO STREAM x FULL"] {
            assert!(store.ask(line).starts_with('*'), "{line}");
        }
        let row = store.map.get_mut(&StoredKey::new(0, b"x")[..]).expect("it is there");
        let mut head = row.head().expect("it is a row of parts").clone();
        let detail = StreamDetail::decode(&head.detail).expect("it is a stream");
        head.detail = StreamDetail { groups, ..detail }.encode();
        *row = Row::of_parts(head, None);
        for line in ["XINFO GROUPS x", "XINFO STREAM x FULL"] {
            assert_eq!(store.ask(line), DAMAGED, "{line}, {entries} entries, {groups} groups");
        }
        assert!(dumped(&store).is_err() && streamed(&store).is_err(), "{entries} entries, {groups} groups");
    }
}

#[test]
fn a_stream_that_has_lost_a_consumer_or_a_pending_entry_is_an_error() {
    let asked = ["XINFO CONSUMERS x g", "XINFO STREAM x FULL"];
    for line in asked {
        assert!(with_stream(300).ask(line).starts_with('*'), "{line}");
    }
    let worker = consumer_subkey(b"g", b"worker-1");
    let pending = pending_subkey(b"g", EntryId::new(1, 1));
    for (lost, damaged) in [(worker, &asked[..]), (pending, &asked[1..])] {
        let mut store = with_stream(300);
        let key = store.map.keys().find(|key| key.ends_with(&lost)).expect("it is there").clone();
        store.map.remove(&key);
        for line in damaged {
            assert_eq!(store.ask(line), DAMAGED, "{line} without {}", key.escape_ascii());
        }
        assert!(dumped(&store).is_err() && streamed(&store).is_err(), "without {}", key.escape_ascii());
    }
}

#[test]
fn counters_do_not_go_beyond_the_largest_numbers() {
    let mut store = with_stream(2);
    assert_eq!(store.ask("XGROUP CREATE x h 0 ENTRIESREAD 9223372036854775807"), "+OK\r\n");
    assert!(store.ask("XREADGROUP GROUP h c COUNT 1 STREAMS x >").starts_with("*1\r\n"));
    // The number of read entries and what it leaves to be read, both as 64 bits with a sign.
    let groups = store.ask("XINFO GROUPS x");
    assert!(groups.contains("entries-read\r\n:-9223372036854775808\r\n"), "{groups}");
    assert!(groups.contains("lag\r\n:-9223372036854775806\r\n"), "{groups}");

    // As a payload may have it.
    let mut store = with_stream(300);
    let pending = pending_subkey(b"g", EntryId::new(1, 1));
    let key = store.map.keys().find(|key| key.ends_with(&pending)).expect("it is there").clone();
    let often = PendingValue { delivered_ms: 1, deliveries: u64::MAX, consumer: b"worker-1".to_vec() };
    store.map.insert(key, Row::string(Value::from(often.encode()), None));
    assert!(store.ask("XREADGROUP GROUP g worker-1 STREAMS x 0").contains("field"));
    assert!(store.ask("XCLAIM x g worker-2 0 1-1").contains("field"));
    assert!(store.ask("XAUTOCLAIM x g worker-1 0 0").contains("field"));
}

#[test]
fn the_smallest_id_does_not_replace_the_largest_deleted_one() {
    let mut store = with_stream(4);
    assert_eq!(store.ask("XDEL x 3-1"), ":1\r\n");
    let before = store.ask("XINFO STREAM x");
    assert!(before.contains("max-deleted-entry-id\r\n$3\r\n3-1\r\n"), "{before}");
    assert_eq!(store.ask("XSETID x 4-1 MAXDELETEDID 0-0"), "+OK\r\n");
    assert_eq!(store.ask("XINFO STREAM x"), before);
    assert_eq!(store.ask("XSETID x 9-1 MAXDELETEDID 8-1"), "+OK\r\n");
    let after = store.ask("XINFO STREAM x");
    assert!(after.contains("max-deleted-entry-id\r\n$3\r\n8-1\r\n"), "{after}");
}

/// A trim that removes most entries puts the rest of the stream into a new life, unless the rest, with what is pending,
/// is too much for that.
#[test]
fn a_stream_of_which_very_much_is_pending_is_trimmed() {
    const ENTRIES: u64 = 50_010;
    let mut store = Store::default();
    (1..=ENTRIES).for_each(|id| drop(store.ask(&format!("XADD x {id}-1 f v"))));
    store.ask("XGROUP CREATE x g 0");
    while store.ask("XREADGROUP GROUP g c STREAMS x >").starts_with("*1") {}
    assert_eq!(store.ask("XTRIM x MAXLEN 10"), ":50000\r\n");
    assert_eq!(store.ask("XLEN x"), ":10\r\n");
    assert!(store.ask("XPENDING x g").starts_with("*4\r\n:50010\r\n$3\r\n1-1\r\n"));
}

/// The same if the rest has too many bytes.
#[test]
fn a_stream_of_which_a_few_long_entries_stay_is_trimmed() {
    let (mut store, long) = (Store::default(), "v".repeat(1 << 20));
    (1..=150).for_each(|id| drop(store.ask(&format!("XADD x {id}-1 f v"))));
    (151..=215).for_each(|id| drop(store.ask(&format!("XADD x {id}-1 f {long}"))));
    let before = store.map.len();
    assert_eq!(store.ask("XTRIM x MAXLEN 65"), ":150\r\n");
    assert_eq!(store.map.len(), before - 150, "nothing is left of the new life that was begun");
    assert_eq!(store.ask("XLEN x"), ":65\r\n");
    assert!(store.ask("XRANGE x - + COUNT 1").starts_with("*1\r\n*2\r\n$5\r\n151-1\r\n"));
}

#[test]
fn many_streams_with_long_entries_are_read_together_a_few_at_a_time() {
    const STREAMS: usize = 40;
    let (mut store, long) = (Store::default(), "v".repeat(1 << 20));
    for stream in 0..STREAMS {
        store.ask(&format!("XADD s{stream} 1-1 f {long}"));
        store.ask(&format!("XADD s{stream} 2-1 f {long}"));
        assert_eq!(store.ask(&format!("XGROUP CREATE s{stream} g 0")), "+OK\r\n");
    }
    let keys: String = (0..STREAMS).map(|stream| format!(" s{stream}")).collect();
    let line = format!("XREADGROUP GROUP g c COUNT 1 STREAMS{keys}{}", " >".repeat(STREAMS));
    let mut delivered = 0;
    loop {
        let answer = store.ask(&line);
        if answer == "*-1\r\n" {
            break;
        }
        let entries = answer.matches("-1\r\n*2\r\n").count();
        assert!((1..STREAMS).contains(&entries) && answer.starts_with('*'), "{entries} entries");
        delivered += entries;
    }
    assert_eq!(delivered, 2 * STREAMS);
    // Short entries are given of all streams at once.
    (0..STREAMS).for_each(|stream| drop(store.ask(&format!("XADD s{stream} 3-1 f v"))));
    assert!(store.ask(&line).starts_with("*40\r\n"));
}

/// Stands in an answer between the id of an entry with one field and its words.
const ENTRY: &str = "-1\r\n*2\r\n";

#[test]
fn what_is_pending_in_many_streams_is_told_a_few_streams_at_a_time() {
    const STREAMS: usize = 40;
    let (mut store, long) = (Store::default(), "v".repeat(1 << 20));
    for stream in 0..STREAMS {
        store.ask(&format!("XADD s{stream} 1-1 f {long}"));
        assert_eq!(store.ask(&format!("XGROUP CREATE s{stream} g 0")), "+OK\r\n");
        assert!(store.ask(&format!("XREADGROUP GROUP g c STREAMS s{stream} >")).contains(ENTRY));
    }
    let keys: String = (0..STREAMS).map(|stream| format!(" s{stream}")).collect();
    let line = format!("XREADGROUP GROUP g c STREAMS{keys}{}", " 0".repeat(STREAMS));
    let mut told = 0;
    while told < STREAMS {
        let answer = store.ask(&line);
        // Streams whose entries were acknowledged are there, and have no more entries.
        let (entries, ended) = (answer.matches(ENTRY).count(), answer.matches("\r\n*0\r\n").count());
        assert!(answer.len() < 32 << 20, "{} bytes", answer.len());
        assert!((1..STREAMS).contains(&entries), "{entries} entries");
        assert_eq!(ended, told, "a stream that has something pending looks as if it had nothing");
        for stream in told..told + entries {
            assert_eq!(store.ask(&format!("XACK s{stream} g 1-1")), ":1\r\n");
        }
        told += entries;
    }
    assert_eq!(store.ask(&line).matches("\r\n*0\r\n").count(), STREAMS);
}

#[test]
fn entries_with_very_many_short_words_are_delivered_a_few_at_a_time() {
    const ENTRIES: usize = 60;
    let (mut store, words) = (Store::default(), " w".repeat(100_000));
    for id in 1..=ENTRIES {
        store.ask(&format!("XADD x {id}-1{words}"));
    }
    store.ask("XGROUP CREATE x g 0");
    let (mut delivered, mut last) = (0, String::from("0"));
    while delivered < ENTRIES {
        let new = store.ask("XREADGROUP GROUP g c STREAMS x >");
        let pending = store.ask(&format!("XREADGROUP GROUP g c STREAMS x {last}"));
        assert!(new.len() < 32 << 20 && new == pending, "{} and {} bytes", new.len(), pending.len());
        let entries = new.matches("-1\r\n*100000\r\n").count();
        assert!(entries > 0, "nothing was delivered");
        delivered += entries;
        last = format!("{delivered}-1");
    }
}

#[test]
fn what_is_claimed_on_the_way_ends_where_the_answer_is_full() {
    const ENTRIES: usize = 40;
    let (mut store, long) = (Store::default(), "v".repeat(1 << 20));
    for id in 1..=ENTRIES {
        store.ask(&format!("XADD x {id}-1 f {long}"));
    }
    store.ask("XGROUP CREATE x g 0");
    for _ in 0..ENTRIES {
        assert!(store.ask("XREADGROUP GROUP g c COUNT 1 STREAMS x >").contains(ENTRY));
    }
    let (mut claimed, mut next) = (0, String::from("0-0"));
    loop {
        let answer = store.ask(&format!("XAUTOCLAIM x g d 0 {next}"));
        let entries = answer.matches(ENTRY).count();
        assert!((1..ENTRIES).contains(&entries), "{entries} entries: {}", &answer[..answer.len().min(100)]);
        claimed += entries;
        // The cursor is the first element: its length, and then itself.
        next = answer.split("\r\n").nth(2).expect("a cursor").into();
        if next == "0-0" {
            break;
        }
        assert_eq!(next, format!("{}-1", claimed + 1));
    }
    assert_eq!(claimed, ENTRIES);
    assert!(store.ask("XPENDING x g").ends_with("*1\r\n*2\r\n$1\r\nd\r\n$2\r\n40\r\n"));
    // The answer of ids alone has room for all of them.
    assert!(store.ask("XAUTOCLAIM x g c 0 0 JUSTID").starts_with("*3\r\n$3\r\n0-0\r\n*40\r\n"));
}

#[test]
fn an_entry_with_one_very_long_value_is_delivered_and_claimed() {
    let (mut store, long) = (Store::default(), "v".repeat(33 << 20));
    store.ask(&format!("XADD x 1-1 f {long} g short"));
    store.ask("XGROUP CREATE x g 0");
    let len = format!("${}", long.len());
    let entry = ["*2", "$3", "1-1", "*4", "$1", "f", &len, &long, "$1", "g", "$5", "short", ""].join("\r\n");
    for (line, front) in [
        ("XREADGROUP GROUP g c STREAMS x >", "*1\r\n*2\r\n$1\r\nx\r\n*1\r\n"),
        ("XREADGROUP GROUP g c STREAMS x 0", "*1\r\n*2\r\n$1\r\nx\r\n*1\r\n"),
        ("XCLAIM x g d 0 1-1", "*1\r\n"),
    ] {
        let answer = store.ask(line);
        assert!(answer.starts_with(front), "{line}: {}", &answer[..answer.len().min(100)]);
        assert!(answer[front.len()..] == entry, "{line}");
    }
}

#[test]
fn no_more_entries_are_claimed_at_once_than_the_page_says() {
    let mut store = Store::default();
    store.ask("XADD x 1-1 f v");
    store.ask("XGROUP CREATE x g 0");
    store.ask("XREADGROUP GROUP g c STREAMS x >");
    let claim = |ids: usize| format!("XCLAIM x g d 0 1-1{} JUSTID", " 2-1".repeat(ids - 1));
    assert!(store.ask(&claim(10_001)).starts_with("-ERR XCLAIM takes at most 10000 entries"));
    assert!(store.ask("XPENDING x g").contains("\r\nc\r\n"), "nothing was claimed");
    assert_eq!(store.ask(&claim(10_000)), "*1\r\n$3\r\n1-1\r\n");
}
