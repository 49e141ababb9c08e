//! Beside a set in memory, with so small a fan that all levels are reached.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_io::{Rng, Yield};

use super::*;
use crate::context::Call;
use crate::headless::Headless;
use crate::polled;
use crate::reply::Protocol;
use crate::rows::{Page, PartPage, PartRange, Read, Rows, Waiting};

/// Nothing is stored: all that is read is what was written in the same command.
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

/// Runs `test` on a context in which all is read from memory.
fn with_context(test: impl FnOnce(&mut Context<'_>)) {
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = Call::new(0, 0, 100);
    test(&mut Context::locked(&Nothing, &mut host, &mut call, crate::draft::Draft::default()));
}

fn counted(fan: u64) -> Counted<'static> {
    Counted { fan, ..Counted::new(b"k", Life::new(7), SPACE, &OrderDetail::default()) }
}

fn key(number: u16) -> Vec<u8> {
    // Of different lengths, with common fronts.
    let text = format!("{number:x}");
    text.into_bytes()
}

/// Whether every bucket says what is in it, and none has too many.
fn check(cx: &mut Context<'_>, counted: &Counted<'_>, model: &BTreeSet<Vec<u8>>) {
    let all = || (Bound::Unbounded, Bound::Unbounded);
    let mut below: Vec<(Vec<u8>, u64)> = model.iter().map(|key| (key.clone(), 1)).collect();
    for level in 1..=counted.levels {
        let buckets: Vec<Bucket> = done(counted.list(cx, level, all(), false, usize::MAX))
            .into_iter()
            .map(|part| Bucket::of(part).expect("own bytes"))
            .collect();
        assert_eq!(buckets.first().map(|bucket| &bucket.key[..]), Some(&b""[..]));
        assert!(buckets.len() > 1 || level < counted.levels, "a level with one bucket");
        if level == 1 {
            assert_eq!(counted.second, buckets[1].key, "where nobody looks there is nothing");
        }
        for (index, bucket) in buckets.iter().enumerate() {
            let end = buckets.get(index + 1).map(|next| &next.key);
            let is_in = |key: &Vec<u8>| *key >= bucket.key && end.is_none_or(|end| key < end);
            let children: Vec<_> = below.iter().filter(|(key, _)| is_in(key)).collect();
            let entries: u64 = children.iter().map(|(_, entries)| entries).sum();
            assert_eq!((bucket.children, bucket.entries), (children.len() as u64, entries), "level {level}");
            assert!(bucket.children <= counted.children_max());
            assert!(level == 1 || children.first().is_none_or(|(key, _)| *key == bucket.key));
        }
        below = buckets.into_iter().map(|bucket| (bucket.key, bucket.entries)).collect();
    }
    assert!(counted.levels > 0 || counted.second.is_empty());
    assert!(counted.levels == LEVELS_MAX || below.len() as u64 <= counted.children_max());
    for level in counted.levels + 1..=LEVELS_MAX {
        assert_eq!(done(counted.list(cx, level, all(), false, 1)), [], "a level that is gone has nothing");
    }
}

/// A step: add, remove one, remove a range.
fn step(cx: &mut Context<'_>, counted: &mut Counted<'_>, model: &mut BTreeSet<Vec<u8>>, (what, a, b): (u8, u16, u16)) {
    let (life, key, other) = (Life::new(7), key(a), key(b));
    match what {
        0..6 if !model.contains(&key) => {
            cx.put_part(life, SPACE, &key, b"").expect("short");
            model.insert(key.clone());
            done(counted.added(cx, &key, model.len() as u64));
        }
        6 if model.contains(&key) && !model.contains(&other) => {
            cx.delete_part(life, SPACE, &key).expect("short");
            cx.put_part(life, SPACE, &other, b"").expect("short");
            model.remove(&key);
            model.insert(other.clone());
            done(counted.moved(cx, &key, &other, model.len() as u64));
        }
        7 => {
            let (from, to) = if key < other { (key, other) } else { (other, key) };
            let gone: Vec<Vec<u8>> = model.range(from..to).take(usize::from(b % 64)).cloned().collect();
            for key in &gone {
                cx.delete_part(life, SPACE, key).expect("short");
                model.remove(key);
            }
            done(counted.all_removed(cx, &gone));
        }
        _ if model.remove(&key) => {
            cx.delete_part(life, SPACE, &key).expect("short");
            done(counted.all_removed(cx, &[key]));
        }
        _ => {}
    }
}

/// Ranks both ways.
fn compare(cx: &mut Context<'_>, counted: &Counted<'_>, model: &BTreeSet<Vec<u8>>, asked: u16) {
    let place = key(asked);
    assert_eq!(done(counted.before(cx, &place)), model.range(..place).count() as u64);
    let rank = u64::from(asked) % (model.len() as u64 + 2);
    assert_eq!(done(counted.at(cx, rank)).as_ref(), model.iter().nth(rank as usize));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranks_are_those_of_a_sorted_list(
        first in 0..400_u16, fan in 2..6_u64, steps in vec((0..9_u8, 0..500_u16, 0..500_u16), 0..250)
    ) {
        with_context(|cx| {
            let (mut counted, mut model) = (counted(fan), BTreeSet::new());
            model.extend((0..first).map(key));
            let keys: Vec<Vec<u8>> = model.iter().cloned().collect();
            for key in &keys {
                cx.put_part(Life::new(7), SPACE, key, b"").expect("short");
            }
            counted.fill(cx, &keys).expect("short");
            check(cx, &counted, &model);
            for (index, chosen) in steps.into_iter().enumerate() {
                // Whoever knows the first entry says so; who does not, says nothing.
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

#[test]
fn all_levels_come_and_go() {
    with_context(|cx| {
        let (mut counted, mut model, mut highest) = (counted(4), BTreeSet::new(), 0);
        for number in 0..600 {
            step(cx, &mut counted, &mut model, (0, number * 7 % 600, 0));
            highest = highest.max(counted.levels);
        }
        check(cx, &counted, &model);
        assert_eq!(highest, LEVELS_MAX);
        for number in 0..600 {
            step(cx, &mut counted, &mut model, (8, number * 11 % 600, 0));
            compare(cx, &counted, &model, number);
        }
        check(cx, &counted, &model);
        assert_eq!((model.len(), counted.levels), (0, 0));
    });
}
