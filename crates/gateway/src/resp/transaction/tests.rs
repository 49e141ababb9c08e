//! How much may be queued.

use weir_command::{TURN_KEYS, table};

use super::*;
use crate::tenant::byte_budget::ByteBudget;

/// How often a connection alone can queue the command of `words`, at most `most` times.
fn queued(words: &[&[u8]], most: usize) -> usize {
    let budget = ByteBudget::new(1 << 20);
    let mut queue = Queue::new(budget.hold());
    let command = table::find(words[0]).expect("a command");
    let request = Request::new(0, 0, words.iter().copied());
    (0..most).take_while(|_| queue.add(command, request.args()).is_ok()).count()
}

#[test]
fn s12_a_connection_queues_no_more_than_the_whole_budget() {
    let value = vec![b'x'; 64 << 10];
    assert_eq!(queued(&[b"SET", b"k", &value], 100), 15);
}

#[test]
fn s12_words_without_bytes_count_too() {
    let mut words = vec![&b""[..]; 1000];
    words[0] = b"DEL";
    let queued = queued(&words, 10_000);
    assert!((100..150).contains(&queued), "{queued}");
}

#[test]
fn s12_short_commands_count_with_what_they_take_when_they_run() {
    let queued = queued(&[b"PING"], 10_000);
    assert!((1900..2050).contains(&queued), "{queued}");
}

#[test]
fn s12_what_will_not_be_executed_is_not_kept() {
    let budget = ByteBudget::new(1 << 20);
    let mut queue = Queue::new(budget.hold());
    let command = table::find(b"SET").expect("a command");
    let value = vec![b'x'; 64 << 10];
    let request = Request::new(0, 0, [&b"SET"[..], b"k", &value]);
    assert_eq!(queue.add(command, request.args()), Ok(()));
    queue.is_spoiled = true;
    assert!((0..100).all(|_| queue.add(command, request.args()).is_ok()));
    assert_eq!(queue.commands.len(), 1);
}

#[test]
fn s14_what_was_queued_is_dropped_in_turns_and_counts_until_then() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let budget = ByteBudget::new(1 << 20);
        let mut queue = Queue::new(budget.hold());
        let command = table::find(b"PING").expect("a command");
        let request = Request::new(0, 0, [&b"PING"[..]]);
        (0..2 * TURN_KEYS).for_each(|_| assert_eq!(queue.add(command, request.args()), Ok(())));
        drop(queue);
        let mut another = budget.hold();
        assert!(!another.try_grow_to(1 << 20));
        while !another.try_grow_to(1 << 20) {
            tokio::task::yield_now().await;
        }
    });
}
