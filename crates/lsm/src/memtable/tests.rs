#![allow(clippy::disallowed_methods, reason = "readers on threads of their own are the point")]

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use proptest::prelude::*;
use weir_io::{Class, Memory, Rng, Unbooked};
use weir_model::engine::{Entry, Kind, Range, SEQ_MAX, Scan, ScanStep, Seq, is_expired};

use super::hash_index::Known;
use super::{Memtable, MemtableCursor, PREFETCHED_MAX, Place};
use crate::cursor::{Cursor, Step};
use crate::read::scan::TreeWalk;
use crate::read::view::View;
use crate::table::filter::hash;
use crate::table::{Caching, CursorOptions};

/// Bytes that are booked.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Memory for Counted {
    fn take(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Memtable {
    /// False where the hash index says that a key is not here.
    fn may_contain(&self, key: &[u8]) -> bool {
        // SAFETY: records of this memtable.
        self.index.get().is_none_or(|index| unsafe { index.find(key, hash(key)) } != Known::Absent)
    }
}

/// What an entry holds besides key and sequence number.
type Rest = (Kind, u64, Vec<u8>);
type EntryKey = (Vec<u8>, Reverse<Seq>);
type Model = BTreeMap<EntryKey, Rest>;

const CASES: u32 = if cfg!(miri) { 4 } else { 256 };
const ENTRIES_MAX: usize = if cfg!(miri) { 20 } else { 200 };
/// When scans take place: half of the values that expire have done so.
const NOW_MS: u64 = 1;

thread_local! {
    /// What happens at the next call of `dawdle` in this thread.
    static MISHAP: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// Calls of `dawdle` until this thread gives the processor away, and how many there are between two such; 0 =
    /// never. Counted, not drawn: a test repeats.
    static PATIENCE: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Lets something else happen in the middle of something, in threads that asked for it.
pub(super) fn dawdle() {
    if let Some(mishap) = MISHAP.take() {
        mishap();
    }
    let (left, every) = PATIENCE.get();
    if every > 0 {
        PATIENCE.set((if left == 0 { every } else { left - 1 }, every));
        if left == 0 {
            std::thread::yield_now();
        }
    }
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    // Few letters and short keys, so that keys repeat, are prefixes of each other, and agree in their first eight
    // bytes.
    prop_oneof![
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(b'a'), Just(255)], 0..4),
        "same-eight[ab]{0,3}".prop_map(String::into_bytes),
    ]
}

fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, Rest)>> {
    let put = (0_u64..3, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, value)| (Kind::Put, at, value));
    let head = (0_u64..3).prop_map(|at| (Kind::Head, at, vec![1]));
    let rest = prop_oneof![4 => put, 4 => Just((Kind::Delete, 0, Vec::new())), 1 => head, 1 => Just((Kind::Cover, 0, vec![7; 8]))];
    proptest::collection::vec((keys(), rest), 0..ENTRIES_MAX)
}

fn build(entries: &[(Vec<u8>, Rest)]) -> (Arc<Memtable>, Model) {
    let memtable = Memtable::new();
    let mut model = Model::new();
    for (position, (key, (kind, expire_at_ms, value))) in entries.iter().enumerate() {
        // Not in order: several writers may get their numbers and insert in another order.
        let seq = (position as Seq ^ 1) + 1;
        memtable.insert(Entry { key, seq, kind: *kind, expire_at_ms: *expire_at_ms, value });
        model.insert((key.clone(), Reverse(seq)), (*kind, *expire_at_ms, value.clone()));
    }
    (memtable, model)
}

fn owned(entry: Option<Entry<'_>>) -> Option<(EntryKey, Rest)> {
    entry.map(|e| ((e.key.to_vec(), Reverse(e.seq)), (e.kind, e.expire_at_ms, e.value.to_vec())))
}

fn cloned(entry: Option<(&EntryKey, &Rest)>) -> Option<(EntryKey, Rest)> {
    entry.map(|(key, rest)| (key.clone(), rest.clone()))
}

