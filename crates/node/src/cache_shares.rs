//! How much of the block cache is kept for each tenant (DF-8), and how fast tenants that come back can fill it (DF-4).
//!
//! 1. A [policy](keep_blocks) says once a second what is kept for the tenants that have tables open then.
//! 2. A tenant that waits for the device meanwhile has its whole share as a reserve: tenants above their share do not
//!    take what it has just read, and its old blocks do not make room for it. This ends when it no longer waits.
//! 3. A block of another tenant goes at once when a tenant puts its own in; reading that block is what takes time. So R
//!    is measured at the node's gate, while reads wait there. It is what owners whose reads have waited all the time
//!    put in together, and of that the part that newcomers [would have had](Given::to_newcomers). The least of any δ
//!    counts ([`RefillMeter`]). Bytes in the cache are counted and not those of the device, which moves whole pages,
//!    and compressed ones. Where nobody waits, nothing is known.
//!
//! Lock order: the state of the shares, then the cache's owners.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_admission::policy::share::{Blocks, BrokenReserves, CacheMode, Given, Promise, RefillMeter, keep_blocks};
use weir_admission::{Account, Gate, Shares};
use weir_io::{Clock, Nanos, Owner, sleep_until};

use crate::engines::BlockCache;
use crate::tenant::TermsBook;

/// How often in a δ it is checked who waits,
const LOOKS: u64 = 20;
/// but with no shorter and no longer pauses than these, in nanoseconds.
const LOOK_EVERY: [Nanos; 2] = [5_000_000, 50_000_000];
/// R is measured over windows of at least this length, in nanoseconds: a shorter one has a handful of blocks.
const WINDOW_MIN: Nanos = 100_000_000;

/// How a node's block cache is kept for tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheShares {
    /// The mode of sharing.
    pub mode: CacheMode,
    /// The fair share and the reserve of every tenant that has tables open, in bytes; empty where nothing is kept.
    pub shares: Shares,
    /// What the tenants of a promise can at least put in while the device is full, in bytes a second. The reserves were
    /// calculated with it.
    pub refill: u64,
    /// Why the promise cannot be kept; `None` if it can.
    pub broken: Option<BrokenReserves>,
}

/// The reserves of the block cache, and the measurements that they are calculated from.
pub(crate) struct KeptBlocks {
    mode: CacheMode,
    terms: Arc<TermsBook>,
    cache: Arc<BlockCache>,
    gate: Arc<Gate>,
    state: Mutex<KeptState>,
}

struct KeptState {
    meter: RefillMeter,
    turned: Shares,
    refill: u64,
    broken: Option<BrokenReserves>,
    /// Accounts of the partitions that were awake at the last turn.
    accounts: Vec<(Owner, Arc<Account>)>,
    /// The owners whose reads waited at the last look, as they were seen then.
    waiting: BTreeMap<Owner, Look>,
    /// The reserves that the cache was told, in bytes by tenant.
    told: BTreeMap<u32, u64>,
}

/// An owner as it was seen at one look.
struct Look {
    /// See [`weir_admission::ReadQueue`].
    emptied: u64,
    /// Bytes that the owner had read into the cache.
    read: u64,
}

