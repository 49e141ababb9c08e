//! Handshakes under way, of which only a limited number may exist. One more ends the oldest. An honest client finishes
//! its handshake in milliseconds, so clients that open connections and say nothing keep nobody out.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The handshakes under way.
pub(super) struct Pending {
    max: usize,
    places: Mutex<Handshakes>,
}

#[derive(Default)]
struct Handshakes {
    last: u64,
    /// Handshakes, the oldest first.
    taken: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A place among the handshakes under way, given back when dropped.
pub(super) struct PendingHandshake {
    number: u64,
    pending: Arc<Pending>,
    displaced: oneshot::Receiver<()>,
}

impl Pending {
    /// Room for `max` handshakes.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, places: Mutex::default() })
    }

    /// Takes a place; if need be, that of the oldest handshake.
    pub(super) fn enter(self: &Arc<Self>) -> PendingHandshake {
        let (displace, displaced) = oneshot::channel();
        let mut places = self.places.lock();
        if places.taken.len() >= self.max
            && let Some((_, oldest)) = places.taken.pop_first()
        {
            // The oldest handshake may have ended meanwhile.
            let _ = oldest.send(());
        }
        places.last += 1;
        let number = places.last;
        places.taken.insert(number, displace);
        PendingHandshake { number, pending: Arc::clone(self), displaced }
    }

    /// How many handshakes are under way.
    pub(super) fn count(&self) -> usize {
        self.places.lock().taken.len()
    }
}

impl PendingHandshake {
    /// Waits until a newer handshake takes the place.
    pub(super) async fn displaced(&mut self) {
        // This cannot fail: the sender is dropped with the place, which still exists.
        let _ = (&mut self.displaced).await;
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        self.pending.places.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_displaced(place: &mut PendingHandshake) -> bool {
        pin!(place.displaced()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn s8_the_oldest_handshake_makes_room() {
        let pending = Pending::new(2);
        let (mut first, mut second) = (pending.enter(), pending.enter());
        assert!(!is_displaced(&mut first) && pending.count() == 2);
        let mut third = pending.enter();
        assert!(is_displaced(&mut first) && !is_displaced(&mut second) && !is_displaced(&mut third));
        drop(second);
        assert_eq!(pending.count(), 1);
        let mut fourth = pending.enter();
        drop(first);
        assert!(!is_displaced(&mut third) && !is_displaced(&mut fourth) && pending.count() == 2);
    }
}
