//! When waiters lose patience, in that order.

use std::collections::VecDeque;

use weir_io::Nanos;

use crate::slots::{SlotId, Slots};

/// A waiter in a queue.
pub(super) struct Waiting {
    pub(super) slot: SlotId,
    pub(super) since: Nanos,
}

/// When a waiter's patience ends. This entry is stale if the slot has another ticket by now.
struct Deadline<T> {
    at: Nanos,
    slot: SlotId,
    ticket: u64,
    of: T,
}

/// The deadlines of all waiters. For each waiter it has a `T`, by which the queue finds the waiter.
pub(super) struct Patience<T> {
    /// In order of time. This is the order of arrival unless the longest wait was made shorter meanwhile.
    deadlines: VecDeque<Deadline<T>>,
}

/// The next waiter to lose patience.
pub(super) enum Next<T> {
    Nobody,
    /// Somebody will lose patience at this time.
    At(Nanos),
    /// This waiter has lost patience, and is forgotten here.
    Overdue(SlotId, T),
}

impl<T> Patience<T> {
    pub(super) const fn new() -> Self {
        Self { deadlines: VecDeque::new() }
    }

    /// Takes in that the waiter in `slot` with this ticket, one of `waiting` waiters, waits until `at`.
    pub(super) fn ends<A>(
        &mut self,
        at: Nanos,
        (slot, ticket): (SlotId, u64),
        of: T,
        waiting: usize,
        slots: &Slots<A>,
    ) {
        // Waiters that were answered leave their deadlines behind.
        if self.deadlines.len() > 2 * waiting + 64 {
            self.deadlines.retain(|deadline| slots.is_waiting(deadline.slot, deadline.ticket));
        }
        let deadline = Deadline { at, slot, ticket, of };
        match self.deadlines.back() {
            Some(last) if last.at > at => {
                let place = self.deadlines.partition_point(|earlier| earlier.at <= at);
                self.deadlines.insert(place, deadline);
            }
            _ => self.deadlines.push_back(deadline),
        }
    }

    /// The next waiter to lose patience. To be called again until nobody is overdue.
    pub(super) fn next<A>(&mut self, now: Nanos, slots: &Slots<A>) -> Next<T> {
        while let Some(deadline) = self.deadlines.front() {
            let is_live = slots.is_waiting(deadline.slot, deadline.ticket);
            if is_live && deadline.at > now {
                return Next::At(deadline.at);
            }
            if let Some(Deadline { slot, of, .. }) = self.deadlines.pop_front()
                && is_live
            {
                return Next::Overdue(slot, of);
            }
        }
        Next::Nobody
    }
}
