use proptest::prelude::*;

use super::*;
use crate::parts::list::{EndPart, ListDetail, ListPart};
use crate::parts::{
    Bucket, Head, Life, OrderDetail, OrderEnds, Part, RowType, Tally, cover_key, cover_value, placed, put_i64, scored,
    tally_space,
};

/// The entries of an engine.
type Entries = BTreeMap<Vec<u8>, (Kind, Vec<u8>)>;

fn problems(entries: &Entries, lives_max: usize) -> Vec<String> {
    let mut audit = Audit::of_lives(lives_max);
    loop {
        entries.iter().for_each(|(key, (kind, value))| audit.entry(*kind, key, value));
        if !audit.next_round() {
            return audit.into_problems();
        }
    }
}

fn put_head(entries: &mut Entries, key: &str, head: &Head) {
    entries.insert([b"\0", key.as_bytes()].concat(), (Kind::Head, head.encode()));
}

fn put_part(entries: &mut Entries, version: u64, space: u8, subkey: &[u8], value: &[u8]) {
    entries.insert(Life::new(version).part(space, subkey), (Kind::Put, value.into()));
}

/// A spread row of each type, and what is left of a deleted one.
fn rows() -> Entries {
    let mut entries = Entries::new();
    entries.insert(b"\0string".to_vec(), (Kind::Put, b"v".to_vec()));
    let mut head = Head { count: 2, bytes: 6, ..Head::new(RowType::Set, 3) };
    put_head(&mut entries, "set", &head);
    head = Head { count: 2, bytes: 22, ..Head::new(RowType::SortedSet, 4) };
    head.detail = vec![1];
    put_head(&mut entries, "zset", &head);
    for (index, name) in [b"one", b"two"].into_iter().enumerate() {
        put_part(&mut entries, 3, 0, &placed(3, name), b"");
        let (subkey, beside) = scored(index as f64, name);
        put_part(&mut entries, 4, 1, &subkey, beside);
        let score = crate::parts::score_value(index as f64).expect("a number");
        put_part(&mut entries, 4, 0, &placed(4, name), &score);
    }
    head = Head { count: 2, bytes: 18, ..Head::new(RowType::List, 5) };
    put_i64(&mut head.detail, -1);
    put_head(&mut entries, "list", &head);
    for position in [-1, 0] {
        let mut subkey = Vec::new();
        put_i64(&mut subkey, position);
        put_part(&mut entries, 5, 0, &subkey, b"v");
    }
    entries.insert(cover_key(6).to_vec(), (Kind::Cover, cover_value(9)));
    put_part(&mut entries, 6, 0, b"dead", b"");
    // A hash with a field that expires, and one that does not.
    let mut head = Head { count: 2, bytes: 8, ..Head::new(RowType::Hash, 7) };
    let mortal = crate::parts::MortalFields { count: 1, first_ms: 50, last_ms: 50 };
    head.detail = crate::parts::HashDetail { is_large: true, mortal: Some(mortal), row_ms: None }.encode();
    put_head(&mut entries, "hash", &head);
    put_part(&mut entries, 7, 0, &placed(7, b"one"), b"v");
    let field = placed(7, b"two");
    put_part(&mut entries, 7, 1, &field, &crate::parts::fields::mortal_value(50, b"w"));
    put_part(&mut entries, 7, 2, &[&50_u64.to_be_bytes()[..], &field].concat(), b"");
    entries.insert(agenda_key(50, b"\0hash"), (Kind::Put, Vec::new()));
    entries
}

/// The head of the sorted set, with bounds that say that it begins with one member and ends with another.
fn ended(first: &[u8], last: &[u8]) -> Head {
    let place = |name: &[u8]| scored(f64::from(u8::from(name == b"two")), name).0;
    let ends = Some(OrderEnds::of(&place(first), &place(last)));
    let detail = OrderDetail { is_large: true, ends, ..OrderDetail::default() }.encode();
    Head { count: 2, bytes: 22, detail, ..Head::new(RowType::SortedSet, 4) }
}

