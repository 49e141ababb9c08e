//! Fair among owners inside one class, FIFO inside one owner (C-8).
//!
//! This is start-time fair queueing. It shares like deficit round-robin, but remembers what an owner got after its
//! queue ran empty. That matters because most owners have *one* I/O outstanding (a compaction, a client). In deficit
//! round-robin they leave the round after each grant and come back with an empty account, so that weights mean nothing,
//! and the owner that asks for the largest I/Os gets the most.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_io::Owner;

/// Virtual time: cost divided by weight, in 2^-32 units.
type Virtual = u128;

/// Larger weights count as this one: a terabyte a second, where weights are bandwidth. With a weight of more than 2^44,
/// a page would take no virtual time at all, and its owner would go first for ever.
const WEIGHT_MAX: u64 = 1 << 40;

#[derive(Debug)]
struct Flow<T> {
    /// Virtual time at which the head of `waiting` may start; when nothing waits, at which the last item finished.
    start: Virtual,
    weight: u64,
    /// Costs and items, oldest first.
    waiting: VecDeque<(u64, T)>,
    /// Sum of the costs in `waiting`.
    cost: u64,
}

/// Queues of `T`, one per owner. The head with the earliest virtual start goes next. Virtual time is the start of the
/// item served last (its end, if nobody waits then). An owner that was idle starts at that time: it neither owes nor is
/// owed anything.
///
/// Owners need no registration: partitions come and go at run time (FX-15).
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    flows: BTreeMap<Owner, Flow<T>>,
    /// Exactly the flows with something waiting, by start. Ties go by owner; only the first round ever has any.
    active: BTreeSet<(Virtual, Owner)>,
    now: Virtual,
    len: usize,
    /// Sum of the costs of all items that wait.
    cost: u64,
}

impl<T> FairQueue<T> {
    pub(crate) const fn new() -> Self {
        Self { flows: BTreeMap::new(), active: BTreeSet::new(), now: 0, len: 0, cost: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Queues `item`. `weight` is the owner's share: any positive number, as only ratios count. Numbers above
    /// [`WEIGHT_MAX`] are all the same.
    pub(crate) fn push(&mut self, owner: Owner, weight: u64, cost: u64, item: T) {
        let weight = weight.min(WEIGHT_MAX);
        if self.flows.len() > 2 * self.active.len() + 64 {
            self.forget_idle();
        }
        self.reweigh(owner, weight);
        let now = self.now;
        let fresh = || Flow { start: now, weight, waiting: VecDeque::new(), cost: 0 };
        let flow = self.flows.entry(owner).or_insert_with(fresh);
        if flow.waiting.is_empty() {
            flow.start = flow.start.max(now);
            self.active.insert((flow.start, owner));
        }
        flow.waiting.push_back((cost, item));
        flow.cost = flow.cost.saturating_add(cost);
        self.cost = self.cost.saturating_add(cost);
        self.len += 1;
    }

    /// Sets the share of `owner` to `weight` from now on. What the owner has had beyond its share is remembered as a
    /// cost. As virtual time at the old weight, it would keep a flow that weighs much more now from being served, for
    /// as long as others of its new weight have anything to do.
    pub(crate) fn reweigh(&mut self, owner: Owner, weight: u64) {
        let (now, weight) = (self.now, weight.min(WEIGHT_MAX));
        let Some(flow) = self.flows.get_mut(&owner).filter(|flow| flow.weight != weight) else { return };
        let before = flow.start;
        let ahead = before.saturating_sub(now).saturating_mul(flow.weight.max(1).into()) / Virtual::from(weight.max(1));
        flow.start = before.min(now) + ahead;
        flow.weight = weight;
        if self.active.remove(&(before, owner)) {
            self.active.insert((flow.start, owner));
        }
    }

    /// Forgets idle flows whose last item finished in the past: these are the same as unknown ones.
    fn forget_idle(&mut self) {
        let now = self.now;
        self.flows.retain(|_, flow| !flow.waiting.is_empty() || flow.start > now);
    }

    /// The cost and the item that [`FairQueue::pop`] gives next.
    pub(crate) fn head(&self) -> Option<(u64, &T)> {
        let (_, owner) = self.active.first()?;
        self.flows.get(owner)?.waiting.front().map(|(cost, item)| (*cost, item))
    }

    /// The oldest item of every owner that waits, after its cost. The owners are in the order in which they would be
    /// served.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (Owner, u64, &T)> {
        self.active.iter().filter_map(|(_, owner)| {
            let (cost, item) = self.flows.get(owner)?.waiting.front()?;
            Some((*owner, *cost, item))
        })
    }

    /// The cost of all items of `owner` that wait.
    pub(crate) fn cost_of(&self, owner: Owner) -> u64 {
        self.flows.get(&owner).map_or(0, |flow| flow.cost)
    }

    /// Takes the head: its cost and item.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let (start, owner) = self.active.pop_first()?;
        Some(self.serve(start, owner))
    }

