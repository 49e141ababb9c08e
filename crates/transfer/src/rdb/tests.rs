//! Tests with dumps that are written by hand, in the forms of old and new versions.

use std::io::Read;

use weir_command::rdb::file::{Writer, push_key, push_select};
use weir_command::rdb::{Field, crc64, kind, push_len, push_string};

use super::*;
use crate::failure::Result;

/// A source that gives a few bytes at a time, as a network does.
struct Drops<'b>(&'b [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let some = self.0.len().min(self.1).min(out.len());
        out[..some].copy_from_slice(&self.0[..some]);
        self.0 = &self.0[some..];
        Ok(some)
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut cx) {
            return done;
        }
    }
}

/// The content of a dump, in words.
async fn all(bytes: &[u8], drop: usize) -> Result<Vec<String>> {
    let mut dump = Dump::open(Input::new(FileBytes(Drops(bytes, drop)), Vec::new()), 5 << 20, 1 << 20).await?;
    let mut all = Vec::new();
    loop {
        match dump.next().await? {
            Item::End => return Ok(all),
            Item::Key(Key { database, name, expire_at_ms, value }) => {
                let mut value = match value {
                    Value::Whole(body) => format!("{} bytes of type {}", body.len() - 1, body[0]),
                    Value::Text(text) if text.len() > 100 => format!("{} bytes", text.len()),
                    other => format!("{other:?}"),
                };
                while let Some(part) = dump.part().await? {
                    let len = match &part {
                        Part::Values(some) | Part::Members(some) => some.len(),
                        Part::Fields(some) => some.len(),
                        Part::Scores(some) => some.len(),
                        Part::Entries(some) => some.len(),
                        _ => 0,
                    };
                    value += &format!(" {len}");
                }
                all.push(format!("{database} {} {expire_at_ms:?} {value}", name.escape_ascii()));
            }
            Item::Functions(source) => all.push(format!("functions {}", source.escape_ascii())),
            Item::ModuleAux(name) => all.push(format!("aux of {name}")),
        }
    }
}

