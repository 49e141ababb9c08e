//! Compares counts with a set in memory, with a fan so small that all levels are reached.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_io::{Rng, Yield};
use weir_model::parts::TALLY_LEVELS_MAX;
use weir_model::varint;

use super::early::EARLY_LEVELS_MAX;
use super::*;
use crate::context::Call;
use crate::headless::Headless;
use crate::polled;
use crate::reply::Protocol;
use crate::rows::{Page, PartPage, PartRange, Read, Rows, Waiting};

/// Rows without anything stored: every read sees only what the same command has written.
struct Nothing;

impl Rows for Nothing {
    fn get<'a>(&'a self, _: u8, _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(None))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        unreachable!("nobody goes through all keys")
    }

    fn part<'a>(&'a self, _: &'a [u8], _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(None))
    }

    fn parts<'a>(&'a self, _: &'a [u8], _: PartRange, _: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        Box::pin(std::future::ready(Ok(PartPage::default())))
    }
}

const SPACE: u8 = 1;

fn done<T>(future: impl Future<Output = Outcome<T>>) -> T {
    polled::turns(future).1.expect("it is read")
}

/// Runs `test` with a context in which all reads are answered from memory.
fn with_context(test: impl FnOnce(&mut Context<'_>)) {
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = Call::new(0, 0, 100);
    test(&mut Context::locked(&Nothing, &mut host, &mut call, crate::draft::Draft::default()));
}

fn counted(fan: u64) -> Counted<'static> {
    let tally_fan = fan as usize;
    Counted { fan, tally_fan, ..Counted::new(b"k", Life::new(7), SPACE, &OrderDetail::default()) }
}

fn key(number: u16) -> Vec<u8> {
    // Keys of different lengths, with common prefixes.
    let text = format!("{number:x}");
    text.into_bytes()
}

/// All parts of `space`.
fn all_of(cx: &mut Context<'_>, counted: &Counted<'_>, space: u8) -> Vec<Vec<u8>> {
    let parts = done(counted.list(cx, space, (Bound::Unbounded, Bound::Unbounded)));
    parts.into_iter().map(|part| part.subkey).collect()
}

/// Checks that every bucket says what is in it, that none has too many entries, and that no part is unreachable.
fn check(cx: &mut Context<'_>, counted: &Counted<'_>, model: &BTreeSet<Vec<u8>>) {
    let root = Bucket { key: Vec::new(), entries: model.len() as u64 };
    let (mut above, mut has_tallies) = (vec![root], false);
    for level in (1..=counted.levels).rev() {
        let (mut buckets, mut tallies, mut early) = (Vec::new(), Vec::new(), Vec::new());
        for (index, bucket) in above.iter().enumerate() {
            let end = above.get(index + 1).map(|next| next.key.clone());
            let tally = cx.part(counted.key, counted.life, tally_space(level), &bucket.key);
            let listed = match done(tally) {
                Some(tally) => {
                    tallies.push(bucket.key.clone());
                    Tally::decode(&bucket.key, &tally.value).expect("own bytes")
                }
                None => {
                    let found = done(counted.early(cx, level, bucket.key.clone(), end));
                    early.extend(found.early.clone());
                    found.buckets().expect("own bytes")
                }
            };
            assert_eq!(listed.iter().map(|bucket| bucket.entries).sum::<u64>(), bucket.entries, "level {level}");
            assert!(above.len() > 1 || listed.len() > 1, "a root with one bucket");
            assert!(!counted.are_too_many(&listed) || level == counted.levels, "a long list that is no root");
            buckets.extend(listed);
        }
        assert!(buckets.is_sorted_by(|a, b| a.key < b.key), "level {level}");
        assert_eq!(all_of(cx, counted, tally_space(level)), tallies, "tallies of level {level}");
        if level <= EARLY_LEVELS_MAX {
            assert_eq!(all_of(cx, counted, counted.early_space(level)), early, "early counts of level {level}");
        }
        has_tallies |= !tallies.is_empty();
        above = buckets;
    }
    for (index, bucket) in above.iter().enumerate().filter(|_| counted.levels > 0) {
        let end = above.get(index + 1).map(|next| &next.key);
        let is_in = |key: &&Vec<u8>| **key >= bucket.key && end.is_none_or(|end| *key < end);
        assert_eq!(bucket.entries, model.iter().filter(is_in).count() as u64, "the bucket at {:?}", bucket.key);
    }
    assert_eq!(counted.is_tallied, has_tallies);
    assert!(counted.levels > 0 || model.len() as u64 <= counted.uncounted_max(), "{} are not counted", model.len());
    assert!(counted.levels > 0 || counted.second.is_empty());
    for level in counted.levels + 1..=TALLY_LEVELS_MAX {
        let early = if level <= EARLY_LEVELS_MAX { all_of(cx, counted, SPACE + level) } else { Vec::new() };
        let left = [all_of(cx, counted, tally_space(level)), early].concat();
        assert!(left.is_empty(), "a level that is gone has nothing: {left:?}");
    }
}

