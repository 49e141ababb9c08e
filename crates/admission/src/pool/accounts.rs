//! How many units of a pool each tenant has, and how many are left for each.

use std::collections::BTreeMap;

/// What a tenant has of a pool, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// In use.
    pub used: u64,
    /// Kept for it, in use or not.
    pub reserve: u64,
}

impl Part {
    /// Units that are kept for the tenant and not in use.
    fn kept(self) -> u64 {
        self.reserve.saturating_sub(self.used)
    }
}

/// What a tenant is entitled to, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its fair share. As long as the tenant stays within that, it goes before all that do not.
    pub units: u64,
    /// Kept for it alone.
    pub reserve: u64,
    /// Whether, within its share, it may take from what is kept in common.
    pub is_prompt: bool,
}

/// What all tenants are entitled to, in units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Kept in common for tenants below their share.
    pub common: u64,
    /// Shares by tenant. The share of a tenant that is not here is an equal part of the pool, as it is one of those
    /// that use something. Such a tenant may take from what is kept in common, and goes before nobody.
    pub tenants: BTreeMap<u32, Share>,
}

impl Shares {
    /// All units that are kept: in common, and for each tenant.
    pub fn kept(&self) -> u64 {
        self.common + self.tenants.values().map(|share| share.reserve).sum::<u64>()
    }
}

/// The sums over a pool, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// All units of the pool.
    pub capacity: u64,
    /// In use by all tenants.
    pub used: u64,
    /// Kept for tenants that do not use them now.
    pub kept: u64,
    /// Tenants that use something: fair shares are counted among these.
    pub users: u64,
    /// Requests that wait.
    pub waiting: u64,
}

impl PoolStats {
    /// Units that nobody uses and that are kept for nobody.
    pub fn rest(self) -> u64 {
        self.capacity.saturating_sub(self.used).saturating_sub(self.kept)
    }
}

/// Whether a request can be granted now, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Yes, from what is kept for its tenant.
    Reserve,
    /// Yes, with units of the rest.
    Rest,
    /// No: what is left is for tenants within their share.
    AboveShare,
    /// No: too little is left.
    Short,
}

/// The books of a pool. Tenants need no registration: a tenant that neither uses nor reserves anything is not known.
#[derive(Debug)]
pub(super) struct Accounts {
    sums: PoolStats,
    /// Sum of all reserves.
    reserved: u64,
    headroom: u64,
    parts: BTreeMap<u32, Part>,
    shares: BTreeMap<u32, Share>,
}

impl Accounts {
    /// `capacity` units, none in use and none reserved.
    pub fn new(capacity: u64) -> Self {
        let sums = PoolStats { capacity, ..PoolStats::default() };
        Self { sums, reserved: 0, headroom: 0, parts: BTreeMap::new(), shares: BTreeMap::new() }
    }

    /// The sums; [`PoolStats::waiting`] is not known here.
    pub fn sums(&self) -> PoolStats {
        self.sums
    }

    pub fn part(&self, tenant: u32) -> Part {
        self.parts.get(&tenant).copied().unwrap_or_default()
    }

    pub fn parts(&self) -> impl Iterator<Item = (u32, Part)> {
        self.parts.iter().map(|(&tenant, &part)| (tenant, part))
    }

    pub fn set_headroom(&mut self, headroom: u64) {
        self.headroom = headroom;
    }

    pub fn set_reserve(&mut self, tenant: u32, reserve: u64) {
        self.change(tenant, |part| part.reserve = reserve);
    }

    /// Sets all reserves, and which tenants go first.
    pub fn set_shares(&mut self, shares: &Shares) {
        self.headroom = shares.common;
        let left: Vec<u32> =
            self.shares.keys().filter(|tenant| !shares.tenants.contains_key(tenant)).copied().collect();
        left.into_iter().for_each(|tenant| self.set_reserve(tenant, 0));
        shares.tenants.iter().for_each(|(&tenant, share)| self.set_reserve(tenant, share.reserve));
        self.shares.clone_from(&shares.tenants);
    }

    /// Whether any tenant goes before others.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// The share of `tenant`, in units: what the policy says, or else an equal part, as if it used something and one
    /// more tenant were about to come.
    pub fn share(&self, tenant: u32) -> u64 {
        let equal = || self.sums.capacity / (self.sums.users + u64::from(self.part(tenant).used == 0) + 1);
        self.shares.get(&tenant).map_or_else(equal, |share| share.units)
    }

    /// Whether `tenant` is within its share with `units` more.
    pub fn is_within_share(&self, tenant: u32, units: u64) -> bool {
        self.part(tenant).used.saturating_add(units) <= self.share(tenant)
    }

    /// Whether `tenant`, with `units` more, goes before tenants that are above their share.
    pub fn goes_first(&self, tenant: u32, units: u64) -> bool {
        self.shares.contains_key(&tenant) && self.is_within_share(tenant, units)
    }

    /// Books that `tenant` uses `before` units less and `after` more, whatever is left.
    pub fn exchange(&mut self, tenant: u32, before: u64, after: u64) {
        self.change(tenant, |part| part.used = part.used - before + after);
    }

    /// Changes a part, and keeps the sums right. This is the only place where parts change.
    fn change(&mut self, tenant: u32, change: impl FnOnce(&mut Part)) {
        let before = self.part(tenant);
        let mut after = before;
        change(&mut after);
        self.reserved = self.reserved + after.reserve - before.reserve;
        self.sums.used = self.sums.used + after.used - before.used;
        self.sums.kept = self.sums.kept + after.kept() - before.kept();
        self.sums.users = self.sums.users + u64::from(after.used > 0) - u64::from(before.used > 0);
        match after == Part::default() {
            true => drop(self.parts.remove(&tenant)),
            false => drop(self.parts.insert(tenant, after)),
        }
    }

    /// Whether `tenant` can have `units` more; `is_due` = it was within its share when it asked.
    pub fn fit(&self, tenant: u32, units: u64, is_due: bool) -> Fit {
        let part = self.part(tenant);
        if units <= part.kept() {
            return Fit::Reserve;
        }
        let is_prompt = self.shares.get(&tenant).is_none_or(|share| share.is_prompt);
        let has_headroom = is_prompt && (is_due || self.is_within_share(tenant, units));
        let headroom = if has_headroom { 0 } else { self.headroom };
        match units <= part.kept().saturating_add(self.sums.rest().saturating_sub(headroom)) {
            true => Fit::Rest,
            false if headroom > 0 => Fit::AboveShare,
            false => Fit::Short,
        }
    }

    /// `units`, or as many as `tenant` could have if nobody used anything, whichever is less. At least one: a tenant
    /// for which there is nothing at all must wait.
    pub fn at_most(&self, tenant: u32, units: u64) -> u64 {
        let others = self.reserved - self.part(tenant).reserve;
        let all = self.sums.capacity.saturating_sub(others);
        // Alone, a tenant has half of the pool for its share.
        let share = self
            .shares
            .get(&tenant)
            .map_or(self.sums.capacity / 2, |share| if share.is_prompt { share.units } else { 0 });
        let within_share = all.min(share);
        let own = self.part(tenant).reserve.min(all);
        units.min(all.saturating_sub(self.headroom).max(within_share).max(own).max(1))
    }
}
