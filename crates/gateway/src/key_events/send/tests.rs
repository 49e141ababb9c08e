//! What is sent although the connection that was sending it is killed.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use weir_command::events::Witness;
use weir_io::real::block_on;

use super::*;
use crate::mailbox::tests::Somebody;
use crate::mailbox::{Mailbox, PushLimits, Recipient};
use crate::pubsub::Subscriptions;
use crate::tracking::Mode;

fn event(class: Classes, name: &'static str, key: &str) -> KeyEvent {
    KeyEvent { class, name, database: 0, key: key.as_bytes().into(), by: 1 }
}

/// The connection `id`, which listens to `channel`, and its mailbox.
fn listener(pubsub: &Arc<PubSub>, id: u64, channel: &[u8]) -> (Subscriptions, Arc<Mailbox>) {
    let mailbox = Mailbox::new(Arc::new(Somebody::default()) as Arc<dyn Recipient>, PushLimits::default());
    let mut subscriptions = Subscriptions::new(Arc::clone(pubsub), id, Arc::clone(&mailbox));
    let mut held = subscriptions.make_room(Kind::Channel, [channel].into_iter()).expect("room");
    subscriptions.add(Kind::Channel, channel, &mut held);
    (subscriptions, mailbox)
}

#[test]
fn clients_in_broadcast_mode_are_told_although_the_sender_is_killed() {
    for count in [TURN_EVENTS, TURN_EVENTS + 1] {
        let (events, pubsub, tracking) = (KeyEvents::default(), PubSub::default(), Tracking::default());
        assert!(tracking.enable(1, Mode { broadcast: true, ..Mode::default() }, None, &[]));
        events.track(&tracking);
        events.tell((0..count).map(|number| event(Classes::CHANGED, "", &number.to_string())).collect());
        // The sender is killed where it first lets others run.
        let mut cx = Context::from_waker(Waker::noop());
        let _ = pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN)).poll(&mut cx);
        // The sweep looks only after events that wait.
        if events.are_waiting() {
            block_on(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
        }
        assert!(tracking.broadcast().next().is_none(), "nothing of the {count} changes is left to tell");
    }
}

/// What the mailbox holds, a text for each message.
fn taken(mailbox: &Mailbox) -> Vec<String> {
    let mut texts = Vec::new();
    mailbox.take(usize::MAX, |push| texts.push(String::from_utf8_lossy(&push.rest).into_owned()));
    texts
}

/// A connection in broadcast mode, `1`, with its mailbox.
fn broadcast_to(pubsub: &Arc<PubSub>, tracking: &Tracking) -> (Subscriptions, Arc<Mailbox>) {
    assert!(tracking.enable(1, Mode { broadcast: true, ..Mode::default() }, None, &[]));
    listener(pubsub, 1, b"news")
}

