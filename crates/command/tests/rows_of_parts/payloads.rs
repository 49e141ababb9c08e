//! Payloads of `DUMP` and `RESTORE`: those of Redis, those of values of every type, and those with very many elements.

use proptest::prelude::*;
use weir_command::rdb::{
    FIELD_DEADLINE_MS_MAX, Field, Lack, Loaded, Refusal, VERSION, decode, kind, load, push_len, seal, skip_value,
};
use weir_io::Yield;
use weir_model::parts::list::CHUNK_VALUES_MAX;

use crate::{NOW_MS, Store, done, turns};

const ELEMENTS: usize = 30_000;
/// Most elements of a turn.
const TURN_ELEMENTS: usize = 1000;
const BYTES_MAX: usize = 32 << 20;
/// Bytes behind a value: a version and a checksum.
const FOOTER_BYTES: usize = 10;
/// The version of hashes whose fields expire.
const VERSION_OF_DEADLINES: u16 = 12;

/// Puts the value of `payload` at the key `k`.
fn restore(store: &mut Store, payload: &[u8]) {
    let (_, answer) = store.answer([&b"RESTORE"[..], b"k", b"0", payload]);
    assert_eq!(answer, b"+OK\r\n", "{}", answer.escape_ascii());
}

/// In how many turns `DUMP` writes the payload of `key`, and the payload.
pub(crate) fn dump(store: &mut Store, key: &str) -> (usize, Vec<u8>) {
    let (turns, answer) = store.answer([&b"DUMP"[..], key.as_bytes()]);
    let start = answer.iter().position(|&byte| byte == b'\n').expect("a length") + 1;
    (turns, answer[start..answer.len() - 2].to_vec())
}

/// Runs the command of the words in `front` and of `words`, which has to succeed.
fn run(store: &mut Store, front: &str, words: impl IntoIterator<Item = Vec<u8>>) {
    let words: Vec<Vec<u8>> = front.split(' ').map(Vec::from).chain(words).collect();
    let (_, answer) = store.answer(words.iter().map(Vec::as_slice));
    assert!(!answer.starts_with(b"-"), "{front}: {}", answer.escape_ascii());
}

/// `value` with its members or fields in the order of their names.
fn ordered(mut value: Loaded) -> Loaded {
    match &mut value {
        Loaded::Set(members) => members.sort(),
        Loaded::Hash(fields) => fields.sort_by(|a, b| a.name.cmp(&b.name)),
        Loaded::SortedSet(scores) => scores.sort_by(|a, b| a.0.cmp(&b.0)),
        Loaded::String(_) | Loaded::List(_) | Loaded::Stream(_) => {}
    }
    value
}

/// From Redis 7.0.15.
#[test]
fn payloads_of_redis_are_read_and_numbers_are_written_like_it() {
    for (value, payload) in PAYLOADS {
        let mut store = Store::default();
        restore(&mut store, payload);
        assert_eq!(store.ask("GET k"), format!("${}\r\n{value}\r\n", value.len()));
        let limited = done(decode(payload, value.len() / 2, Yield::PLAIN));
        assert!(value.len() < 12 || limited == Err(Refusal::TooLong), "{limited:?}");
        if value.len() <= 20 {
            assert_eq!(dump(&mut store, "k").1, *payload);
        }
    }
}

