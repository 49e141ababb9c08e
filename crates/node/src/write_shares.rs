//! Who is entitled to how much of the write memory, and how long tenants below their share waited for theirs.
//!
//! A [policy](entitle) says it once a second, of who is awake then; it is told how fast memory comes back from those
//! who are above their share, which is [measured](RefillMeter) whenever somebody waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::policy::share::{Broken, Claimant, Promise, RefillMeter, Resource, ShareMode, entitle};
use weir_admission::{Pool, Shares};
use weir_io::Nanos;

/// Reserves are multiples of this part of the memory: the paper's, 64 MB of 2 GB.
const GRAIN: u64 = 32;

/// Waits of so many tenants are remembered, whoever they are; beyond that those of tenants that are asleep are
/// forgotten.
const REMEMBERED_MAX: usize = 1024;

/// Waits of a tenant for its share: those of its requests that were within it when they asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareWaits {
    /// How many had to wait.
    pub waits: u64,
    /// How many of them longer than was promised, if something was.
    pub late: u64,
    /// The longest, in nanoseconds.
    pub longest: Nanos,
}

/// What a node's write memory is entitled to be used for, by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// How it is shared.
    pub mode: ShareMode,
    /// What every tenant that is awake is entitled to, in bytes.
    pub shares: Shares,
    /// What comes back at least from those above their share, while somebody waits, in bytes a second: what reserves
    /// were reckoned with.
    pub refill: u64,
    /// Why the promise cannot be kept; `None` if it can.
    pub broken: Option<Broken>,
    /// Waits by tenant, since the node was opened.
    pub waits: BTreeMap<u32, ShareWaits>,
}

/// See the module.
pub(crate) struct WriteShares {
    mode: ShareMode,
    capacity: u64,
    state: Mutex<State>,
}

struct State {
    meter: RefillMeter,
    turned: Arc<Shares>,
    /// What they were reckoned with.
    refill: u64,
    broken: Option<Broken>,
    waits: BTreeMap<u32, ShareWaits>,
}

impl WriteShares {
    /// Of a memory of `capacity` bytes.
    pub fn new(capacity: u64, mode: ShareMode) -> Self {
        let window = mode.promise().map_or(0, |promise| promise.delta).max(Promise::DEFAULT.delta / 4);
        let (turned, waits) = (Arc::default(), BTreeMap::new());
        let state = State { meter: RefillMeter::new(window), turned, refill: 0, broken: None, waits };
        Self { mode, capacity, state: Mutex::new(state) }
    }

    pub fn mode(&self) -> ShareMode {
        self.mode
    }

    /// What every tenant is entitled to.
    pub fn turned(&self) -> Arc<Shares> {
        Arc::clone(&self.state.lock().turned)
    }

    /// `bytes` came back from somebody who was above its share.
    pub fn freed(&self, now: Nanos, bytes: u64) {
        self.state.lock().meter.free(now, bytes);
    }

    /// To be called often while somebody waits.
    pub fn look(&self, now: Nanos, is_waited_for: bool) {
        self.state.lock().meter.look(now, is_waited_for);
    }

    /// A request of `tenant` that was within its share had to wait for so many nanoseconds.
    pub fn had_its_share(&self, tenant: u32, waited: Nanos) {
        let mut state = self.state.lock();
        let waits = state.waits.entry(tenant).or_default();
        waits.waits += 1;
        waits.late += u64::from(self.mode.promise().is_some_and(|promise| waited > promise.delta));
        waits.longest = waits.longest.max(waited);
    }

    /// Turns the knobs of `pool` for `tenants`, who are awake. Gives the bytes that are kept in common.
    pub fn turn(&self, pool: &Pool, tenants: &[u32]) -> u64 {
        let mut state = self.state.lock();
        let claimants: Vec<Claimant> =
            tenants.iter().map(|&tenant| Claimant { tenant, weight: 1, is_patient: false }).collect();
        state.refill = state.meter.units_per_sec();
        let resource = Resource { capacity: self.capacity, grain: self.capacity / GRAIN, refill: state.refill };
        let entitled = entitle(self.mode, resource, &claimants);
        if let Some(broken) = &entitled.broken
            && state.broken.is_none()
        {
            tracing::warn!("cannot promise a share of the write memory within {}: {broken}", self.mode);
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

    /// All of it.
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