#[test]
fn a_head_may_say_where_an_order_begins_and_ends() {
    let mut entries = rows();
    put_head(&mut entries, "zset", &ended(b"one", b"two"));
    assert_eq!(problems(&entries, 9), Vec::<String>::new());
}

/// The rows, with two levels of counts of the sorted set, one of them with two tallies.
fn tallied() -> (Entries, [Vec<u8>; 3]) {
    let (mut entries, second) = (rows(), scored(1.0, b"two").0);
    let bucket = |key: &[u8]| Bucket { key: key.into(), entries: 1 };
    let detail = OrderDetail { is_large: true, levels: 2, is_tallied: true, ..OrderDetail::default() }.encode();
    put_head(&mut entries, "zset", &Head { detail, ..ended(b"one", b"two") });
    let tallies = [
        (1, &b""[..], vec![bucket(b"")]),
        (1, &second[..], vec![bucket(&second)]),
        (2, &b""[..], vec![bucket(b""), bucket(&second)]),
    ];
    for (level, key, buckets) in &tallies {
        put_part(&mut entries, 4, tally_space(*level), key, &Tally::encode(buckets));
    }
    (entries, tallies.map(|(level, key, _)| Life::new(4).part(tally_space(level), key)))
}

#[test]
fn tallies_add_up_and_agree_with_those_above() {
    let (entries, keys) = tallied();
    assert_eq!(problems(&entries, 9), Vec::<String>::new());
    let told = |change: &dyn Fn(&mut Entries)| {
        let mut entries = entries.clone();
        change(&mut entries);
        problems(&entries, 9).join("; ")
    };
    let unsummed = "its counts do not add up";
    for key in &keys {
        assert!(told(&|entries| drop(entries.remove(key))).contains(unsummed), "{}", key.escape_ascii());
        let damaged = |entries: &mut Entries| drop(entries.insert(key.clone(), (Kind::Put, vec![9])));
        assert!(told(&damaged).contains("a count is damaged"));
        let another = [Bucket { key: Part::parse(key).expect("a part").subkey.into(), entries: 2 }];
        let wrong = |entries: &mut Entries| drop(entries.insert(key.clone(), (Kind::Put, Tally::encode(&another))));
        assert!(told(&wrong).contains(unsummed), "{}", key.escape_ascii());
    }
    // The total is right, but the single counts are not.
    let moved = |entries: &mut Entries| {
        for (key, (at, count)) in [(&keys[0], (&b""[..], 2)), (&keys[1], (&scored(1.0, b"two").0[..], 0))] {
            let tally = Tally::encode(&[Bucket { key: at.into(), entries: count }]);
            entries.insert(key.clone(), (Kind::Put, tally));
        }
    };
    assert!(told(&moved).contains(unsummed));
    let unsaid = |entries: &mut Entries| put_head(entries, "zset", &ended(b"one", b"two"));
    assert!(told(&unsaid).contains(unsummed));
}

