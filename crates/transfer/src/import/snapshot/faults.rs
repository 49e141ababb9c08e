//! Tests that a tenant which puts off, refuses and breaks off gets all of a snapshot, once and in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::rdb::file::{Writer, push_library};
use weir_model::parts::stream::{EntryId, PendingValue};
use weir_model::parts::{GroupShape, StreamShape};

use super::fake_dump;
use super::fake_store::{FakeStore, Faults, Row, Rows};
use crate::failure::{Remedy, Result};
use crate::import::hasty_clock::HastyClock;
use crate::import::{Choice, Import, import_file};
use crate::tally::Tally;
use crate::target::{ExpiryPause, Lanes, Target};
use crate::verify::verify_file;
use crate::within::pause;

/// A stream of `count` entries, with a group in which some of them are pending.
fn stream(count: u64) -> StreamShape {
    let id = |ms| EntryId { ms, seq: 0 };
    let entry = |ms: u64| (id(ms), vec![b"field".to_vec(), ms.to_string().into_bytes()]);
    let pending = |ms| (id(ms), PendingValue { delivered_ms: 5, deliveries: 2, consumer: b"worker".to_vec() });
    let delivered = count.min(40);
    let group = GroupShape {
        delivered: id(delivered),
        read: Some(delivered),
        consumers: BTreeMap::from([(b"worker".to_vec(), 0)]),
        pending: (1..=delivered).map(pending).collect(),
    };
    StreamShape {
        entries: (1..=count).map(entry).collect(),
        last: id(count + 5),
        max_deleted: id(count + 5),
        added: count + 1,
        groups: BTreeMap::from([(b"group".to_vec(), group)]),
    }
}

/// Keys of all kinds, of one request, of several, and of several batches.
fn source() -> Rows {
    let value = |number: usize| format!("{number:0100}").into_bytes();
    let mut rows = Rows::new();
    for number in 0..40 {
        rows.insert(format!("text-{number}").into_bytes(), Row::Text(value(number)));
    }
    for (name, len) in [("list-1", 3), ("list-2", 1_200), ("list-3", 6_500), ("list-4", 3)] {
        rows.insert(name.into(), Row::List((0..len).map(value).collect()));
    }
    for (name, count) in [("stream-1", 0), ("stream-2", 3), ("stream-3", 1_700)] {
        rows.insert(name.into(), Row::Stream(stream(count)));
    }
    rows
}

/// A dump of `rows`.
async fn dump(rows: &Rows) -> Vec<u8> {
    fake_dump::dump(rows, |_| None).await
}

/// Imports everything into a tenant with `faults`; gives the tenant, the import, and how it ended.
async fn imported(faults: Faults) -> (FakeStore, Import, Result) {
    let store = FakeStore::start(faults).await;
    // Everything but strings comes in parts.
    let (import, done) = import_into(&store, &source(), HastyClock::new(), 1).await;
    (store, import, done)
}

/// Imports `rows` into `store`, values of more than `whole_bytes_max` in parts; gives the import, and how it ended.
async fn import_into(
    store: &FakeStore,
    rows: &Rows,
    clock: Arc<dyn weir_io::Clock>,
    whole_bytes_max: usize,
) -> (Import, Result) {
    let file = dump(rows).await;
    let target = Target::new(store.address.clone(), Arc::clone(&clock));
    let import = Import { target, choice: Choice::default(), tally: Arc::default(), whole_bytes_max, clock };
    let done = import_file(&import, &file[..], file.len() as u64).await;
    (import, done)
}

fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
}

/// Asserts that everything is in a tenant with `faults`. Gives how often it answered with an error that begins with
/// `word`, or broke the link (`BREAK`).
fn assert_all_is_there(faults: &Faults, word: &str) -> u64 {
    in_runtime(async {
        let (store, import, done) = imported(faults.clone()).await;
        done.unwrap_or_else(|failure| panic!("{faults:?}: {failure}"));
        assert_eq!(import.tally.refused().0, [], "{faults:?}");
        let (there, expected) = (store.rows(), source());
        for (key, row) in &expected {
            // Too long to be shown.
            assert!(there.get(key) == Some(row), "{faults:?}: {}", key.escape_ascii());
        }
        assert_eq!(there.len(), expected.len());
        assert_eq!(import.tally.keys.load(Ordering::Relaxed), expected.len() as u64, "{faults:?}");
        store.refusals(word)
    })
}

