use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;
use weir_model::parts::{Packed, RowType};

proptest! {
    #[test]
    fn the_last_change_of_a_key_is_found_whatever_was_taken_back(
        changes in proptest::collection::vec((0..6_u8, 0..9_u8), 0..40)
    ) {
        let (mut draft, mut model, mut marks) = (Draft::default(), Vec::new(), Vec::new());
        for (key, value) in changes {
            if value == 0 && let Some((mark, len)) = marks.pop() {
                draft.rewind(mark);
                model.truncate(len);
                marks.retain(|(_, before)| *before <= len);
            }
            marks.push((draft.mark(), model.len()));
            draft.push(Change::Put { key: &[key], value: &[value], expire_at_ms: None });
            model.push((key, value));
            for asked in 0..6_u8 {
                let found = draft.last_of(&[asked]).map(|change| match change {
                    Change::Put { value, .. } => value[0],
                    _ => unreachable!("only puts"),
                });
                prop_assert_eq!(found, model.iter().rev().find(|(key, _)| *key == asked).map(|(_, value)| *value));
            }
            let keys: Vec<u8> = draft.last_in(&[1][..]..&[4][..]).map(|change| change.key()[0]).collect();
            let expected: Vec<u8> = (1..4).filter(|key| model.iter().any(|(other, _)| other == key)).collect();
            prop_assert_eq!(keys, expected);
        }
    }

    #[test]
    fn a_settled_draft_ends_the_same_lives_and_leaves_the_same(
        changes in proptest::collection::vec((0..4_u8, 0..6_u8), 0..40)
    ) {
        let mut draft = Draft::default();
        let mut versions = [1_000_u64; 4];
        for (at, (key, what)) in changes.into_iter().enumerate() {
            let version = &mut versions[usize::from(key)];
            let (key, value) = (&[key][..], &[at as u8][..]);
            let packed = (what == 5).then(Packed::default);
            // No life begins again once it has ended: 2 and 3 go on with one.
            *version = if matches!(what, 2 | 3) { *version } else { at as u64 + 1 };
            let head = Head { count: at as u64, packed, ..Head::new(RowType::Set, *version) }.encode();
            *version = if matches!(what, 0 | 1 | 5) { at as u64 + 100 } else { *version };
            draft.push(match what {
                0 => Change::Delete { key },
                1 => Change::Put { key, value, expire_at_ms: None },
                _ => Change::Head { key, head: &head, expire_at_ms: None },
            });
        }
        let (before, count) = (courses(draft.batch()), draft.batch().len());
        let (whole, mut told) = (draft.batch().clone(), Vec::new());
        draft.settle(|mark, change| {
            assert_eq!(whole.at(mark), change);
            told.push(mark);
        });
        prop_assert_eq!(draft.batch(), &whole.without(&told), "it tells of each that it leaves out, in order");
        let after = courses(draft.batch());
        prop_assert_eq!(after.iter().map(|(key, course)| (key, &course.lives, &course.last)).collect::<Vec<_>>(),
            before.iter().map(|(key, course)| (key, &course.lives, &course.last)).collect::<Vec<_>>());
        let superseded = after.values().map(|course| course.superseded).max().unwrap_or(0);
        prop_assert!(superseded == 0 || count <= FEW, "{superseded} changes that nobody needs are left");
    }
}

