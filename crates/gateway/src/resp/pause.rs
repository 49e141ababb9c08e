//! `CLIENT PAUSE`: for a while, all commands wait, or those that write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Whether there is a pause, and until when. It belongs to the connections of one owner.
#[derive(Default)]
pub(crate) struct Pause {
    /// The end of the pause in nanoseconds of the server's clock; 0 = there is none.
    until: AtomicU64,
    all: AtomicBool,
    /// Wakes waiting commands when a pause is ended early.
    ended: Arc<Notify>,
}

impl Pause {
    /// Pauses until `until`, unless a longer pause is under way. A pause of `all` commands remains a pause of all.
    /// Returns the end.
    pub(super) fn begin(&self, now: u64, until: u64, all: bool) -> u64 {
        let under_way = self.until.load(Ordering::Relaxed) > now;
        self.all.store(all || under_way && self.all.load(Ordering::Relaxed), Ordering::Relaxed);
        self.until.fetch_max(until, Ordering::Relaxed).max(until)
    }

    pub(super) fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    /// Completes when a pause is ended early after this call. Call it before [`Pause::holds`].
    pub(super) fn ended(&self) -> OwnedNotified {
        Arc::clone(&self.ended).notified_owned()
    }

    /// Whether there was a pause recently. Only then is [`Pause::holds`] worth a look at the clock.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// Until when a command that writes (or does not write) has to wait; `None` if it need not wait. A pause that is
    /// over is forgotten.
    pub(super) fn holds(&self, now: u64, writes: bool) -> Option<u64> {
        let until = self.until.load(Ordering::Relaxed);
        if until <= now {
            // If somebody has begun a new pause meanwhile, that one stays.
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        (writes || self.all.load(Ordering::Relaxed)).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_pause_holds_what_it_names_until_its_end() {
        let pause = Pause::default();
        assert!(!pause.is_set());
        assert_eq!(pause.begin(5, 10, false), 10);
        assert_eq!((pause.holds(9, true), pause.holds(9, false)), (Some(10), None));
        assert_eq!(pause.begin(6, 8, true), 10);
        assert_eq!(pause.holds(9, false), Some(10), "the longer end, the stricter kind");
        assert_eq!(pause.holds(10, true), None);
        assert!(!pause.is_set());
    }

    #[test]
    fn whoever_asked_before_a_pause_is_ended_hears_of_it() {
        let pause = Pause::default();
        pause.begin(0, 10, true);
        let (mut heard, mut cx) = (pin!(pause.ended()), Context::from_waker(Waker::noop()));
        assert!(heard.as_mut().poll(&mut cx).is_pending());
        let unpolled = pause.ended();
        pause.end();
        assert!(heard.poll(&mut cx).is_ready() && pin!(unpolled).poll(&mut cx).is_ready());
        assert!(pin!(pause.ended()).poll(&mut cx).is_pending(), "that was the pause before");
    }
}
