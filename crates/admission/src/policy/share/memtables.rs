//! Whose memtable goes to a table when the write memory of a node runs short (C-10, DF-7).
//!
//! Memory that is on its way to tables comes back by itself. What is left (memtables that take writes, or wait for company to be flushed) must
//! leave room for the next ones to fill while it is written, and there must be some way out whenever somebody waits.

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

/// The partition whose memtables should be sealed and flushed now; `None` if nobody's. Ask again after that has been done.
///
/// It is the largest of the tenant that is most above its share (an equal part of the budget, and never less than its reserve), if that is worth a
/// flush. Otherwise the oldest: a memtable that fills slowly keeps its memory longest for the bytes it saves, and one of a tenant that
/// rests for nothing. Who is within its reserve keeps what it has.
pub fn to_seal(sample: &MemorySample) -> Option<Owner> {
    let held: u64 = sample.memtables.iter().map(|memtables| memtables.held).sum();
    let staying = sample.used.saturating_sub(sample.leaving);
    let is_short = held > sample.capacity / 2
        || staying > sample.capacity / 4 * 3
        || (sample.is_waited_for && sample.leaving == 0);
    if !is_short {
        return None;
    }
    let share = sample.capacity / (sample.tenants.len() as u64).max(1);
    let tenant = |memtables: &Memtables| {
        let place = sample.tenants.binary_search_by_key(&memtables.owner.tenant, |tenant| tenant.tenant);
        place.map(|place| sample.tenants[place]).unwrap_or_default()
    };
    let above = |memtables: &Memtables| {
        let tenant = tenant(memtables);
        tenant.used.saturating_sub(share.max(tenant.reserve)).min(memtables.held)
    };
    let may_give = || {
        let beyond_reserve = |memtables: &&Memtables| tenant(memtables).used > tenant(memtables).reserve;
        sample.memtables.iter().filter(|memtables| memtables.held > 0).filter(beyond_reserve)
    };
    let greediest = may_give().max_by_key(|memtables| (above(memtables), std::cmp::Reverse(memtables.owner)));
    let greediest = greediest.filter(|memtables| above(memtables) >= sample.capacity / WORTH);
    let oldest = || may_give().min_by_key(|memtables| (memtables.since, memtables.owner));
    greediest.or_else(oldest).map(|memtables| memtables.owner)
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
        assert_eq!(to_seal(&sample(&[(1, 30, 30), (2, 20, 20)])), None);
        assert_eq!(to_seal(&sample(&[(1, 80, 30), (2, 20, 20)])), None, "what is being flushed comes back by itself");
        assert_eq!(to_seal(&sample(&[])), None);
    }

    #[test]
    fn who_is_most_above_its_share_gives() {
        assert_eq!(to_seal(&sample(&[(1, 10, 10), (2, 63, 63)])), Some(owner(2)));
        // Tenant 1 is far above, but has given what it had: sealing the crumbs that are left would help nobody.
        assert_eq!(to_seal(&sample(&[(1, 50, 1), (2, 46, 46), (3, 10, 10)])), Some(owner(2)));
    }

    #[test]
    fn where_nobody_is_far_above_the_oldest_goes() {
        assert_eq!(to_seal(&sample(&[(1, 5, 5), (2, 20, 20), (3, 30, 30)])), Some(owner(1)));
    }

    #[test]
    fn who_is_within_its_reserve_keeps_what_it_has() {
        let mut reserved = sample(&[(1, 60, 60), (2, 5, 5)]);
        reserved.tenants[0].reserve = 60;
        assert_eq!(to_seal(&reserved), Some(owner(2)));
        reserved.memtables.pop();
        assert_eq!(to_seal(&reserved), None);
    }

    #[test]
    fn what_readers_hold_counts_and_whoever_waits_is_helped() {
        let held_by_readers = MemorySample { used: 80, ..sample(&[(1, 10, 10)]) };
        assert_eq!(to_seal(&held_by_readers), Some(owner(1)));
        let waiting = MemorySample { is_waited_for: true, ..sample(&[(1, 3, 3), (2, 2, 2)]) };
        assert_eq!(to_seal(&waiting), Some(owner(1)));
        assert_eq!(to_seal(&MemorySample { leaving: 1, ..waiting }), None, "a flush is on its way");
    }
}
