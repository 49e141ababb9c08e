//! How much of the write memory each tenant is entitled to, and how long tenants below their share waited for theirs.
//!
//! A [policy](entitle) decides once a second, from the tenants that are awake then and from their settings. It is told
//! how fast memory comes back from tenants above their share. That is [measured](RefillMeter) whenever somebody waits,
//! for every delay that somebody was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::policy::share::{
    Broken, Claimant, Promise, Refill, RefillMeter, Resource, ShareMode, entitle, worsened,
};
use weir_admission::{Pool, Shares};
use weir_io::Nanos;

use crate::tenant::TermsBook;

/// Reserves are multiples of this part of the memory, as in the paper: 64 MB of 2 GB.
const GRAIN: u64 = 32;

/// This many of the delays that tenants have of their own, the shortest ones, have a window of their own in which
/// returning memory is measured. Others are judged by the windows that fit into them.
const WINDOWS_MAX: usize = 7;

/// Waits of this many tenants are remembered, whoever they are. Beyond that, the waits of tenants that are asleep are
/// forgotten.
const REMEMBERED_MAX: usize = 1024;

/// Waits of a tenant for its share: of its requests that were within the share when they asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareWaits {
    /// How many requests had to wait.
    pub waits: u64,
    /// How many of them waited longer than was promised, if something was promised.
    pub late: u64,
    /// The longest wait, in nanoseconds.
    pub longest: Nanos,
}

/// How a node's write memory is shared, and what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// The mode of sharing.
    pub mode: ShareMode,
    /// The bytes to which every tenant that is awake is entitled.
    pub shares: Shares,
    /// The memory that comes back at least from tenants above their share, while somebody waits, in bytes a second. The
    /// reserve for the node's own delay was calculated with it.
    pub refill: u64,
    /// Why the promise cannot be kept; `None` if it can.
    pub broken: Option<Broken>,
    /// Waits of each tenant, since the node was opened.
    pub waits: BTreeMap<u32, ShareWaits>,
}

/// The shares of the write memory, and the measurements that they are calculated from.
pub(crate) struct WriteShares {
    mode: ShareMode,
    capacity: u64,
    terms: Arc<TermsBook>,
    state: Mutex<State>,
}

struct State {
    /// The meters, by the length of their windows, which are the delays that tenants were promised.
    meters: BTreeMap<Nanos, RefillMeter>,
    turned: Arc<Shares>,
    /// What came back within the node's own delay when the shares were calculated.
    refill: u64,
    broken: Option<Broken>,
    waits: BTreeMap<u32, ShareWaits>,
}

impl State {
    /// The measured refill.
    fn refill(&self) -> Refill {
        let rate = |(&window, meter): (&Nanos, &RefillMeter)| Some((window, meter.units_per_sec()?));
        Refill::cautious(self.meters.iter().filter_map(rate))
    }
}

impl WriteShares {
    /// For a memory of `capacity` bytes, between tenants with these terms.
    pub fn new(capacity: u64, mode: ShareMode, terms: Arc<TermsBook>) -> Self {
        let (meters, turned, waits) = (BTreeMap::new(), Arc::default(), BTreeMap::new());
        Self { mode, capacity, terms, state: Mutex::new(State { meters, turned, refill: 0, broken: None, waits }) }
    }

    pub fn mode(&self) -> ShareMode {
        self.mode
    }

    /// The shares that every tenant is entitled to.
    pub fn turned(&self) -> Arc<Shares> {
        Arc::clone(&self.state.lock().turned)
    }

    /// `bytes` came back from a tenant that was above its share.
    pub fn freed(&self, now: Nanos, bytes: u64) {
        self.state.lock().meters.values_mut().for_each(|meter| meter.free(now, bytes));
    }

    /// To be called often while somebody waits.
    pub fn look(&self, now: Nanos, is_waited_for: bool) {
        self.state.lock().meters.values_mut().for_each(|meter| meter.look(now, is_waited_for));
    }

    /// The delay that `tenant` was promised, in nanoseconds, if one was promised.
    fn promised(&self, tenant: u32) -> Option<Nanos> {
        self.terms.of(tenant).delay.within(self.mode.promise()?.delta)
    }

    /// A request of `tenant` that was within its share had to wait for `waited` nanoseconds.
    pub fn had_its_share(&self, tenant: u32, waited: Nanos) {
        let is_late = self.promised(tenant).is_some_and(|promised| waited > promised);
        let mut state = self.state.lock();
        let waits = state.waits.entry(tenant).or_default();
        waits.waits += 1;
        waits.late += u64::from(is_late);
        waits.longest = waits.longest.max(waited);
    }

    /// The window for the node's own delay. It exists even where nothing is promised, so that one can see what would
    /// come back.
    fn own_window(&self) -> Nanos {
        let promised = self.mode.promise().map(|promise| promise.delta).filter(|delta| *delta > 0);
        promised.unwrap_or(Promise::DEFAULT.delta / 4)
    }

    /// The windows that are needed for `claimants`.
    fn windows(&self, claimants: &[Claimant]) -> BTreeSet<Nanos> {
        let promise = self.mode.promise();
        let own = |claimant: &Claimant| claimant.terms.delay.within(promise?.delta).filter(|delta| *delta > 0);
        let delays: BTreeSet<Nanos> = claimants.iter().filter_map(own).collect();
        delays.into_iter().take(WINDOWS_MAX).chain([self.own_window()]).collect()
    }