proptest! {
    #[test]
    fn strings_come_back_from_their_payloads(value: Vec<u8>, len in 0_usize..40_000) {
        let value = value.repeat(len / (value.len() + 1));
        let mut store = Store::default();
        run(&mut store, "SET k", [value.clone()]);
        let (_, mut payload) = dump(&mut store, "k");
        prop_assert_eq!(done(decode(&payload, 1 << 20, Yield::PLAIN)), Ok(Loaded::String(value)));
        payload[len % 11] ^= 1;
        prop_assert!(done(decode(&payload, 1 << 20, Yield::PLAIN)).is_err());
    }

    #[test]
    fn rows_of_every_type_come_back_from_their_payloads(
        words in proptest::collection::btree_map(any::<Vec<u8>>(), any::<Vec<u8>>(), 1..20),
        numbers in proptest::collection::vec(any::<f64>().prop_filter("a score", |n| !n.is_nan()), 20),
        deadlines in proptest::collection::vec(proptest::option::of(NOW_MS + 1..=FIELD_DEADLINE_MS_MAX), 20)
    ) {
        let (names, values): (Vec<_>, Vec<_>) = words.clone().into_iter().unzip();
        let mut store = Store::default();
        run(&mut store, "RPUSH list", values.clone());
        run(&mut store, "SADD set", names.clone());
        for key in ["hash", "mortal"] {
            run(&mut store, &format!("HSET {key}"), words.clone().into_iter().flat_map(|(name, value)| [name, value]));
        }
        for (name, at_ms) in names.iter().zip(&deadlines).filter_map(|(name, at_ms)| Some((name, (*at_ms)?))) {
            run(&mut store, &format!("HPEXPIREAT mortal {at_ms} FIELDS 1"), [name.clone()]);
        }
        let scores: Vec<_> = names.iter().cloned().zip(numbers).collect();
        let texts = scores.iter().flat_map(|(name, number)| [format!("{number:?}").into_bytes(), name.clone()]);
        run(&mut store, "ZADD scores", texts);
        let field = |((name, value), expire_at_ms)| Field { name, value, expire_at_ms };
        let fields: Vec<Field> = words.clone().into_iter().zip(deadlines).map(field).collect();
        let has_deadlines = fields.iter().any(|field| field.expire_at_ms.is_some());
        for (key, version, value) in [
            ("list", VERSION, Loaded::List(values)),
            ("set", VERSION, Loaded::Set(names)),
            ("hash", VERSION, Loaded::Hash(words.into_iter().zip(std::iter::repeat(None)).map(field).collect())),
            ("mortal", if has_deadlines { VERSION_OF_DEADLINES } else { VERSION }, Loaded::Hash(fields)),
            ("scores", VERSION, Loaded::SortedSet(scores)),
        ] {
            let (_, payload) = dump(&mut store, key);
            prop_assert_eq!(&payload[payload.len() - FOOTER_BYTES..][..2], &version.to_le_bytes());
            prop_assert_eq!(done(decode(&payload, 1 << 20, Yield::PLAIN)).map(ordered), Ok(value));
            let limited = done(decode(&payload, 0, Yield::PLAIN));
            prop_assert!(limited.is_ok() || limited == Err(Refusal::TooLong));
        }
    }
}

#[test]
fn values_end_where_they_end_and_pieces_of_them_want_more() {
    let mut store = Store::default();
    let word = |bytes| [vec![b'x'; bytes]];
    run(&mut store, "SET string", word(70_000));
    run(&mut store, "RPUSH list x", word(70));
    run(&mut store, "HSET hash x", word(20_000));
    run(&mut store, "HSET mortal x", word(20_000));
    for line in [
        "SADD set 12 70000",
        "HPEXPIREAT mortal 2000000 FIELDS 1 x",
        "ZADD scores 1.5 xxxxxxxxx",
        "XADD stream 8-0 field value",
        "XGROUP CREATE stream group 0",
        "XCLAIM stream group consumer 0 8-0 RETRYCOUNT 300 FORCE",
        "XSETID stream 9-1099511627776 ENTRIESADDED 70000",
    ] {
        run(&mut store, line, []);
    }
    for key in ["string", "list", "set", "hash", "mortal", "scores", "stream"] {
        let (_, payload) = dump(&mut store, key);
        let (&kind, value) = payload[..payload.len() - FOOTER_BYTES].split_first().expect("a type");
        let followed = [value, b"and more"].concat();
        let mut rest = &followed[..];
        assert_eq!(skip_value(kind, &mut rest), Ok(()), "{key}");
        assert_eq!(rest, b"and more", "{key}");
        for len in (0..value.len()).step_by(value.len().div_ceil(50)) {
            assert_eq!(skip_value(kind, &mut &value[..len]), Err(Lack::More), "{key}, {len}");
        }
    }
}

/// Different words of six bytes, which are no numbers.
fn names(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| format!("n{number:05}").into_bytes())
}

/// A listpack of `elements`, each of which has fewer than 64 bytes.
fn listpack(elements: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut content = Vec::new();
    for element in elements {
        content.push(0x80 | element.len() as u8);
        content.extend_from_slice(&element);
        content.push(element.len() as u8 + 1);
    }
    let all = (content.len() + 7) as u32;
    [&all.to_le_bytes()[..], &u16::MAX.to_le_bytes(), &content, &[0xff]].concat()
}

fn push_string(out: &mut Vec<u8>, string: &[u8]) {
    push_len(out, string.len());
    out.extend_from_slice(string);
}

/// A value of the type `kind` that is one pack, or several strings.
fn body(kind: u8, front: &[u8], strings: &[Vec<u8>]) -> Vec<u8> {
    let mut body = [&[kind][..], front].concat();
    strings.iter().for_each(|string| push_string(&mut body, string));
    body
}

