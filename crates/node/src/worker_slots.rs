//! The compaction slots of a node, the tenants that hold them and the trees that wait: a state machine without locks,
//! threads or time of its own. A policy ([`worker_order`]) says which tree gets the next slot.
//!
//! A tenant that comes back after a rest is neither owed anything nor owes anything: it starts where the tenants are
//! that were served last. A tenant that is alone may hold all slots. A newcomer waits for the first job to end, or for
//! one that is parked.

use std::collections::{BTreeMap, BTreeSet};

use weir_admission::policy::worker_order::{self, Wish};
use weir_io::{Class, Nanos, Owner};

/// The state of all slots, and of the trees and tenants that want them.
#[derive(Debug)]
pub(crate) struct WorkerSlots {
    capacity: usize,
    running: usize,
    waiting: BTreeMap<Owner, Waiting>,
    /// The waiting trees that are short of space.
    short: BTreeSet<Owner>,
    spare_is_taken: bool,
    /// Tenants that wait, hold a slot, or have had more of them than those that are served now.
    tenants: BTreeMap<u32, Share>,
    /// How much the tenant that was served last had had by then, in nanoseconds of slots.
    level: Nanos,
    urgent_in_a_row: u32,
    next_turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    class: Class,
    /// The tree with the lower turn came earlier.
    turn: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    running: usize,
    /// Nanoseconds of slots that the tenant has had.
    had: Nanos,
}