    fn resource(&self, refill: Refill) -> Resource {
        Resource { capacity: self.capacity, grain: self.capacity / GRAIN, refill }
    }

    /// Turns the knobs of `pool` for `tenants`, which are awake. Gives the bytes that are kept in common.
    pub fn turn(&self, pool: &Pool, tenants: &[u32]) -> u64 {
        let claimants = self.terms.claimants(tenants);
        let windows = self.windows(&claimants);
        let mut state = self.state.lock();
        state.meters.retain(|window, _| windows.contains(window));
        for window in windows {
            state.meters.entry(window).or_insert_with(|| RefillMeter::new(window));
        }
        let own = state.meters.get(&self.own_window());
        state.refill = own.and_then(RefillMeter::units_per_sec).unwrap_or(0);
        let entitled = entitle(self.mode, &self.resource(state.refill()), &claimants);
        if let Some(broken) = &entitled.broken
            && state.broken.is_none()
        {
            tracing::warn!("the write memory, shared as \"{}\", cannot keep its promise: {broken}", self.mode);
        }
        state.broken = entitled.broken;
        if state.waits.len() > REMEMBERED_MAX {
            state.waits.retain(|tenant, _| tenants.binary_search(tenant).is_ok());
        }
        if *state.turned != entitled.shares {
            pool.set_shares(&entitled.shares);
            state.turned = Arc::new(entitled.shares);
        }
        state.turned.common
    }

    /// Why `claimants` cannot be promised their shares, in words. `None` if they can, if it is not known yet, or if it
    /// was as bad with the claimants that were there `before`.
    pub fn worsened(&self, before: &[Claimant], claimants: &[Claimant]) -> Option<String> {
        let resource = self.resource(self.state.lock().refill());
        let broken = worsened(self.mode, resource, before, claimants)?;
        Some(format!("the write memory, shared as \"{}\", could not keep its promise: {broken}", self.mode))
    }

    /// The shares and the measurements, for a dashboard.
    pub fn seen(&self) -> MemoryShares {
        let state = self.state.lock();
        MemoryShares {
            mode: self.mode,
            shares: (*state.turned).clone(),
            refill: state.refill,
            broken: state.broken,
            waits: state.waits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_admission::policy::share::{Delay, ShareTerms};
    use weir_model::TenantId;

    use super::*;

    const MS: Nanos = 1_000_000;

    fn shares(mode: ShareMode, delays: &[(u32, Delay)]) -> WriteShares {
        let terms = Arc::<TermsBook>::default();
        for &(tenant, delay) in delays {
            terms.set(TenantId(tenant), ShareTerms { weight: 1, delay });
        }
        WriteShares::new(1 << 20, mode, terms)
    }

    #[test]
    fn who_is_late_is_judged_by_what_it_was_promised() {
        let delta = ShareMode::Delta(Promise { delta: 350 * MS, k: 1 });
        let delays = [(1, Delay::Ms(100)), (2, Delay::Endless)];
        let waits = |mode| {
            let shares = shares(mode, &delays);
            (1..=3).for_each(|tenant| shares.had_its_share(tenant, 200 * MS));
            shares.had_its_share(3, 400 * MS);
            let seen = shares.seen().waits;
            [1, 2, 3].map(|tenant| (seen[&tenant].waits, seen[&tenant].late))
        };
        assert_eq!(waits(delta), [(1, 1), (1, 0), (2, 1)]);
        assert_eq!(waits(ShareMode::Fair), [(1, 0), (1, 0), (2, 0)], "nothing was promised");
    }

    /// A memtable of 100 kB comes back every 200 ms: nothing within some windows of 100 ms, and one in each window of
    /// 250 ms.
    #[test]
    fn what_comes_back_is_measured_for_each_delay_that_was_promised() {
        let delta = ShareMode::Delta(Promise { delta: 250 * MS, k: 1 });
        let shares = shares(delta, &[(1, Delay::Ms(100)), (2, Delay::Ms(0)), (3, Delay::Endless), (4, Delay::Ms(900))]);
        let pool = Pool::new(1 << 20);
        let windows = |tenants: &[u32]| {
            shares.turn(&pool, tenants);
            shares.state.lock().meters.keys().map(|window| window / MS).collect::<Vec<_>>()
        };
        assert_eq!(windows(&[1, 2, 3, 4, 5]), [100, 250, 900]);
        assert_eq!(windows(&[2, 3, 4]), [250, 900], "who sleeps needs none");
        assert_eq!(windows(&[1, 4]), [100, 250, 900]);
        for ms in 0..2_000 {
            if ms % 200 == 0 {
                shares.freed(ms * MS, 100_000);
            }
            shares.look(ms * MS, true);
        }
        let refill = shares.state.lock().refill();
        let within = [100, 250, 500, 900].map(|ms| refill.within(ms * MS).div_ceil(1000));
        assert_eq!(within, [0, 100, 200, 400], "500 ms are judged by the windows that fit into them");
        shares.turn(&pool, &[1, 4]);
        assert_eq!(shares.seen().refill, 400_000, "a second, at the node's own delay");
    }
}