/// A stream of one node, whose entries all have one field.
fn stream(entries: usize) -> Vec<u8> {
    let text = |number: usize| number.to_string().into_bytes();
    let front = [text(entries), text(0), text(1), b"field".to_vec(), text(0)];
    let entry = |number| [text(2), text(number), text(0), b"value".to_vec(), text(4)];
    let pack = listpack(front.into_iter().chain((0..entries).flat_map(entry)));
    let first = [1_u64.to_be_bytes(), 0_u64.to_be_bytes()].concat();
    let mut body = body(kind::STREAM_LISTPACKS, &[1], &[first, pack]);
    // How many entries there are, the last id, and no groups.
    [entries, entries, 0, 0].into_iter().for_each(|number| push_len(&mut body, number));
    body
}

/// A stream without entries, with a group in which each of the `consumers` has got so many entries.
fn with_group(consumers: &[(Vec<u8>, usize)]) -> Vec<u8> {
    let all: usize = consumers.iter().map(|(_, entries)| entries).sum();
    let id = |number: usize| [number as u64, 0].map(u64::to_be_bytes).concat();
    let mut body = vec![kind::STREAM_LISTPACKS_2];
    // Nodes, entries, the last id, the first, the largest that was deleted, how many were added, groups.
    [0, 0, all, 0, 0, 0, 0, 0, 0, 1].into_iter().for_each(|number| push_len(&mut body, number));
    push_string(&mut body, b"group");
    // The last id that was delivered, how many entries were read, how many are pending.
    [0, 0, 0, all].into_iter().for_each(|number| push_len(&mut body, number));
    for number in 1..=all {
        body.extend(id(number));
        body.extend(5_u64.to_le_bytes());
        push_len(&mut body, 1);
    }
    push_len(&mut body, consumers.len());
    let mut number = 0;
    for (name, entries) in consumers {
        push_string(&mut body, name);
        body.extend(1_000_u64.to_le_bytes());
        push_len(&mut body, *entries);
        for _ in 0..*entries {
            number += 1;
            body.extend(id(number));
        }
    }
    body
}

#[test]
fn a_name_counts_for_each_entry_that_its_consumer_has_got() {
    let read = |bytes, entries| done(load(&with_group(&[(vec![b'c'; bytes], entries)]), BYTES_MAX, Yield::PLAIN));
    assert_eq!(read(1 << 20, 100).err(), Some(Refusal::TooLong));
    assert!(read(1 << 20, 10).is_ok());
    assert!(read(8, 10_000).is_ok());
}

/// Each turn has at most 1000 entries or consumers to write or to read.
#[test]
fn groups_are_read_and_written_in_turns() {
    const EACH: usize = 12_000;
    let consumers: Vec<_> = (0..EACH).map(|number| (format!("c{number}").into_bytes(), 1)).collect();
    for consumers in [consumers, vec![(b"c".to_vec(), EACH)]] {
        let body = with_group(&consumers);
        let (read_in, loaded) = turns(load(&body, BYTES_MAX, Yield::PLAIN));
        let mut store = Store::default();
        restore(&mut store, &done(seal(body, VERSION, Yield::PLAIN)));
        let (written_in, payload) = dump(&mut store, "k");
        assert_eq!(done(decode(&payload, BYTES_MAX, Yield::PLAIN)), loaded);
        assert!(loaded.is_ok());
        // Every entry is written twice: on its own, and in the list of its consumer.
        let least = 2 * EACH / TURN_ELEMENTS;
        assert!(written_in >= least && read_in >= least, "{written_in} {read_in}");
    }
}

