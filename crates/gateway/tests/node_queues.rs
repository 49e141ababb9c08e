//! The node's queues of request units: what waits in them, what is refused, and what they are given back.

use std::sync::Arc;

use weir_gateway::Settings;
use weir_node::waits::Cause;
use weir_node::{Access, OnLimit, RequestOrder, Unit, UnitLimits};

use crate::support::{Running, encode};

#[test]
fn reads_and_writes_wait_in_the_nodes_queues_and_go_on_or_are_refused() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let queue = Arc::clone(weir.store.units.queue());
    queue.set(Some(10_000), RequestOrder::WritesFirst);
    let (mut writer, mut reader) = (weir.connect(), weir.connect());
    // The tenant has no limit. Commands beyond the units of a tenth of a second wait.
    let until_waiting = |expected: [usize; 2]| {
        while queue.waiting() != expected {
            std::thread::yield_now();
        }
    };
    let pipeline: Vec<u8> = (0..1000).flat_map(|_| encode(&["SET", "k", "v"])).collect();
    writer.send(&pipeline);
    until_waiting([0, 1]);
    reader.send(&encode(&["GET", "k"]));
    until_waiting([1, 1]);
    assert_eq!(weir.connect().say("PING"), "+PONG\r\n", "what touches no data passes");
    // A second later both have waited too long.
    weir.clock.advance(1);
    let refused = reader.reply();
    let text = String::from_utf8_lossy(&refused);
    assert!(text.starts_with("-THROTTLED retry_in_ms=") && text.contains("reason=node_ru"), "{text}");
    until_waiting([0, 1]);
    // Without a threshold, all of them go on.
    queue.set(None, RequestOrder::WritesFirst);
    let replies: Vec<Vec<u8>> = (0..1000).map(|_| writer.reply()).collect();
    let refused = replies.iter().filter(|reply| reply.starts_with(b"-THROTTLED")).count();
    assert_eq!(replies.iter().filter(|reply| reply.starts_with(b"+OK")).count() + refused, 1000);
    let [reads, writes] = queue.stats();
    assert_eq!((reads.delayed, reads.refused), (1, 1));
    assert_eq!(writes.refused as usize, refused);
    assert!(writes.delayed >= 2, "{writes:?}");
}

/// Its commands enter as one, and each of them has cost less than it was charged.
#[test]
fn a_transaction_gives_back_no_more_than_it_took_from_the_nodes_queues() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let mut client = weir.connect();
    assert_eq!([client.say("SET k v"), client.say("MULTI")], ["+OK\r\n", "+OK\r\n"]);
    let long = "v".repeat(100_000);
    (0..20).for_each(|_| assert_eq!(client.ask(&["SETNX", "k", &long]), b"+QUEUED\r\n"));
    // The queues take at most the 36 units of 0.6 s of it. It costs more than that, and is charged as much too much.
    let queue = Arc::clone(weir.store.units.queue());
    queue.set(Some(60_000), RequestOrder::WritesFirst);
    assert!(client.say("EXEC").starts_with("*20\r\n:0\r\n"));
    assert!(queue.enter(Access::Read, 7, 1).waits(), "the debt of half a second is still there");
    queue.set(None, RequestOrder::WritesFirst);
}

/// Also that of a tenant without a limit of request units. Here only its read units make it wait.
#[test]
fn the_node_knows_what_a_long_command_has_used_before_it_ends() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let pairs: Vec<String> = (0..3000).flat_map(|index| [format!("k{index}"), "v".to_owned()]).collect();
    client.ask(&[vec!["MSET".to_owned()], pairs].concat());
    weir.clock.freeze();
    let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
    weir.store.quota.set_limits(&UnitLimits { rcu: 1, on_limit, ..UnitLimits::default() });
    let queue = Arc::clone(weir.store.units.queue());
    queue.set(Some(10_000), RequestOrder::WritesFirst);
    assert!(!queue.enter(Access::Read, 7, 1).waits(), "there are units");
    client.send(&encode(&["KEYS", "*"]));
    while weir.store.quota.waiting(Unit::Read) == 0 {
        std::thread::yield_now();
    }
    assert!(queue.enter(Access::Read, 7, 1).waits(), "one page was dearer than all that was there");
    queue.set(None, RequestOrder::WritesFirst);
    weir.store.quota.set_limits(&UnitLimits::default());
    assert!(client.reply().starts_with(b"*3000\r\n"));
}

#[test]
fn a_wait_in_the_nodes_queue_is_told_as_that_and_not_as_the_tenants_quota() {
    let weir = Running::start(Settings::default());
    weir.clock.freeze();
    let queue = Arc::clone(weir.store.units.queue());
    queue.set(Some(10_000), RequestOrder::WritesFirst);
    let mut writer = weir.connect();
    writer.send(&(0..1000).flat_map(|_| encode(&["SET", "k", "v"])).collect::<Vec<_>>());
    while queue.waiting() != [0, 1] {
        std::thread::yield_now();
    }
    weir.clock.advance_nanos(50_000_000);
    queue.set(None, RequestOrder::WritesFirst);
    (0..1000).for_each(|_| assert_eq!(writer.reply(), b"+OK\r\n"));
    let slow = weir.slow_reply_that_waited(1, "set");
    let waited = |cause: &str| Cause::NAMES.iter().zip(slow.waited).find(|(name, _)| **name == cause);
    assert_eq!(waited("node_queue").map(|(_, nanos)| nanos), Some(50_000_000), "{slow:?}");
    assert_eq!(slow.waited.iter().sum::<u64>(), 50_000_000, "{slow:?}");
}
