//! The flush slots of a node, who holds them and who waits: a state machine without locks, threads or time of its own
//! (DF-9 to DF-11).
//!
//! 1. Some slots are reserved. A tenant that holds less than its fair share may take any free slot. A tenant that holds
//!    its share or more may not, if that would leave fewer slots free than are reserved; nor may one whose delay is
//!    infinite.
//! 2. A slot that becomes free fills up the reserve first: a reserved slot stays idle even though tenants above their
//!    share wait.
//! 3. Of the tenants that may go, the one that holds least of its share is served first, and of equals the one that was
//!    served least recently. Shares are by weight. Within a tenant it is first come, first served.

use std::collections::{BTreeMap, VecDeque};

/// A tenant among those who share the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharer {
    /// Its share in proportion to others'.
    pub weight: u64,
    /// Its delay is infinite.
    pub is_patient: bool,
}

/// A tenant that has come since the knobs were turned.
const NEW: Sharer = Sharer { weight: 1, is_patient: false };

/// The state of all slots, and of the tenants that share them.
#[derive(Debug)]
pub(crate) struct FlushSlots {
    slots: u64,
    reserved: u64,
    running: u64,
    /// Tenants among whom the slots are shared, by weight.
    sharers: BTreeMap<u32, Sharer>,
    /// The sum of their weights, at least 1.
    weights: u64,
    /// Tenants that hold or want a slot, or were served.
    tenants: BTreeMap<u32, Standing>,
    next_ticket: u64,
    served: u64,
}

#[derive(Debug, Default)]
struct Standing {
    running: u64,
    /// The number of its last service among all services.
    served: u64,
    waiting: VecDeque<u64>,
}

impl FlushSlots {
    /// `slots` free slots, none of them reserved.
    pub fn new(slots: u64) -> Self {
        let (sharers, tenants) = (BTreeMap::new(), BTreeMap::new());
        Self { slots, reserved: 0, running: 0, sharers, weights: 1, tenants, next_ticket: 0, served: 0 }
    }

    /// Turns the knobs: `reserved` slots are reserved, and these tenants share all slots.
    pub fn set(&mut self, reserved: u64, sharers: BTreeMap<u32, Sharer>) {
        self.weights = sharers.values().map(|sharer| sharer.weight).sum::<u64>().max(1);
        (self.reserved, self.sharers) = (reserved, sharers);
    }

