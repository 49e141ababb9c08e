//! What is sent although the connection that was sending it is killed.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use weir_command::TURN_KEYS;
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