fn ended(mut out: Vec<u8>) -> Vec<u8> {
    out.push(255);
    let crc = crc64(0, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn sample() -> Vec<u8> {
    let mut out = Writer::new(&[("redis-ver", "7.0.15"), ("used-mem", "1000000")]).waiting;
    out.push(245);
    push_string(&mut out, b"#!lua name=f");
    // Data that a module keeps beside keys: when it is read, and a number.
    out.extend_from_slice(b"\xf7\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x02\x02\x02\x07\x00");
    push_select(&mut out, 3);
    out.extend_from_slice(b"\xfb\x02\x01");
    push_key(&mut out, kind::STRING, b"text", Some(1_700_000_000_123));
    push_string(&mut out, b"12345");
    out.extend_from_slice(b"\xfd\x00\x00\x00\x10\xf8\x05\xf9\x07");
    push_key(&mut out, kind::HASH_ZIPMAP, b"old", None);
    push_string(&mut out, b"\x01\x03foo\x03\x00bar\xff");
    push_key(&mut out, kind::MODULE_2, b"json", None);
    out.extend_from_slice(b"\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x05\x03abc\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x00");
    push_key(&mut out, kind::LIST, b"long", None);
    push_len(&mut out, 2500);
    (0..2500).for_each(|_| push_string(&mut out, &[b'x'; 500]));
    push_key(&mut out, kind::SORTED_SET_2, b"scores", None);
    push_len(&mut out, 1);
    push_string(&mut out, &vec![b'm'; 2 << 20]);
    out.extend_from_slice(&1.5_f64.to_le_bytes());
    push_key(&mut out, kind::STRING, b"too long", None);
    push_string(&mut out, &vec![b'x'; 6 << 20]);
    push_key(&mut out, kind::STRING, b"last", None);
    push_string(&mut out, b"1");
    ended(out)
}

#[test]
fn everything_in_a_dump_is_met_however_it_arrives() {
    let sample = sample();
    let expected = [
        "functions #!lua name=f",
        "aux of ReJSON-RL",
        "3 text Some(1700000000123) Text([49, 50, 51, 52, 53])",
        "3 old Some(268435456000) 12 bytes of type 9",
        "3 json None Module(\"ReJSON-RL\")",
        "3 long None Parts(1) 525 525 525 525 400",
        "3 scores None Parts(5) 1",
        "3 too long None TooLong(6291456)",
        "3 last None Text([49])",
    ];
    for drop in [7777, 1 << 30] {
        assert_eq!(now(all(&sample, drop)).expect("a dump"), expected);
    }
}

#[test]
fn a_dump_names_the_database_of_the_stream_behind_it() {
    for (facts, expected) in
        [(&[("repl-stream-db", "3"), ("repl-offset", "7")][..], 3), (&[("repl-stream-db", "no")], 0), (&[], 0)]
    {
        let dump = ended(Writer::new(facts).waiting);
        let met = now(async {
            let mut dump = Dump::open(Input::new(FileBytes(&dump[..]), Vec::new()), 1000, 1000).await?;
            assert!(matches!(dump.next().await?, Item::End));
            Ok::<_, crate::failure::Failure>(dump.stream_database())
        });
        assert_eq!(met.expect("a dump"), expected);
    }
}

/// A node of a stream whose `entries` all have its one field, of 4000 bytes.
fn node_of_same_fields(entries: u32) -> Vec<u8> {
    let number = |number: u32| [&[0xf2][..], &number.to_le_bytes()[..3], &[4]].concat();
    let small = |number: u8| [number, 1];
    let field = [&[0xef, 0xa0][..], &[b'f'; 4000], &[0x1f, 0xa2]].concat();
    let mut elements = [number(entries), number(0), number(1), field, number(0)].concat();
    for entry in 0..entries {
        // Flags, both parts of the id, a value, the number of elements.
        elements.extend([&small(2)[..], &number(entry), &small(0), &[0x81, b'v', 2], &small(4)].concat());
    }
    let bytes = elements.len() as u32 + 7;
    [&bytes.to_le_bytes()[..], &[0xff; 2], &elements, &[0xff]].concat()
}

#[test]
fn a_node_whose_entries_have_too_many_bytes_is_refused() {
    for (entries, is_refused) in [(100_000, true), (1000, false)] {
        let mut out = Writer::new(&[]).waiting;
        push_key(&mut out, kind::STREAM_LISTPACKS, b"stream", None);
        push_len(&mut out, 1);
        push_string(&mut out, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        push_string(&mut out, &node_of_same_fields(entries));
        // How many entries there are, the last id, and no groups.
        push_len(&mut out, entries as usize);
        [entries as usize, 0, 0].into_iter().for_each(|number| push_len(&mut out, number));
        let out = ended(out);
        let first = async {
            let input = Input::new(FileBytes(Drops(&out, 1 << 30)), Vec::new());
            let mut dump = Dump::open(input, 5 << 20, 1 << 10).await?;
            dump.next().await?;
            dump.part().await
        };
        match now(first).expect("a dump").expect("a part") {
            Part::Refused(why) => assert!(is_refused, "{why}"),
            Part::Entries(some) => assert!(!is_refused && some.len() == entries as usize),
            other => panic!("{other:?}"),
        }
    }
}

/// Redis 5 and 6 do not write how many entries a group has read.
#[test]
fn what_a_group_of_an_old_stream_has_read_follows_from_its_last_entry() {
    let mut out = Writer::new(&[]).waiting;
    push_key(&mut out, kind::STREAM_LISTPACKS, b"stream", None);
    push_len(&mut out, 1);
    push_string(&mut out, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    push_string(&mut out, &node_of_same_fields(1000));
    // How many entries there are, the last id, and how many groups.
    [1000, 1000, 0, 4].into_iter().for_each(|number| push_len(&mut out, number));
    for delivered in [0, 1, 500, 1000] {
        push_string(&mut out, format!("group-{delivered}").as_bytes());
        // The id, nothing that is pending, and no consumers.
        [delivered, 0, 0, 0].into_iter().for_each(|number| push_len(&mut out, number));
    }
    let out = ended(out);
    let met = async {
        let mut dump = Dump::open(Input::new(FileBytes(&out[..]), Vec::new()), 5 << 20, 1 << 10).await?;
        dump.next().await?;
        let mut met = Vec::new();
        while let Some(part) = dump.part().await? {
            met.extend(if let Part::Group { read, .. } = part { Some(read) } else { None });
        }
        Ok::<_, crate::failure::Failure>(met)
    };
    assert_eq!(now(met).expect("a dump"), [Some(0), Some(1), None, Some(1000)]);
}

#[test]
fn a_pack_may_be_longer_than_the_longest_string() {
    for (element_bytes, is_refused) in [(6, false), (300, true)] {
        let element = vec![b'x'; element_bytes];
        let mut out = Writer::new(&[]).waiting;
        // A thousand integers of two bytes.
        push_key(&mut out, kind::SET_INTSET, b"integers", None);
        let integers = (0..1000_u16).flat_map(u16::to_le_bytes);
        let head = [2_u32, 1000].into_iter().flat_map(u32::to_le_bytes);
        push_string(&mut out, &head.chain(integers).collect::<Vec<u8>>());
        // A map of one field and its value.
        push_key(&mut out, kind::HASH_ZIPMAP, b"map", None);
        let len = match u8::try_from(element_bytes) {
            Ok(short) => vec![short],
            Err(_) => [&[254][..], &(element_bytes as u32).to_le_bytes()].concat(),
        };
        push_string(&mut out, &[&[1][..], &[1, b'f'], &len, &[0], &element, &[255]].concat());
        let out = ended(out);
        let parts = async {
            let mut dump = Dump::open(Input::new(FileBytes(&out[..]), Vec::new()), 100, 100).await?;
            let mut parts = Vec::new();
            for _ in 0..2 {
                dump.next().await?;
                match dump.part().await? {
                    Some(part) => parts.push(part),
                    // It is short enough to be given as a whole.
                    None => parts.push(Part::Values(Vec::new())),
                }
            }
            Ok::<_, crate::failure::Failure>(parts)
        };
        let parts = now(parts).expect("a dump");
        assert!(matches!(&parts[0], Part::Members(some) if some.len() == 1000), "{:?}", parts[0]);
        assert_eq!(matches!(&parts[1], Part::Refused(_)), is_refused, "{:?}", parts[1]);
    }
}

/// A dump of Redis 7.4, of a server in a cluster, with hashes whose fields expire in both forms.
fn of_redis_7_4(first_ms: u64) -> Vec<u8> {
    let mut out = b"REDIS0012".to_vec();
    push_select(&mut out, 0);
    // A hash slot of two keys.
    out.push(244);
    [866, 2, 0].into_iter().for_each(|number| push_len(&mut out, number));
    push_key(&mut out, kind::HASH_METADATA, b"large", None);
    out.extend_from_slice(&first_ms.to_le_bytes());
    push_len(&mut out, 2);
    for (name, later) in [(&b"a"[..], 0), (b"b", 6)] {
        push_len(&mut out, later);
        push_string(&mut out, name);
        push_string(&mut out, b"v");
    }
    push_key(&mut out, kind::HASH_LISTPACK_EX, b"small", None);
    out.extend_from_slice(&first_ms.to_le_bytes());
    let letter = |letter: u8| vec![0x81, letter, 2];
    let deadline = [&[0xf4][..], &first_ms.to_le_bytes(), &[9]].concat();
    let elements = [letter(b'b'), letter(b'v'), deadline, letter(b'a'), letter(b'v'), vec![0, 1]].concat();
    let bytes = elements.len() as u32 + 7;
    push_string(&mut out, &[&bytes.to_le_bytes()[..], &[6, 0], &elements, &[0xff]].concat());
    ended(out)
}

#[test]
fn hashes_whose_fields_expire_are_read_as_a_whole_and_in_parts() {
    let first_ms = 1_800_000_000_000;
    let out = of_redis_7_4(first_ms);
    assert_eq!(
        now(all(&out, 7)).expect("a dump"),
        ["0 large None 19 bytes of type 24".to_owned(), format!("0 small None {} bytes of type 25", 8 + 1 + 31)]
    );
    let field = |name: &str, expire_at_ms| Field { name: name.into(), value: b"v".to_vec(), expire_at_ms };
    let parts = async {
        let mut dump = Dump::open(Input::new(FileBytes(&out[..]), Vec::new()), 1000, 10).await?;
        let mut parts = Vec::new();
        while let Item::Key(_) = dump.next().await? {
            parts.push(dump.part().await?.expect("its only part"));
        }
        Ok::<_, crate::failure::Failure>(parts)
    };
    let expected = [
        Part::Fields(vec![field("a", None), field("b", Some(first_ms + 5))]),
        Part::Fields(vec![field("b", Some(first_ms)), field("a", None)]),
    ];
    assert_eq!(now(parts).expect("a dump"), expected);
}

#[test]
fn a_deadline_beyond_the_largest_number_is_damage() {
    let out = of_redis_7_4(u64::MAX);
    let first = async {
        let mut dump = Dump::open(Input::new(FileBytes(&out[..]), Vec::new()), 1000, 10).await?;
        dump.next().await?;
        dump.part().await
    };
    let failure = now(first).expect_err("it is damaged");
    assert!(failure.message.contains("something that means nothing"), "{failure}");
}

#[test]
fn what_is_damaged_or_cut_is_refused() {
    let mut small = Writer::new(&[("a", "b")]).waiting;
    push_key(&mut small, kind::SET, b"key", None);
    push_len(&mut small, 1);
    push_string(&mut small, b"member");
    let small = ended(small);
    assert!(now(all(&small, 100)).is_ok());
    for len in 0..small.len() {
        let failure = now(all(&small[..len], 100)).expect_err("it is cut");
        assert!(failure.message.contains("ends at byte"), "{failure}");
    }
    for at in 0..small.len() {
        let mut damaged = small.clone();
        damaged[at] ^= 1;
        // A flip in the digits of the version makes another dump, which may be sound.
        let met = now(all(&damaged, 100));
        assert!(met.is_err() || (5..9).contains(&at), "{at}: {met:?}");
    }
    let newer = [&b"REDIS0013"[..], &small[9..]].concat();
    assert!(now(all(&newer, 100)).expect_err("it is newer").message.contains("of version 13"));
    let unsummed = [&small[..small.len() - 8], &[0; 8]].concat();
    assert!(now(all(&unsummed, 100)).is_ok());
    let old = [&b"REDIS0003"[..], &small[9..small.len() - 8]].concat();
    assert!(now(all(&old, 100)).is_ok());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_dump_or_refused(bytes: Vec<u8>, kind in 0..28_u8) {
        let _ = now(all(&[&b"REDIS0012"[..], &bytes].concat(), 13));
        let _ = now(all(&[&b"REDIS0012"[..], &[kind, 1, b'k'], &bytes].concat(), 1000));
    }
}
