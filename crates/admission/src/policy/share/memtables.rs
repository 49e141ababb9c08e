//! Whose memtable goes to a table when the write memory of a node runs short (C-10, DF-7).
//!
//! Memory that is on its way to tables comes back by itself. What is left (memtables that take writes, or wait for
//! company to be flushed) must leave room for the next ones to fill while it is written, and there must be some way out
//! whenever somebody waits.

use std::cmp::Reverse;

use weir_io::{Nanos, Owner};

/// Flushing less than this part of the budget for fairness' sake makes small tables and helps nobody.
const WORTH: u64 = 16;

/// A tenant's part, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// Its number.
    pub tenant: u32,
    /// In use.
    pub used: u64,
    /// Kept for it.
    pub reserve: u64,
}

/// The memtables of a partition that nobody is flushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memtables {
    /// Whose.
    pub owner: Owner,
    /// What they take, in bytes.
    pub held: u64,
    /// Since when the oldest of them is there, on the node's clock.
    pub since: Nanos,
}

/// The moment at which it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// The budget, in bytes.
    pub capacity: u64,
    /// In use, whatever for: memtables, and those that are in tables by now but still being read.
    pub used: u64,
    /// Of these, what is being flushed.
    pub leaving: u64,
    /// Somebody waits for room.
    pub is_waited_for: bool,
    /// Who uses something, by number.
    pub tenants: Vec<TenantMemory>,
    /// What could be flushed.
    pub memtables: Vec<Memtables>,
}

/// The partitions whose memtables should be sealed and flushed now, in this order.
///
/// First the largest of the tenant that is most above its share (an equal part of the budget, and never less than its
/// reserve), if that is worth a flush, and so on. Then the oldest: a memtable that fills slowly keeps its memory
/// longest for the bytes it saves, and one of a tenant that rests for nothing. Who is within its reserve keeps what it
/// has.
pub fn to_seal(sample: &MemorySample) -> Vec<Owner> {
    let mut held: u64 = sample.memtables.iter().map(|memtables| memtables.held).sum();
    let mut leaving = sample.leaving;
    let is_short = |held: u64, leaving: u64| {
        held > sample.capacity / 2
            || sample.used.saturating_sub(leaving) > sample.capacity / 4 * 3
            || (sample.is_waited_for && leaving == 0)
    };
    if !is_short(held, leaving) {
        return Vec::new();
    }
    let share = sample.capacity / (sample.tenants.len() as u64).max(1);
    let candidate = |memtables: &Memtables| {
        let place = sample.tenants.binary_search_by_key(&memtables.owner.tenant, |tenant| tenant.tenant);
        let tenant = place.map(|place| sample.tenants[place]).unwrap_or_default();
        let above = tenant.used.saturating_sub(share.max(tenant.reserve)).min(memtables.held);
        let above = Some(above).filter(|above| *above >= sample.capacity / WORTH);
        (memtables.held > 0 && tenant.used > tenant.reserve).then_some((above, *memtables))
    };
    // What one gives changes nothing in how the others stand: sorted once, they give until it is enough.
    let mut candidates: Vec<_> = sample.memtables.iter().filter_map(candidate).collect();
    candidates.sort_unstable_by_key(|(above, memtables)| {
        let age = if above.is_some() { 0 } else { memtables.since };
        (Reverse(*above), age, memtables.owner)
    });
    let mut order = candidates.into_iter();
    let next = || {
        let (_, memtables) = is_short(held, leaving).then(|| order.next()).flatten()?;
        held -= memtables.held;
        leaving += memtables.held;
        Some(memtables.owner)
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(tenant: u32) -> Owner {
        Owner { tenant, partition: 1 }
    }

    /// Tenant, bytes in use, bytes that nobody flushes; the first is the oldest.
    fn sample(tenants: &[(u32, u64, u64)]) -> MemorySample {
        let memtables = tenants.iter().zip(0..);
        let memtables = memtables.map(|(&(tenant, _, held), since)| Memtables { owner: owner(tenant), held, since });
        let used: u64 = tenants.iter().map(|tenant| tenant.1).sum();
        MemorySample {
            capacity: 100,
            used,
            leaving: used - tenants.iter().map(|tenant| tenant.2).sum::<u64>(),
            is_waited_for: false,
            tenants: tenants.iter().map(|&(tenant, used, _)| TenantMemory { tenant, used, reserve: 0 }).collect(),
            memtables: memtables.collect(),
        }
    }

    #[test]
    fn as_long_as_the_next_memtables_fit_nothing_happens() {
        assert_eq!(to_seal(&sample(&[(1, 30, 30), (2, 20, 20)])), []);
        assert_eq!(to_seal(&sample(&[(1, 80, 30), (2, 20, 20)])), [], "what is being flushed comes back by itself");
        assert_eq!(to_seal(&sample(&[])), []);
    }

    #[test]
    fn who_is_most_above_its_share_gives() {
        assert_eq!(to_seal(&sample(&[(1, 10, 10), (2, 63, 63)])), [owner(2)]);
        // Tenant 1 is far above, but has given what it had: sealing the crumbs that are left would help nobody.
        assert_eq!(to_seal(&sample(&[(1, 50, 1), (2, 46, 46), (3, 10, 10)])), [owner(2)]);
    }

    #[test]
    fn where_nobody_is_far_above_the_oldest_goes() {
        assert_eq!(to_seal(&sample(&[(1, 5, 5), (2, 20, 20), (3, 30, 30)])), [owner(1)]);
    }

    #[test]
    fn who_is_within_its_reserve_keeps_what_it_has() {
        let mut reserved = sample(&[(1, 60, 60), (2, 5, 5)]);
        reserved.tenants[0].reserve = 60;
        assert_eq!(to_seal(&reserved), [owner(2)]);
        reserved.memtables.pop();
        assert_eq!(to_seal(&reserved), []);
    }

    #[test]
    fn what_readers_hold_counts_and_whoever_waits_is_helped() {
        let held_by_readers = MemorySample { used: 80, ..sample(&[(1, 10, 10)]) };
        assert_eq!(to_seal(&held_by_readers), [owner(1)]);
        let waiting = MemorySample { is_waited_for: true, ..sample(&[(1, 3, 3), (2, 2, 2)]) };
        assert_eq!(to_seal(&waiting), [owner(1)]);
        assert_eq!(to_seal(&MemorySample { leaving: 1, ..waiting }), [], "a flush is on its way");
    }
}
