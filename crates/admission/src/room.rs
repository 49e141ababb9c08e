//! Bytes that many may hold together: who finds no room waits without holding any, fair among tenants.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use weir_io::Owner;

use crate::fair::FairQueue;

/// See the module. Its lock is held over no waker.
pub(crate) struct Room {
    bytes_max: u64,
    state: Mutex<State>,
}

struct State {
    free: u64,
    /// Tickets of those who wait, by tenant.
    queue: FairQueue<u64>,
    /// Of the same: whom to wake.
    wakers: BTreeMap<u64, Option<Waker>>,
    tickets: u64,
}

impl State {
    /// Lets go who now can; gives whom to wake without the lock.
    fn pump(&mut self) -> Vec<Waker> {
        let mut wake = Vec::new();
        while self.queue.head().is_some_and(|(bytes, _)| bytes <= self.free) {
            let Some((bytes, ticket)) = self.queue.pop() else { break };
            self.free -= bytes;
            wake.extend(self.wakers.remove(&ticket).flatten());
        }
        wake
    }
}

impl Room {
    /// Room for `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        let state = State { free: bytes_max, queue: FairQueue::new(), wakers: BTreeMap::new(), tickets: 0 };
        Arc::new(Self { bytes_max, state: Mutex::new(state) })
    }

    /// Asks for `bytes`; more than there ever is room for counts as all of it. The place in the queue is taken now.
    pub(crate) fn take(self: &Arc<Self>, tenant: u32, bytes: u64) -> Taking {
        let (bytes, owner) = (bytes.min(self.bytes_max), Owner { tenant, partition: 0 });
        let mut state = self.state.lock();
        let ticket = if state.queue.is_empty() && bytes <= state.free {
            state.free -= bytes;
            None
        } else {
            state.tickets += 1;
            let ticket = state.tickets;
            state.queue.push(owner, 1, bytes, ticket);
            state.wakers.insert(ticket, None);
            Some(ticket)
        };
        drop(state);
        Taking { taken: Taken { room: Arc::clone(self), bytes }, owner, ticket }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let wake = state.pump();
        drop(state);
        wake.into_iter().for_each(Waker::wake);
    }
}

/// Bytes held, until dropped.
#[must_use = "the bytes are given back when it is dropped"]
pub(crate) struct Taken {
    room: Arc<Room>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.room.change(|state| state.free += bytes);
        }
    }
}

/// A wish for bytes under way; dropping it gives back its place, or the bytes.
pub(crate) struct Taking {
    taken: Taken,
    owner: Owner,
    /// `None` once it has its bytes.
    ticket: Option<u64>,
}

impl Taking {
    /// Whether it need not wait any more.
    fn is_done(&mut self, waker: &Waker) -> bool {
        let Some(ticket) = self.ticket else { return true };
        let mut state = self.taken.room.state.lock();
        match state.wakers.get_mut(&ticket) {
            Some(waiting) => {
                *waiting = Some(waker.clone());
                return false;
            }
            None => drop(state),
        }
        self.ticket = None;
        true
    }
}

impl Future for Taking {
    type Output = Taken;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Taken> {
        if !self.is_done(cx.waker()) {
            return Poll::Pending;
        }
        let bytes = std::mem::take(&mut self.taken.bytes);
        Poll::Ready(Taken { room: Arc::clone(&self.taken.room), bytes })
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut waited = false;
        let owner = self.owner;
        self.taken.room.change(|state| {
            waited = state.wakers.remove(&ticket).is_some();
            if waited {
                state.queue.remove(owner, |&other| other == ticket);
            }
        });
        if waited {
            // It never had them.
            self.taken.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(taking: &mut Taking) -> Option<Taken> {
        match Pin::new(taking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_finds_no_room_waits_and_who_gives_up_leaves_no_gap() {
        let room = Room::new(100);
        let first = poll(&mut room.take(1, 70)).expect("room");
        let (mut second, mut third) = (room.take(1, 40), room.take(1, 20));
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none(), "nobody overtakes");
        drop(second);
        let third = poll(&mut third).expect("it is its turn");
        drop(first);
        let mut granted = room.take(1, 80);
        let mut waiting = room.take(1, 1000);
        assert!(poll(&mut waiting).is_none());
        drop((third, poll(&mut granted)));
        assert!(poll(&mut waiting).is_some_and(|all| all.bytes == 100), "more than there ever is room for is all");
        // Granted, and never looked at.
        let (mut unseen, last) = (room.take(2, 100), room.take(2, 100));
        assert!(poll(&mut unseen).is_some());
        drop(last);
        assert_eq!(room.state.lock().free, 100);
    }

    #[test]
    fn a_tenant_with_many_reads_stands_in_nobodys_way() {
        let room = Room::new(100);
        let held = poll(&mut room.take(1, 100)).expect("room");
        let mut many: Vec<_> = (0..10).map(|_| room.take(1, 100)).collect();
        let mut few: Vec<_> = (2..4).map(|tenant| room.take(tenant, 10)).collect();
        drop(held);
        let first = many.iter_mut().find_map(poll).expect("one of the ten");
        assert!(few.iter_mut().all(|taking| poll(taking).is_none()));
        drop(first);
        assert!(few.iter_mut().all(|taking| poll(taking).is_some()), "the others come before the second of the ten");
    }
}