impl KeptBlocks {
    /// For `cache`, whose misses pass `gate`, between tenants with these `terms`.
    pub fn new(mode: CacheMode, terms: Arc<TermsBook>, cache: &Arc<BlockCache>, gate: &Arc<Gate>) -> Arc<Self> {
        if mode != CacheMode::Fair {
            // The reserves hold from the first block on.
            cache.set_reserves(BTreeMap::new());
        }
        let window = mode.promise().map_or(0, |promise| promise.delta).max(WINDOW_MIN);
        let state = KeptState {
            meter: RefillMeter::new(window),
            turned: Shares::default(),
            refill: 0,
            broken: None,
            accounts: Vec::new(),
            waiting: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        Arc::new(Self { mode, terms, cache: Arc::clone(cache), gate: Arc::clone(gate), state: Mutex::new(state) })
    }

    /// Sets what is kept from now on; `awake` are the partitions and their books.
    pub fn turn(&self, awake: impl Iterator<Item = (Owner, Arc<Account>)>) {
        if self.mode == CacheMode::Fair {
            return;
        }
        let mut state = self.state.lock();
        let tenants = self.cache.tenants();
        let claimants = self.terms.claimants(&tenants);
        state.refill = state.meter.units_per_sec().unwrap_or(0);
        // The memory that indexes and filters take is not there for blocks.
        let capacity = self.cache.capacity_bytes().saturating_sub(self.cache.charged_bytes()) as u64;
        let kept = keep_blocks(self.mode, Blocks { capacity, refill: state.refill }, &claimants);
        if let Some(broken) = &kept.broken
            && state.broken.is_none()
        {
            tracing::warn!("the block cache, shared as \"{}\", cannot keep its promise: {broken}", self.mode);
        }
        state.broken = kept.broken;
        state.accounts = if self.mode.promise().is_some() { awake.collect() } else { Vec::new() };
        state.turned = kept.shares;
        self.tell(&mut state);
    }

    /// Tells the cache what to keep.
    fn tell(&self, state: &mut KeptState) {
        let mut told: BTreeMap<u32, u64> =
            state.turned.tenants.iter().map(|(&tenant, share)| (tenant, share.reserve)).collect();
        for owner in state.waiting.keys() {
            if let (Some(reserve), Some(share)) = (told.get_mut(&owner.tenant), state.turned.tenants.get(&owner.tenant))
                && share.is_prompt
            {
                *reserve = share.units;
            }
        }
        if state.told != told {
            self.cache.set_reserves(told.clone());
            state.told = told;
        }
    }

    /// Measures what was read. To be called often.
    fn look(&self, now: Nanos, promise: Promise) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let before = std::mem::take(&mut state.waiting);
        // Bytes put in by owners that have waited since the last look.
        let (mut given, mut somebody) = (Given::default(), false);
        let accounts = if self.gate.anybody_waits() { &state.accounts[..] } else { &[] };
        for (owner, account) in accounts {
            let queue = account.read_queue();
            if queue.waiting == 0 {
                continue;
            }
            let seen = Look { emptied: queue.emptied, read: self.cache.usage_of(*owner).read_bytes };
            if let Some(last) = before.get(owner).filter(|last| last.emptied == seen.emptied) {
                let share = state.turned.tenants.get(&owner.tenant).map_or(0, |share| share.units);
                let read = seen.read.saturating_sub(last.read);
                somebody = true;
                given.bytes += read;
                if self.cache.bytes_of(owner.tenant) > share {
                    given.others += 1;
                } else {
                    given.newcomers += 1;
                    given.newcomers_bytes += read;
                }
            }
            state.waiting.insert(*owner, seen);
        }
        state.meter.free(now, given.to_newcomers(promise.k));
        state.meter.look(now, somebody);
        self.tell(state);
    }

    /// The shares and the measurements, for a dashboard.
    pub fn seen(&self) -> CacheShares {
        let state = self.state.lock();
        CacheShares { mode: self.mode, shares: state.turned.clone(), refill: state.refill, broken: state.broken }
    }
}

/// Measures as long as something is promised. Ends with the node.
pub(crate) async fn measure(kept: Weak<KeptBlocks>, clock: Arc<dyn Clock>) {
    loop {
        let Some(promise) = kept.upgrade().and_then(|kept| kept.mode.promise()) else { return };
        let every = (promise.delta / LOOKS).clamp(LOOK_EVERY[0], LOOK_EVERY[1]);
        sleep_until(&clock, clock.now() + every).await;
        let Some(kept) = kept.upgrade() else { return };
        kept.look(clock.now(), promise);
    }
}
