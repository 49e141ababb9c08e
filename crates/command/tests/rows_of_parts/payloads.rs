//! Payloads of `DUMP` and `RESTORE` with very many elements.

use weir_command::rdb::{Loaded, encode, kind, load, push_len};
use weir_io::Yield;

use crate::turns;

const ELEMENTS: usize = 30_000;
/// Most elements of a turn.
const TURN_ELEMENTS: usize = 1000;
const BYTES_MAX: usize = 32 << 20;

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
        let (written_in, payload) = turns(encode(&loaded, Yield::PLAIN));
        assert!(written_in >= texts / TURN_ELEMENTS, "{name}: written in {written_in} turns");
        let (_, again) = turns(load(&payload[..payload.len() - 10], BYTES_MAX, Yield::PLAIN));
        assert_eq!(again.as_ref(), Ok(&loaded), "{name}");
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
