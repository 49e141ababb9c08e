//! Which clients are told what, and what is remembered.

use weir_command::reply::Protocol::{self, Resp2, Resp3};

use super::*;
use crate::mailbox::Speaks;

fn speaks(protocol: Protocol, is_subscriber: bool) -> Speaks {
    Speaks { protocol, is_subscriber }
}

/// The connections that receive messages, in their order, with the messages in RESP3.
fn told(messages: impl IntoIterator<Item = Message>) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    for message in messages {
        for &receiver in &message.receivers {
            let (_, front) = message.front(receiver, speaks(Resp3, false)).expect("RESP3 is told everything");
            let words = [front, message.rest(Resp3)].concat();
            let text = String::from_utf8_lossy(&words);
            let words: Vec<&str> = text.split("\r\n").filter(|word| !word.starts_with('$')).collect();
            all.push((receiver.told, words.join(" ")));
        }
    }
    all.sort_by_key(|(told, _)| *told);
    all
}

fn told_of(to: u64, words: &str) -> (u64, String) {
    (to, format!("{words} "))
}

#[test]
fn a_change_is_told_once_to_those_who_have_read_the_key() {
    let tracking = Tracking::default();
    assert!(!tracking.is_in_use());
    assert!(tracking.enable(1, Mode::default(), None, &[]));
    assert!(tracking.enable(2, Mode { no_loop: true, ..Mode::default() }, None, &[]));
    tracking.remember(1, [&b"a"[..], b"b"].into_iter());
    tracking.remember(2, [&b"a"[..]].into_iter());
    assert_eq!(tracking.counts(), TrackingCounts { clients: 2, keys: 2, items: 3, prefixes: 0 });
    assert_eq!(told(tracking.changed(b"a", 2)), [told_of(1, "invalidate *1 a")], "2 knows what it does");
    assert!([b"a", b"c"].into_iter().all(|key| tracking.changed(key, 9).next().is_none()));
    assert_eq!(told(tracking.flushed()), [told_of(1, "invalidate _"), told_of(2, "invalidate _")]);
    assert_eq!(tracking.counts().keys, 0);
    tracking.disable(1);
    tracking.disable(2);
    assert!(!tracking.is_in_use());
}

#[test]
fn those_in_broadcast_mode_are_told_all_keys_of_a_prefix_at_once() {
    let tracking = Tracking::default();
    let mode = Mode { broadcast: true, ..Mode::default() };
    assert!(tracking.enable(1, mode.clone(), None, &[b"a", b"b"]));
    assert!(tracking.enable(2, Mode { no_loop: true, ..mode.clone() }, None, &[]));
    assert!(tracking.enable(3, mode, None, &[b"a"]));
    for (key, by) in [(&b"a2"[..], 2), (b"c", 2), (b"b", 3), (b"a1", 3), (b"a2", 3)] {
        assert!(tracking.changed(key, by).next().is_none());
    }
    let expected = [
        told_of(1, "invalidate *2 a1 a2"),
        told_of(1, "invalidate *1 b"),
        told_of(2, "invalidate *3 a1 a2 b"),
        told_of(3, "invalidate *2 a1 a2"),
    ];
    let messages: Vec<Message> = tracking.broadcast().collect();
    assert_eq!(messages.len(), 3, "what two connections are told is encoded once");
    assert_eq!(told(messages), expected);
    assert!(tracking.broadcast().next().is_none());
    assert_eq!(tracking.counts().prefixes, 3);
    tracking.disable(2);
    tracking.disable(1);
    assert_eq!(tracking.counts().prefixes, 1, "`a` is still tracked");
}

#[test]
fn the_prefixes_of_all_connections_are_bounded() {
    let tracking = Tracking::default();
    let mode = Mode { broadcast: true, ..Mode::default() };
    let prefixes: Vec<String> = (0..PREFIXES_MAX).map(|n| n.to_string()).collect();
    let prefixes: Vec<&[u8]> = prefixes.iter().map(String::as_bytes).collect();
    assert!(tracking.enable(1, mode.clone(), None, &prefixes));
    assert!(tracking.enable(2, mode.clone(), None, &prefixes[..7]), "others have them");
    assert!(!tracking.enable(3, mode.clone(), None, &[b"x"]));
    tracking.disable(1);
    assert!(tracking.enable(3, mode, None, &[b"x"]));
}

#[test]
fn the_table_is_bounded_and_whoever_loses_a_key_is_told() {
    let tracking = Tracking::default();
    assert!(tracking.enable(1, Mode::default(), None, &[]));
    tracking.set_keys_max(2);
    let keys = [&b"a"[..], b"b", b"c", b"d"];
    tracking.remember(1, keys.into_iter());
    let evicted = || told(std::iter::from_fn(|| tracking.evict()).flatten());
    assert_eq!(evicted(), [told_of(1, "invalidate *1 a"), told_of(1, "invalidate *1 b")]);
    tracking.remember(1, [&b"a"[..]].into_iter());
    assert_eq!(evicted(), [told_of(1, "invalidate *1 c")], "the next one, and not the first again");
    assert_eq!(tracking.counts().keys, 2);
}

#[test]
fn keys_that_are_forgotten_all_at_once_are_freed_in_turns_and_count_until_then() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let tracking = Tracking::default();
        assert!(tracking.enable(1, Mode::default(), None, &[]));
        // Together they take more than half of the memory that there is.
        let key = |number: usize| [number.to_string().as_bytes(), &[b'x'; 40 << 10][..]].concat();
        let keys: Vec<Vec<u8>> = (0..TURN_KEYS + 100).map(key).collect();
        let remember = || tracking.remember(1, keys.iter().map(Vec::as_slice));
        remember();
        drop(tracking.flushed());
        assert_eq!(tracking.counts().keys, 0);
        remember();
        assert!(tracking.evict().is_some(), "what was forgotten is still there");
        while tracking.evict().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(tracking.counts().keys > TURN_KEYS);
    });
}

#[test]
fn in_resp2_only_a_subscriber_is_told_in_the_place_of_another() {
    let [own, others] = [1, 2].map(|told| Receiver { told, keeper: 1 });
    let message = Message::new(vec![own, others], 2, &News::changed(b"k"));
    assert_eq!(message.front(own, speaks(Resp2, true)), None);
    assert_eq!(message.front(others, speaks(Resp2, false)), None);
    let (len, front) = message.front(others, speaks(Resp2, true)).expect("it is told");
    assert_eq!((len, &front[..]), (3, &b"$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"[..]));
    assert_eq!(message.rest(Resp2), b"*1\r\n$1\r\nk\r\n");
    assert_eq!(Message::new(vec![others], 1, &News::flushed()).rest(Resp2), b"$-1\r\n");
    let broken = Message::broken(1, 2);
    assert_eq!((broken.rest(Resp3), broken.front(own, speaks(Resp2, true))), (b":2\r\n".to_vec(), None));
}
