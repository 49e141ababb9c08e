//! Units of something finite (bytes of write memory, bytes for long reads, turns to open a partition) in reserved
//! shares and a common rest, with a fair queue for tenants that wait.
//!
//! 1. A tenant's reserve is kept for it whether it uses it or not. The rest goes to every tenant that asks. With
//!    reserves of 0 this is plain sharing, with reserves of a fair share each it is a static quota, and in between lies
//!    delayed fairness (DF-3).
//! 2. Requests that cannot be granted wait, by start-time fair queueing among tenants, and in the order of arrival
//!    within a tenant. A request that waits for units holds back those behind it: otherwise small requests would starve
//!    a large one. A request that waits because its tenant is above its share holds back only requests of its own
//!    tenant. A request within its tenant's reserve waits for no other tenant (DF-7).
//! 3. A policy may set each tenant's share ([`Shares`]). Then tenants that were within their share when they asked go
//!    before all that are above theirs, and what is kept in common is for them (U-15).
//! 4. Units are granted to the request itself, before it is woken: nobody else can take them in between. A request that
//!    is dropped gives back its place, or its units.
//!
//! Nothing is taken away from anybody here: [`crate::policy::share`] says from which tenant, and the owner of the
//! mechanism does it (such as flushing that tenant's memtable). The lock is not held while a waker is called.

mod accounts;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use weir_io::Owner;

use self::accounts::{Accounts, Fit};
pub use self::accounts::{Part, PoolStats, Share, Shares};
use crate::fair::FairQueue;

/// A pool of units. Tenants need no registration.
pub struct Pool {
    state: Mutex<PoolBooks>,
}

struct PoolBooks {
    accounts: Accounts,
    /// The requests that wait. Their costs are the units that they ask for.
    queue: FairQueue<Asked>,
    /// By ticket: the requests that wait, and those that were granted and have not been polled since.
    requests: BTreeMap<u64, Queued>,
    next_ticket: u64,
}

#[derive(Clone, Copy)]
struct Asked {
    ticket: u64,
    /// Whether its tenant was within its share, with all that it had asked for.
    is_due: bool,
}

enum Queued {
    /// In the queue, with the waker if it was polled.
    Waiting(Option<Waker>),
    /// It was granted this many units.
    Granted(u64),
}

/// The owner by which the queue knows a tenant: fairness is among tenants.
const fn owner(tenant: u32) -> Owner {
    Owner { tenant, partition: 0 }
}

impl PoolBooks {
    /// Whether `tenant` is within its share with `units` more than it has and waits for.
    fn is_due(&self, tenant: u32, units: u64) -> bool {
        self.accounts.is_within_share(tenant, units.saturating_add(self.queue.cost_of(owner(tenant))))
    }

    /// Grants a new request at once if no other one has to go before it. Gives the units granted.
    fn try_grant(&mut self, tenant: u32, units: u64) -> Option<u64> {
        let units = self.accounts.at_most(tenant, units);
        let goes_first = self.queue.is_empty() || units == 0;
        if !goes_first || !matches!(self.accounts.fit(tenant, units, false), Fit::Reserve | Fit::Rest) {
            return None;
        }
        self.accounts.exchange(tenant, 0, units);
        Some(units)
    }