#[test]
fn everything_is_imported_in_order_however_often_it_is_put_off() {
    for put_off in [7, 5, 3, 2] {
        let with = |no_mset| Faults { put_off, no_mset, ..Faults::default() };
        let refusals = [true, false].map(|no_mset| assert_all_is_there(&with(no_mset), "THROTTLED"));
        assert!(refusals.iter().sum::<u64>() > 0, "{put_off}");
    }
}

#[test]
fn strings_are_set_together_where_the_tenant_takes_that() {
    for no_mset in [false, true] {
        in_runtime(async {
            let mut rows = source();
            rows.retain(|_, row| matches!(row, Row::Text(_)));
            let store = FakeStore::start(Faults { no_mset, ..Faults::default() }).await;
            let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
            done.expect("nothing breaks");
            assert_eq!(import.tally.refused().0, []);
            assert_eq!(import.tally.keys.load(Ordering::Relaxed), 40);
            assert!(store.rows() == rows);
            // Each lane has several of them, and is refused once.
            let (together, alone, refused) = (store.done("MSET"), store.done("SET"), store.refusals("NOPERM"));
            assert_eq!((together, alone, refused), if no_mset { (0, 40, 4) } else { (4, 0, 0) });
        });
    }
}

/// Of a dump that is read slowly, no more than a second's bytes are gathered before they are written.
#[test]
fn strings_are_not_held_back_where_the_source_is_read_slowly() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|_, row| matches!(row, Row::Text(_)));
        let store = FakeStore::start(Faults::default()).await;
        let (file, clock) = (dump(&rows).await, HastyClock::new());
        let target = Target::new(store.address.clone(), clock.clone());
        let choice = Choice { rate: Some(1_000), ..Choice::default() };
        let import = Import { target, choice, tally: Arc::default(), whole_bytes_max: 1, clock };
        import_file(&import, &file[..], file.len() as u64).await.expect("nothing breaks");
        assert!(store.rows() == rows);
        // Ten strings have a thousand bytes: four times ten, three of them on each lane but the last.
        assert_eq!((store.done("MSET"), store.done("SET")), (12, 4));
    });
}

#[test]
fn a_transaction_that_never_passes_is_cut() {
    for max in [1, 2, 3, 10, 100] {
        for put_off in [0, 3] {
            let faults = Faults { commands_max: Some(max), put_off, ..Faults::default() };
            assert!(assert_all_is_there(&faults, "THROTTLED") > 0, "{faults:?}");
            let faults = Faults { queued_max: Some(max), put_off, ..Faults::default() };
            assert!(assert_all_is_there(&faults, "EXECABORT") > 0, "{faults:?}");
        }
    }
}

#[test]
fn a_comparison_waits_for_what_is_put_off() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|_, row| matches!(row, Row::Text(_)));
        let store = FakeStore::start(Faults { put_off: 2, ..Faults::default() }).await;
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("everything passes");
        rows.insert(b"only in the dump".to_vec(), Row::Text(b"value".to_vec()));
        let (file, before) = (dump(&rows).await, store.refusals("THROTTLED"));
        let compared = verify_file(&import, &file[..]).await.expect("both can be read");
        assert_eq!((compared.keys, compared.different), (rows.len() as u64, 1), "{:?}", compared.differences);
        assert_eq!(compared.differences[0].key, "only in the dump");
        assert!(store.refusals("THROTTLED") > before);
    });
}

#[test]
fn a_value_that_is_longer_than_the_longest_word_comes_in_parts() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|key, _| key == b"list-2" || key == b"text-1");
        let store = FakeStore::start(Faults { word_bytes_max: Some(20_000), ..Faults::default() }).await;
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1 << 20).await;
        done.expect("nothing breaks");
        assert_eq!(import.tally.refused().0, []);
        assert!(store.rows() == rows && store.refusals("BREAK") == 0);
    });
}