/// Adds those of `keys` that are missing, removes those that are there, and counts all of these changes at once.
fn turn_over(cx: &mut Context<'_>, counted: &mut Counted<'_>, model: &mut BTreeSet<Vec<u8>>, keys: &BTreeSet<Vec<u8>>) {
    let mut changes = Vec::new();
    for key in keys {
        let is_gone = model.remove(key);
        match is_gone {
            true => cx.delete_part(counted.life, SPACE, key).expect("short"),
            false => cx.put_part(counted.life, SPACE, key, b"").expect("short"),
        }
        if !is_gone {
            model.insert(key.clone());
        }
        changes.push((key.clone(), if is_gone { -1 } else { 1 }));
    }
    done(counted.changed(cx, &changes, model.len() as u64));
}

/// One step: add a key, remove one, move one, remove a range, or both add and remove many.
fn step(cx: &mut Context<'_>, counted: &mut Counted<'_>, model: &mut BTreeSet<Vec<u8>>, (what, a, b): (u8, u16, u16)) {
    let (key, other) = (key(a), key(b));
    let keys = match what {
        0..6 if !model.contains(&key) => BTreeSet::from([key]),
        6 if model.contains(&key) && !model.contains(&other) => BTreeSet::from([key, other]),
        7 => {
            let (from, to) = if key < other { (key, other) } else { (other, key) };
            model.range(from..to).take(usize::from(b % 64)).cloned().collect()
        }
        9 => (0..b % 64).map(|number| super::tests::key(a.wrapping_add(number * (b % 7)) % 600)).collect(),
        _ if model.contains(&key) => BTreeSet::from([key]),
        _ => BTreeSet::new(),
    };
    turn_over(cx, counted, model, &keys);
}

/// Compares a rank and a place at a rank with the model.
fn compare(cx: &mut Context<'_>, counted: &Counted<'_>, model: &BTreeSet<Vec<u8>>, asked: u16) {
    let place = key(asked);
    assert_eq!(done(counted.before(cx, &place)), model.range(..place).count() as u64);
    let rank = u64::from(asked) % (model.len() as u64 + 2);
    let near = done(counted.near(cx, rank));
    let found = near.and_then(|(from, passed)| model.range(from..).nth(passed as usize));
    assert_eq!(found, model.iter().nth(rank as usize));
}

/// An order of `count` entries.
fn entries(cx: &mut Context<'_>, count: u16) -> BTreeSet<Vec<u8>> {
    let model: BTreeSet<Vec<u8>> = (0..count).map(key).collect();
    model.iter().for_each(|key| cx.put_part(Life::new(7), SPACE, key, b"").expect("short"));
    model
}

/// Counts `model` as it was counted before there were tallies.
fn fill_early(cx: &mut Context<'_>, counted: &mut Counted<'_>, model: &BTreeSet<Vec<u8>>) {
    let fan = counted.fan as usize;
    let mut below: Vec<Bucket> = model.iter().map(|key| Bucket { key: key.clone(), entries: 1 }).collect();
    while below.len() > 2 * fan && counted.levels < EARLY_LEVELS_MAX {
        counted.levels += 1;
        let mut buckets: Vec<Bucket> = Vec::new();
        for chunk in below.chunks(fan) {
            let key = if buckets.is_empty() { Vec::new() } else { chunk[0].key.clone() };
            let (mut value, entries) = (Vec::new(), chunk.iter().map(|bucket| bucket.entries).sum());
            varint::put(&mut value, entries);
            varint::put(&mut value, chunk.len() as u64);
            cx.put_part(counted.life, SPACE + counted.levels, &key, &value).expect("short");
            buckets.push(Bucket { key, entries });
        }
        if counted.levels == 1 {
            counted.second = buckets[1].key.clone();
        }
        below = buckets;
    }
}

