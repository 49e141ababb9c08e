//! Keyspace notifications: events of a tenant's keys, on their way to those who want to be told.
//!
//! A writer puts events here while it holds the order of its rows ([`Witness`]), and does not wait. The connection
//! whose command has caused the events sends them as soon as it has its answer, before it serves the next command. So a
//! connection that causes many events pays for them. Events that no connection has caused, for example of keys that
//! expire, are sent by the next connection that comes, or by a task of the gateway that is woken for them. The sweep
//! wakes that task once a second for events whose connection has gone.

mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_command::events::{Classes, KeyEvent, Witness};
use weir_model::Databases;

pub(crate) use self::send::{Teller, send_waiting};
use crate::drop_in_turns::drop_in_turns;
use crate::pubsub::PubSub;
use crate::tracking::Tracking;

/// Bytes of one tenant's events that may wait to be sent. Events beyond that are dropped, and counted.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Bytes that an event takes besides its key.
const EVENT_BYTES: usize = 2 * size_of::<KeyEvent>();

/// The waiting events of one tenant.
#[derive(Default)]
pub(crate) struct KeyEvents {
    /// Where the subscribers are.
    pubsub: Arc<PubSub>,
    /// Notified when events wait that no connection has caused.
    unsent: Arc<Notify>,
    /// Says how databases are stored. Without it they are stored under their names.
    databases: Option<Box<dyn Fn() -> Databases + Send + Sync>>,
    /// The events that subscribers are sent, as bits: the setting `notify-keyspace-events`.
    notified: AtomicU32,
    /// Whether some connection keeps values on the client's side.
    is_tracked: AtomicBool,
    /// Held while `wanted` is computed from everything that is asked for at that time.
    wanting: Mutex<()>,
    /// The events that anybody wants to be told now, as bits.
    wanted: AtomicU32,
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    /// Held while waiting events are sent.
    sending: tokio::sync::Mutex<()>,
    dropped: AtomicU64,
    /// Whether a dropped event was a change, or everything may have changed: nobody knows which kept values are true.
    has_lost_changes: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<KeyEvent>,
    bytes: usize,
}

/// An event that is being sent. If its sender is killed before it was sent, it waits again.
struct Unsent<'e> {
    of: &'e KeyEvents,
    event: KeyEvent,
    is_sent: bool,
}

impl Unsent<'_> {
    fn event(&self) -> &KeyEvent {
        &self.event
    }

    fn was_sent(mut self) {
        self.is_sent = true;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            let key = std::mem::take(&mut self.event.key);
            self.of.put_back(KeyEvent { key, ..self.event.clone() });
        }
    }
}

impl KeyEvents {
    /// Events of the tenant whose subscribers are in `pubsub` and whose databases are stored as `databases` says.
    /// `unsent` is notified of events that no connection has caused.
    pub(crate) fn new(
        pubsub: Arc<PubSub>,
        unsent: Arc<Notify>,
        databases: Box<dyn Fn() -> Databases + Send + Sync>,
    ) -> Self {
        Self { pubsub, unsent, databases: Some(databases), ..Self::default() }
    }

    /// Tells that every value that clients keep may be out of date.
    pub(crate) fn all_changed(&self) {
        if self.is_tracked.load(Ordering::SeqCst) {
            self.has_lost_changes.store(true, Ordering::Relaxed);
            self.unsent.notify_one();
        }
    }

    /// The events that subscribers are sent.
    pub(crate) fn notified(&self) -> Classes {
        Classes::of_bits(self.notified.load(Ordering::Relaxed))
    }

    /// From now on subscribers are sent the events `classes`.
    pub(crate) fn notify(&self, classes: Classes) {
        let _wanting = self.wanting.lock();
        self.notified.store(classes.bits(), Ordering::Relaxed);
        self.want();
    }

    /// To be called when connections that keep values, as `tracking` knows them, have come or gone. While there are
    /// any, all changes are told.
    pub(crate) fn track(&self, tracking: &Tracking) {
        // One connection may go while another comes: whoever takes the lock last sees both.
        let _wanting = self.wanting.lock();
        self.is_tracked.store(tracking.is_in_use(), Ordering::SeqCst);
        self.want();
    }

    fn want(&self) {
        let tracked = if self.is_tracked.load(Ordering::SeqCst) { Classes::CHANGED } else { Classes::NONE };
        self.wanted.store(self.notified().in_use().and(tracked).bits(), Ordering::SeqCst);
    }

    /// Whether events wait to be sent, or it is to be told that some are lost.
    #[inline]
    pub(crate) fn are_waiting(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0 || self.has_lost_changes.load(Ordering::Relaxed)
    }

    /// Takes the next waiting event, to send it.
    fn next(&self) -> Option<Unsent<'_>> {
        let mut waiting = self.waiting.lock();
        let event = waiting.events.pop_front()?;
        waiting.bytes -= EVENT_BYTES + event.key.len();
        if waiting.events.is_empty() {
            waiting.events.shrink_to(16);
        }
        self.count.store(waiting.events.len(), Ordering::Relaxed);
        Some(Unsent { of: self, event, is_sent: false })
    }

    /// `event` waits again, in front of all others.
    fn put_back(&self, event: KeyEvent) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += EVENT_BYTES + event.key.len();
        waiting.events.push_front(event);
        self.count.store(waiting.events.len(), Ordering::Relaxed);
    }

    /// Counts `events` as dropped.
    fn lose(&self, events: &[KeyEvent]) {
        self.dropped.fetch_add(events.len() as u64, Ordering::Relaxed);
        // If an event of these classes is lost, nobody would be told of the next change of a kept value.
        if events.iter().any(|event| event.class.has(Classes::CHANGED.and(Classes::KEPT))) {
            self.has_lost_changes.store(true, Ordering::Relaxed);
        }
    }

    /// The number of events that were dropped because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether a change was among the events dropped since the last call, or everything may have changed. Then nobody
    /// knows which kept values are still true.
    fn take_lost_changes(&self) -> bool {
        self.has_lost_changes.swap(false, Ordering::Relaxed)
    }

    /// These events as a witness, for the store that has the rows.
    pub(crate) fn witness(self: &Arc<Self>) -> std::sync::Weak<dyn Witness> {
        let witness: Arc<dyn Witness> = Arc::clone(self) as Arc<dyn Witness>;
        Arc::downgrade(&witness)
    }
}