    /// Takes the oldest item of `owner`, whether or not it is its turn: the cost and the item.
    pub(crate) fn pop_of(&mut self, owner: Owner) -> Option<(u64, T)> {
        let start = self.flows.get(&owner)?.start;
        self.active.remove(&(start, owner)).then(|| self.serve(start, owner))
    }

    /// Serves `owner`, which was active with `start` and was taken out of the active flows.
    fn serve(&mut self, start: Virtual, owner: Owner) -> (u64, T) {
        let flow = self.flows.get_mut(&owner).expect("active flows exist");
        let (cost, item) = flow.waiting.pop_front().expect("active flows have something waiting");
        // Where an owner goes before its turn, virtual time does not go back for those that go after it.
        self.now = self.now.max(start);
        self.len -= 1;
        flow.cost = flow.cost.saturating_sub(cost);
        self.cost = self.cost.saturating_sub(cost);
        flow.start = start + (Virtual::from(cost) << 32) / Virtual::from(flow.weight.max(1));
        if !flow.waiting.is_empty() {
            self.active.insert((flow.start, owner));
        } else if self.active.is_empty() {
            // Nobody waits: what was served harmed nobody, and may be forgotten.
            self.now = self.now.max(flow.start);
        }
        (cost, item)
    }

    /// The cost of all items that wait.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The cost of what is served before an item of `cost` that `owner` would push now, if all weights are equal and
    /// nobody else comes: all of its own items, and of everybody else's as much as it gets itself.
    pub(crate) fn cost_ahead(&self, owner: Owner, cost: u64) -> u64 {
        let own = self.cost_of(owner);
        let share = own.saturating_add(cost);
        let others = self.active.iter().filter(|(_, other)| *other != owner);
        let others = others.filter_map(|(_, other)| self.flows.get(other)).map(|flow| flow.cost.min(share));
        others.fold(own, u64::saturating_add)
    }

    /// Books `cost` to an owner that turned out to have got more than it was served for.
    pub(crate) fn charge(&mut self, owner: Owner, cost: u64) {
        let Some(flow) = self.flows.get_mut(&owner) else { return };
        let before = flow.start;
        flow.start += (Virtual::from(cost) << 32) / Virtual::from(flow.weight.max(1));
        if self.active.remove(&(before, owner)) {
            self.active.insert((flow.start, owner));
        }
    }