/// Small values in front of a long one use up the units, and those behind it are done while it is put off.
#[test]
fn a_long_value_between_short_ones_passes_where_nothing_waits() {
    let mut rows = Rows::new();
    for number in 0..40 {
        for place in ["front", "rear"] {
            rows.insert(format!("{place}-{number}").into_bytes(), Row::Text(vec![b'v'; 100]));
        }
    }
    rows.insert(b"long".to_vec(), Row::Text(vec![b'v'; 5_000]));
    // Together they cost more than the tenant may save up.
    for no_mset in [true, false] {
        in_runtime(async {
            let clock: Arc<dyn weir_io::Clock> = HastyClock::new();
            let store = FakeStore::start(Faults { no_mset, ..Faults::default() }).await;
            store.limit(&clock, 1_000);
            let (import, done) = import_into(&store, &rows, clock, 1).await;
            done.expect("everything passes");
            assert_eq!(import.tally.refused().0, []);
            assert!(store.rows() == rows && store.refusals("THROTTLED") > 0);
        });
    }
}

#[test]
fn a_login_without_transactions_imports_in_order() {
    for put_off in [0, 2, 3] {
        let faults = Faults { no_transactions: true, put_off, ..Faults::default() };
        assert!(assert_all_is_there(&faults, "NOPERM") > 0, "{faults:?}");
    }
}

/// Imports into tenants that are like one of `likes`, and break off at one in so many commands or transactions.
fn assert_nothing_is_done_twice(likes: &[Faults], everies: [u64; 3]) {
    let (mut breaks, mut failures) = (0, 0);
    for (like, every) in likes.iter().flat_map(|like| everies.map(|every| (like, every))) {
        breaks += assert_all_is_there(&Faults { break_behind: every, ..like.clone() }, "BREAK");
        breaks += assert_all_is_there(&Faults { break_before: every, ..like.clone() }, "BREAK");
        failures += assert_all_is_there(&Faults { fail_behind: every, ..like.clone() }, "ERR");
        failures += assert_all_is_there(&Faults { fail_before: every, ..like.clone() }, "ERR");
    }
    assert!(breaks > 3 && failures > 3, "{likes:?}: only {breaks} breaks and {failures} failures");
}

#[test]
fn nothing_is_done_twice_when_links_break_or_the_disk_fails() {
    let likes = [false, true].map(|no_mset| Faults { no_mset, ..Faults::default() });
    assert_nothing_is_done_twice(&likes, [7, 11, 13]);
    // One by one there are more commands, and a batch is tried again only so often.
    for put_off in [0, 7] {
        for max in [1, 7] {
            let like = Faults { commands_max: Some(max), put_off, ..Faults::default() };
            assert_nothing_is_done_twice(std::slice::from_ref(&like), [130, 150, 170]);
            assert_nothing_is_done_twice(&[Faults { of_keys: "list", ..like }], [3, 4, 5]);
        }
    }
}

#[test]
fn a_disk_that_stays_broken_ends_the_import() {
    in_runtime(async {
        let (_, import, done) = imported(Faults { fail_before: 1, ..Faults::default() }).await;
        let failure = done.expect_err("nothing can be written");
        assert!(failure.message.contains("the disk failed") && failure.message.contains("20 times"), "{failure}");
        assert!(import.clock.now() > 60 * crate::within::SECOND, "it was not waited");
    });
}

#[test]
fn what_fails_for_good_at_the_target_is_not_tried_with_another_snapshot() {
    in_runtime(async {
        let store = FakeStore::start(Faults { fail_before: 1, ..Faults::default() }).await;
        let target = Target::new(store.address.clone(), HastyClock::new());
        let mut lanes = Lanes::new(&target, &Arc::default());
        lanes.batch(0, b"key").await.expect("a batch").push(&["SET", "key", "value"]);
        let failure = lanes.finish().await.expect_err("nothing can be written");
        assert_eq!(failure.remedy, Remedy::None, "{failure}");
    });
}