    /// Puts a new request into the queue. Gives the ticket.
    fn enqueue(&mut self, tenant: u32, units: u64, is_due: bool) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push(owner(tenant), 1, units, Asked { ticket, is_due });
        self.requests.insert(ticket, Queued::Waiting(None));
        ticket
    }

    /// The tenant whose oldest request is to be granted next, and its units.
    fn next(&self) -> Option<(u32, u64)> {
        let mut are_held_back = false;
        // First the tenants that go first, and then the others.
        let rounds: &[bool] = if self.accounts.has_shares() { &[true, false] } else { &[false] };
        for &is_first_round in rounds {
            for (Owner { tenant, .. }, asked, &Asked { is_due, .. }) in self.queue.heads() {
                let units = self.accounts.at_most(tenant, asked);
                let is_due = is_due && self.accounts.has_shares();
                if (is_due || self.accounts.goes_first(tenant, units)) != is_first_round {
                    continue;
                }
                match self.accounts.fit(tenant, units, is_due) {
                    Fit::Reserve => return Some((tenant, units)),
                    Fit::Rest if !are_held_back => return Some((tenant, units)),
                    Fit::Rest | Fit::AboveShare => {}
                    Fit::Short => are_held_back = true,
                }
                if are_held_back && self.accounts.sums().kept == 0 {
                    return None;
                }
            }
        }
        None
    }

    /// Grants what can be granted. Gives the wakers that are to be called without the lock.
    fn pump(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some((tenant, units)) = self.next() {
            let Some((_, Asked { ticket, .. })) = self.queue.pop_of(owner(tenant)) else { break };
            self.accounts.exchange(tenant, 0, units);
            if let Some(Queued::Waiting(waker)) = self.requests.insert(ticket, Queued::Granted(units)) {
                woken.extend(waker);
            }
        }
        woken
    }

    /// Takes out the request of `ticket`, which is dropped.
    fn leave(&mut self, tenant: u32, ticket: u64) {
        match self.requests.remove(&ticket) {
            Some(Queued::Waiting(_)) => drop(self.queue.remove(owner(tenant), |other| other.ticket == ticket)),
            Some(Queued::Granted(units)) => self.accounts.exchange(tenant, units, 0),
            None => {}
        }
    }
}

impl Pool {
    /// A pool of `capacity` units, of which none is reserved.
    pub fn new(capacity: u64) -> Arc<Self> {
        let (accounts, queue) = (Accounts::new(capacity), FairQueue::new());
        Arc::new(Self { state: Mutex::new(PoolBooks { accounts, queue, requests: BTreeMap::new(), next_ticket: 0 }) })
    }

    /// Keeps `reserve` units for `tenant` from now on. What others use of these comes back as they give it back. All
    /// reserves together should stay below the capacity: the policy that turns this knob must see to that.
    pub fn set_reserve(&self, tenant: u32, reserve: u64) {
        self.change(|state| state.accounts.set_reserve(tenant, reserve));
    }

    /// Keeps `headroom` units of the rest for tenants within their share: they never find that others have left
    /// nothing. Shares are equal parts of the capacity: one for every tenant that uses something, and one for the
    /// tenant that comes next.
    pub fn set_headroom(&self, headroom: u64) {
        self.change(|state| state.accounts.set_headroom(headroom));
    }

    /// Turns all knobs at once. A tenant that is no longer in `shares` has no reserve.
    pub fn set_shares(&self, shares: &Shares) {
        self.change(|state| state.accounts.set_shares(shares));
    }

    /// The share of `tenant`, in units: as [`Shares`] say, or an equal part.
    pub fn share(&self, tenant: u32) -> u64 {
        self.state.lock().accounts.share(tenant)
    }

    /// The tenants that wait, by number.
    pub fn waiting(&self) -> Vec<u32> {
        let mut waiting: Vec<u32> = self.state.lock().queue.heads().map(|(owner, ..)| owner.tenant).collect();
        waiting.sort_unstable();
        waiting
    }

    /// Takes `units` for `tenant` if nobody has to go before it and they are there: from its reserve first, then from
    /// the rest. Within its reserve a tenant is never refused, whatever the others do (DF-7), unless it waits for more
    /// already. If it asks for more units than it can ever have, it gets all that it can have.
    pub fn try_acquire(self: &Arc<Self>, tenant: u32, units: u64) -> Option<Permit> {
        let mut state = self.state.lock();
        let granted = state.try_grant(tenant, units);
        let waits = granted.is_none() && !state.queue.is_empty();
        drop(state);
        match granted {
            Some(units) => Some(Permit { pool: Arc::clone(self), tenant, units }),
            // It may be this tenant's turn nevertheless.
            None if waits => self.acquire(tenant, units).now(),
            None => None,
        }
    }

