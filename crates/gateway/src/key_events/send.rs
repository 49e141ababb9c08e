//! Sends events of keys to those who have subscribed to them.

use std::net::IpAddr;

use weir_command::events::{Classes, KeyEvent};
use weir_io::{Nanos, Yield};

use super::KeyEvents;
use crate::pubsub::{Kind, PubSub};
use crate::tracking::{Message, Tracking};

/// After this many events other connections are served.
const TURN_EVENTS: usize = 100;

/// Sends the events that wait in `events`, at the moment `now` of the server's clock. Returns the addresses of
/// connections that were cut because they do not take what is sent to them.
pub(crate) async fn send_waiting(
    events: &KeyEvents,
    (pubsub, tracking): (&PubSub, &Tracking),
    now: Nanos,
    yields: Yield,
) -> Vec<IpAddr> {
    let tell = |message: Message| pubsub.tell(&message, now);
    let (mut cut, mut sent) = (Vec::new(), 0);
    let _sending = events.sending.lock().await;
    loop {
        // Not behind the last event: what is told below must not be left to a time when no event waits.
        if sent > 0 && sent % TURN_EVENTS == 0 && events.are_waiting() {
            yields.now().await;
        }
        let Some(unsent) = events.next() else { break };
        let event = unsent.event();
        if event.class == Classes::CHANGED {
            cut.extend(tracking.changed(&event.key, event.by).into_iter().flat_map(tell));
        } else if event.class == Classes::KEPT {
            tracking.remember(event.by, std::iter::once(&event.key[..]));
        } else if !pubsub.is_silent() {
            notify(pubsub, events.notified(), event, (now, yields), &mut cut).await;
        }
        unsent.was_sent();
        sent += 1;
    }
    cut.extend(tracking.broadcast().flat_map(tell));
    if events.has_lost_changes() {
        // Nobody knows which keys those were, so clients are told to forget all values that they keep.
        cut.extend(tracking.flushed().into_iter().flat_map(tell));
    }
    cut
}

/// Publishes `event` to the channels that `notified` says.
async fn notify(
    pubsub: &PubSub,
    notified: Classes,
    event: &KeyEvent,
    (now, yields): (Nanos, Yield),
    cut: &mut Vec<IpAddr>,
) {
    let KeyEvent { name, database, key, .. } = event;
    if notified.has(Classes::KEYSPACE) {
        let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
        let published = pubsub.publish(Kind::Channel, &channel, name.as_bytes(), now, yields).await;
        cut.extend(published.cut);
    }
    if notified.has(Classes::KEYEVENT) {
        let channel = format!("__keyevent@{database}__:{name}");
        let published = pubsub.publish(Kind::Channel, channel.as_bytes(), key, now, yields).await;
        cut.extend(published.cut);
    }
}

#[cfg(test)]
mod tests;