/// Some counts are parts of their own, as all were before there were tallies.
#[test]
fn counts_may_be_a_mixture() {
    let (mut entries, [first, second, root]) = tallied();
    entries.remove(&second);
    put_part(&mut entries, 4, 2, &scored(1.0, b"two").0, &[1, 1]);
    assert_eq!(problems(&entries, 9), Vec::<String>::new());
    let detail = |second: &[u8]| {
        let detail = OrderDetail { is_large: true, levels: 2, is_tallied: true, second: second.into(), ends: None };
        Head { detail: detail.encode(), ..ended(b"one", b"two") }
    };
    put_head(&mut entries, "zset", &detail(&scored(1.0, b"two").0));
    assert_eq!(problems(&entries, 9), Vec::<String>::new());
    let mut late = entries.clone();
    put_head(&mut late, "zset", &detail(&scored(2.0, b"").0));
    assert!(problems(&late, 9).join("; ").contains("the one that its head names"));
    put_part(&mut entries, 4, 2, &scored(1.0, b"two").0, &[2, 1]);
    assert!(problems(&entries, 9).join("; ").contains("do not add up"));

    // None of them is a tally, as before there were tallies.
    for key in [first, root] {
        entries.remove(&key);
    }
    put_part(&mut entries, 4, 2, b"", &[1, 1]);
    put_part(&mut entries, 4, 2, &scored(1.0, b"two").0, &[1, 1]);
    put_part(&mut entries, 4, 3, b"", &[1, 1]);
    put_part(&mut entries, 4, 3, &scored(1.0, b"two").0, &[1, 1]);
    let detail = OrderDetail { is_large: true, levels: 2, ..OrderDetail::default() }.encode();
    put_head(&mut entries, "zset", &Head { detail, ..ended(b"one", b"two") });
    assert_eq!(problems(&entries, 9), Vec::<String>::new());
    entries.remove(&Life::new(4).part(3, b""));
    assert!(!problems(&entries, 9).is_empty());
}

#[test]
fn what_is_whole_has_no_problems_however_few_lives_are_remembered() {
    for lives_max in 1..6 {
        assert_eq!(problems(&rows(), lives_max), Vec::<String>::new(), "{lives_max}");
    }
}

/// Each entry but the string and the dead ones is needed.
#[test]
fn an_entry_that_is_lost_is_missed() {
    let all = rows();
    for key in all.keys() {
        let mut left = all.clone();
        left.remove(key);
        let is_needed = key != b"\0string" && key[..] != Life::new(6).part(0, b"dead")[..];
        for lives_max in [1, 9] {
            assert_eq!(!problems(&left, lives_max).is_empty(), is_needed, "{}", key.escape_ascii());
        }
    }
}

#[test]
fn what_should_not_be_there_is_told() {
    let told = |change: &dyn Fn(&mut Entries)| {
        let mut entries = rows();
        change(&mut entries);
        problems(&entries, 9).join("; ")
    };
    for (change, expected) in [
        (
            &(|entries: &mut Entries| put_part(entries, 9, 0, b"x", b"")) as &dyn Fn(&mut Entries),
            "neither a head nor a cover",
        ),
        (
            &|entries| drop(entries.insert(cover_key(5).to_vec(), (Kind::Cover, cover_value(1)))),
            "a cover says that it is dead",
        ),
        (&|entries| put_part(entries, 3, 0, &placed(3, b"three"), b""), "number of parts in its head is wrong"),
        (&|entries| put_part(entries, 4, 1, &scored(9.0, b"one").0, b""), "orders of its parts do not agree"),
        (&|entries| put_part(entries, 4, 2, b"", &[2, 2]), "do not add up"),
        (&|entries| put_part(entries, 3, 0, b"\0\0\0\0one", b""), "at the wrong place"),
        (&|entries| put_head(entries, "copy", &Head::new(RowType::Set, 3)), "another row has the same version"),
        (&|entries| drop(entries.insert(agenda_key(9, b"\0set"), (Kind::Put, Vec::new()))), "agenda"),
        (&|entries| drop(entries.insert(b"\0bad".to_vec(), (Kind::Head, vec![7]))), "head is damaged"),
        (&|entries| put_head(entries, "zset", &ended(b"one", b"one")), "the beginning and the end in its head"),
        (&|entries| put_head(entries, "zset", &ended(b"two", b"two")), "the beginning and the end in its head"),
        (
            &|entries| {
                let detail = OrderDetail { second: vec![9], ..OrderDetail::default() }.encode();
                put_head(entries, "zset", &Head { detail, ..ended(b"one", b"two") });
            },
            "the one that its head names",
        ),
        (&|entries| put_head(entries, "zset", &Head { detail: vec![7], ..ended(b"one", b"two") }), "head is damaged"),
    ] {
        assert!(told(change).contains(expected), "{expected}: {}", told(change));
    }
}

