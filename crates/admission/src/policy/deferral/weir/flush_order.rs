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
//! So trees that filled their memtables at the same moment do not go on doing so. In the order in which they began:
//! who has waited longest has the least room left. A flush that writes will soon wait for does not wait for its turn
//! (U-11).

use std::collections::BTreeMap;

use weir_io::{Nanos, Owner};

use crate::policy::sample::Sample;

/// Each of the first has so many times the share of the next one, as a power of two; …
const STEP_BITS: u32 = 3;
/// … those behind them have equal shares. Between two ticks some of the first may end.
const PLACES: u32 = 6;
/// Ticks that the pace of all flushes is averaged over.
const AVERAGED: f64 = 4.0;

/// See the module.
#[derive(Debug, Default)]
pub struct FlushOrder {
    under_way: BTreeMap<Owner, UnderWay>,
    tick: u64,
    pace: Pace,
}

/// How fast all flushes together are.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    at: Nanos,
    /// Bytes that they had written in all.
    written: u64,
    /// Bytes per second of late.
    rate: f64,
}

impl Pace {
    fn step(&mut self, now: Nanos, written: u64) {
        let seconds = now.saturating_sub(self.at) as f64 / 1e9;
        // Fewer than before: a partition that has flushed fell asleep.
        if let Some(more) = written.checked_sub(self.written).filter(|_| self.at > 0 && seconds > 0.0) {
            self.rate += (more as f64 / seconds - self.rate) / AVERAGED;
        }
        (self.at, self.written) = (now, written);
    }
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// The tick that saw it first.
    since: u64,
    /// Bytes that are still to be written.
    left: u64,
    /// How many go first.
    place: u32,
    /// Bytes that are still to be written when its turn is over: theirs, and its own.
    left_in_turn: u64,
}

impl FlushOrder {
    /// The next tick has come. How many times its share each flush is to have, in the order of the sample; 1 where none
    /// is under way.
    pub fn step(&mut self, sample: &Sample) -> Vec<u64> {
        let partitions = &sample.partitions;
        self.tick += 1;
        self.pace.step(sample.now, partitions.iter().map(|partition| partition.bytes.flush).sum());
        let known = std::mem::take(&mut self.under_way);
        for partition in partitions.iter().filter(|partition| partition.jobs.flush_left > 0) {
            let left = partition.jobs.flush_left;
            let before = known.get(&partition.owner).filter(|before| left <= before.left);
            let since = before.map_or(self.tick, |before| before.since);
            let under_way = UnderWay { since, left, place: 0, left_in_turn: left };
            self.under_way.insert(partition.owner, under_way);
        }
        let mut in_order: Vec<(u64, Owner)> =
            self.under_way.iter().map(|(owner, under_way)| (under_way.since, *owner)).collect();
        in_order.sort_unstable();
        let mut left = 0;
        for (place, (_, owner)) in (0..).zip(in_order) {
            if let Some(under_way) = self.under_way.get_mut(&owner) {
                left += under_way.left;
                (under_way.place, under_way.left_in_turn) = (place, left);
            }
        }
        let weight = |under_way: &UnderWay| 1 << (STEP_BITS * PLACES.saturating_sub(under_way.place));
        partitions.iter().map(|partition| self.under_way.get(&partition.owner).map_or(1, weight)).collect()
    }

    /// Seconds until the flush of `owner` ends, if others go first.
    pub fn in_turn(&self, owner: Owner) -> Option<f64> {
        let under_way = self.under_way.get(&owner).filter(|under_way| under_way.place > 0)?;
        Some(under_way.left_in_turn as f64 / self.pace.rate.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::policy::sample::{Bytes, JobFacts, MemoryFacts, PartitionSample};

    fn owner(partition: u32) -> Owner {
        Owner { tenant: 1, partition }
    }

    /// The places that a tick gives to flushes with so many bytes left each; `None` where it gives none. Since the last
    /// tick, a second ago, they have written 4 bytes each.
    fn places(order: &mut FlushOrder, left: &[u64]) -> Vec<Option<u32>> {
        let of = |(partition, &flush_left): (u32, &u64)| PartitionSample {
            owner: owner(partition),
            jobs: JobFacts { flush_left, ..JobFacts::default() },
            bytes: Bytes { flush: 4 * order.tick, ..Bytes::default() },
            ..PartitionSample::default()
        };
        let sample = Sample {
            now: (order.tick + 1) * 1_000_000_000,
            device: Limits::bytes(100),
            memory: MemoryFacts::default(),
            partitions: (0..).zip(left).map(of).collect(),
        };
        let place = |weight: u64| (weight > 1).then(|| PLACES - weight.ilog2() / STEP_BITS);
        order.step(&sample).into_iter().map(place).collect()
    }

    #[test]
    fn flushes_go_in_the_order_in_which_they_began() {
        let mut order = FlushOrder::default();
        assert_eq!(places(&mut order, &[0, 0, 9]), [None, None, Some(0)]);
        assert_eq!(places(&mut order, &[0, 5, 8]), [None, Some(1), Some(0)]);
        assert_eq!(places(&mut order, &[7, 5, 7]), [Some(2), Some(1), Some(0)]);
        assert_eq!(places(&mut order, &[7, 5, 9]), [Some(1), Some(0), Some(2)], "another one of the third tree");
        assert_eq!(places(&mut order, &[7, 0, 9]), [Some(0), None, Some(1)]);
    }

    #[test]
    fn when_one_ends_is_known_by_what_all_of_them_write() {
        let mut order = FlushOrder::default();
        for _ in 0..40 {
            places(&mut order, &[0, 60, 30]);
        }
        let seconds = [0, 1, 2].map(|who| order.in_turn(owner(who)).map(|seconds| (seconds * 10.0).round()));
        assert_eq!(seconds, [None, None, Some(75.0)], "90 bytes at 12 a second");
    }

    #[test]
    fn of_those_that_began_together_one_is_first_until_it_ends() {
        let mut order = FlushOrder::default();
        for left in [9, 5, 2] {
            assert_eq!(places(&mut order, &[left, 9, 9]), [Some(0), Some(1), Some(2)]);
        }
        assert_eq!(places(&mut order, &[0, 9, 9]), [None, Some(0), Some(1)]);
    }

    #[test]
    fn behind_the_first_few_all_are_equal() {
        let mut order = FlushOrder::default();
        let given = places(&mut order, &[1; 40]);
        assert_eq!(given.iter().flatten().count(), PLACES as usize);
        assert_eq!(given[PLACES as usize..], [None; 40 - PLACES as usize]);
    }
}
