//! Units of something finite (bytes of write buffer, bytes of cache, worker slots) in reserved shares and a common rest.
//!
//! A tenant's reserve is kept for it whether it uses it or not; the rest goes to whoever comes. With reserves of 0 this
//! is plain sharing, with reserves of a fair share each it is a static quota, and in between lies delayed fairness
//! (DF-3). Nothing is taken away from anybody here: [`crate::policy::share`] says from whom, and the owner of the mechanism does
//! it (flushes that tenant's memtable).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// See the module. Tenants need no registration: one that neither uses nor reserves anything is not known.
pub struct Pool {
    state: Mutex<State>,
}

/// What a tenant has of a pool, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// In use.
    pub used: u64,
    /// Kept for it, in use or not.
    pub reserve: u64,
}

impl Part {
    /// Kept for it and not in use.
    fn kept(self) -> u64 {
        self.reserve.saturating_sub(self.used)
    }
}

/// The sums over a pool, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// In all.
    pub capacity: u64,
    /// In use by all tenants.
    pub used: u64,
    /// Kept for tenants that do not use them now.
    pub kept: u64,
    /// Tenants that use something: among them fair shares are counted.
    pub users: u64,
}

impl PoolStats {
    /// What nobody uses and for nobody is kept.
    pub fn rest(self) -> u64 {
        self.capacity.saturating_sub(self.used).saturating_sub(self.kept)
    }
}

#[derive(Default)]
struct State {
    sums: PoolStats,
    headroom: u64,
    parts: BTreeMap<u32, Part>,
}

impl State {
    /// The one place where parts change: keeps the sums.
    fn change(&mut self, tenant: u32, change: impl FnOnce(&mut Part)) {
        let before = self.part(tenant);
        let mut after = before;
        change(&mut after);
        self.sums.used = self.sums.used + after.used - before.used;
        self.sums.kept = self.sums.kept + after.kept() - before.kept();
        self.sums.users = self.sums.users + u64::from(after.used > 0) - u64::from(before.used > 0);
        match after == Part::default() {
            true => drop(self.parts.remove(&tenant)),
            false => drop(self.parts.insert(tenant, after)),
        }
    }

    fn part(&self, tenant: u32) -> Part {
        self.parts.get(&tenant).copied().unwrap_or_default()
    }

    fn take(&mut self, tenant: u32, units: u64) {
        self.change(tenant, |part| part.used += units);
    }

    fn give(&mut self, tenant: u32, units: u64) {
        self.change(tenant, |part| part.used -= units);
    }

    fn has_for(&self, tenant: u32, units: u64) -> bool {
        let part = self.part(tenant);
        let users = self.sums.users + u64::from(part.used == 0);
        let is_within_share = part.used.saturating_add(units) <= self.sums.capacity / (users + 1);
        let headroom = if is_within_share { 0 } else { self.headroom };
        units <= part.kept() || units <= part.kept().saturating_add(self.sums.rest().saturating_sub(headroom))
    }
}

impl Pool {
    /// A pool of `capacity` units, nothing reserved.
    pub fn new(capacity: u64) -> Arc<Self> {
        let sums = PoolStats { capacity, ..PoolStats::default() };
        Arc::new(Self { state: Mutex::new(State { sums, ..State::default() }) })
    }

    /// Keeps `reserve` units for `tenant` from now on. What others use of it comes back as they give it back. All
    /// reserves together should stay below the capacity: the policy that turns this knob sees to it.
    pub fn set_reserve(&self, tenant: u32, reserve: u64) {
        self.state.lock().change(tenant, |part| part.reserve = reserve);
    }

    /// Turns the knob: so many units of the rest are only for tenants within their share. They never find that others have left nothing. Shares
    /// are equal parts of the capacity: one for everybody who uses something, and one for whoever comes next.
    pub fn set_headroom(&self, headroom: u64) {
        self.state.lock().headroom = headroom;
    }

    /// Takes `units` if they are there for `tenant`: from its reserve first, then from the rest. Below its reserve a
    /// tenant is never refused, whatever the others do (DF-7).
    pub fn try_take(self: &Arc<Self>, tenant: u32, units: u64) -> Option<Held> {
        let mut state = self.state.lock();
        state.has_for(tenant, units).then(|| {
            state.take(tenant, units);
            Held { pool: Arc::clone(self), tenant, units }
        })
    }

    /// Takes `units` whatever is left, beyond the capacity if need be: they are in use already.
    pub fn take(self: &Arc<Self>, tenant: u32, units: u64) -> Held {
        self.state.lock().take(tenant, units);
        Held { pool: Arc::clone(self), tenant, units }
    }

    /// What `tenant` has.
    pub fn part(&self, tenant: u32) -> Part {
        self.state.lock().part(tenant)
    }

    /// What every known tenant has, by tenant.
    pub fn parts(&self) -> Vec<(u32, Part)> {
        self.state.lock().parts.iter().map(|(&tenant, &part)| (tenant, part)).collect()
    }

