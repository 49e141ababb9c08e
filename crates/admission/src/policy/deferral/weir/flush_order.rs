//! Which flush goes first.
//!
//! A flush gives back all of its memtables when it ends. Where many are under way at once and share the device evenly,
//! all of them end late, and at the same moment; one after the other, each gives its memory back as soon as it can:
//!
//! ```text
//!   evenly              in turn
//!   a ░░░░░░░░░░░░▓     a ░░░▓
//!   b ░░░░░░░░░░░░▓     b ───░░░▓
//!   c ░░░░░░░░░░░░▓     c ──────░░░▓
//!   d ░░░░░░░░░░░░▓     d ─────────░░░▓
//! ```
//!
//! Flushes go in the order in which they began. Trees that fill alike are still full at the same moment, each time; but
//! the first have given back their memory by then, and the last is no later than it would be if all shared evenly. A
//! flush that writes will soon wait for does not wait for its turn (U-11).

use std::collections::BTreeMap;

use weir_io::Owner;

use crate::policy::sample::PartitionSample;

/// The weight of the first flush. Partitions without a flush have it, too: what they do in this class does not wait for
/// anybody's turn.
const FIRST: u64 = 1 << 18;
/// How many times as much each weighs as the next, as a power of two. The others get something because the first may
/// end between two ticks.
const STEP_BITS: u32 = 3;
/// No flush weighs less than the first one's weight, divided by the number of flushes and by this: logs in mode
/// `Always` fill their next segments in this class, and writes would stop without these segments.
const LEAST: u64 = 5;

/// The flushes under way, in their order.
#[derive(Debug, Default)]
pub struct FlushOrder {
    under_way: BTreeMap<Owner, UnderWay>,
    tick: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// The number of the flush, in its tree.
    flush: u64,
    /// The tick that saw it first.
    since: u64,
    /// Bytes that are still to be written.
    left: u64,
    /// How many flushes go first.
    place: u32,
}

impl FlushOrder {
    /// Takes in the next tick. Gives what each flush is to weigh, in the order of `partitions`.
    pub fn step(&mut self, partitions: &[PartitionSample]) -> Vec<u64> {
        self.tick += 1;
        let known = std::mem::take(&mut self.under_way);
        for partition in partitions.iter().filter(|partition| partition.jobs.flush_left > 0) {
            let (flush, left) = (partition.jobs.flush, partition.jobs.flush_left);
            // In recordings without numbers, a flush with more left than before is another one.
            let is_same = |before: &&UnderWay| before.flush == flush && left <= before.left;
            let since = known.get(&partition.owner).filter(is_same).map_or(self.tick, |before| before.since);
            self.under_way.insert(partition.owner, UnderWay { flush, since, left, place: 0 });
        }
        let mut in_order: Vec<&mut UnderWay> = self.under_way.values_mut().collect();
        // Of flushes that began together the one with the lowest owner goes first: sorting is stable.
        in_order.sort_by_key(|under_way| under_way.since);
        in_order.into_iter().zip(0..).for_each(|(under_way, place)| under_way.place = place);
        let least = FIRST / (LEAST * self.under_way.len().max(1) as u64);
        let weight = |under_way: &UnderWay| FIRST.checked_shr(STEP_BITS * under_way.place).unwrap_or(0).max(least);
        partitions.iter().map(|partition| self.under_way.get(&partition.owner).map_or(FIRST, weight)).collect()
    }

    /// Whether other flushes go before that of `owner`.
    pub fn waits(&self, owner: Owner) -> bool {
        self.under_way.get(&owner).is_some_and(|under_way| under_way.place > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::sample::JobFacts;

    fn owner(partition: u32) -> Owner {
        Owner { tenant: 1, partition }
    }

    /// The places that a tick gives to flushes with `left` bytes left, one for each.
    fn places(order: &mut FlushOrder, left: &[u64]) -> Vec<u32> {
        places_of(order, &left.iter().map(|&left| (1, left)).collect::<Vec<_>>())
    }

    /// The same for flushes with these numbers.
    fn places_of(order: &mut FlushOrder, flushes: &[(u64, u64)]) -> Vec<u32> {
        let of = |(partition, &(flush, flush_left)): (u32, &(u64, u64))| PartitionSample {
            owner: owner(partition),
            jobs: JobFacts { flush, flush_left, ..JobFacts::default() },
            ..PartitionSample::default()
        };
        let partitions: Vec<PartitionSample> = (0..).zip(flushes).map(of).collect();
        let place = |weight| match weight {
            FIRST => 0,
            weight if weight == FIRST / 8 => 1,
            // Only the first few have a weight of their own: this is the least weight.
            _ => 2,
        };
        order.step(&partitions).into_iter().map(place).collect()
    }

    #[test]
    fn flushes_go_in_the_order_in_which_they_began() {
        let mut order = FlushOrder::default();
        assert_eq!(places(&mut order, &[0, 0, 9]), [0, 0, 0]);
        assert_eq!(places(&mut order, &[0, 5, 8]), [0, 1, 0], "who flushes nothing waits for nobody");
        assert_eq!(places(&mut order, &[7, 5, 7]), [2, 1, 0]);
        assert_eq!(places(&mut order, &[7, 5, 9]), [1, 0, 2], "another one of the third tree");
        assert_eq!(places(&mut order, &[7, 0, 9]), [0, 0, 1]);
        assert_eq!([0, 1, 2].map(|who| order.waits(owner(who))), [false, false, true]);
    }

    #[test]
    fn of_those_that_began_together_one_is_first_until_it_ends() {
        let mut order = FlushOrder::default();
        for left in [9, 5, 2] {
            assert_eq!(places(&mut order, &[left, 9, 9]), [0, 1, 2]);
        }
        assert_eq!(places(&mut order, &[0, 9, 9]), [0, 0, 1]);
    }

    #[test]
    fn a_smaller_flush_that_follows_at_once_is_another_one() {
        let mut order = FlushOrder::default();
        assert_eq!(places_of(&mut order, &[(1, 9), (0, 0)]), [0, 0]);
        assert_eq!(places_of(&mut order, &[(1, 8), (1, 9)]), [0, 1]);
        assert_eq!(places_of(&mut order, &[(2, 7), (1, 9)]), [1, 0]);
    }

    #[test]
    fn nobody_has_less_than_a_fifth_of_an_even_share() {
        let mut order = FlushOrder::default();
        let partition = |who| PartitionSample {
            owner: owner(who),
            jobs: JobFacts { flush_left: 1, ..JobFacts::default() },
            ..PartitionSample::default()
        };
        let weights = order.step(&(0..40).map(partition).collect::<Vec<_>>());
        let even = FIRST / 40;
        assert_eq!((weights[0], weights[1]), (FIRST, FIRST / 8));
        assert_eq!(weights[3..], [even / 5; 37]);
    }
}
