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

/// Tells clients what has become of values that they keep. Others are served in between.
pub(crate) struct Teller<'a> {
    events: &'a KeyEvents,
    pubsub: &'a PubSub,
    /// The moment, on the server's clock.
    now: Nanos,
    yields: Yield,
    /// The work since others were served, in messages to one receiver.
    in_turn: usize,
    /// The addresses of connections that were cut because they do not take what is sent to them.
    pub(crate) cut: Vec<IpAddr>,
}

/// Some clients are being told. If whoever does that is killed meanwhile, nobody knows which of them have been told, so
/// all clients are told to forget all values.
struct Telling<'e> {
    of: &'e KeyEvents,
    is_over: bool,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.of.all_changed();
        }
    }
}

impl<'a> Teller<'a> {
    /// Sends through `pubsub`, to clients of the tenant of `events`, at the moment `now` of the server's clock.
    pub(crate) fn new(events: &'a KeyEvents, pubsub: &'a PubSub, now: Nanos, yields: Yield) -> Self {
        Self { events, pubsub, now, yields, in_turn: 0, cut: Vec::new() }
    }

    /// Sends `messages`.
    pub(crate) async fn tell(&mut self, messages: impl Iterator<Item = Message>) {
        let mut telling = Telling { of: self.events, is_over: false };
        for message in messages {
            self.end_turn().await;
            self.in_turn += message.work();
            self.cut.extend(self.pubsub.tell(&message, self.now));
        }
        telling.is_over = true;
    }

    /// Counts work that takes as long as this many messages.
    pub(crate) fn has_worked(&mut self, messages: usize) {
        self.in_turn += messages;
    }

    /// Lets others be served if it is their turn.
    pub(crate) async fn end_turn(&mut self) {
        if self.in_turn >= TURN_KEYS {
            self.yields.now().await;
            self.in_turn = 0;
        }
    }
}

/// Sends the events that wait in `events`, at the moment `now` of the server's clock. Returns the addresses of
/// connections that were cut because they do not take what is sent to them.
pub(crate) async fn send_waiting(
    events: &KeyEvents,
    (pubsub, tracking): (&PubSub, &Tracking),
    now: Nanos,
    yields: Yield,
) -> Vec<IpAddr> {
    let (mut teller, mut to_broadcast) = (Teller::new(events, pubsub, now, yields), 0);
    let _sending = events.sending.lock().await;
    loop {
        // Not behind the last event: what is told below must not be left to a time when no event waits.
        if events.are_waiting() {
            if to_broadcast >= TURN_KEYS {
                teller.tell(tracking.broadcast()).await;
                to_broadcast = 0;
            }
            teller.end_turn().await;
        }
        let Some(unsent) = events.next() else { break };
        let event = unsent.event();
        teller.has_worked(EVENT_MESSAGES);
        if event.class == Classes::CHANGED {
            to_broadcast += 1;
            teller.tell(tracking.changed(&event.key, event.by)).await;
        } else if event.class == Classes::KEPT {
            tracking.remember(event.by, std::iter::once(&event.key[..]));
        } else if !pubsub.is_silent() {
            let messages = notify(pubsub, events.notified(), event, (now, yields), &mut teller.cut).await;
            teller.has_worked(messages);
        }
        unsent.was_sent();
    }
    if events.take_lost_changes() {
        // Nobody knows which keys those were, so clients are told to forget all values that they keep.
        teller.tell(tracking.flushed()).await;
    } else {
        teller.tell(tracking.broadcast()).await;
    }
    teller.cut
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
