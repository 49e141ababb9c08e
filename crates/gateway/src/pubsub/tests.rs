//! Which connections get which messages, and what memory that takes.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use weir_io::real::block_on;

use super::*;
use crate::mailbox::tests::Somebody;
use crate::mailbox::{PLACE_BYTES, PushLimits, Recipient};

struct Listener {
    somebody: Arc<Somebody>,
    mailbox: Arc<Mailbox>,
    subscriptions: Subscriptions,
}

impl Listener {
    fn new(pubsub: &Arc<PubSub>, id: u64) -> Self {
        let somebody = Arc::new(Somebody::default());
        let mailbox = Mailbox::new(Arc::clone(&somebody) as Arc<dyn Recipient>, PushLimits::default());
        let subscriptions = Subscriptions::new(Arc::clone(pubsub), id, Arc::clone(&mailbox));
        Self { somebody, mailbox, subscriptions }
    }

    fn listen(&mut self, kind: Kind, name: &[u8]) {
        let mut held = self.subscriptions.make_room(kind, [name].into_iter()).expect("room");
        self.subscriptions.add(kind, name, &mut held);
    }

    fn take(&self) -> Vec<String> {
        let mut got = Vec::new();
        let taken = self.mailbox.take(usize::MAX, |push| {
            let (front, rest) = (String::from_utf8_lossy(&push.front), String::from_utf8_lossy(&push.rest));
            let words = format!("{front}{rest}");
            got.push(words.split("\r\n").skip(1).step_by(2).collect::<Vec<_>>().join(" "));
        });
        self.mailbox.written(taken);
        got
    }
}

fn publish(pubsub: &PubSub, channel: &[u8], payload: &[u8]) -> (u64, usize) {
    let published = block_on(pubsub.publish(Kind::Channel, channel, payload, 0, Yield::PLAIN));
    (published.receivers, published.cut.len())
}

#[test]
fn a_message_goes_to_its_channel_and_to_each_pattern_that_it_matches() {
    let pubsub = Arc::<PubSub>::default();
    let [mut one, mut two] = [1, 2].map(|id| Listener::new(&pubsub, id));
    one.listen(Kind::Channel, b"news");
    one.listen(Kind::Channel, b"news");
    two.listen(Kind::Pattern, b"n*");
    two.listen(Kind::Pattern, b"?ews");
    two.listen(Kind::Channel, b"other");
    assert_eq!(publish(&pubsub, b"news", b"x"), (3, 0));
    assert_eq!(one.take(), ["message news x"]);
    assert_eq!(two.take(), ["pmessage ?ews news x", "pmessage n* news x"]);
    assert_eq!(pubsub.counts(), Counts { channels: 2, patterns: 2, shard_channels: 0 });
    two.subscriptions.remove(Kind::Pattern, b"n*");
    two.subscriptions.remove(Kind::Pattern, b"never");
    drop(one);
    assert_eq!(publish(&pubsub, b"news", b"y"), (1, 0));
    assert_eq!(two.take(), ["pmessage ?ews news y"]);
    assert_eq!(pubsub.counts(), Counts { channels: 1, patterns: 1, shard_channels: 0 });
    drop(two);
    assert_eq!((pubsub.counts(), pubsub.names.bytes(), pubsub.messages.bytes()), (Counts::default(), 0, 0));
}

#[test]
fn a_message_counts_once_for_all_who_have_not_taken_it() {
    let pubsub = Arc::<PubSub>::default();
    let mut listeners: Vec<Listener> = (0..2500).map(|id| Listener::new(&pubsub, id)).collect();
    listeners.iter_mut().for_each(|listener| listener.listen(Kind::Channel, b"news"));
    assert_eq!(publish(&pubsub, b"news", &vec![b'x'; 1 << 16]), (2500, 0));
    let places = 2500 * PLACE_BYTES as u64;
    assert!((1 << 16..(1 << 16) + 1000).contains(&(pubsub.messages.bytes() - places)));
    listeners.iter().skip(1).for_each(|listener| drop(listener.take()));
    assert!(pubsub.messages.bytes() > 1 << 16);
    drop(listeners[0].take());
    assert_eq!(pubsub.messages.bytes(), 0);
}

#[test]
fn where_there_is_no_room_those_are_cut_for_whom_most_waits() {
    let pubsub = Arc::<PubSub>::default();
    let [mut slow, mut slower, mut quick] = [1, 2, 3].map(|id| Listener::new(&pubsub, id));
    slow.listen(Kind::Channel, b"a");
    slower.listen(Kind::Channel, b"b");
    quick.listen(Kind::Channel, b"c");
    let megabytes = |count: usize| vec![b'x'; count << 20];
    assert_eq!(publish(&pubsub, b"a", &megabytes(25)), (1, 0));
    assert_eq!(publish(&pubsub, b"b", &megabytes(30)), (1, 0));
    assert_eq!(publish(&pubsub, b"c", &megabytes(20)), (1, 1));
    let cuts = [&slow, &slower, &quick].map(|listener| listener.somebody.cuts.load(Ordering::Relaxed));
    assert_eq!(cuts, [0, 1, 0]);
    assert_eq!(publish(&pubsub, b"b", b"nobody takes it"), (0, 0));
    assert!(pubsub.messages.bytes() <= MESSAGE_BYTES_MAX);
}