    /// Takes out the item of `owner` that `is_it` recognises: a waiter has given up.
    pub(crate) fn remove(&mut self, owner: Owner, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let flow = self.flows.get_mut(&owner)?;
        let index = flow.waiting.iter().position(|(_, item)| is_it(item))?;
        let (cost, item) = flow.waiting.remove(index)?;
        self.len -= 1;
        flow.cost = flow.cost.saturating_sub(cost);
        self.cost = self.cost.saturating_sub(cost);
        if flow.waiting.is_empty() {
            self.active.remove(&(flow.start, owner));
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(partition: u32) -> Owner {
        Owner { tenant: 1, partition }
    }

    /// Serves `rounds` items. An owner that was served comes back at once with the same cost: one item outstanding
    /// each.
    fn closed_loop(owners: &[(u64, u64)], rounds: usize) -> Vec<f64> {
        let mut queue = FairQueue::new();
        for (index, &(weight, cost)) in owners.iter().enumerate() {
            queue.push(owner(index as u32), weight, cost, index);
        }
        let mut served = vec![0.0; owners.len()];
        for _ in 0..rounds {
            let (cost, index) = queue.pop().expect("closed loop");
            served[index] += cost as f64;
            queue.push(owner(index as u32), owners[index].0, cost, index);
        }
        served
    }

    #[test]
    fn shares_follow_weights_and_not_sizes_even_with_one_outstanding() {
        let served = closed_loop(&[(1, 4096), (1, 524_288), (3, 65_536), (3, 4096)], 1_000_000);
        let unit = served[0];
        for (index, expected) in [1.0, 1.0, 3.0, 3.0].into_iter().enumerate() {
            assert!((served[index] / unit / expected - 1.0).abs() < 0.01, "{index}: {served:?}");
        }
    }

    #[test]
    fn owners_of_huge_weights_take_turns() {
        for weights in [[u64::MAX, u64::MAX], [1 << 50, u64::MAX]] {
            let served = closed_loop(&weights.map(|weight| (weight, 4096)), 10_000);
            assert!((served[0] / served[1] - 1.0).abs() < 0.01, "{weights:?}: {served:?}");
        }
    }

    #[test]
    fn a_share_that_grows_counts_at_once_whatever_was_served_before() {
        const LARGE: u64 = 1 << 20;
        let mut queue = FairQueue::new();
        for _ in 0..100 {
            queue.push(owner(1), LARGE, 10, 1);
            queue.push(owner(2), 1, 10, 2);
        }
        let next = |queue: &mut FairQueue<u32>| -> Vec<u32> {
            (0..20).filter_map(|_| queue.pop().map(|(_, who)| who)).collect()
        };
        let of_second = |next: &[u32]| next.iter().filter(|&&who| who == 2).count();
        // At its small weight one turn takes as long as a million turns of the other.
        assert_eq!(of_second(&next(&mut queue)), 1);
        queue.reweigh(owner(2), LARGE);
        assert!((9..=10).contains(&of_second(&next(&mut queue))));
        queue.reweigh(owner(2), 1);
        assert!(of_second(&next(&mut queue)) <= 1);
        queue.reweigh(owner(9), 7);
        assert_eq!(queue.len(), 140);
    }

    #[test]
    fn an_idle_owner_neither_saves_up_nor_pays_back() {
        let mut queue = FairQueue::new();
        for _ in 0..1000 {
            queue.push(owner(1), 1, 10, 'a');
        }
        for _ in 0..500 {
            queue.pop();
        }
        for _ in 0..100 {
            queue.push(owner(2), 1, 10, 'b');
        }
        let next: Vec<char> = (0..20).filter_map(|_| queue.pop().map(|(_, item)| item)).collect();
        assert!((9..=11).contains(&next.iter().filter(|&&item| item == 'b').count()), "{next:?}");
    }

    #[test]
    fn fifo_inside_an_owner_and_removal_anywhere() {
        let mut queue = FairQueue::new();
        for item in 0..5 {
            queue.push(owner(1), 7, 1, item);
        }
        assert_eq!(queue.remove(owner(1), |&item| item == 0), Some(0));
        assert_eq!(queue.remove(owner(1), |&item| item == 3), Some(3));
        assert_eq!(queue.remove(owner(1), |&item| item == 3), None);
        assert_eq!(queue.remove(owner(2), |_| true), None);
        assert_eq!(queue.cost(), 3);
        let rest: Vec<i32> = std::iter::from_fn(|| queue.pop().map(|(_, item)| item)).collect();
        assert_eq!(rest, [1, 2, 4]);
        assert!(queue.is_empty() && queue.head().is_none());
        queue.push(owner(1), 7, 1, 9);
        assert_eq!(queue.remove(owner(1), |&item| item == 9), Some(9));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn what_is_ahead_is_the_own_queue_and_as_much_of_every_other() {
        let mut queue = FairQueue::new();
        for _ in 0..10 {
            queue.push(owner(1), 1, 10, ());
        }
        queue.push(owner(2), 1, 10, ());
        assert_eq!([1, 2, 3].map(|who| queue.cost_ahead(owner(who), 20)), [110, 40, 30]);
        queue.push(owner(3), 1, 20, ());
        while let Some((cost, ())) = queue.pop() {
            assert!(cost == 10 || queue.cost() >= 60, "a newcomer is not served last");
        }
        assert_eq!(queue.cost_ahead(owner(3), 20), 0);
    }

    #[test]
    fn what_is_charged_later_is_paid_with_the_next_turns() {
        let mut queue = FairQueue::new();
        for who in [1, 2] {
            for _ in 0..20 {
                queue.push(owner(who), 1, 1, who);
            }
        }
        queue.charge(owner(1), 10);
        queue.charge(owner(9), 10);
        let next: Vec<u32> = (0..10).filter_map(|_| queue.pop().map(|(_, who)| who)).collect();
        assert_eq!(next, [2; 10]);
    }

    #[test]
    fn an_owner_may_go_before_its_turn_and_pays_for_it() {
        let mut queue = FairQueue::new();
        for _ in 0..3 {
            for who in [1, 2] {
                queue.push(owner(who), 1, 10, who);
            }
        }
        assert_eq!(queue.heads().collect::<Vec<_>>(), [(owner(1), 10, &1), (owner(2), 10, &2)]);
        assert_eq!((queue.cost_of(owner(1)), queue.cost_of(owner(3))), (30, 0));
        assert_eq!(
            [queue.pop_of(owner(2)), queue.pop_of(owner(2)), queue.pop_of(owner(9))],
            [Some((10, 2)), Some((10, 2)), None]
        );
        let next: Vec<u32> = std::iter::from_fn(|| queue.pop().map(|(_, who)| who)).collect();
        assert_eq!(next, [1, 1, 1, 2], "with equal starts the lower owner goes first");
        assert_eq!((queue.len(), queue.cost(), queue.heads().count()), (0, 0, 0));
    }

    #[test]
    fn owners_that_left_are_forgotten() {
        let mut queue = FairQueue::new();
        for partition in 0..100_000 {
            queue.push(owner(partition), 1, 1, ());
            queue.pop();
        }
        assert!(queue.flows.len() < 200, "{}", queue.flows.len());
    }
}