#[test]
fn keys_whose_names_are_too_long_are_listed_and_left_out() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|key, _| key == b"list-2" || key == b"text-1");
        let expected = rows.clone();
        rows.insert(vec![b'a'; 30_000], Row::Text(b"value".to_vec()));
        // This one comes in parts.
        rows.insert(vec![b'm'; 30_000], Row::List(vec![vec![b'v'; 100]; 3]));
        let store = FakeStore::start(Faults { word_bytes_max: Some(20_000), ..Faults::default() }).await;
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        assert!(store.rows() == expected && store.refusals("BREAK") == 0);
        let mut refused: Vec<String> = import.tally.refused().0.into_iter().map(|refused| refused.what).collect();
        // Each lane lists its own.
        refused.sort();
        // As far as they are shown.
        assert_eq!(refused, ["a".repeat(200), "m".repeat(200)]);
        assert_eq!(import.tally.keys.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_comparison_lists_keys_whose_names_are_too_long_and_goes_on() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|key, _| key == b"text-1");
        rows.insert(vec![b'a'; 30_000], Row::Text(b"value".to_vec()));
        // This one comes in parts.
        rows.insert(vec![b'm'; 30_000], Row::List(vec![vec![b'v'; 100]; 3]));
        let store = FakeStore::start(Faults { word_bytes_max: Some(20_000), ..Faults::default() }).await;
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        let file = dump(&rows).await;
        let compared = verify_file(&import, &file[..]).await.expect("both can be read");
        assert_eq!((compared.keys, compared.different), (3, 2), "{:?}", compared.differences);
        for (difference, letter) in compared.differences.iter().zip(["a", "m"]) {
            assert_eq!(difference.key, letter.repeat(200));
            assert!(difference.what.contains("30000 bytes"), "{difference:?}");
        }
        assert_eq!(store.refusals("BREAK"), 0);
    });
}

#[test]
fn a_comparison_by_size_is_also_of_the_end() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|key, _| key == b"list-2" || key == b"text-1");
        let store = FakeStore::start(Faults::default()).await;
        // The tenant dumps nothing.
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        let (same, ending) = (dump(&rows).await, fake_dump::dump(&rows, |_| Some(4_102_444_800_000)).await);
        rows.insert(b"list-2".to_vec(), Row::List(vec![b"v".to_vec(); 3]));
        rows.insert(b"text-1".to_vec(), Row::Text(b"v".to_vec()));
        for (file, different) in [(same, 0), (ending, 2), (dump(&rows).await, 2)] {
            let compared = verify_file(&import, &file[..]).await.expect("both can be read");
            assert_eq!((compared.keys, compared.by_size), (2, 2));
            assert_eq!(compared.different, different, "{:?}", compared.differences);
        }
    });
}

