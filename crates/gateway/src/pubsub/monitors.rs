//! Connections that receive every command of their tenant (`MONITOR`). While there are none, a command pays one look at
//! a counter.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_io::{Nanos, Yield};

use super::publish::Published;
use super::{Listeners, PubSub};
use crate::mailbox::{Mailbox, Shared};

/// The monitors of one tenant.
#[derive(Default)]
pub(super) struct Monitors {
    count: AtomicUsize,
    listeners: Mutex<Listeners>,
}

impl Monitors {
    /// From now on the connection `id` receives every command, with `mailbox`.
    pub(super) fn add(&self, id: u64, mailbox: &Arc<Mailbox>) {
        let mut listeners = self.listeners.lock();
        listeners.insert(id, Arc::clone(mailbox));
        self.count.store(listeners.len(), Ordering::Relaxed);
    }

    /// The connection `id` no longer receives commands.
    pub(super) fn remove(&self, id: u64) {
        let mut listeners = self.listeners.lock();
        listeners.remove(&id);
        self.count.store(listeners.len(), Ordering::Relaxed);
    }
}

impl PubSub {
    /// Whether some connection receives every command.
    #[inline]
    pub(crate) fn has_monitors(&self) -> bool {
        self.monitors.count.load(Ordering::Relaxed) > 0
    }

    /// Sends the encoded `lines` to all monitors, at the moment `now` of the server's clock. Returns the addresses of
    /// connections that were cut.
    pub(crate) async fn tell_monitors(&self, lines: Vec<Vec<u8>>, now: Nanos, yields: Yield) -> Vec<IpAddr> {
        let _order = self.order.lock().await;
        let mut published = Published::default();
        for line in lines {
            let held = self.room_for(line.capacity() as u64, &mut published);
            let message = Shared::new(line, held);
            let front = &self.nothing;
            self.send(&self.monitors.listeners, (None, front, &message), now, &mut published, yields).await;
        }
        published.cut
    }
}
