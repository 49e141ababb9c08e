//! `SWAPDB`: which connections of a tenant run commands. While databases are exchanged, none may.
//!
//! A connection says that it [uses](Usage) the databases before the first command of a round. It takes that back before
//! it waits for its client, for units or for rows that others are to fill. Before each command it looks whether
//! somebody wants to be [alone](Swaps::hold); if so, it lets go and waits. So a round costs two stores to the
//! connection's own flag, a command costs one load, and no counter is shared.
//!
//! Both sides first store and then look, in one order that all threads agree on. So either the connection sees that
//! somebody wants to be alone, or that one sees that the connection runs commands.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use weir_model::DATABASES;

/// How often each database of a tenant was exchanged, by the database's name.
pub(crate) type SwapCounts = [u64; DATABASES as usize];

/// The exchanges of databases of one tenant.
#[derive(Default)]
pub(crate) struct Swaps {
    /// Somebody is alone, or waits for it.
    is_held: AtomicBool,
    /// Lets one exchange run at a time.
    turn: Arc<Mutex<()>>,
    /// Notified when a connection lets go while somebody waits to be alone.
    left: Notify,
    /// Notified when nobody is alone any more.
    over: Arc<Notify>,
    counts: [AtomicU64; DATABASES as usize],
}

impl Swaps {
    /// Whether a connection that is about to run a command has to wait.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Completes when, after this call, nobody is alone any more. Call it before [`Swaps::is_held`].
    pub(crate) fn over(&self) -> OwnedNotified {
        Arc::clone(&self.over).notified_owned()
    }

    /// To be called when a connection has let go.
    #[inline]
    pub(crate) fn left(&self) {
        if self.is_held() {
            self.left.notify_waiters();
        }
    }

    /// Waits until no connection runs commands, as `is_in_use` tells. None begins to run any until [`Held`] is dropped.
    /// The caller must not run commands itself.
    pub(crate) async fn hold(self: &Arc<Self>, is_in_use: impl Fn() -> bool) -> Held {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // From here on, a caller that stops waiting lets the others go on.
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

    /// Counts an exchange of the database called `name`.
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

/// While this exists, no connection of the tenant begins to run commands.
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

/// Whether a connection runs commands. Only the connection itself stores here.
#[derive(Debug, Default)]
pub(crate) struct Usage(AtomicBool);

impl Usage {
    /// The connection is about to run commands; it must then look whether [somebody wants to be alone](Swaps::is_held).
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// The connection runs no commands any more.
    #[inline]
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether the connection runs commands.
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
        // A holder that gives up lets the others go on.
        usage.begin();
        let mut third = Box::pin(swaps.hold(|| usage.is_under_way()));
        assert!(third.as_mut().poll(&mut cx).is_pending() && swaps.is_held());
        drop(third);
        assert!(!swaps.is_held());
    }
}