#[test]
fn a_comparison_by_size_is_also_of_the_type() {
    in_runtime(async {
        let mut rows = source();
        rows.retain(|key, _| key == b"list-2" || key == b"text-1");
        // As many bytes as the list has values, and as many values as the string has bytes.
        let others = Rows::from([
            (b"list-2".to_vec(), Row::Text(vec![b'v'; 1_200])),
            (b"text-1".to_vec(), Row::List(vec![b"v".to_vec(); 100])),
        ]);
        let store = FakeStore::start(Faults::default()).await;
        // The tenant dumps nothing.
        let (import, done) = import_into(&store, &others, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        let file = dump(&rows).await;
        let compared = verify_file(&import, &file[..]).await.expect("both can be read");
        assert_eq!((compared.keys, compared.by_size, compared.different), (2, 2, 2));
        for (difference, (there, here)) in compared.differences.iter().zip([("list", "string"), ("string", "list")]) {
            assert_eq!(difference.what, format!("its type is {there} in the dump, and {here} here"));
        }
    });
}

#[test]
fn a_string_that_is_too_long_for_the_tenant_is_not_what_it_has() {
    in_runtime(async {
        let mut rows = Rows::from([(b"text".to_vec(), Row::Text(b"v".to_vec()))]);
        let store = FakeStore::start(Faults { word_bytes_max: Some(20_000), ..Faults::default() }).await;
        // The tenant dumps nothing.
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        rows.insert(b"text".to_vec(), Row::Text(vec![b'v'; 30_000]));
        let file = dump(&rows).await;
        let compared = verify_file(&import, &file[..]).await.expect("both can be read");
        assert_eq!((compared.keys, compared.different), (1, 1), "{:?}", compared.differences);
    });
}

#[test]
fn a_key_of_several_batches_counts_if_all_of_them_were_taken() {
    in_runtime(async {
        let store = FakeStore::start(Faults::default()).await;
        let target = Target::new(store.address.clone(), HastyClock::new());
        let tally: Arc<Tally> = Arc::default();
        let mut lanes = Lanes::new(&target, &tally);
        // More than a batch has.
        let long = "v".repeat(300 << 10);
        for key in ["taken", "refused", "taken as well"] {
            let batch = lanes.batch(0, key.as_bytes()).await.expect("a batch");
            if key == "refused" {
                // There is no such stream.
                batch.push(&["XSETID", key, "1-0", "ENTRIESADDED", "1", "MAXDELETEDID", "0-0"]);
            }
            batch.push(&["SET", key, long.as_str()]);
            let batch = lanes.batch(0, key.as_bytes()).await.expect("the next batch");
            batch.push(&["SET", key, "value"]);
            batch.finish();
        }
        lanes.finish().await.expect("nothing breaks");
        assert_eq!((tally.keys.load(Ordering::Relaxed), tally.refusals()), (2, 1));
    });
}

#[test]
fn a_key_counts_as_refused_once_however_many_of_its_requests_are() {
    in_runtime(async {
        let store = FakeStore::start(Faults::default()).await;
        let target = Target::new(store.address.clone(), HastyClock::new());
        let tally: Arc<Tally> = Arc::default();
        let mut lanes = Lanes::new(&target, &tally);
        // More than a batch has.
        let long = "v".repeat(300 << 10);
        for (key, refusals) in [("taken", 0), ("refused", 2), ("refused as well", 2)] {
            for _ in 0..3 {
                let batch = lanes.batch(0, key.as_bytes()).await.expect("a batch");
                batch.push(&["SET", key, long.as_str()]);
                for _ in 0..refusals {
                    // This is no stream.
                    batch.push(&["XSETID", key, "1-0", "ENTRIESADDED", "1", "MAXDELETEDID", "0-0"]);
                }
            }
            lanes.batch(0, key.as_bytes()).await.expect("the last batch").finish();
        }
        lanes.finish().await.expect("nothing breaks");
        assert_eq!(store.refusals("WRONGTYPE"), 12);
        assert_eq!((tally.keys.load(Ordering::Relaxed), tally.refusals()), (1, 2));
    });
}

#[test]
fn a_key_of_which_something_is_left_out_counts_as_refused_once() {
    in_runtime(async {
        let store = FakeStore::start(Faults::default()).await;
        let target = Target::new(store.address.clone(), HastyClock::new());
        let tally: Arc<Tally> = Arc::default();
        let mut lanes = Lanes::new(&target, &tally).within(1_000);
        let long = "v".repeat(2_000);
        for key in ["taken", "left out"] {
            let batch = lanes.batch(0, key.as_bytes()).await.expect("a batch");
            if key == "left out" {
                // There is no such stream.
                batch.push(&["XSETID", key, "1-0", "ENTRIESADDED", "1", "MAXDELETEDID", "0-0"]);
                batch.push(&["SET", key, long.as_str()]);
                batch.push(&["SET", key, long.as_str()]);
            }
            batch.push(&["SET", key, "value"]);
            batch.finish();
        }
        lanes.finish().await.expect("nothing breaks");
        assert_eq!((tally.keys.load(Ordering::Relaxed), tally.refusals()), (1, 1));
        let (refused, _) = tally.refused();
        assert_eq!(refused[0].what, "left out");
        assert!(refused[0].reason.contains("2000 bytes"), "{}", refused[0].reason);
    });
}

#[test]
fn libraries_of_functions_that_are_refused_are_listed_one_by_one() {
    in_runtime(async {
        let mut writer = Writer::new(&[]);
        for name in ["one", "two"] {
            push_library(&mut writer.waiting, format!("#!lua name={name}\nreturn 1").as_bytes());
        }
        let mut file = writer.take();
        file.extend(writer.end());
        let store = FakeStore::start(Faults::default()).await;
        let clock: Arc<dyn weir_io::Clock> = HastyClock::new();
        let target = Target::new(store.address.clone(), Arc::clone(&clock));
        let import = Import { target, choice: Choice::default(), tally: Arc::default(), whole_bytes_max: 1, clock };
        import_file(&import, &file[..], file.len() as u64).await.expect("the rest is imported");
        let refused: Vec<String> = import.tally.refused().0.into_iter().map(|refused| refused.what).collect();
        assert_eq!(refused, ["#!lua name=one", "#!lua name=two"]);
        assert_eq!(import.tally.refusals(), 2);
    });
}

#[test]
fn keys_that_are_named_like_ours_are_listed_and_left_out() {
    in_runtime(async {
        let mut rows = Rows::new();
        rows.insert(b"weir:import:position".to_vec(), Row::Text([&[b'8'; 40][..], b" 7 0"].concat()));
        // This one comes in parts.
        rows.insert(b"weir:import:position:2".to_vec(), Row::List(vec![vec![b'v'; 100]; 3]));
        rows.insert(b"weir:import:positions".to_vec(), Row::Text(b"value".to_vec()));
        let store = FakeStore::start(Faults::default()).await;
        let (import, done) = import_into(&store, &rows, HastyClock::new(), 1).await;
        done.expect("nothing breaks");
        let there: Vec<Vec<u8>> = store.rows().into_keys().collect();
        assert_eq!(there, [b"weir:import:positions".to_vec()]);
        let refused: Vec<String> = import.tally.refused().0.into_iter().map(|refused| refused.what).collect();
        assert_eq!(refused, ["weir:import:position", "weir:import:position:2"]);
        // A comparison leaves them out, too.
        let file = dump(&rows).await;
        assert_eq!(verify_file(&import, &file[..]).await.expect("both can be read").keys, 1);
    });
}

#[test]
fn a_key_whose_time_is_over_is_imported_while_the_expiry_of_the_tenant_is_paused() {
    in_runtime(async {
        let ends = [("gone", 1_000), ("extended", 5_000), ("lives", 1_000_000)];
        let ends = BTreeMap::from(ends.map(|(key, end_ms)| (key.as_bytes().to_vec(), end_ms)));
        let rows: Rows = ends.keys().map(|key| (key.clone(), Row::Text(b"value".to_vec()))).collect();
        let file = fake_dump::dump(&rows, |key| ends.get(key).copied()).await;
        let clock: Arc<dyn weir_io::Clock> = HastyClock::new();
        pause(&clock, 9_000).await;
        for (in_step_ms, taken) in [(None, &["lives"][..]), (Some(4_000), &["extended", "lives"])] {
            let store = FakeStore::start(Faults::default()).await;
            let tally: Arc<Tally> = Arc::default();
            let expiry_pause = in_step_ms.map(|in_step_ms| {
                tally.in_step_ms.store(in_step_ms, Ordering::Relaxed);
                Arc::new(ExpiryPause::new(&tally))
            });
            let target = Target { expiry_pause, ..Target::new(store.address.clone(), Arc::clone(&clock)) };
            let (choice, clock) = (Choice::default(), Arc::clone(&clock));
            let import = Import { target, choice, tally, whole_bytes_max: 1 << 20, clock };
            import_file(&import, &file[..], file.len() as u64).await.expect("nothing breaks");
            let there: Vec<Vec<u8>> = store.rows().into_keys().collect();
            assert_eq!(there, taken.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
            assert_eq!(import.tally.expired.load(Ordering::Relaxed), 3 - taken.len() as u64);
        }
    });
}
