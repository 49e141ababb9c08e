//! Permits: so many at a time, the others in the order in which they came, holding no thread.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A number of permits.
#[derive(Debug)]
pub struct Permits(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    next_ticket: u64,
    /// Tickets in order, with whom to wake.
    waiting: VecDeque<(u64, Waker)>,
}

/// One permit, until dropped.
pub struct Permit(Arc<Permits>);

/// A place in the queue, given up when dropped.
struct Place<'a> {
    permits: &'a Arc<Permits>,
    ticket: Option<u64>,
}

impl Permits {
    /// `count` permits.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: count, next_ticket: 0, waiting: VecDeque::new() })))
    }

    /// Waits for a permit.
    pub async fn acquire(self: &Arc<Self>) -> Permit {
        let mut place = Place { permits: self, ticket: None };
        poll_fn(|cx| {
            let mut state = self.0.lock();
            let position = state.waiting.iter().position(|(ticket, _)| Some(*ticket) == place.ticket);
            // Nobody overtakes: only the first as many as there are free permits may go.
            if position.unwrap_or(state.waiting.len()) < state.free {
                if let Some(position) = position {
                    state.waiting.remove(position);
                }
                place.ticket = None;
                state.free -= 1;
                return Poll::Ready(Permit(Arc::clone(self)));
            }
            match position {
                Some(position) => state.waiting[position].1.clone_from(cx.waker()),
                None => {
                    let ticket = state.next_ticket;
                    state.next_ticket += 1;
                    state.waiting.push_back((ticket, cx.waker().clone()));
                    place.ticket = Some(ticket);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Wakes those who may go now.
    fn wake(state: &State) {
        state.waiting.iter().take(state.free).for_each(|(_, waker)| waker.wake_by_ref());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.free += 1;
        Permits::wake(&state);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.permits.0.lock();
            state.waiting.retain(|(other, _)| *other != ticket);
            Permits::wake(&state);
        }
    }
}
