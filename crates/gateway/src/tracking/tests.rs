//! Who is told what, and what is remembered.

use weir_command::reply::Protocol::{self, Resp2, Resp3};

use super::*;
use crate::mailbox::Speaks;

fn speaks(protocol: Protocol, is_subscriber: bool) -> Speaks {
    Speaks { protocol, is_subscriber }
}

/// Connections that are told, with what they are told in RESP3.
fn told(messages: Vec<Message>) -> Vec<(u64, String)> {
    let text = |message: Message| {
        let to = message.to;
        let (_, front, rest) = message.encoded(speaks(Resp3, false), Resp3).expect("RESP3 is told everything");
        let words = [&front[..], &rest].concat();
        (
            to,
            String::from_utf8_lossy(&words)
                .split("\r\n")
                .filter(|word| !word.starts_with('$'))
                .collect::<Vec<_>>()
                .join(" "),
        )
    };
    messages.into_iter().map(text).collect()
}

fn told_of(to: u64, words: &str) -> (u64, String) {
    (to, format!("{words} "))
}

#[test]
fn a_change_is_told_once_to_those_who_have_read_the_key() {
    let tracking = Tracking::default();
    assert!(!tracking.is_in_use());
    tracking.enable(1, Mode::default(), None, &[]);
    tracking.enable(2, Mode { no_loop: true, ..Mode::default() }, None, &[]);
    tracking.remember(1, [&b"a"[..], b"b"].into_iter());
    tracking.remember(2, [&b"a"[..]].into_iter());
    assert_eq!(tracking.counts(), TrackingCounts { clients: 2, keys: 2, items: 3, prefixes: 0 });
    assert_eq!(told(tracking.changed(b"a", 2)), [told_of(1, "invalidate *1 a")], "2 knows what it does");
    assert!(tracking.changed(b"a", 9).is_empty() && tracking.changed(b"c", 9).is_empty());
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
    tracking.enable(1, mode.clone(), None, &[b"a", b"b"]);
    tracking.enable(2, Mode { no_loop: true, ..mode }, None, &[]);
    for (key, by) in [(&b"a2"[..], 2), (b"c", 2), (b"b", 3), (b"a1", 3), (b"a2", 3)] {
        assert!(tracking.changed(key, by).is_empty());
    }
    let expected = [told_of(1, "invalidate *2 a1 a2"), told_of(1, "invalidate *1 b"), told_of(2, "invalidate *2 a1 b")];
    assert_eq!(told(tracking.broadcast()), expected);
    assert!(tracking.broadcast().is_empty());
}

#[test]
fn the_table_is_bounded_and_whoever_loses_a_key_is_told() {
    let tracking = Tracking::default();
    tracking.enable(1, Mode::default(), None, &[]);
    tracking.set_keys_max(2);
    let keys = [&b"a"[..], b"b", b"c", b"d"];
    tracking.remember(1, keys.into_iter());
    assert_eq!(told(tracking.shrink()), [told_of(1, "invalidate *1 a"), told_of(1, "invalidate *1 b")]);
    tracking.remember(1, [&b"a"[..]].into_iter());
    assert_eq!(told(tracking.shrink()), [told_of(1, "invalidate *1 c")], "the next one, and not the first again");
    assert_eq!(tracking.counts().keys, 2);
}

#[test]
fn in_resp2_only_a_subscriber_is_told_in_the_place_of_another() {
    let message = |to, by| Message::changed(to, by, Some(&[b"k"]));
    assert!(
        message(1, 1).encoded(speaks(Resp2, true), Resp2).is_none()
            && message(2, 1).encoded(speaks(Resp2, false), Resp2).is_none()
    );
    let (len, front, rest) = message(2, 1).encoded(speaks(Resp2, true), Resp2).expect("it is told");
    assert_eq!((len, &rest[..]), (3, &b"*1\r\n$1\r\nk\r\n"[..]));
    assert_eq!(&front[..], b"$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n");
    let (_, _, rest) = Message::changed(2, 1, None).encoded(speaks(Resp2, true), Resp2).expect("it is told");
    assert_eq!(rest, b"$-1\r\n");
    let (_, _, rest) = Message::broken(1, 2).encoded(speaks(Resp3, false), Resp3).expect("it is told");
    assert_eq!((rest, Message::broken(1, 2).encoded(speaks(Resp2, true), Resp2).is_none()), (b":2\r\n".to_vec(), true));
}
