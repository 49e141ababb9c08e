//! Sends events of keys to those who have subscribed to them.

use std::net::IpAddr;

use weir_command::TURN_KEYS;
use weir_command::events::{Classes, KeyEvent};
use weir_io::{Nanos, Yield};

use super::KeyEvents;
use crate::pubsub::{Kind, PubSub};
use crate::tracking::{Message, Tracking};

/// After this many events, or [`TURN_KEYS`] messages about them, other connections are served.
const TURN_EVENTS: usize = 100;

/// An event by itself counts as this many messages.
const EVENT_MESSAGES: usize = TURN_KEYS / TURN_EVENTS;

/// Sends the events that wait in `events`, at the moment `now` of the server's clock. Returns the addresses of
/// connections that were cut because they do not take what is sent to them.
pub(crate) async fn send_waiting(
    events: &KeyEvents,
    (pubsub, tracking): (&PubSub, &Tracking),
    now: Nanos,
    yields: Yield,
) -> Vec<IpAddr> {
    let tell = |message: Message| pubsub.tell(&message, now);
    let (mut cut, mut in_turn, mut to_broadcast) = (Vec::new(), 0, 0);
    let _sending = events.sending.lock().await;
    loop {
        // Not behind the last event: what is told below must not be left to a time when no event waits.
        if in_turn >= TURN_KEYS && events.are_waiting() {
            if to_broadcast >= TURN_KEYS {
                cut.extend(tracking.broadcast().flat_map(tell));
                to_broadcast = 0;
            }
            yields.now().await;
            in_turn = 0;
        }
        let Some(unsent) = events.next() else { break };
        let event = unsent.event();
        in_turn += EVENT_MESSAGES;
        if event.class == Classes::CHANGED {
            to_broadcast += 1;
            for message in tracking.changed(&event.key, event.by) {
                in_turn += message.receivers.len();
                cut.extend(tell(message));
            }
        } else if event.class == Classes::KEPT {
            tracking.remember(event.by, std::iter::once(&event.key[..]));
        } else if !pubsub.is_silent() {
            in_turn += notify(pubsub, events.notified(), event, (now, yields), &mut cut).await;
        }
        unsent.was_sent();
    }
    if events.take_lost_changes() {
        // Nobody knows which keys those were, so clients are told to forget all values that they keep.
        cut.extend(tracking.flushed().into_iter().flat_map(tell));
    } else {
        cut.extend(tracking.broadcast().flat_map(tell));
    }
    cut
}

/// Publishes `event` to the channels that `notified` says. Returns how many messages that took.
async fn notify(
    pubsub: &PubSub,
    notified: Classes,
    event: &KeyEvent,
    (now, yields): (Nanos, Yield),
    cut: &mut Vec<IpAddr>,
) -> usize {
    let KeyEvent { name, database, key, .. } = event;
    let mut messages = 0;
    if notified.has(Classes::KEYSPACE) {
        let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
        let published = pubsub.publish(Kind::Channel, &channel, name.as_bytes(), now, yields).await;
        messages += published.receivers as usize;
        cut.extend(published.cut);
    }
    if notified.has(Classes::KEYEVENT) {
        let channel = format!("__keyevent@{database}__:{name}");
        let published = pubsub.publish(Kind::Channel, channel.as_bytes(), key, now, yields).await;
        messages += published.receivers as usize;
        cut.extend(published.cut);
    }
    messages
}

#[cfg(test)]
mod tests;