#[test]
fn payloads_are_read_and_written_in_turns() {
    let plain: Vec<Vec<u8>> = names(ELEMENTS).collect();
    let mut count = Vec::new();
    push_len(&mut count, ELEMENTS);
    let scores = names(ELEMENTS / 2).flat_map(|name| [name, b"1.5".to_vec()]);
    // How often each element is looked at, at least: when it is read, and when it is compared with others.
    for (name, looks, body) in [
        ("list", 1, body(kind::QUICKLIST_2, &[1, 2], &[listpack(names(ELEMENTS))])),
        ("set", 2, body(kind::SET_LISTPACK, &[], &[listpack(names(ELEMENTS))])),
        ("plain set", 2, body(kind::SET, &count, &plain)),
        ("hash", 2, body(kind::HASH_LISTPACK, &[], &[listpack(names(ELEMENTS))])),
        ("sorted set", 2, body(kind::SORTED_SET_LISTPACK, &[], &[listpack(scores)])),
        ("stream", 1, stream(ELEMENTS / 5)),
    ] {
        let (read_in, loaded) = turns(load(&body, BYTES_MAX, Yield::PLAIN));
        let loaded = loaded.expect("it is a value");
        assert!(read_in >= looks * ELEMENTS / TURN_ELEMENTS, "{name}: read in {read_in} turns");
        let texts = match &loaded {
            Loaded::String(_) => unreachable!("there are no strings here"),
            Loaded::List(texts) | Loaded::Set(texts) => texts.len(),
            Loaded::Hash(fields) => fields.len(),
            Loaded::SortedSet(scores) => scores.len(),
            Loaded::Stream(stream) => stream.entries.len(),
        };
        let mut store = Store::default();
        restore(&mut store, &done(seal(body, VERSION, Yield::PLAIN)));
        let (written_in, payload) = dump(&mut store, "k");
        // Short values of a list are stored in chunks, and a chunk is written in one turn.
        assert!(written_in >= texts / (TURN_ELEMENTS + CHUNK_VALUES_MAX), "{name}: written in {written_in} turns");
        let again = done(decode(&payload, BYTES_MAX, Yield::PLAIN));
        assert_eq!(again.map(ordered), Ok(ordered(loaded)), "{name}");
    }
}

/// An element takes much more memory than its byte or two in a payload.
#[test]
fn a_payload_with_too_many_elements_is_refused() {
    const ELEMENTS_MAX: usize = 4 << 20;
    // Each element is the number 1, and the length of that.
    let numbers = |count: usize| {
        let all = (2 * count + 7) as u32;
        [&all.to_le_bytes()[..], &u16::MAX.to_le_bytes(), &[1_u8, 1].repeat(count), &[0xff]].concat()
    };
    let nodes = |counts: &[usize]| {
        let mut body = vec![kind::QUICKLIST_2, counts.len() as u8];
        for &count in counts {
            body.push(2);
            push_string(&mut body, &numbers(count));
        }
        body
    };
    let empty_strings = |count: usize| {
        let mut body = vec![kind::LIST];
        push_len(&mut body, count);
        body.resize(body.len() + count, 0);
        body
    };
    let is_read = |body: &[u8]| turns(load(body, BYTES_MAX, Yield::PLAIN)).1.is_ok();
    let half = ELEMENTS_MAX / 2;
    assert!(is_read(&empty_strings(ELEMENTS_MAX)), "as many as there may be");
    assert!(!is_read(&empty_strings(ELEMENTS_MAX + 1)), "strings");
    assert!(is_read(&nodes(&[half, half - 10])), "two packs");
    assert!(!is_read(&nodes(&[half, half + 1])), "too many in two packs");
    assert!(!is_read(&nodes(&[ELEMENTS_MAX + 1])), "too many in one pack");
}

/// Strings and their payloads.
const PAYLOADS: &[(&str, &[u8])] = &[
    ("", b"\x00\x00\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda"),
    ("1", b"\x00\xc0\x01\x0a\x00\x26\x78\xe7\xb6\xd1\x01\x11\xfc"),
    ("-128", b"\x00\xc0\x80\x0a\x00\x99\x66\x32\x6d\x2f\x0c\x5b\xd9"),
    ("300", b"\x00\xc1\x2c\x01\x0a\x00\x95\x42\x61\xf2\x65\x82\x5c\x10"),
    ("-70000", b"\x00\xc2\x90\xee\xfe\xff\x0a\x00\x28\x75\xde\x7b\x13\xeb\x28\x00"),
    ("2147483648", b"\x00\x0a\x32\x31\x34\x37\x34\x38\x33\x36\x34\x38\x0a\x00\xe7\xb1\x29\xa3\x4c\x1d\x76\xee"),
    ("007", b"\x00\x03\x30\x30\x37\x0a\x00\x72\x58\xe2\x7b\x4c\x69\xba\xd9"),
    ("text", b"\x00\x04\x74\x65\x78\x74\x0a\x00\x7c\xf3\x26\x6d\xca\xb5\xa5\x31"),
    (
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"\x00\xc3\x09\x40\x50\x01\x61\x61\xe0\x43\x00\x01\x61\x61\x0a\x00\x28\xee\xac\x72\x91\xdb\xc2\x2b",
    ),
    (
        "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc",
        b"\x00\xc3\x0b\x40\x48\x03\x61\x62\x63\x61\xe0\x39\x02\x01\x62\x63\x0a\x00\xb2\x73\x6f\xeb\x5d\x5a\x4d\xac",
    ),
];