    /// The sums.
    pub fn stats(&self) -> PoolStats {
        self.state.lock().sums
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// Units in use; dropping gives them back.
#[must_use = "units that nobody holds are given back at once"]
#[derive(Debug)]
pub struct Held {
    pool: Arc<Pool>,
    tenant: u32,
    units: u64,
}

impl Held {
    /// How many.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Whose.
    pub fn tenant(&self) -> u32 {
        self.tenant
    }

    /// Now it is `units`, whatever is left: the use has changed already.
    pub fn set(&mut self, units: u64) {
        if units != self.units {
            self.pool.state.lock().change(self.tenant, |part| part.used = part.used - self.units + units);
            self.units = units;
        }
    }

    /// Takes `more` if they are there, as [`Pool::try_take`] does. True if taken.
    #[must_use = "nothing was taken if this is false"]
    pub fn try_grow(&mut self, more: u64) -> bool {
        let mut state = self.pool.state.lock();
        let taken = state.has_for(self.tenant, more);
        if taken {
            state.take(self.tenant, more);
            self.units += more;
        }
        taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pool.state.lock().give(self.tenant, self.units);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_reserves_whoever_comes_first_has_it() {
        let pool = Pool::new(10);
        let all = pool.try_take(1, 10).expect("free");
        assert!(pool.try_take(2, 1).is_none() && pool.stats().rest() == 0);
        drop(all);
        assert!(pool.try_take(2, 10).is_some());
        assert_eq!(pool.stats(), PoolStats { capacity: 10, ..PoolStats::default() });
        assert!(pool.parts().is_empty(), "who has nothing is forgotten");
    }

    #[test]
    fn a_reserve_is_kept_for_its_tenant_and_nobody_else() {
        let pool = Pool::new(10);
        pool.set_reserve(1, 4);
        let hog = pool.try_take(2, 6).expect("the rest");
        assert!(pool.try_take(2, 1).is_none());
        let mut own = pool.try_take(1, 3).expect("reserved");
        assert!(own.try_grow(1) && !own.try_grow(1), "beyond its reserve it is one of many");
        drop(hog);
        assert!(own.try_grow(6), "from the rest");
        assert_eq!(pool.part(1), Part { used: 10, reserve: 4 });
        assert!(pool.try_take(2, 1).is_none());
    }

    #[test]
    fn equal_reserves_are_a_static_quota() {
        // DF-3.
        let pool = Pool::new(9);
        (1..=3).for_each(|tenant| pool.set_reserve(tenant, 3));
        let held: Vec<_> = (1..=3).map(|tenant| pool.try_take(tenant, 3).expect("its quota")).collect();
        drop(held);
        assert!((1..=3).all(|tenant| pool.try_take(tenant, 4).is_none()));
    }

    #[test]
    fn what_is_used_already_is_booked_beyond_the_capacity_and_harms_no_reserve() {
        let pool = Pool::new(10);
        pool.set_reserve(1, 2);
        let mut hog = pool.take(2, 3);
        hog.set(30);
        assert_eq!((hog.units(), hog.tenant(), pool.stats().used, pool.stats().rest()), (30, 2, 30, 0));
        assert!(pool.try_take(3, 1).is_none());
        let own = pool.try_take(1, 2);
        assert!(own.is_some());
        hog.set(1);
        assert_eq!(pool.stats().rest(), 7);
    }

    #[test]
    fn headroom_is_for_those_within_their_share() {
        let pool = Pool::new(100);
        pool.set_headroom(25);
        assert!(pool.try_take(1, 76).is_none(), "alone, but somebody may come");
        drop(pool.try_take(1, 75).expect("what is not kept for them"));
        let _others = (pool.take(1, 10), pool.take(2, 10));
        let mut hog = pool.try_take(3, 55).expect("above its share, but there is room");
        assert!(!hog.try_grow(1) && pool.try_take(3, 1).is_none());
        assert!(pool.try_take(4, 21).is_none(), "above its share of five");
        assert!(pool.try_take(4, 20).is_some() && pool.try_take(1, 15).is_some());
        // A reserve is above all that.
        pool.set_reserve(3, 56);
        assert!(hog.try_grow(1) && !hog.try_grow(1));
    }

    proptest! {
        /// With reserves set beforehand and nothing taken by force: never more in use than there is, nobody refused
        /// within his reserve, and when everything is given back nothing is left.
        #[test]
        fn reserves_hold_and_sums_are_right(
            reserves in prop::collection::vec(0_u64..20, 4),
            rest in 0_u64..40,
            steps in prop::collection::vec((0_usize..4, 0_u64..30, any::<bool>()), 0..200),
        ) {
            let pool = Pool::new(reserves.iter().sum::<u64>() + rest);
            for (tenant, &reserve) in (0..).zip(&reserves) {
                pool.set_reserve(tenant, reserve);
            }
            let mut held: Vec<Vec<Held>> = (0..4).map(|_| Vec::new()).collect();
            for (tenant, units, give) in steps {
                if give {
                    held[tenant].pop();
                } else {
                    let used: u64 = held[tenant].iter().map(Held::units).sum();
                    let taken = pool.try_take(tenant as u32, units);
                    prop_assert!(taken.is_some() || used + units > reserves[tenant]);
                    held[tenant].extend(taken);
                }
                let used: Vec<u64> = held.iter().map(|held| held.iter().map(Held::units).sum()).collect();
                let stats = pool.stats();
                prop_assert_eq!(stats.used, used.iter().sum::<u64>());
                prop_assert!(stats.used + stats.kept <= stats.capacity);
                prop_assert_eq!(stats.users, used.iter().filter(|&&used| used > 0).count() as u64);
            }
            held.clear();
            (0..4).for_each(|tenant| pool.set_reserve(tenant, 0));
            prop_assert!(pool.parts().is_empty() && pool.stats().rest() == pool.stats().capacity);
        }
    }
}
