//! Slots in which waiters get their answers, without the locking: the common part of the lanes of gates and the budgets
//! of quotas.

use std::task::{Poll, Waker};

use weir_io::{Clock, Nanos};

/// Index of a slot.
pub(crate) type SlotId = u32;

#[derive(Debug)]
enum Slot<A> {
    Free,
    Waiting { ticket: u64, waker: Option<Waker> },
    Answered(A),
}

/// One slot for each waiter, until the waiter has looked at its answer.
#[derive(Debug)]
pub(crate) struct Slots<A> {
    slots: Vec<Slot<A>>,
    free: Vec<SlotId>,
    tickets: u64,
}

impl<A> Slots<A> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), tickets: 0 }
    }

    /// Begins a wait. Gives the slot and a ticket that nobody else ever has.
    pub(crate) fn open(&mut self) -> (SlotId, u64) {
        self.tickets += 1;
        let ticket = self.tickets;
        let waiting = Slot::Waiting { ticket, waker: None };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = waiting;
                id
            }
            None => {
                self.slots.push(waiting);
                SlotId::try_from(self.slots.len() - 1).expect("fewer than 2^32 wait")
            }
        };
        (id, ticket)
    }

    /// Whether the waiter that has `ticket` still waits in this slot.
    pub(crate) fn is_waiting(&self, id: SlotId, ticket: u64) -> bool {
        matches!(self.slots[id as usize], Slot::Waiting { ticket: found, .. } if found == ticket)
    }

    /// Answers the waiter in this slot.
    pub(crate) fn answer(&mut self, id: SlotId, answer: A, effects: &mut Effects) {
        let slot = std::mem::replace(&mut self.slots[id as usize], Slot::Answered(answer));
        if let Slot::Waiting { waker: Some(waker), .. } = slot {
            effects.wake.push(waker);
        }
    }

    /// Looks into a slot. An answer is taken out, and the slot is free then. Without an answer, `waker` will be woken
    /// by it.
    pub(crate) fn look(&mut self, id: SlotId, waker: Option<&Waker>) -> Poll<A> {
        let slot = &mut self.slots[id as usize];
        if let Slot::Waiting { waker: known, .. } = slot {
            if let Some(waker) = waker {
                match known {
                    Some(known) => known.clone_from(waker),
                    None => *known = Some(waker.clone()),
                }
            }
            return Poll::Pending;
        }
        match std::mem::replace(slot, Slot::Free) {
            Slot::Answered(answer) => {
                self.free.push(id);
                Poll::Ready(answer)
            }
            _ => unreachable!("who waits looks into his own slot, and only until he is answered"),
        }
    }

    /// Frees the slot of a waiter that has given up.
    pub(crate) fn close(&mut self, id: SlotId) {
        self.slots[id as usize] = Slot::Free;
        self.free.push(id);
    }
}

/// What to do once the lock is released.
#[derive(Debug, Default)]
#[must_use = "waiters would sleep for ever"]
pub(crate) struct Effects {
    wake: Vec<Waker>,
    /// Pump again at this time.
    timer: Option<Nanos>,
}

impl Effects {
    /// Carries these effects out; `pump` is the waker of the timer.
    pub(crate) fn carry_out(self, clock: &dyn Clock, pump: &Waker) {
        self.wake.into_iter().for_each(Waker::wake);
        if let Some(at) = self.timer {
            clock.wake_at(at, pump.clone());
        }
    }
}

/// No timer is set closer than this, in nanoseconds. One that is already due when it is set would pump from inside the
/// pump, and a timer thread needs about this long to wake up anyway. Nothing is lost: the bucket goes on filling.
const TIMER_MIN: Nanos = 20_000;

/// The timer that pumps again.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// When the earliest timer that is set fires; `Nanos::MAX` if none is set.
    at: Nanos,
}

impl Alarm {
    pub(crate) const fn new() -> Self {
        Self { at: Nanos::MAX }
    }

    /// To be called with every pump: a timer that has fired is no longer set.
    pub(crate) fn pumped(&mut self, now: Nanos) {
        if self.at <= now {
            self.at = Nanos::MAX;
        }
    }

    /// Makes sure that somebody pumps at `at`, or earlier.
    pub(crate) fn set(&mut self, at: Nanos, now: Nanos, effects: &mut Effects) {
        let at = at.max(now + TIMER_MIN);
        if at < self.at {
            self.at = at;
            effects.timer = Some(at);
        }
    }
}