fn walks_forward(cursor: &mut MemtableCursor, model: &Model) -> Result<(), TestCaseError> {
    let mut step = cursor.seek_first();
    for expected in model {
        prop_assert_eq!(step, Step::Ready);
        prop_assert_eq!(owned(cursor.entry()), cloned(Some(expected)));
        step = cursor.next();
    }
    prop_assert!(cursor.entry().is_none());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_like_a_sorted_map(entries in entries(), probes in proptest::collection::vec((keys(), 0_u64..220), 1..20)) {
        let (memtable, model) = build(&entries);
        prop_assert_eq!(memtable.len(), entries.len());
        let mut cursor = memtable.cursor();
        let wanted: Vec<&[u8]> = probes.iter().map(|(key, _)| &key[..]).take(PREFETCHED_MAX).collect();
        let is_here = |key: &[u8]| model.keys().any(|(here, _)| here == key);
        let expected = wanted.iter().enumerate().fold(0, |mask, (place, key)| mask | u32::from(is_here(key)) << place);
        let search = |wanted_bits| memtable.search_in_step(&wanted, wanted_bits, &mut [Place::UNKNOWN; PREFETCHED_MAX]);
        prop_assert_eq!(search(u32::MAX), expected);
        prop_assert_eq!(search(0b1010), expected & 0b1010);
        for (key, seq) in probes {
            let at = (key.clone(), Reverse(seq));
            let expected = model.range(at.clone()..).next().filter(|((found, _), _)| *found == key);
            let found = memtable.get(&key, seq);
            prop_assert_eq!(
                found.as_ref().map(|f| (Reverse(f.seq), f.kind, f.expire_at_ms, f.value.to_vec())),
                expected.map(|((_, seq), (kind, at, value))| (*seq, *kind, *at, value.clone()))
            );
            prop_assert_eq!(cursor.seek(&key, seq), Step::Ready);
            prop_assert_eq!(owned(cursor.entry()), cloned(model.range(at.clone()..).next()));
            if cursor.entry().is_some() {
                prop_assert_eq!(cursor.prev(), Step::Ready);
                prop_assert_eq!(owned(cursor.entry()), cloned(model.range(..at.clone()).next_back()));
            }
            prop_assert_eq!(cursor.seek_before(&key, seq), Step::Ready);
            prop_assert_eq!(owned(cursor.entry()), cloned(model.range(..at).next_back()));
        }
    }

    #[test]
    fn cursors_walk_both_ways(entries in entries()) {
        let (memtable, model) = build(&entries);
        let mut cursor = memtable.cursor();
        prop_assert!(cursor.entry().is_none());
        walks_forward(&mut cursor, &model)?;
        let mut step = cursor.seek_last();
        for expected in model.iter().rev() {
            prop_assert_eq!(step, Step::Ready);
            prop_assert_eq!(owned(cursor.entry()), cloned(Some(expected)));
            step = cursor.prev();
        }
        prop_assert!(cursor.entry().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// A cursor shows the newest visible version of each key, and older ones only if they are visible; both ways alike.
    #[test]
    fn a_cursor_as_of_a_moment_leaves_out_what_it_can(
        entries in entries(), at in 0_u64..220, probes in proptest::collection::vec((keys(), any::<bool>()), 1..20)
    ) {
        let (memtable, model) = build(&entries);
        let visible: Model = model.into_iter().filter(|((_, seq), _)| seq.0 <= at).collect();
        let mut cursor = memtable.cursor_at(at);
        let mut found = Model::new();
        prop_assert_eq!(cursor.seek_first(), Step::Ready);
        while let Some((place, rest)) = owned(cursor.entry()) {
            prop_assert_eq!(visible.get(&place), Some(&rest));
            let newest = visible.range((place.0.clone(), Reverse(SEQ_MAX))..).next().map(|(newest, _)| newest);
            let last = found.last_key_value().map(|(last, _)| last);
            prop_assert!(newest == Some(&place) || last.is_some_and(|(key, _)| *key == place.0));
            prop_assert!(last.is_none_or(|last| *last < place), "in order");
            found.insert(place, rest);
            prop_assert_eq!(cursor.next(), Step::Ready);
        }
        let keys = |model: &Model| -> std::collections::BTreeSet<Vec<u8>> {
            model.keys().map(|(key, _)| key.clone()).collect()
        };
        prop_assert_eq!(keys(&found), keys(&visible));
        prop_assert_eq!(cursor.seek_last(), Step::Ready);
        for expected in found.iter().rev() {
            prop_assert_eq!(owned(cursor.entry()), cloned(Some(expected)));
            prop_assert_eq!(cursor.prev(), Step::Ready);
        }
        prop_assert!(cursor.entry().is_none());
        for (key, is_newest) in probes {
            let place = (key, Reverse(if is_newest { SEQ_MAX } else { at }));
            prop_assert_eq!(cursor.seek(&place.0, place.1.0), Step::Ready);
            prop_assert_eq!(owned(cursor.entry()), cloned(found.range(place.clone()..).next()));
            if cursor.entry().is_some() {
                prop_assert_eq!(cursor.prev(), Step::Ready);
                prop_assert_eq!(owned(cursor.entry()), cloned(found.range(..place.clone()).next_back()));
            }
            prop_assert_eq!(cursor.seek_before(&place.0, place.1.0), Step::Ready);
            prop_assert_eq!(owned(cursor.entry()), cloned(found.range(..place).next_back()));
        }
    }
}

/// A scan as of `at` of a tree that has only this memtable.
fn scan_of(memtable: &Arc<Memtable>, at: Seq) -> Scan {
    let (memtable, version) = (Arc::clone(memtable), Arc::default());
    let view = Arc::new(View { memtable, sealed: Vec::new(), version, pending_bytes: 0 });
    let options = CursorOptions { class: Class::Read, readahead_bytes: 0, caching: Caching::Leave };
    Scan::new(TreeWalk::new(&view, Range::all(), at, NOW_MS, options))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// A scan shows the newest visible version of each key if that is a value, and nothing else: however many chains a
    /// key has, and wherever the caller or the budget stops it.
    #[test]
    fn a_scan_shows_the_newest_visible_versions(
        entries in entries(), at in 0_u64..220, stops in proptest::collection::vec((0_u64..5, 1_usize..6), 1..8)
    ) {
        let (memtable, model) = build(&entries);
        let mut wanted: Vec<(EntryKey, Rest)> = Vec::new();
        for (place, rest) in model.into_iter().filter(|((_, seq), _)| seq.0 <= at) {
            if wanted.last().is_none_or(|((key, _), _)| *key != place.0) {
                wanted.push((place, rest));
            }
        }
        wanted.retain(|(_, (kind, expire_at_ms, _))| kind.is_value() && !is_expired(*expire_at_ms, NOW_MS));
        let mut scan = scan_of(&memtable, at);
        let mut found = Vec::new();
        for (wanted, budget) in stops.into_iter().cycle() {
            scan.set_budget(budget, u64::MAX);
            let mut left = wanted;
            let step = if wanted == 0 { scan.step() } else {
                scan.show(|entry| {
                    found.extend(owned(Some(entry)));
                    left -= 1;
                    left > 0
                })
            };
            prop_assert_eq!(step, ScanStep::Ready);
            if wanted == 0 {
                found.extend(owned(scan.entry()));
            }
            if scan.entry().is_none() && scan.stopped_at().is_none() {
                break;
            }
        }
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn a_value_outlives_the_memtable() {
    let memtable = Memtable::new();
    memtable.insert(Entry { key: b"k", seq: 1, kind: Kind::Put, expire_at_ms: 0, value: b"a value" });
    let value = memtable.get(b"k", SEQ_MAX).expect("just inserted").value;
    drop(memtable);
    assert_eq!(&*value.clone(), b"a value");
}

#[test]
#[should_panic(expected = "sequence number 7 is used twice")]
fn the_same_version_twice_is_a_bug() {
    let memtable = Memtable::new();
    let entry = Entry { key: b"k", seq: 7, kind: Kind::Delete, expire_at_ms: 0, value: b"" };
    memtable.insert(entry);
    memtable.insert(Entry { key: b"l", ..entry });
    memtable.insert(entry);
}

#[test]
fn an_idle_memtable_is_small_and_every_byte_is_counted() {
    let memtable = Memtable::new();
    assert!(memtable.allocated_bytes() + size_of::<Memtable>() < 2048);
    let (key_bytes, value_bytes, entries) = (16, 100, 10_000);
    for number in 0..entries {
        let key = format!("{number:0key_bytes$}");
        let value = vec![7; value_bytes];
        memtable.insert(Entry { key: key.as_bytes(), seq: 1, kind: Kind::Put, expire_at_ms: 0, value: &value });
    }
    // Header 24, rounding to 8; a full leaf takes 18 for each.
    let payload = entries * (key_bytes + value_bytes);
    assert!((payload..payload + 48 * entries).contains(&memtable.bytes()), "{}", memtable.bytes());
    assert!((memtable.bytes()..memtable.bytes() + (300 << 10)).contains(&memtable.allocated_bytes()));
}

/// The key of an element of a list.
fn element(list: u8, position: i32) -> [u8; 5] {
    let [a, b, c, d] = (position ^ i32::MIN).to_be_bytes();
    [list, a, b, c, d]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_that_grow_at_their_ends_are_found_as_everything_else(
        runs in proptest::collection::vec((0..4_u8, any::<bool>(), 1..90_usize), 1..if cfg!(miri) { 4 } else { 40 }),
        searches: bool,
    ) {
        let (memtable, mut model, mut ends) = (Memtable::new(), Model::new(), [(0, 0); 4]);
        for (list, is_front, len) in runs {
            let (front, back) = &mut ends[usize::from(list)];
            let keys: Vec<[u8; 5]> = (0..len as i32).map(|step| element(list, if is_front { *front - 1 - step } else { *back + step })).collect();
            if is_front { *front -= len as i32 } else { *back += len as i32 }
            let (words, hashes): (Vec<&[u8]>, Vec<u64>) = keys.iter().map(|key| (&key[..], hash(key))).unzip();
            let mut places = memtable.prefetch_inserts(&words, &hashes);
            if searches {
                memtable.search_in_step(&words, (1 << words.len().min(PREFETCHED_MAX)) - 1, &mut places);
            }
            for (at, (key, hash)) in keys.into_iter().zip(hashes).enumerate() {
                let entry = Entry { key: &key, seq: 1, kind: Kind::Put, expire_at_ms: 0, value: &key[1..] };
                memtable.insert_at(entry, hash, places.get(at).copied().unwrap_or(Place::UNKNOWN));
                model.insert((key.to_vec(), Reverse(1)), (Kind::Put, 0, key[1..].to_vec()));
            }
        }
        walks_forward(&mut memtable.cursor(), &model)?;
        for (key, _) in model.keys() {
            prop_assert!(memtable.get(key, 1).is_some());
        }
    }
}

#[test]
fn what_is_prefetched_is_what_is_there() {
    let memtable = Memtable::new();
    let key = |number: u64| (number * 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let put = |number: u64, value: &[u8]| {
        memtable.insert(Entry { key: &key(number), seq: number + 1, kind: Kind::Put, expire_at_ms: 0, value });
    };
    (0..1000).for_each(|number| put(number, b"v"));
    let there: Vec<[u8; 8]> = (0..40).map(key).collect();
    let there: Vec<&[u8]> = there.iter().map(|key| &key[..]).collect();
    let prefetch = |keys: &[&[u8]], wanted| {
        let hashes: Vec<u64> = keys.iter().map(|key| hash(key)).collect();
        memtable.prefetch(keys, &hashes, wanted)
    };
    assert_eq!(prefetch(&there, u32::MAX), 0, "a small one is not searched");
    put(1000, &vec![0; 1 << 20]);
    assert_eq!(prefetch(&there, u32::MAX), (1 << PREFETCHED_MAX) - 1, "no more than it takes");
    assert_eq!(prefetch(&there[..3], u32::MAX), 0b111);
    assert_eq!(prefetch(&[], u32::MAX), 0);
    assert_eq!(prefetch(&[there[0], b"", there[1], &[255; 9]], u32::MAX), 0b101);
    assert_eq!(prefetch(&[there[0], b"", there[1], &[255; 9]], 0b110), 0b100);
}

#[test]
fn a_large_memtable_knows_without_a_search_what_it_has_not() {
    let full_bytes = 4 << 20;
    let memory = Arc::new(Counted::default());
    let memtable = Memtable::booked_to(Arc::clone(&memory) as Arc<dyn Memory>, full_bytes, 0);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let passing = |numbers: std::ops::Range<u64>| numbers.filter(|&number| memtable.may_contain(&key(number))).count();
    let mut number = 0;
    let mut was_complete = false;
    while memtable.bytes() < full_bytes {
        memtable.insert(Entry { key: &key(number), seq: 1, kind: Kind::Put, expire_at_ms: 0, value: &[7; 40] });
        number += 1;
        let is_complete = passing(1 << 40..(1 << 40) + 10) < 10;
        assert!(is_complete || !was_complete, "once there it stays");
        if is_complete != was_complete {
            assert_eq!(passing(0..number), number as usize, "those of before, and those who came while it was made");
            assert!((1 << 20..2 << 20).contains(&memtable.bytes()), "{}", memtable.bytes());
        }
        was_complete = is_complete;
        if number.is_multiple_of(1000) {
            assert_eq!(memory.0.load(Ordering::Relaxed), memtable.booked_bytes());
        }
    }
    assert_eq!(passing(0..number), number as usize);
    let passed = passing(1 << 40..(1 << 40) + 100_000);
    assert_eq!(passed, 0, "of 100000 strangers");
    let hashes: Vec<u64> = (0..3).map(|number| hash(&key(number))).collect();
    let (here, strange) = ([key(0), key(2)], key(1 << 40));
    let hashes = [hashes[0], hash(&strange), hashes[2]];
    assert_eq!(memtable.prefetch(&[&here[0], &strange, &here[1]], &hashes, 0b111), 0b101);
    memtable.prefetch_inserts(&[&here[0], &strange, &here[1]], &hashes);
    let unused = memtable.allocated_bytes() - memtable.bytes();
    let index = number as usize * 3 / 2 * 8;
    assert!((index * 9 / 10..index + (600 << 10)).contains(&unused), "{unused} bytes beside the entries");
    drop(memtable);
    assert_eq!(memory.0.load(Ordering::Relaxed), 0);
}

#[test]
fn large_entries_fit_between_small_ones() {
    let memtable = Memtable::new();
    let large = vec![1; 3 << 20];
    let key = vec![2; 64 << 10];
    for seq in 1..=4 {
        memtable.insert(Entry { key: b"small", seq, kind: Kind::Put, expire_at_ms: 5, value: b"s" });
        memtable.insert(Entry { key: &key, seq, kind: Kind::Put, expire_at_ms: 0, value: &large });
    }
    assert_eq!(memtable.len(), 8);
    assert!(*memtable.get(&key, 3).expect("inserted").value == large[..]);
    assert_eq!(
        memtable.get(b"small", 3).map(|f| (f.seq, f.expire_at_ms, f.value.to_vec())),
        Some((3, 5, b"s".to_vec()))
    );
}

#[test]
fn readers_see_whole_entries_in_order_while_the_writer_goes_on() {
    // Enough for a hash index, unless that would take all day.
    let (keys, rounds) = if cfg!(miri) { (8_u64, 6) } else { (300, 60) };
    let memtable = Memtable::booked_to(Arc::new(Unbooked), 2 << 20, 0);
    // Everything up to this sequence number has been inserted.
    let published = AtomicU64::new(0);
    let key_of = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value_of = |number: u64, seq: Seq| vec![(number ^ seq) as u8; (seq % 50) as usize];
    std::thread::scope(|scope| {
        for reader in 0..2_u64 {
            let (memtable, published) = (&memtable, &published);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                PATIENCE.set((0, 5));
                let last = keys * rounds;
                loop {
                    let seen = published.load(Ordering::Acquire);
                    let number = rng.below(keys);
                    // Key `number` was written at 1 + number + keys * round.
                    let expected = (seen > number).then(|| seen - (seen - 1 - number) % keys);
                    let keys = [key_of(number), key_of(number + 1), key_of(number + 2)];
                    let keys = keys.each_ref().map(|key| &key[..]);
                    memtable.search_in_step(&keys, 0b111, &mut [Place::UNKNOWN; PREFETCHED_MAX]);
                    assert!(expected.is_none() || memtable.may_contain(&key_of(number)), "key {number} at {seen}");
                    let found = memtable.get(&key_of(number), seen);
                    assert_eq!(found.as_ref().map(|f| f.seq), expected, "key {number} at {seen}");
                    if let Some(found) = found {
                        assert_eq!(*found.value, value_of(number, found.seq)[..]);
                    }
                    if rng.below(20) == 0 {
                        let mut cursor = memtable.cursor();
                        let _ = cursor.seek_first();
                        let (mut visible, mut previous) = (0, None);
                        while let Some(entry) = cursor.entry() {
                            let place = (entry.key.to_vec(), Reverse(entry.seq));
                            assert!(previous.is_none_or(|previous| previous < place), "a cursor only moves on");
                            previous = Some(place);
                            visible += u64::from(entry.seq <= seen);
                            let _ = cursor.next();
                        }
                        assert_eq!(visible, seen, "nothing published is missing");
                    }
                    if seen == last {
                        break;
                    }
                }
            });
        }
        PATIENCE.set((0, 7));
        for seq in 1..=keys * rounds {
            let number = (seq - 1) % keys;
            let value = value_of(number, seq);
            memtable.insert(Entry { key: &key_of(number), seq, kind: Kind::Put, expire_at_ms: 0, value: &value });
            published.store(seq, Ordering::Release);
        }
    });
    assert!(cfg!(miri) || !memtable.may_contain(b"a stranger"), "it has a hash index");
}

#[test]
fn a_leaf_that_splits_between_search_and_look_loses_nothing() {
    let key = |number: u64| number.to_be_bytes();
    let put = move |memtable: &Memtable, number: u64| {
        memtable.insert(Entry { key: &key(number), seq: 1, kind: Kind::Put, expire_at_ms: 0, value: b"v" });
    };
    for wanted in (0..128).step_by(4) {
        let memtable = Memtable::new();
        // A full leaf, so that the next insert splits it.
        (0..128).step_by(4).for_each(|number| put(&memtable, number));
        let writer = Arc::clone(&memtable);
        MISHAP.set(Some(Box::new(move || (0..128).step_by(4).for_each(|number| put(&writer, number + 1)))));
        assert!(memtable.get(&key(wanted), SEQ_MAX).is_some(), "get {wanted}");
        assert_eq!(memtable.len(), 64, "the leaf was split meanwhile");
        // A cursor pauses twice: between search and look, and between look and copy.
        for pause in 0..2 {
            for before in [false, true] {
                let memtable = Memtable::new();
                (0..128).step_by(4).for_each(|number| put(&memtable, number));
                let writer = Arc::clone(&memtable);
                let split = move || (0..128).step_by(4).for_each(|number| put(&writer, number + 1));
                if pause == 0 {
                    MISHAP.set(Some(Box::new(split)));
                } else {
                    MISHAP.set(Some(Box::new(|| MISHAP.set(Some(Box::new(split))))));
                }
                let mut cursor = memtable.cursor();
                let _ = if before {
                    cursor.seek_before(&key(wanted + 2), SEQ_MAX)
                } else {
                    cursor.seek(&key(wanted), SEQ_MAX)
                };
                assert_eq!(memtable.len(), 64, "the leaves were split meanwhile");
                let stands_on = cursor.entry().map(|entry| entry.key.to_vec());
                // Before `wanted + 2` comes what was put in meanwhile, if the cursor saw that.
                let expected = [key(wanted), key(wanted + u64::from(before))];
                assert!(expected.iter().any(|key| stands_on.as_deref() == Some(key)), "seek {wanted}, {stands_on:?}");
            }
        }
    }
}