impl Witness for KeyEvents {
    #[inline]
    fn wants(&self) -> Classes {
        Classes::of_bits(self.wanted.load(Ordering::Relaxed))
    }

    fn is_heard(&self) -> bool {
        self.is_tracked.load(Ordering::SeqCst) || !self.pubsub.is_silent()
    }

    fn tell(&self, events: Vec<KeyEvent>) {
        let databases = self.databases.as_ref().map_or(Databases::AS_NAMED, |databases| databases());
        let (mut events, mut is_by_nobody) = (events.into_iter(), false);
        let mut waiting = self.waiting.lock();
        // A transaction may tell of millions while nobody else has the order of the rows. No more than these have room.
        let most = WAITING_BYTES_MAX.saturating_sub(waiting.bytes) / EVENT_BYTES;
        for mut event in events.by_ref().take(most) {
            is_by_nobody |= event.by == 0;
            event.database = databases.name(event.database);
            let bytes = EVENT_BYTES + event.key.len();
            if waiting.bytes + bytes > WAITING_BYTES_MAX {
                self.lose(&[event]);
                continue;
            }
            waiting.bytes += bytes;
            waiting.events.push_back(event);
        }
        self.count.store(waiting.events.len(), Ordering::Relaxed);
        drop(waiting);
        if !events.as_slice().is_empty() {
            self.lose(events.as_slice());
            drop_in_turns(events, ());
        }
        if is_by_nobody {
            self.unsent.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_command::TURN_KEYS;

    use super::*;
    use crate::tracking::Mode;

    fn event(key: &[u8]) -> KeyEvent {
        KeyEvent { class: Classes::STRING, name: "set", database: 0, key: key.into(), by: 1 }
    }

    fn next(events: &KeyEvents) -> Option<KeyEvent> {
        let unsent = events.next()?;
        let event = unsent.event().clone();
        unsent.was_sent();
        Some(event)
    }

    #[test]
    fn events_come_in_order_and_what_is_too_much_is_counted() {
        let events = KeyEvents::default();
        assert!(!events.are_waiting() && next(&events).is_none());
        events.tell(vec![event(b"a"), event(b"b")]);
        events.tell(vec![event(b"c")]);
        assert!(events.are_waiting());
        let keys = std::iter::from_fn(|| next(&events)).map(|event| event.key[0]);
        assert_eq!(keys.collect::<Vec<u8>>(), b"abc");
        let long = event(&vec![b'x'; WAITING_BYTES_MAX / 2]);
        events.tell(vec![long.clone(), long, event(b"short")]);
        assert_eq!((events.dropped(), events.take_lost_changes()), (1, false), "the second of the long ones");
        assert_eq!(std::iter::from_fn(|| next(&events)).count(), 2);
        assert_eq!(events.waiting.lock().bytes, 0);
        let change = KeyEvent { class: Classes::CHANGED, ..event(&vec![b'x'; WAITING_BYTES_MAX]) };
        events.tell(vec![change]);
        assert_eq!((events.take_lost_changes(), events.take_lost_changes()), (true, false));
    }

    #[test]
    fn s14_events_without_room_are_freed_in_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let events = KeyEvents::default();
            events.tell(vec![event(&vec![b'x'; WAITING_BYTES_MAX - EVENT_BYTES])]);
            let change = KeyEvent { class: Classes::CHANGED, ..event(b"k") };
            events.tell([vec![event(b"k"); 2 * TURN_KEYS], vec![change]].concat());
            assert_eq!((events.dropped(), events.take_lost_changes()), (2 * TURN_KEYS as u64 + 1, true));
            assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1, "a task frees them");
        });
    }

    #[test]
    fn changes_are_wanted_as_long_as_any_connection_tracks() {
        let (events, tracking) = (KeyEvents::default(), Tracking::default());
        assert!(tracking.enable(1, Mode::default(), None, &[]));
        events.track(&tracking);
        // One connection goes and another comes: whoever calls last sees both.
        tracking.disable(1);
        assert!(tracking.enable(2, Mode::default(), None, &[]));
        events.track(&tracking);
        events.track(&tracking);
        assert!(events.wants().has(Classes::CHANGED));
        tracking.disable(2);
        events.track(&tracking);
        assert_eq!(events.wants(), Classes::NONE);
    }

    #[test]
    fn nothing_is_wanted_until_somebody_would_be_told() {
        let events = KeyEvents::default();
        assert_eq!(events.wants(), Classes::NONE);
        events.notify(Classes::parse(b"A").expect("letters"));
        assert_eq!((events.wants(), events.notified().letters().as_str()), (Classes::NONE, "A"));
        events.notify(Classes::parse(b"Kg").expect("letters"));
        assert!(events.wants().has(Classes::GENERIC) && !events.wants().has(Classes::STRING));
    }
}