proptest! {
    #[test]
    fn changes_are_in_order_whichever_of_them_are_asked_for(
        changes in proptest::collection::vec(("[ab]{0,4}", "[ab]{0,4}", "[abc]{0,3}"), 0..40)
    ) {
        let (mut draft, mut model) = (Draft::default(), BTreeSet::new());
        for (key, from, behind) in changes {
            draft.push(Change::Delete { key: key.as_bytes() });
            model.insert(key);
            let to = format!("{from}{behind}");
            let found: Vec<Vec<u8>> =
                draft.last_in(from.as_bytes()..to.as_bytes()).map(|change| change.key().to_vec()).collect();
            let wanted = model.iter().filter(|key| **key >= from && **key < to);
            prop_assert_eq!(found, wanted.map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_has_to_be_known_of_changes_counts() {
    let (mut draft, mark) = (Draft::of_several(), BatchMark::default());
    let key = |number: u8| [b'k', number];
    (0..100).for_each(|number| draft.push(Change::Delete { key: &key(number) }));
    let bytes = draft.bytes();
    assert_eq!(bytes, draft.batch().as_bytes().len() + 100 * FOUND_BYTES);
    for _ in 0..2 {
        assert_eq!(draft.last_in(&key(0)[..]..&key(100)[..]).count(), 100);
        assert_eq!(draft.bytes(), bytes + 100 * (IN_ORDER_BYTES + 2), "each key once");
    }
    draft.uncounted_mut().note((0, b"k", Life::new(7)), mark, vec![0; 10], 1);
    assert!(draft.bytes() > bytes + 100 * (IN_ORDER_BYTES + 2) + 10);
    draft.rewind(mark);
    draft.uncounted_mut().take(Life::new(7));
    assert_eq!(draft.bytes(), 0);
}

#[test]
fn a_head_is_in_hand_as_long_as_nothing_follows_it_and_as_it_would_be_read() {
    let head = |version| Head { count: 3, bytes: 70, detail: vec![1], ..Head::new(RowType::Set, version) };
    let put = |draft: &mut Draft, key: &[u8], head: &Head, at| {
        let (bytes, expire_at_ms) = head.encode_until(at);
        draft.push_row(2, Change::Head { key, head: &bytes, expire_at_ms });
        draft.keep_head(head, at);
    };
    for at in [None, Some(9)] {
        let mut draft = Draft::of_several();
        put(&mut draft, b"a", &head(7), at);
        for (database, key) in [(2, &b"b"[..]), (2, b""), (1, b"a")] {
            assert_eq!(draft.take_head(database, key), None);
        }
        assert_eq!(draft.take_head(2, b"a"), Some((head(7), at)));
        assert_eq!(draft.take_head(2, b"a"), None, "whoever has it may change it");
        put(&mut draft, b"a", &head(7), at);
        draft.push_part(Life::new(7), 0, Change::Delete { key: b"m" });
        assert_eq!(draft.take_head(2, b"a"), None, "it is not what stands last");
        let mark = draft.mark();
        put(&mut draft, b"a", &head(8), at);
        draft.rewind(mark);
        assert_eq!(draft.take_head(2, b"a"), None, "it was taken back");
        let packed = Head { packed: Some(Packed::default()), ..head(8) };
        put(&mut draft, b"a", &packed, at);
        assert_eq!(draft.take_head(2, b"a"), None, "it would be copied for nobody");
    }
    let mut alone = Draft::default();
    put(&mut alone, b"a", &head(7), None);
    assert_eq!(alone.take_head(2, b"a"), None, "nobody follows");
}

#[test]
fn a_chunk_is_in_hand_until_a_part_is_changed() {
    let (life, anchor) = (Life::new(7), -3);
    let chunk = || ChunkInHand { life, anchor, bytes: vec![1, b'a'], values: 1 };
    let mut draft = Draft::of_several();
    draft.keep_chunk(chunk);
    for (life, anchor) in [(Life::new(8), anchor), (life, 3)] {
        assert_eq!(draft.take_chunk(life, anchor), None);
    }
    draft.push_row(2, Change::Delete { key: b"a" });
    assert_eq!(draft.take_chunk(life, anchor), Some(chunk()));
    assert_eq!(draft.take_chunk(life, anchor), None, "whoever has it may change it");
    let changes: [fn(&mut Draft); 4] = [
        |draft| draft.push(Change::Delete { key: b"part" }),
        |draft| draft.push_part(Life::new(9), 0, Change::Delete { key: b"part" }),
        |draft| draft.push_member(Life::new(9), 0, Change::Delete { key: b"member" }),
        |draft| draft.rewind(draft.mark()),
    ];
    for change in changes {
        draft.keep_chunk(chunk);
        change(&mut draft);
        assert_eq!(draft.take_chunk(life, anchor), None);
    }
    let mut alone = Draft::default();
    alone.keep_chunk(chunk);
    assert_eq!(alone.take_chunk(life, anchor), None, "nobody follows");
}

/// All changes of one key.
#[derive(Debug, Default)]
struct Course {
    /// The lives that the key has on the way.
    lives: BTreeSet<u64>,
    last: String,
    /// The life that the last change leaves.
    life: Option<u64>,
    /// Changes that a later change of the same key follows, except those that begin a life which that later change
    /// ends.
    superseded: usize,
}

fn courses(batch: &Batch) -> BTreeMap<Vec<u8>, Course> {
    let mut courses = BTreeMap::<Vec<u8>, Course>::new();
    for change in batch.as_ref().iter() {
        let is_first = !courses.contains_key(change.key());
        let course = courses.entry(change.key().to_vec()).or_default();
        let life = life_of(&change);
        course.superseded += usize::from(!is_first && (course.life.is_none() || course.life == life));
        course.life = life;
        course.lives.extend(life);
        course.last = format!("{change:?}");
    }
    courses
}
