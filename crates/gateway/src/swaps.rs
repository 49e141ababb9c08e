//! `SWAPDB`: which connections of a tenant run commands, and who exchanges databases meanwhile: nobody.
//!
//! A connection says that it [uses](Usage) the databases before the first command of a round, and that it does not any
//! more before it waits for its client, for units or for rows that others are to fill. Before each command it looks
//! whether somebody wants to be [alone](Swaps::hold); then it lets go and waits. So a round costs two stores of its
//! own, a command one load, and nobody's counter is shared.
//!
//! Both sides store first and look then, in one order that all agree on: either the connection sees that somebody wants
//! to be alone, or that one sees the connection.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use weir_model::DATABASES;

/// How often each database of a tenant was exchanged, by name.
pub(crate) type SwapCounts = [u64; DATABASES as usize];

/// See the module. Belongs to one tenant.
#[derive(Default)]
pub(crate) struct Swaps {
    /// Somebody is alone, or waits for it.
    is_held: AtomicBool,
    /// One at a time.
    turn: Arc<Mutex<()>>,
    /// A connection has let go while that mattered.
    left: Notify,
    /// Nobody is alone any more.
    over: Arc<Notify>,
    counts: [AtomicU64; DATABASES as usize],
}

impl Swaps {
    /// Whether whoever is about to run a command has to wait.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Is done when nobody is alone any more, from this call on: ask before [`Swaps::is_held`].
    pub(crate) fn over(&self) -> OwnedNotified {
        Arc::clone(&self.over).notified_owned()
    }

    /// A connection has let go.
    #[inline]
    pub(crate) fn left(&self) {
        if self.is_held() {
            self.left.notify_waiters();
        }
    }

    /// Waits until no connection runs commands, as `is_in_use` tells; none begins to until [`Held`] is dropped. Whoever
    /// waits runs none himself.
    pub(crate) async fn hold(self: &Arc<Self>, is_in_use: impl Fn() -> bool) -> Held {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // From here on whoever stops waiting lets the others go on.
        let held = Held { of: Arc::clone(self), _turn: turn };
        self.is_held.store(true, Ordering::SeqCst);
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if !is_in_use() {
                return held;
            }
            left.await;
        }
    }

    /// The database called `name` was exchanged.
    pub(crate) fn count(&self, name: u8) {
        if let Some(count) = self.counts.get(usize::from(name)) {
            count.fetch_add(1, Ordering::Release);
        }
    }

    /// How often each database was exchanged.
    pub(crate) fn counts(&self) -> SwapCounts {
        std::array::from_fn(|name| self.counts[name].load(Ordering::Acquire))
    }
}

/// As long as this is there no connection of the tenant begins to run commands.
pub(crate) struct Held {
    of: Arc<Swaps>,
    _turn: OwnedMutexGuard<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.is_held.store(false, Ordering::SeqCst);
        self.of.over.notify_waiters();
    }
}

/// Whether a connection runs commands. Its own: nobody else stores here.
#[derive(Debug, Default)]
pub(crate) struct Usage(AtomicBool);

impl Usage {
    /// It will run commands, once it has looked whether [somebody wants to be alone](Swaps::is_held).
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// It runs none any more.
    #[inline]
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether it runs commands.
    pub(crate) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn whoever_wants_to_be_alone_waits_for_those_who_run_commands_and_keeps_others_out() {
        let (swaps, usage) = (Arc::<Swaps>::default(), Usage::default());
        let mut cx = Context::from_waker(Waker::noop());
        usage.begin();
        assert!(!swaps.is_held());
        let mut first = Box::pin(swaps.hold(|| usage.is_under_way()));
        assert!(first.as_mut().poll(&mut cx).is_pending() && swaps.is_held());
        let mut second = Box::pin(swaps.hold(|| false));
        assert!(second.as_mut().poll(&mut cx).is_pending(), "one at a time");
        usage.end();
        swaps.left();
        let std::task::Poll::Ready(held) = first.as_mut().poll(&mut cx) else { panic!("nobody runs commands") };
        assert!(swaps.is_held() && second.as_mut().poll(&mut cx).is_pending());
        let mut over = pin!(swaps.over());
        assert!(over.as_mut().poll(&mut cx).is_pending());
        drop(held);
        assert!(over.poll(&mut cx).is_ready());
        assert!(second.as_mut().poll(&mut cx).is_ready());
        drop(second);
        // Whoever gives up lets the others go on.
        usage.begin();
        let mut third = Box::pin(swaps.hold(|| usage.is_under_way()));
        assert!(third.as_mut().poll(&mut cx).is_pending() && swaps.is_held());
        drop(third);
        assert!(!swaps.is_held());
    }
}