impl WorkerSlots {
    /// The state with `capacity` free slots.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            running: 0,
            waiting: BTreeMap::new(),
            short: BTreeSet::new(),
            spare_is_taken: false,
            tenants: BTreeMap::new(),
            level: 0,
            urgent_in_a_row: 0,
            next_turn: 0,
        }
    }

    /// Slots in all.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Slots held.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Trees that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Trees that wait to relieve level 0.
    pub fn waiting_for_level_0(&self) -> usize {
        self.waiting.values().filter(|waiting| waiting.class < Class::CompactDeep).count()
    }

    /// A slot for `owner`, if one is free and nobody else waits for it.
    pub fn try_take(&mut self, owner: Owner) -> bool {
        let is_next = self.waiting.keys().all(|other| *other == owner);
        let free = self.running < self.capacity && is_next;
        if free {
            self.leave(owner);
            self.take(owner.tenant);
        }
        free
    }

    /// `owner` wants a slot for a compaction of `class`. Asking again keeps its place.
    pub fn wait(&mut self, owner: Owner, class: Class) {
        let turn = self.waiting.get(&owner).map_or(self.next_turn, |waiting| waiting.turn);
        self.next_turn = self.next_turn.max(turn + 1);
        self.waiting.insert(owner, Waiting { class, turn });
    }

    /// Whether `owner`, whose tree waits, is short of space.
    pub fn set_short(&mut self, owner: Owner, is_short: bool) {
        if is_short {
            self.short.insert(owner);
        } else {
            self.short.remove(&owner);
        }
    }

    /// Gives the spare slot to the tree that is short of space, can give some back, and has waited longest.
    pub fn next_spare(&mut self) -> Option<Owner> {
        if self.spare_is_taken || self.capacity == 0 {
            return None;
        }
        let owner = {
            let short = self.short.iter().filter_map(|owner| Some((*owner, *self.waiting.get(owner)?)));
            worker_order::next_spare(short.map(|(owner, waiting)| self.wish(owner, waiting)))?
        };
        self.leave(owner);
        self.spare_is_taken = true;
        Some(owner)
    }

    /// The spare slot is free again.
    pub fn give_back_spare(&mut self) {
        self.spare_is_taken = false;
    }

    /// `owner` no longer wants a slot.
    pub fn leave(&mut self, owner: Owner) {
        self.short.remove(&owner);
        self.waiting.remove(&owner);
    }

    /// Gives a free slot to the tree that should have it.
    pub fn next(&mut self) -> Option<Owner> {
        if self.running >= self.capacity {
            return None;
        }
        let wishes = self.waiting.iter().map(|(&owner, &waiting)| self.wish(owner, waiting));
        let turn = worker_order::next(wishes, self.urgent_in_a_row)?;
        self.urgent_in_a_row = turn.urgent_in_a_row;
        self.leave(turn.owner);
        self.take(turn.owner.tenant);
        Some(turn.owner)
    }

    /// A slot of `tenant` is free again, after it was held for `nanos`.
    pub fn give_back(&mut self, tenant: u32, nanos: Nanos) {
        self.running -= 1;
        if let Some(share) = self.tenants.get_mut(&tenant) {
            share.running -= 1;
            share.had += nanos;
        }
        let level = self.level;
        self.tenants.retain(|_, share| share.running > 0 || share.had > level);
        if self.running == 0 && self.waiting.is_empty() {
            self.tenants.clear();
            self.level = 0;
        }
    }

    /// The facts that the policy needs about a tree that waits.
    fn wish(&self, owner: Owner, waiting: Waiting) -> Wish {
        let (Waiting { class, turn }, Share { running, had }) = (waiting, self.share(owner.tenant));
        Wish { owner, class, turn, is_short_of_space: self.short.contains(&owner), running, had }
    }

    fn share(&self, tenant: u32) -> Share {
        let known = self.tenants.get(&tenant).copied().unwrap_or_default();
        Share { had: known.had.max(self.level), ..known }
    }

    fn take(&mut self, tenant: u32) {
        let share = self.share(tenant);
        self.running += 1;
        // Only a tenant without a slot shows how much the others have had: a tenant that takes a second slot is behind
        // itself.
        if share.running == 0 {
            self.level = share.had;
        }
        self.tenants.insert(tenant, Share { running: share.running + 1, ..share });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn tree(tenant: u32, partition: u32) -> Owner {
        Owner { tenant, partition }
    }

    #[test]
    fn one_tree_alone_takes_all_slots_and_gives_the_next_one_away() {
        let mut slots = WorkerSlots::new(2);
        let (greedy, modest) = (tree(1, 1), tree(2, 2));
        assert!(slots.try_take(greedy) && slots.try_take(greedy) && !slots.try_take(greedy));
        slots.wait(greedy, Class::CompactL0);
        slots.wait(modest, Class::CompactL0);
        assert_eq!(slots.next(), None);
        slots.give_back(1, 5);
        assert!(!slots.try_take(greedy), "somebody else waits");
        assert_eq!(slots.next(), Some(modest));
        slots.give_back(1, 5);
        assert_eq!(slots.next(), Some(greedy), "nobody else wants it");
        assert_eq!((slots.running(), slots.waiting()), (2, 0));
    }

    #[test]
    fn tenants_share_however_many_trees_one_has() {
        let mut slots = WorkerSlots::new(1);
        let mut served = BTreeMap::<u32, u32>::new();
        let all: Vec<Owner> = (0..9).map(|partition| tree(1, partition)).chain([tree(2, 100)]).collect();
        for _ in 0..200 {
            all.iter().for_each(|&owner| slots.wait(owner, Class::CompactL0));
            let owner = slots.next().expect("a slot is free");
            *served.entry(owner.partition).or_default() += 1;
            slots.give_back(owner.tenant, 10);
        }
        assert_eq!(served[&100], 100, "half");
        assert!((0..9).all(|partition| (11..=12).contains(&served[&partition])), "{served:?}");
    }

    #[test]
    fn time_counts_not_jobs() {
        let mut slots = WorkerSlots::new(1);
        let mut time = BTreeMap::<u32, Nanos>::new();
        for _ in 0..300 {
            slots.wait(tree(1, 1), Class::CompactDeep);
            slots.wait(tree(2, 2), Class::CompactDeep);
            let owner = slots.next().expect("a slot is free");
            let nanos = if owner.tenant == 1 { 90 } else { 10 };
            *time.entry(owner.tenant).or_default() += nanos;
            slots.give_back(owner.tenant, nanos);
        }
        assert!(time[&1].abs_diff(time[&2]) <= 90, "{time:?}");
    }

    #[test]
    fn who_rested_is_not_owed_the_time() {
        let mut slots = WorkerSlots::new(1);
        for _ in 0..100 {
            slots.wait(tree(1, 1), Class::CompactL0);
            slots.wait(tree(2, 2), Class::CompactL0);
            let owner = slots.next().expect("a slot is free");
            slots.give_back(owner.tenant, 10);
        }
        let mut newcomer = 0;
        for _ in 0..30 {
            (1..=3).for_each(|tenant| slots.wait(tree(tenant, tenant), Class::CompactL0));
            let owner = slots.next().expect("a slot is free");
            newcomer += u32::from(owner.tenant == 3);
            slots.give_back(owner.tenant, 10);
        }
        assert!((10..=11).contains(&newcomer), "{newcomer}");
    }

    #[test]
    fn level_0_goes_first_and_the_deep_do_not_starve() {
        let mut slots = WorkerSlots::new(1);
        let mut order = Vec::new();
        for _ in 0..33 {
            slots.wait(tree(1, 1), Class::CompactL0);
            slots.wait(tree(2, 2), Class::CompactDeep);
            let owner = slots.next().expect("a slot is free");
            order.push(owner.tenant);
            slots.give_back(owner.tenant, 1);
        }
        assert_eq!(order.iter().filter(|&&tenant| tenant == 2).count(), 3);
        assert_eq!((order[9], order[10], order[11]), (1, 2, 1));
    }

    #[test]
    fn who_is_short_of_space_has_a_spare_slot_and_no_more() {
        let mut slots = WorkerSlots::new(1);
        assert!(slots.try_take(tree(1, 1)));
        slots.wait(tree(2, 2), Class::CompactDeep);
        for owner in [tree(3, 3), tree(4, 4)] {
            slots.wait(owner, Class::Reclaim);
            slots.set_short(owner, true);
        }
        assert_eq!((slots.next(), slots.next_spare(), slots.next_spare()), (None, Some(tree(3, 3)), None));
        slots.give_back(1, 5);
        assert_eq!((slots.next(), slots.next_spare()), (Some(tree(2, 2)), None), "the others have lost nothing by it");
        slots.give_back_spare();
        slots.set_short(tree(4, 4), false);
        assert_eq!(slots.next_spare(), None, "it has space again");
    }

    #[test]
    fn who_leaves_is_passed_over_and_nothing_is_remembered_of_the_idle() {
        let mut slots = WorkerSlots::new(1);
        slots.wait(tree(1, 1), Class::CompactL0);
        slots.wait(tree(2, 2), Class::CompactL0);
        slots.leave(tree(1, 1));
        assert_eq!(slots.next(), Some(tree(2, 2)));
        slots.give_back(2, 1_000);
        assert!(slots.tenants.is_empty() && slots.next().is_none());
    }
}
