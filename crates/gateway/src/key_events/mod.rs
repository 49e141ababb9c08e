//! What happens to the keys of a tenant, on its way to those who are told: keyspace notifications.
//!
//! Whoever writes puts events here while it has the order of its rows ([`Witness`]), and does not wait. They are sent
//! by the connection whose command has caused them, as soon as it has its answer, before it serves the next one: so
//! whoever causes many pays for them. Those that no connection has caused, as of keys that expire, are sent by the next
//! who comes, or by a task of the gateway that is woken for them; those whose connection has gone at the latest by the
//! sweep once a second.

mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_command::events::{Classes, KeyEvent, Witness};
use weir_model::Databases;

pub(crate) use self::send::send_waiting;
use crate::pubsub::PubSub;
use crate::tracking::Tracking;

/// Events of one tenant that wait to be sent, in bytes. What is more is not told, and counted.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What an event takes beside its key.
const EVENT_BYTES: usize = 2 * size_of::<KeyEvent>();

/// See the module. Belongs to one tenant.
#[derive(Default)]
pub(crate) struct KeyEvents {
    /// Where subscribers are.
    pubsub: Arc<PubSub>,
    /// Events wait that no connection has caused.
    unsent: Arc<Notify>,
    /// Says how databases are stored; without it under their names.
    databases: Option<Box<dyn Fn() -> Databases + Send + Sync>>,
    /// What is told to subscribers, as bits: the setting `notify-keyspace-events`.
    notified: AtomicU32,
    /// Some connection keeps values of its own.
    is_tracked: AtomicBool,
    /// Whoever has it says what is wanted, by all that is asked for by then.
    wanting: Mutex<()>,
    /// What somebody wants to be told now, as bits.
    wanted: AtomicU32,
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    /// Whoever has it sends what waits.
    sending: tokio::sync::Mutex<()>,
    dropped: AtomicU64,
    /// A change was among them, of which nobody knows any more which key it was.
    has_lost_changes: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<KeyEvent>,
    bytes: usize,
}

impl KeyEvents {
    /// Of the tenant whose subscribers are in `pubsub` and which stores its databases as `databases` says; `unsent` is
    /// notified of events that no connection has caused.
    pub(crate) fn new(
        pubsub: Arc<PubSub>,
        unsent: Arc<Notify>,
        databases: Box<dyn Fn() -> Databases + Send + Sync>,
    ) -> Self {
        Self { pubsub, unsent, databases: Some(databases), ..Self::default() }
    }

    /// Every value that a client keeps of its own may be out of date.
    pub(crate) fn all_changed(&self) {
        if self.is_tracked.load(Ordering::SeqCst) {
            self.has_lost_changes.store(true, Ordering::Relaxed);
            // Whoever comes by sends that, too.
            self.tell(vec![KeyEvent { class: Classes::CHANGED, name: "", database: 0, key: Box::default(), by: 0 }]);
        }
    }

    /// What is told to subscribers.
    pub(crate) fn notified(&self) -> Classes {
        Classes::of_bits(self.notified.load(Ordering::Relaxed))
    }

    /// Subscribers are told `classes` from now on.
    pub(crate) fn notify(&self, classes: Classes) {
        let _wanting = self.wanting.lock();
        self.notified.store(classes.bits(), Ordering::Relaxed);
        self.want();
    }

    /// Connections that keep values of their own, as `tracking` knows them, have come or gone: while there are some,
    /// all changes are told.
    pub(crate) fn track(&self, tracking: &Tracking) {
        // One goes while another comes: who looks last sees both.
        let _wanting = self.wanting.lock();
        self.is_tracked.store(tracking.is_in_use(), Ordering::SeqCst);
        self.want();
    }

    fn want(&self) {
        let tracked = if self.is_tracked.load(Ordering::SeqCst) { Classes::CHANGED } else { Classes::NONE };
        self.wanted.store(self.notified().in_use().and(tracked).bits(), Ordering::SeqCst);
    }

    /// Whether something waits to be sent.
    #[inline]
    pub(crate) fn are_waiting(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The next event that waits.
    fn next(&self) -> Option<KeyEvent> {
        let mut waiting = self.waiting.lock();
        let event = waiting.events.pop_front()?;
        waiting.bytes -= EVENT_BYTES + event.key.len();
        if waiting.events.is_empty() {
            waiting.events.shrink_to(16);
        }
        self.count.store(waiting.events.len(), Ordering::Relaxed);
        Some(event)
    }

    /// Events that were not told, as too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether a change was among them since the last time: then nobody knows what is still true.
    fn has_lost_changes(&self) -> bool {
        self.has_lost_changes.swap(false, Ordering::Relaxed)
    }

    /// As whoever has the rows knows it.
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
        let is_by_nobody = events.iter().any(|event| event.by == 0);
        let databases = self.databases.as_ref().map_or(Databases::AS_NAMED, |databases| databases());
        let mut waiting = self.waiting.lock();
        for mut event in events {
            event.database = databases.name(event.database);
            let bytes = EVENT_BYTES + event.key.len();
            if waiting.bytes + bytes > WAITING_BYTES_MAX {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                // Nobody would be told of the next change of what is kept.
                if event.class.has(Classes::CHANGED.and(Classes::KEPT)) {
                    self.has_lost_changes.store(true, Ordering::Relaxed);
                }
                continue;
            }
            waiting.bytes += bytes;
            waiting.events.push_back(event);
        }
        self.count.store(waiting.events.len(), Ordering::Relaxed);
        drop(waiting);
        if is_by_nobody {
            self.unsent.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::Mode;

    fn event(key: &[u8]) -> KeyEvent {
        KeyEvent { class: Classes::STRING, name: "set", database: 0, key: key.into(), by: 1 }
    }

    #[test]
    fn events_come_in_order_and_what_is_too_much_is_counted() {
        let events = KeyEvents::default();
        assert!(!events.are_waiting() && events.next().is_none());
        events.tell(vec![event(b"a"), event(b"b")]);
        events.tell(vec![event(b"c")]);
        assert!(events.are_waiting());
        let keys = std::iter::from_fn(|| events.next()).map(|event| event.key[0]);
        assert_eq!(keys.collect::<Vec<u8>>(), b"abc");
        let long = event(&vec![b'x'; WAITING_BYTES_MAX / 2]);
        events.tell(vec![long.clone(), long, event(b"short")]);
        assert_eq!((events.dropped(), events.has_lost_changes()), (1, false), "the second of the long ones");
        assert_eq!(std::iter::from_fn(|| events.next()).count(), 2);
        assert_eq!(events.waiting.lock().bytes, 0);
        let change = KeyEvent { class: Classes::CHANGED, ..event(&vec![b'x'; WAITING_BYTES_MAX]) };
        events.tell(vec![change]);
        assert_eq!((events.has_lost_changes(), events.has_lost_changes()), (true, false));
    }

    #[test]
    fn changes_are_wanted_as_long_as_any_connection_tracks() {
        let (events, tracking) = (KeyEvents::default(), Tracking::default());
        assert!(tracking.enable(1, Mode::default(), None, &[]));
        events.track(&tracking);
        // One goes and another comes: whoever speaks last sees both.
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
