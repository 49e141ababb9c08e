//! When those who wait lose patience, in the order in which they came.

use std::collections::VecDeque;

use weir_io::Nanos;

use crate::slots::{SlotId, Slots};

/// Somebody in a queue.
pub(super) struct Waiting {
    pub(super) slot: SlotId,
    pub(super) since: Nanos,
}

/// When somebody's patience ends. Stale if the slot has another ticket by now.
struct Deadline<T> {
    at: Nanos,
    slot: SlotId,
    ticket: u64,
    of: T,
}

/// See the module. Of each who waits it knows a `T`, by which the queue finds it.
pub(super) struct Patience<T> {
    /// In the order of arrival, which is theirs unless a knob was turned meanwhile.
    deadlines: VecDeque<Deadline<T>>,
}

/// Who is next to lose patience.
pub(super) enum Next<T> {
    Nobody,
    /// Somebody, then.
    At(Nanos),
    /// This one has lost it, and is forgotten.
    Overdue(SlotId, T),
}

impl<T> Patience<T> {
    pub(super) const fn new() -> Self {
        Self { deadlines: VecDeque::new() }
    }

    /// Whoever waits in `slot` with this ticket, one of `waiting`, does so until `at`.
    pub(super) fn ends<A>(
        &mut self,
        at: Nanos,
        (slot, ticket): (SlotId, u64),
        of: T,
        waiting: usize,
        slots: &Slots<A>,
    ) {
        // Those who were answered leave theirs behind.
        if self.deadlines.len() > 2 * waiting + 64 {
            self.deadlines.retain(|deadline| slots.is_waiting(deadline.slot, deadline.ticket));
        }
        self.deadlines.push_back(Deadline { at, slot, ticket, of });
    }

    /// Who is next. Again, until nobody is overdue.
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