#[test]
fn what_all_moves_at_once_is_still_counted() {
    // As if one command refreshes all scores: each key moves behind the last one, or in front of the first one.
    for (from, to) in [(0, 1000), (1000, 0)] {
        with_context(|cx| {
            let (mut counted, mut model) = (counted(4), BTreeSet::new());
            let keys = |first: u16| (first..first + 300).map(|number| format!("{number:04}").into_bytes()).collect();
            turn_over(cx, &mut counted, &mut model, &keys(from));
            check(cx, &counted, &model);
            let both: BTreeSet<Vec<u8>> =
                [keys(from), keys(to)].into_iter().flat_map(|keys: BTreeSet<_>| keys).collect();
            turn_over(cx, &mut counted, &mut model, &both);
            check(cx, &counted, &model);
            assert_eq!(model.len(), 300);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranks_are_those_of_a_sorted_list(
        first in 0..400_u16, fan in 2..6_u64, is_early: bool,
        steps in vec((0..10_u8, 0..500_u16, 0..500_u16), 0..250)
    ) {
        with_context(|cx| {
            let (mut counted, mut model) = (counted(fan), entries(cx, first));
            if is_early {
                fill_early(cx, &mut counted, &model);
            } else {
                let places: Vec<Vec<u8>> = model.iter().cloned().collect();
                counted.fill(cx, &places).expect("short");
            }
            check(cx, &counted, &model);
            for (index, chosen) in steps.into_iter().enumerate() {
                // A caller that knows the first entry names it; a caller that does not leaves it empty.
                counted.first = model.first().filter(|_| index % 3 > 0).cloned().unwrap_or_default();
                step(cx, &mut counted, &mut model, chosen);
                compare(cx, &counted, &model, chosen.1);
                if index % 16 == 0 {
                    check(cx, &counted, &model);
                }
            }
            check(cx, &counted, &model);
        });
    }
}

/// Also with counts of the early kind. Those that are met become tallies, and none of them is left at the end.
#[test]
fn all_levels_come_and_go() {
    for is_early in [false, true] {
        with_context(|cx| {
            let (mut counted, mut model) = (counted(4), entries(cx, if is_early { 500 } else { 0 }));
            if is_early {
                fill_early(cx, &mut counted, &model);
                assert_eq!((counted.levels, counted.is_tallied), (EARLY_LEVELS_MAX, false));
            }
            let mut highest = 0;
            for number in 0..600 {
                step(cx, &mut counted, &mut model, (0, number * 7 % 600, 0));
                highest = highest.max(counted.levels);
            }
            check(cx, &counted, &model);
            assert!(highest >= 3 && counted.is_tallied);
            for number in 0..600 {
                step(cx, &mut counted, &mut model, (8, number * 11 % 600, 0));
                compare(cx, &counted, &model, number);
            }
            check(cx, &counted, &model);
            assert_eq!((model.len(), counted.levels), (0, 0));
        });
    }
}

/// There may be very many dead early buckets between the first and the second.
#[test]
fn early_buckets_are_not_looked_for_in_front_of_the_second() {
    with_context(|cx| {
        let (mut counted, model) = (counted(4), entries(cx, 300));
        fill_early(cx, &mut counted, &model);
        for level in 1..=counted.levels {
            cx.put_part(counted.life, SPACE + level, &[0], b"what would be dead").expect("short");
        }
        (0..300).for_each(|asked| compare(cx, &counted, &model, asked));
    });
}

/// The key with a number: keys of 600 bytes that differ late, with some short keys in between.
fn long(number: usize) -> Vec<u8> {
    let digit = |place: u32| b'a' + (number / 26_usize.pow(place) % 26) as u8;
    match number % 900 < 100 {
        true => [digit(2), digit(1), digit(0)].to_vec(),
        false => [&[digit(2); 200][..], &[digit(1); 200], &[digit(0); 200]].concat(),
    }
}

fn assert_short(cx: &mut Context<'_>, counted: &Counted<'_>) {
    for level in 1..=counted.levels {
        for part in done(counted.list(cx, tally_space(level), (Bound::Unbounded, Bound::Unbounded))) {
            // Counts may have become longer since the tally was divided.
            assert!(part.value.len() <= TALLY_BYTES_MAX + 16, "{} bytes in level {level}", part.value.len());
        }
    }
}

#[test]
fn tallies_of_long_keys_are_short() {
    let fresh = || Counted::new(b"k", Life::new(7), SPACE, &OrderDetail::default());
    let all: BTreeSet<Vec<u8>> = (0..9_000).map(long).collect();
    with_context(|cx| {
        let (mut counted, mut model) = (fresh(), BTreeSet::new());
        for number in 0..9_000 {
            turn_over(cx, &mut counted, &mut model, &BTreeSet::from([long(number * 7 % 9_000)]));
        }
        check(cx, &counted, &model);
        assert_short(cx, &counted);
    });
    with_context(|cx| {
        let mut counted = fresh();
        all.iter().for_each(|key| cx.put_part(counted.life, SPACE, key, b"").expect("short"));
        counted.fill(cx, &all.iter().cloned().collect::<Vec<_>>()).expect("short");
        check(cx, &counted, &all);
        assert_short(cx, &counted);
    });
    with_context(|cx| {
        // As an earlier version wrote them, with lists that are too long for a tally. Every bucket is changed once.
        let (mut counted, mut model) = (fresh(), all.clone());
        all.iter().for_each(|key| cx.put_part(counted.life, SPACE, key, b"").expect("short"));
        fill_early(cx, &mut counted, &all);
        for (number, key) in all.iter().enumerate().filter(|(number, _)| number % 16 == 0) {
            let other = [&key[..], b"!"].concat();
            let changed = match number % 3 {
                0 => BTreeSet::from([key.clone()]),
                1 => BTreeSet::from([key.clone(), other]),
                _ => BTreeSet::from([other]),
            };
            turn_over(cx, &mut counted, &mut model, &changed);
        }
        check(cx, &counted, &model);
        assert_short(cx, &counted);
    });
}