#[test]
fn all_see_messages_in_one_order_whoever_sends_them() {
    let pubsub = Arc::<PubSub>::default();
    let mut listeners: Vec<Listener> = (0..2500).map(|id| Listener::new(&pubsub, id)).collect();
    listeners.iter_mut().for_each(|listener| listener.listen(Kind::Channel, b"news"));
    let send = |payload: &'static [u8]| pubsub.publish(Kind::Channel, b"news", payload, 0, Yield::PLAIN);
    let (mut first, mut second) = (pin!(send(b"first")), pin!(send(b"second")));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending(), "others have a turn");
    // The second one gets all the turns that it would need.
    let overtakes = (0..10).any(|_| second.as_mut().poll(&mut cx).is_ready());
    assert!(!overtakes);
    assert_eq!([block_on(first).receivers, block_on(second).receivers], [2500; 2]);
    assert!(listeners.iter().all(|listener| listener.take() == ["message news first", "message news second"]));
}

#[test]
fn s14_a_message_to_many_patterns_is_sent_in_turns() {
    let pubsub = Arc::<PubSub>::default();
    let mut listener = Listener::new(&pubsub, 1);
    (0..2500).for_each(|number| listener.listen(Kind::Pattern, format!("[n{number}]*").as_bytes()));
    let mut sending = pin!(pubsub.publish(Kind::Channel, b"news", b"x", 0, Yield::PLAIN));
    let (mut cx, mut turns) = (Context::from_waker(Waker::noop()), 0);
    let published = loop {
        match sending.as_mut().poll(&mut cx) {
            Poll::Ready(published) => break published,
            Poll::Pending => turns += 1,
        }
    };
    assert_eq!((published.receivers, turns), (2500, 2));
}

#[test]
fn places_count_for_each_who_has_not_taken() {
    let pubsub = Arc::<PubSub>::default();
    let mut listeners: Vec<Listener> = (0..1000).map(|id| Listener::new(&pubsub, id)).collect();
    listeners.iter_mut().for_each(|listener| listener.listen(Kind::Channel, b"news"));
    let mut slow = Listener::new(&pubsub, 1000);
    slow.listen(Kind::Channel, b"slow");
    assert_eq!(publish(&pubsub, b"slow", &[b'x'; 1000]), (1, 0));
    let most = MESSAGE_BYTES_MAX as usize / (1000 * PLACE_BYTES);
    let cut: usize = (0..most + 1).map(|_| publish(&pubsub, b"news", b"x").1).sum();
    assert!(cut > 0 && pubsub.messages.bytes() <= MESSAGE_BYTES_MAX, "{cut}");
    assert_eq!(slow.somebody.cuts.load(Ordering::Relaxed), 0, "for others more waits");
}

#[test]
fn what_is_listened_to_is_bounded_and_given_back() {
    let pubsub = Arc::<PubSub>::default();
    let mut listeners = Vec::new();
    let refused = loop {
        let mut listener = Listener::new(&pubsub, listeners.len() as u64);
        let names: Vec<Vec<u8>> =
            (0..100).map(|n| format!("{}-{n}-{}", listeners.len(), "n".repeat(60_000)).into()).collect();
        match listener.subscriptions.make_room(Kind::Channel, names.iter().map(|name| &name[..])) {
            Ok(mut held) => {
                names.iter().for_each(|name| listener.subscriptions.add(Kind::Channel, name, &mut held));
                listeners.push(listener);
            }
            Err(error) => break error,
        }
    };
    assert!(refused.text().starts_with(b"ERR too many subscriptions"));
    assert!((2..20).contains(&listeners.len()), "{}", listeners.len());
    assert_eq!(block_on(pubsub.channels(Kind::Channel, None, Yield::PLAIN)).len(), 100 * listeners.len());
    assert_eq!(block_on(pubsub.channels(Kind::Channel, Some(b"1-*"), Yield::PLAIN)).len(), 100);
    drop(listeners);
    assert_eq!(pubsub.names.bytes(), 0);
}

#[test]
fn who_listens_to_much_ends_in_turns_and_is_sent_nothing_meanwhile() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let pubsub = Arc::<PubSub>::default();
        let mut listener = Listener::new(&pubsub, 1);
        (0..2 * TURN_KEYS).for_each(|number| listener.listen(Kind::Pattern, format!("*{number}").as_bytes()));
        let Listener { mailbox, subscriptions, .. } = listener;
        drop(subscriptions);
        assert_eq!(pubsub.counts().patterns, 2 * TURN_KEYS);
        let published = pubsub.publish(Kind::Channel, b"1", b"x", 0, Yield::PLAIN).await;
        assert_eq!((published.receivers, mailbox.bytes(), pubsub.messages.bytes()), (0, 0, 0));
        while pubsub.counts().patterns > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pubsub.names.bytes(), 0);
    });
}