    /// Asks for `units` for `tenant`, as [`Pool::try_acquire`] does, and waits for them. The place in the queue is
    /// taken now.
    pub fn acquire(self: &Arc<Self>, tenant: u32, units: u64) -> Acquire {
        let (step, is_due) = self.change(|state| {
            let is_due = state.is_due(tenant, units);
            match state.try_grant(tenant, units) {
                Some(units) => (Step::Granted(units), is_due),
                None => (Step::Queued(state.enqueue(tenant, units, is_due)), is_due),
            }
        });
        Acquire { pool: Arc::clone(self), tenant, is_due, step }
    }

    /// Counts `units` of `tenant` that are in use already, whatever is left, and beyond the capacity if need be.
    pub fn book(self: &Arc<Self>, tenant: u32, units: u64) -> Permit {
        self.change(|state| state.accounts.exchange(tenant, 0, units));
        Permit { pool: Arc::clone(self), tenant, units }
    }

    /// What `tenant` has.
    pub fn part(&self, tenant: u32) -> Part {
        self.state.lock().accounts.part(tenant)
    }

    /// What every known tenant has, by tenant.
    pub fn parts(&self) -> Vec<(u32, Part)> {
        self.state.lock().accounts.parts().collect()
    }

    /// The sums over the pool.
    pub fn stats(&self) -> PoolStats {
        let state = self.state.lock();
        PoolStats { waiting: state.queue.len() as u64, ..state.accounts.sums() }
    }

    /// Changes something, and grants what can be granted then. Even more use can make a request grantable: a new user
    /// makes the shares smaller, and a request that is above its share now no longer holds others back.
    fn change<T>(&self, change: impl FnOnce(&mut PoolBooks) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = change(&mut state);
        let woken = state.pump();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// Units in use. Dropping this gives them back.
#[must_use = "units that nobody holds are given back at once"]
#[derive(Debug)]
pub struct Permit {
    pool: Arc<Pool>,
    tenant: u32,
    units: u64,
}

impl Permit {
    /// How many units these are.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The tenant that uses them.
    pub fn tenant(&self) -> u32 {
        self.tenant
    }

    /// Changes the number to `units`, whatever is left: the use has changed already.
    pub fn set(&mut self, units: u64) {
        if units != self.units {
            self.pool.change(|state| state.accounts.exchange(self.tenant, self.units, units));
            self.units = units;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.change(|state| state.accounts.exchange(self.tenant, self.units, 0));
    }
}

/// A request for units. Once it has been granted it holds them, whether or not it is polled. Dropping it gives back the
/// units, or its place in the queue.
#[must_use = "nothing is held before it is awaited"]
pub struct Acquire {
    pool: Arc<Pool>,
    tenant: u32,
    is_due: bool,
    step: Step,
}

enum Step {
    Granted(u64),
    Queued(u64),
    /// The permit holds the units.
    Done,
}

impl Acquire {
    /// Whether the tenant, when it asked, was within its share with this request and all others that it waited for
    /// (DF-1).
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// The permit, if it has been granted by now. Otherwise the request is given up.
    pub fn now(mut self) -> Option<Permit> {
        self.permit(None)
    }

    /// The permit, if it has been granted by now. Otherwise `waker` is woken when it is.
    fn permit(&mut self, waker: Option<&Waker>) -> Option<Permit> {
        let units = match self.step {
            Step::Granted(units) => units,
            Step::Queued(ticket) => {
                let mut state = self.pool.state.lock();
                let units = match state.requests.get_mut(&ticket)? {
                    Queued::Granted(units) => *units,
                    Queued::Waiting(waiting) => {
                        *waiting = waker.cloned();
                        return None;
                    }
                };
                state.requests.remove(&ticket);
                units
            }
            Step::Done => return None,
        };
        self.step = Step::Done;
        Some(Permit { pool: Arc::clone(&self.pool), tenant: self.tenant, units })
    }
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        debug_assert!(!matches!(self.step, Step::Done), "Acquire polled after it was done");
        self.permit(Some(cx.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        match self.step {
            Step::Granted(units) => self.pool.change(|state| state.accounts.exchange(self.tenant, units, 0)),
            Step::Queued(ticket) => self.pool.change(|state| state.leave(self.tenant, ticket)),
            Step::Done => {}
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}