#[test]
fn s14_many_changes_are_broadcast_a_turn_at_a_time() {
    let (events, pubsub, tracking) = (KeyEvents::default(), Arc::<PubSub>::default(), Tracking::default());
    let (_listens, mailbox) = broadcast_to(&pubsub, &tracking);
    let keys = 2 * TURN_KEYS + TURN_EVENTS;
    events.tell((0..keys).map(|number| event(Classes::CHANGED, "", &number.to_string())).collect());
    block_on(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    let messages = taken(&mailbox);
    let counts: Vec<&str> = messages.iter().filter_map(|text| text.split("\r\n").next()).collect();
    assert_eq!(counts, ["*1000", "*1000", "*100"]);
}

#[test]
fn s14_the_same_changes_are_listed_for_each_prefix_in_turns() {
    let (events, pubsub, tracking) = (KeyEvents::default(), PubSub::default(), Tracking::default());
    let prefixes: Vec<Vec<u8>> = (1..=20).map(|len| vec![b'k'; len]).collect();
    let prefixes: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
    assert!(tracking.enable(1, Mode { broadcast: true, ..Mode::default() }, None, &prefixes));
    let key = |number: usize| format!("{}{number}", "k".repeat(20));
    events.tell((0..TURN_KEYS).map(|number| event(Classes::CHANGED, "", &key(number))).collect());
    let mut sending = pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    let (mut cx, mut turns) = (Context::from_waker(Waker::noop()), 0);
    while sending.as_mut().poll(&mut cx).is_pending() {
        turns += 1;
    }
    // Ten turns of a hundred events, and one for each list of a thousand keys but the last.
    assert_eq!(turns, 10 + 19);
}

#[test]
fn s14_changes_of_keys_that_many_keep_are_told_in_turns() {
    let (events, pubsub, tracking) = (KeyEvents::default(), PubSub::default(), Tracking::default());
    for id in 1..=190 {
        assert!(tracking.enable(id, Mode::default(), None, &[]));
        (0..50).for_each(|key: u8| tracking.remember(id, [&[key][..]].into_iter()));
    }
    let change = |key: u8| KeyEvent { key: [key].into(), ..event(Classes::CHANGED, "", "") };
    events.tell((0..50).map(change).collect());
    let mut sending = pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    let (mut cx, mut turns) = (Context::from_waker(Waker::noop()), 0);
    while sending.as_mut().poll(&mut cx).is_pending() {
        turns += 1;
    }
    // Each event takes 200 messages, with its own share, and others are served between five and the next five.
    assert_eq!(turns, 9);
}

/// The last of those who keep the same key: more than are told in two turns.
const LAST: u64 = 2 * TURN_KEYS as u64 + 500;

/// They keep the key, and the last of them has the mailbox.
fn kept_by_many(pubsub: &Arc<PubSub>, tracking: &Tracking) -> (Subscriptions, Arc<Mailbox>) {
    for id in 1..=LAST {
        assert!(tracking.enable(id, Mode::default(), None, &[]));
        tracking.remember(id, [&b"k"[..]].into_iter());
    }
    listener(pubsub, LAST, b"news")
}

#[test]
fn s14_the_change_of_a_key_that_many_keep_is_told_in_turns() {
    for others_are_gone in [false, true] {
        let (events, pubsub, tracking) = (KeyEvents::default(), Arc::<PubSub>::default(), Tracking::default());
        let (_listens, mailbox) = kept_by_many(&pubsub, &tracking);
        if others_are_gone {
            (1..LAST).for_each(|id| tracking.disable(id));
        }
        events.tell(vec![event(Classes::CHANGED, "", "k")]);
        let mut sending = pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
        let (mut cx, mut turns) = (Context::from_waker(Waker::noop()), 0);
        while sending.as_mut().poll(&mut cx).is_pending() {
            assert!(taken(&mailbox).is_empty(), "it is among the last");
            turns += 1;
        }
        assert_eq!((turns, taken(&mailbox)), (2, vec!["*1\r\n$1\r\nk\r\n".to_owned()]));
    }
}

#[test]
fn clients_forget_everything_if_the_sender_is_killed_who_was_telling_them() {
    let (events, pubsub, tracking) = (KeyEvents::default(), Arc::<PubSub>::default(), Tracking::default());
    let (_listens, mailbox) = kept_by_many(&pubsub, &tracking);
    events.track(&tracking);
    for _ in 0..2 {
        events.tell(vec![event(Classes::CHANGED, "", "k")]);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN)).poll(&mut cx).is_pending());
        assert!(taken(&mailbox).is_empty() && events.are_waiting());
    }
    block_on(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    assert_eq!(taken(&mailbox), ["_\r\n"]);
    assert!(!events.are_waiting());
}

#[test]
fn that_everything_has_changed_is_told_and_no_key() {
    let (events, pubsub, tracking) = (KeyEvents::default(), Arc::<PubSub>::default(), Tracking::default());
    let (_listens, mailbox) = broadcast_to(&pubsub, &tracking);
    events.all_changed();
    assert!(!events.are_waiting(), "nobody keeps anything, as far as is known here");
    events.track(&tracking);
    events.all_changed();
    assert!(events.are_waiting());
    block_on(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    assert_eq!(taken(&mailbox), ["_\r\n"]);
    assert!(!events.are_waiting());
}

#[test]
fn an_event_does_not_go_with_the_connection_that_was_sending_it() {
    let (events, pubsub, tracking) = (KeyEvents::default(), Arc::<PubSub>::default(), Tracking::default());
    events.notify(Classes::parse(b"KA").expect("letters"));
    let (_listens, mailbox) = listener(&pubsub, 0, b"__keyspace@0__:k");
    // A message to so many that others are served in between.
    let _many: Vec<_> = (1..=TURN_KEYS as u64).map(|id| listener(&pubsub, id, b"news")).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut other = pin!(pubsub.publish(Kind::Channel, b"news", b"x", 0, Yield::PLAIN));
    assert!(other.as_mut().poll(&mut cx).is_pending());
    // The event waits for the end of that message, and its sender is killed.
    events.tell(vec![event(Classes::STRING, "set", "k")]);
    assert!(pin!(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN)).poll(&mut cx).is_pending());
    assert!(events.are_waiting());
    block_on(other);
    block_on(send_waiting(&events, (&pubsub, &tracking), 0, Yield::PLAIN));
    let mut got = 0;
    mailbox.take(usize::MAX, |_| got += 1);
    assert!(got == 1 && !events.are_waiting());
}
