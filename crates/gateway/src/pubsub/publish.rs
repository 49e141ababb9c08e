//! Sends a message to all who listen. The sender waits for no listener: a connection that does not take what is sent to
//! it is cut.

use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use weir_command::TURN_KEYS;
use weir_command::glob;
use weir_command::reply::Protocol;
use weir_io::{Nanos, Yield};

use super::{Kind, Listeners, PubSub, Topic};
use crate::mailbox::{Mailbox, PLACE_BYTES, Push, Put, Shared};
use crate::tenant::byte_limit::Held;
use crate::tracking::Message;

/// What became of a message.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// How often the message was put into a mailbox: for a channel and for each pattern that it matches.
    pub(crate) receivers: u64,
    /// The addresses of connections that were cut because they do not take what is sent to them.
    pub(crate) cut: Vec<IpAddr>,
    /// How many mailboxes were looked at since other connections were served.
    in_turn: usize,
}

fn encode(out: &mut Vec<u8>, element: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", element.len()).as_bytes());
    out.extend_from_slice(element);
    out.extend_from_slice(b"\r\n");
}

/// The front of a message to those who listen to `pattern`.
pub(super) fn front_of(pattern: &[u8]) -> Arc<[u8]> {
    let mut front = Vec::new();
    encode(&mut front, b"pmessage");
    encode(&mut front, pattern);
    front.into()
}

