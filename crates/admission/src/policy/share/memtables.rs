//! Which memtable is flushed when the write memory of a node runs short (C-10, DF-7).
//!
//! Memory of memtables that are being flushed comes back by itself, unless the flush fails. The other memtables (those
//! that take writes, or wait for company to be flushed) must leave enough room for the next ones to fill while they are
//! written, and there must be some way out whenever somebody waits.

use std::cmp::Reverse;

use weir_io::{Nanos, Owner};

/// Flushing less than this part of the budget (one sixteenth) for fairness' sake makes small tables and helps nobody.
const WORTH: u64 = 16;
/// The same for a tenant that rests: memtables of less than this part of its share do not keep it from having most of
/// its share at once.
const WORTH_AT_REST: u64 = 16;

/// What one tenant has of the memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// Its number.
    pub tenant: u32,
    /// In use.
    pub used: u64,
    /// What is kept for it.
    pub reserve: u64,
    /// Its fair share.
    pub share: u64,
    /// The most that it can have, whatever the others use; `None` if it may use all. Only quotas are limits.
    pub quota: Option<u64>,
    /// Whether it waits for room.
    pub waits: bool,
}

/// The memtables of a partition, those being flushed and those not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memtables {
    /// The partition.
    pub owner: Owner,
    /// What the memtables take that nobody is flushing, in bytes.
    pub held: u64,
    /// What the memtables take that are being flushed, or will be next, in bytes.
    pub leaving: u64,
    /// Since when the oldest memtable has been there, on the node's clock.
    pub since: Nanos,
    /// Whether nothing was written to them for a second.
    pub rests: bool,
    /// Whether the partition's last flush failed: what is leaving may not come back.
    pub fails: bool,
}

/// The state of the write memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// The budget, in bytes, without what is kept in common.
    pub capacity: u64,
    /// In use, for whatever purpose: memtables, and those that are in tables by now but are still being read.
    pub used: u64,
    /// Whether somebody waits for room. A tenant whose flushes fail does not count.
    pub is_waited_for: bool,
    /// Whether tenants are promised their shares, within a delay or at once.
    pub is_promised: bool,
    /// The tenants that use something, by number.
    pub tenants: Vec<TenantMemory>,
    /// The memtables that could be flushed.
    pub memtables: Vec<Memtables>,
}

impl MemorySample {
    fn tenant(&self, tenant: u32) -> TenantMemory {
        let place = self.tenants.binary_search_by_key(&tenant, |tenant| tenant.tenant);
        place.map(|place| self.tenants[place]).unwrap_or_default()
    }
}

/// The partitions whose memtables should be sealed and flushed now, in this order.
///
/// First the largest of the tenant that is most above its share (and never below its reserve), if that is worth a
/// flush, and so on. Then the oldest: a memtable that fills slowly keeps its memory longest for the bytes that it
/// saves, and one of a tenant that rests keeps it for nothing. A tenant within its reserve keeps what it has, unless it
/// stands in its own way. That is so in two cases. Within a quota a tenant is alone, with the same rules. Where shares
/// are promised, what a tenant left behind when it went to rest is flushed, or it would not have its share when it
/// comes back.
pub fn to_seal(sample: &MemorySample) -> Vec<Owner> {
    let mut owners = at_quota(sample);
    owners.extend(at_rest(sample));
    owners.sort_unstable();
    owners.dedup();
    let mut held: u64 = sample.memtables.iter().map(|memtables| memtables.held).sum();
    let mut leaving = sample.memtables.iter().map(|memtables| memtables.leaving).sum();
    let mut comes_back = sample.memtables.iter().any(|memtables| memtables.leaving > 0 && !memtables.fails);
    let is_short = |held: u64, leaving: u64| {
        held > sample.capacity / 2 || sample.used.saturating_sub(leaving) > sample.capacity / 4 * 3
    };
    let is_stuck = |comes_back: bool| sample.is_waited_for && !comes_back;
    if !is_short(held, leaving) && !is_stuck(comes_back) {
        return owners;
    }
    let candidate = |memtables: &Memtables| {
        let tenant = sample.tenant(memtables.owner.tenant);
        let above = tenant.used.saturating_sub(tenant.share.max(tenant.reserve)).min(memtables.held);
        let above = Some(above).filter(|above| *above >= sample.capacity / WORTH);
        let gives = memtables.held > 0 && tenant.used > tenant.reserve && !owners.contains(&memtables.owner);
        gives.then_some((above, *memtables))
    };
    // What one candidate gives does not change the order of the others. So they are sorted once, and give until it is
    // enough.
    let mut candidates: Vec<_> = sample.memtables.iter().filter_map(candidate).collect();
    candidates.sort_unstable_by_key(|(above, memtables)| {
        let age = if above.is_some() { 0 } else { memtables.since };
        (Reverse(*above), age, memtables.owner)
    });
    for (_, memtables) in candidates {
        let is_short = is_short(held, leaving);
        if !is_short && !is_stuck(comes_back) {
            break;
        }
        if !is_short && memtables.fails {
            // Its next flush probably fails, too, which ends nobody's wait.
            continue;
        }
        held -= memtables.held;
        leaving += memtables.held;
        comes_back |= !memtables.fails;
        owners.push(memtables.owner);
    }
    owners
}