    /// `tenant` wants a slot. Gives the ticket by which it is called.
    pub fn ask(&mut self, tenant: u32) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tenants.entry(tenant).or_default().waiting.push_back(ticket);
        ticket
    }

    /// `tenant` no longer wants a slot for `ticket`. Gives whether it was waiting for one.
    pub fn leave(&mut self, tenant: u32, ticket: u64) -> bool {
        let Some(standing) = self.tenants.get_mut(&tenant) else { return false };
        let before = standing.waiting.len();
        standing.waiting.retain(|other| *other != ticket);
        standing.waiting.len() < before
    }

    /// Gives a free slot to the tenant that should have it, with its ticket.
    pub fn next(&mut self) -> Option<(u32, u64)> {
        let free = self.slots.saturating_sub(self.running);
        if free == 0 {
            return None;
        }
        let is_due = |sharer: Sharer, standing: &Standing| {
            standing.running * self.weights < self.slots * sharer.weight && !sharer.is_patient
        };
        let may_go = |sharer, standing| free > self.reserved || is_due(sharer, standing);
        let waiting = self.tenants.iter().filter(|(_, standing)| !standing.waiting.is_empty());
        let waiting = waiting.map(|(tenant, standing)| (tenant, self.sharer(*tenant), standing));
        let waiting = waiting.filter(|(_, sharer, standing)| may_go(*sharer, standing));
        let (&tenant, ..) = waiting.min_by(|(_, one, standing), (_, other, others)| {
            let held = (standing.running * other.weight).cmp(&(others.running * one.weight));
            held.then(standing.served.cmp(&others.served))
        })?;
        let standing = self.tenants.get_mut(&tenant)?;
        let ticket = standing.waiting.pop_front()?;
        self.served += 1;
        (standing.running, standing.served) = (standing.running + 1, self.served);
        self.running += 1;
        Some((tenant, ticket))
    }

    /// A slot of `tenant` is free again.
    pub fn give_back(&mut self, tenant: u32) {
        let Some(standing) = self.tenants.get_mut(&tenant) else { return };
        standing.running -= 1;
        self.running -= 1;
        if self.running == 0 && self.tenants.values().all(|standing| standing.waiting.is_empty()) {
            // Nobody is owed anything.
            self.tenants.clear();
        }
    }

    fn sharer(&self, tenant: u32) -> Sharer {
        self.sharers.get(&tenant).copied().unwrap_or(NEW)
    }

    /// Slots held.
    pub fn running(&self) -> u64 {
        self.running
    }

    /// Flushes that wait.
    pub fn waiting(&self) -> usize {
        self.tenants.values().map(|standing| standing.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tenants that are served, one after the other, as long as slots are free.
    fn served(slots: &mut FlushSlots) -> Vec<u32> {
        std::iter::from_fn(|| slots.next()).map(|(tenant, _)| tenant).collect()
    }

    /// Tenants 1, 2, 3 and so on, with these weights, in a hurry.
    fn sharers(weights: &[u64]) -> BTreeMap<u32, Sharer> {
        (1..).zip(weights).map(|(tenant, &weight)| (tenant, Sharer { weight, is_patient: false })).collect()
    }

    fn slots(slots: u64, reserved: u64, sharing: usize) -> FlushSlots {
        let mut slots = FlushSlots::new(slots);
        slots.set(reserved, sharers(&[1].repeat(sharing)));
        slots
    }

    fn ask(slots: &mut FlushSlots, tenants: impl IntoIterator<Item = u32>) {
        for tenant in tenants {
            slots.ask(tenant);
        }
    }

    #[test]
    fn a_schedule_as_it_was_scripted() {
        // DF-10, DF-11: four slots, one of them reserved, four tenants: a share is one slot.
        let mut slots = slots(4, 1, 4);
        ask(&mut slots, [1; 4]);
        assert_eq!(served(&mut slots), [1, 1, 1], "the reserved one is idle though somebody waits");
        ask(&mut slots, [2, 2]);
        assert_eq!(served(&mut slots), [2], "it held less than its share");
        slots.give_back(1);
        assert_eq!(served(&mut slots), [0; 0], "what becomes free fills up the reserve first");
        ask(&mut slots, [3, 4]);
        assert_eq!(served(&mut slots), [3]);
        slots.give_back(1);
        assert_eq!(served(&mut slots), [4]);
        slots.give_back(3);
        slots.give_back(4);
        assert_eq!((slots.running(), slots.waiting()), (2, 2), "1 and 2 hold one each, and want another");
        assert_eq!(served(&mut slots), [1], "it was served less recently");
        slots.give_back(1);
        slots.give_back(1);
        ask(&mut slots, [4, 3]);
        assert_eq!(served(&mut slots), [3, 4], "who holds nothing goes first, and the least recently served before");
        slots.give_back(2);
        assert_eq!(served(&mut slots), [2]);
        assert_eq!((slots.running(), slots.waiting()), (3, 0));
    }

    #[test]
    fn nothing_reserved_is_fair_and_everything_reserved_is_a_quota() {
        let mut fair = slots(4, 0, 2);
        ask(&mut fair, [1; 9]);
        assert_eq!(served(&mut fair), [1; 4], "all is lent");
        ask(&mut fair, [2, 2]);
        fair.give_back(1);
        assert_eq!(served(&mut fair), [2]);
        fair.give_back(1);
        assert_eq!(served(&mut fair), [2], "until both have as much");
        let mut quota = slots(4, 4, 2);
        ask(&mut quota, [1; 9]);
        assert_eq!(served(&mut quota), [1, 1]);
    }

    #[test]
    fn slots_follow_weights() {
        // DF-2: eight slots for weights of 1, 2 and 1.
        let mut fair = FlushSlots::new(8);
        fair.set(0, sharers(&[1, 2, 1]));
        for _ in 0..8 {
            ask(&mut fair, [1, 2, 3]);
        }
        let served = served(&mut fair);
        assert_eq!([1, 2, 3].map(|tenant| served.iter().filter(|served| **served == tenant).count()), [2, 4, 2]);
        let mut quota = FlushSlots::new(8);
        quota.set(8, sharers(&[1, 2, 1]));
        ask(&mut quota, [2; 9]);
        assert_eq!(self::served(&mut quota), [2; 4], "its share, though nobody else wants one");
    }

    #[test]
    fn a_cascade_of_flushes_holds_up_nobody_for_whom_a_slot_is_reserved() {
        // DF-17: sixteen flushes on two slots. First come, first served the last one waits for seven others; with a
        // slot reserved, and fifteen tenants who do not mind waiting, it waits for none.
        let waits_for = |reserved| {
            let mut slots = FlushSlots::new(2);
            let mut sharers = sharers(&[1; 16]);
            sharers.values_mut().take(15).for_each(|sharer| sharer.is_patient = true);
            slots.set(reserved, sharers);
            ask(&mut slots, 1..16);
            let mut running = served(&mut slots);
            ask(&mut slots, [16]);
            running.extend(served(&mut slots));
            let mut flushes = 0;
            while !running.contains(&16) {
                running.drain(..).for_each(|tenant| slots.give_back(tenant));
                running = served(&mut slots);
                flushes += 1;
            }
            flushes
        };
        assert_eq!([0, 1].map(waits_for), [7, 0]);
    }

    #[test]
    fn who_leaves_is_passed_over_and_nothing_is_remembered_of_the_idle() {
        let mut slots = FlushSlots::new(1);
        let (first, _) = (slots.ask(1), slots.ask(2));
        assert!(slots.leave(1, first) && !slots.leave(1, first) && !slots.leave(7, 0));
        assert_eq!(slots.next().map(|(tenant, _)| tenant), Some(2));
        slots.give_back(2);
        assert!(slots.tenants.is_empty() && slots.next().is_none());
    }
}