impl PubSub {
    /// Sends `payload` to all who listen to `channel`, which is of this `kind`, at the moment `now` of the server's
    /// clock. If there are many listeners, other connections are served in between.
    pub(crate) async fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
        now: Nanos,
        yields: Yield,
    ) -> Published {
        let _order = self.order.lock().await;
        let topics = self.topics_of(kind, channel, yields).await;
        let mut published = Published::default();
        if topics.is_empty() {
            return published;
        }
        let mut bytes = Vec::with_capacity(channel.len() + payload.len() + 48);
        encode(&mut bytes, channel);
        encode(&mut bytes, payload);
        let held = self.room_for(bytes.capacity() as u64, &mut published);
        let message = Shared::new(bytes, held);
        for (kind, topic) in topics {
            let len = if kind == Kind::Pattern { 4 } else { 3 };
            let message = (Some(len), &topic.front, &message);
            self.send(&topic.listeners, message, now, &mut published, yields).await;
        }
        published
    }

    /// Sends a message to its receivers only, as far as they can take it. It has at most [`TURN_KEYS`] of them. Returns
    /// the addresses of connections that were cut.
    pub(crate) fn tell(&self, message: &Message, now: Nanos) -> Vec<IpAddr> {
        if message.receivers.is_empty() {
            return Vec::new();
        }
        let (mut published, mut wakers) = (Published::default(), Vec::new());
        // One front for each protocol, shared by all receivers.
        let mut fronts: [Option<Arc<[u8]>>; 2] = Default::default();
        let mut places = self.room_for((message.receivers.len() * PLACE_BYTES) as u64, &mut published);
        for &receiver in &message.receivers {
            let (mailbox, keeper) = {
                let members = self.members.lock();
                (members.get(&receiver.told).cloned(), members.get(&receiver.keeper).cloned())
            };
            let Some(mailbox) = mailbox else { continue };
            let speaks = mailbox.recipient().speaks();
            let keeper = keeper.map_or(speaks.protocol, |keeper| keeper.recipient().speaks().protocol);
            let Some((len, front)) = message.front(receiver, speaks) else { continue };
            let front = fronts[usize::from(speaks.protocol == Protocol::Resp3)].get_or_insert_with(|| front.into());
            let rest = message.shared_rest(keeper).get_or_init(|| {
                let rest = message.rest(keeper);
                let held = self.room_for(rest.capacity() as u64, &mut published);
                Shared::new(rest, held)
            });
            let (front, rest) = (Arc::clone(front), rest.clone());
            let place = places.split(PLACE_BYTES as u64);
            if mailbox.put(Push { len: Some(len), front, rest, _place: place }, now, &mut wakers) == Put::Cut {
                published.cut.push(mailbox.address());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        published.cut
    }

    /// Puts `message` into the mailbox of every one of `listeners`. `len` is its number of elements, including `front`.
    pub(super) async fn send(
        &self,
        listeners: &Mutex<Listeners>,
        (len, front, message): (Option<usize>, &Arc<[u8]>, &Shared),
        now: Nanos,
        published: &mut Published,
        yields: Yield,
    ) {
        let (mut wakers, mut from): (Vec<Waker>, _) = (Vec::new(), Bound::Unbounded);
        loop {
            let most = listeners.lock().len().min(TURN_KEYS);
            let mut places = self.room_for((most * PLACE_BYTES) as u64, published);
            let mut count = 0;
            {
                // A connection that stops listening waits for this lock; after that it gets nothing any more.
                let listeners = listeners.lock();
                for (&id, mailbox) in listeners.range((from, Bound::Unbounded)).take(TURN_KEYS) {
                    (from, count) = (Bound::Excluded(id), count + 1);
                    let place = places.split(PLACE_BYTES as u64);
                    let push = Push { len, front: Arc::clone(front), rest: message.clone(), _place: place };
                    match mailbox.put(push, now, &mut wakers) {
                        Put::Waits => published.receivers += 1,
                        Put::Cut => {
                            published.receivers += 1;
                            published.cut.push(mailbox.address());
                        }
                        Put::Gone => {}
                    }
                }
            }
            wakers.drain(..).for_each(Waker::wake);
            // Few may listen to each of many patterns.
            published.in_turn += count.max(1);
            if published.in_turn >= TURN_KEYS {
                yields.now().await;
                published.in_turn = 0;
            }
            if count < TURN_KEYS {
                return;
            }
        }
    }

    /// The channel and the patterns that a message to `channel` goes to.
    async fn topics_of(&self, kind: Kind, channel: &[u8], yields: Yield) -> Vec<(Kind, Arc<Topic>)> {
        let (of_channel, mut page) = {
            let registry = self.registry.lock();
            let is_matched = kind == Kind::Channel;
            let page = if is_matched { registry.page(Kind::Pattern, Bound::Unbounded) } else { Vec::new() };
            (registry.topic(kind, channel).cloned(), page)
        };
        let mut topics: Vec<_> = of_channel.map(|topic| (kind, topic)).into_iter().collect();
        let mut turn = glob::Turn::new(yields);
        while let Some(last) = page.last() {
            let from = Bound::Excluded(Arc::clone(&last.name));
            for topic in page {
                if let Some(glob) = &topic.glob
                    && glob.matches_in_turns(channel, &mut turn).await
                {
                    topics.push((Kind::Pattern, Arc::clone(&topic)));
                }
            }
            page = self.registry.lock().page(Kind::Pattern, from);
        }
        topics
    }

    /// Books room for a message, or for its places in queues. If there is none, connections are cut until there is,
    /// those with the longest queues first.
    pub(super) fn room_for(&self, bytes: u64, published: &mut Published) -> Held {
        if let Some(held) = self.messages.try_hold(bytes) {
            return held;
        }
        let members: Vec<Arc<Mailbox>> = self.members.lock().values().cloned().collect();
        let mut slow: Vec<_> = members.into_iter().map(|mailbox| (mailbox.bytes(), mailbox)).collect();
        slow.retain(|(bytes, _)| *bytes > 0);
        slow.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (_, mailbox) in slow {
            if mailbox.cut() {
                published.cut.push(mailbox.address());
            }
            if let Some(held) = self.messages.try_hold(bytes) {
                return held;
            }
        }
        // The messages that the cut connections are being sent are given back as soon as their tasks have ended.
        // Messages are sent one after the other, so at most one goes beyond the limit.
        self.messages.hold(bytes)
    }
}