/// The memtables of tenants that rest and hold a part of their share that they may want again all at once.
fn at_rest(sample: &MemorySample) -> impl Iterator<Item = Owner> {
    let is_worth_it = |memtables: &&Memtables| {
        let share = sample.tenant(memtables.owner.tenant).share;
        sample.is_promised && memtables.rests && memtables.held > share / WORTH_AT_REST
    };
    sample.memtables.iter().filter(is_worth_it).map(|memtables| memtables.owner)
}

/// The largest memtables of each tenant that holds more than half of its quota, so that the next ones have room to fill
/// while these are written, or that waits while none of its own memtables is being flushed.
fn at_quota(sample: &MemorySample) -> Vec<Owner> {
    let largest = |tenant: &TenantMemory| {
        let quota = tenant.quota?;
        let own = || sample.memtables.iter().filter(|memtables| memtables.owner.tenant == tenant.tenant);
        let held: u64 = own().map(|memtables| memtables.held).sum();
        let is_stuck = tenant.waits && own().all(|memtables| memtables.leaving == 0);
        let largest = own().filter(|memtables| memtables.held > 0).max_by_key(|memtables| memtables.held)?;
        (held > quota / 2 || is_stuck).then_some(largest.owner)
    };
    sample.tenants.iter().filter_map(largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(tenant: u32) -> Owner {
        Owner { tenant, partition: 1 }
    }

    /// `tenants` has (tenant, bytes in use, bytes that nobody flushes). The first is the oldest.
    fn sample(tenants: &[(u32, u64, u64)]) -> MemorySample {
        let memtables = tenants.iter().zip(0..).map(|(&(tenant, used, held), since)| Memtables {
            owner: owner(tenant),
            held,
            leaving: used - held,
            since,
            rests: false,
            fails: false,
        });
        let share = 100 / (tenants.len() as u64).max(1);
        let tenant = |&(tenant, used, _)| TenantMemory { tenant, used, share, ..TenantMemory::default() };
        MemorySample {
            capacity: 100,
            used: tenants.iter().map(|tenant| tenant.1).sum(),
            is_waited_for: false,
            is_promised: false,
            tenants: tenants.iter().map(tenant).collect(),
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
        // Tenant 1 is far above its share, but has given what it had: sealing the crumbs that are left would help
        // nobody.
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
        let mut leaving = waiting;
        leaving.memtables[0].leaving = 1;
        assert_eq!(to_seal(&leaving), [], "a flush is on its way");
    }

    #[test]
    fn a_flush_that_fails_ends_nobodys_wait() {
        let mut waiting = MemorySample { is_waited_for: true, ..sample(&[(1, 60, 20), (2, 20, 20), (3, 10, 10)]) };
        assert_eq!(to_seal(&waiting), [], "a flush of the first is on its way");
        waiting.memtables[0].fails = true;
        assert_eq!(to_seal(&waiting), [owner(2)], "the oldest of those whose flushes may succeed, and no more");
        waiting.memtables[1].fails = true;
        waiting.memtables[2].fails = true;
        assert_eq!(to_seal(&waiting), [], "nothing would help");
        waiting.memtables[0].held = 60;
        assert_eq!(to_seal(&waiting), [owner(1)], "more than half is held without an attempt to flush it");
    }

    #[test]
    fn within_a_quota_a_tenant_is_alone() {
        let mut quotas = sample(&[(1, 15, 15), (2, 8, 2), (3, 10, 10), (4, 0, 0)]);
        quotas.tenants.iter_mut().for_each(|tenant| (tenant.quota, tenant.reserve) = (Some(25), 25));
        assert_eq!(to_seal(&quotas), [owner(1)], "more than half of its quota");
        quotas.tenants.iter_mut().for_each(|tenant| tenant.waits = true);
        assert_eq!(to_seal(&quotas), [owner(1), owner(3)], "what the second one waits for is on its way");
        quotas.is_waited_for = true;
        assert_eq!(to_seal(&quotas), [owner(1), owner(3)], "nobody gives for others");
    }

    #[test]
    fn who_went_to_rest_leaves_room_for_coming_back() {
        // Shares of 25 each.
        let mut promised = sample(&[(1, 10, 10), (2, 10, 10), (3, 1, 1), (4, 10, 0)]);
        [0, 2, 3].into_iter().for_each(|index| promised.memtables[index].rests = true);
        assert_eq!(to_seal(&promised), [], "nobody was promised anything");
        promised.is_promised = true;
        assert_eq!(to_seal(&promised), [owner(1)], "2 writes on, 3 has next to nothing, 4 is being flushed");
        promised.tenants[0].quota = Some(15);
        assert_eq!(to_seal(&promised), [owner(1)], "once is enough");
    }
}