/// A list with the values `v` at the positions from -3 to 2: a chunk on each side of zero, and a value by itself.
#[test]
fn the_head_of_a_list_knows_its_outermost_parts() {
    use EndPart::{Unknown, Value};
    let chunk = |anchor, values: usize| (ListPart::Chunk(anchor), [1, b'v'].repeat(values));
    let told = |first, count, ends, parts: &[(ListPart, Vec<u8>)]| {
        let (mut entries, mut head) = (Entries::new(), Head { count, bytes: 9 * count, ..Head::new(RowType::List, 5) });
        ListDetail { first, ends }.encode(&mut head.detail);
        put_head(&mut entries, "list", &head);
        parts.iter().for_each(|(part, value)| put_part(&mut entries, 5, 0, &part.subkey(), value));
        problems(&entries, 9).join("; ")
    };
    let all = [chunk(-1, 3), chunk(0, 2), (ListPart::Value(2), b"v".to_vec())];
    for (first, count, ends) in [
        (-3, 6, [Unknown, Unknown]),
        (-3, 6, [EndPart::Chunk(-1), Value]),
        (-2, 5, [EndPart::Chunk(-1), Unknown]),
        (-1, 4, [EndPart::Chunk(-1), Value]),
    ] {
        assert_eq!(told(first, count, Some(ends), &all), "", "{first}, {count}, {ends:?}");
    }
    for back in [EndPart::Chunk(0), Unknown] {
        let told = told(-3, 4, Some([Unknown, back]), &all[..2]);
        assert_eq!(told.contains("outermost"), back == Unknown, "{told}");
    }
    for (first, count, ends, expected) in [
        (-2, 5, [Unknown, Value], "outermost"),
        (-3, 6, [EndPart::Chunk(-2), Value], "outermost"),
        (-3, 6, [Value, Value], "outermost"),
        (-3, 6, [Unknown, EndPart::Chunk(2)], "outermost"),
        (-4, 6, [EndPart::Chunk(-1), Value], "gap"),
        (0, 3, [EndPart::Chunk(0), Value], "gap"),
        (-3, 7, [Unknown, Value], "number of parts"),
        (-3, 4, [Unknown, EndPart::Chunk(0)], "number of parts"),
    ] {
        let told = told(first, count, Some(ends), &all);
        assert!(told.contains(expected), "{first}, {count}, {ends:?}: {told}");
    }
    let ends = Some([Unknown, Value]);
    let overlapping = [chunk(-1, 3), chunk(0, 3), all[2].clone()];
    assert!(told(-3, 6, ends, &overlapping).contains("gap"));
    let damaged = [(ListPart::Chunk(-1), vec![2, b'v']), all[1].clone(), all[2].clone()];
    assert!(told(-3, 6, ends, &damaged).contains("a chunk of its values is damaged"));
    let inside = [(ListPart::Value(-1), b"v".to_vec()), chunk(0, 2), all[2].clone()];
    assert_eq!(told(-1, 4, Some([Value; 2]), &inside), "");
    assert!(told(-1, 4, None, &inside).contains("knows of no chunks"));
}

proptest! {
    /// Any bytes at any key: the audit never panics.
    #[test]
    fn anything_is_looked_at(entries: Vec<(u8, Vec<u8>, Vec<u8>)>) {
        let mut audit = Audit::default();
        for (kind, key, value) in &entries {
            let kind = [Kind::Delete, Kind::Put, Kind::Head, Kind::Cover][usize::from(kind % 4)];
            for key in [key.clone(), [&[0x80, 0, 0, 0, 0, 0, 0, 0][..], key].concat()] {
                audit.entry(kind, &key, value);
            }
        }
        audit.next_round();
    }
}
