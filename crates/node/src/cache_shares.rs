//! How much of the block cache is kept for whom (DF-8), and how fast those who come back can fill it (DF-4).
//!
//! 1. A [policy](keep_blocks) says once a second what is kept, of the tenants that have tables open then.
//! 2. Whoever waits for the device meanwhile has its whole share for a reserve: what it has just read is not taken from
//!    it by those above theirs, and its old blocks do not make room for it. When it waits no longer, that is over.
//! 3. Others' blocks go at once when somebody puts its own in; what takes time is to read these. So R is what the
//!    node's gate lets through while reads wait there: what owners whose reads have waited all the time put in
//!    together, and of that the part that newcomers [would have had](Given::to_newcomers). The least of any δ counts
//!    ([`RefillMeter`]). Bytes in the cache are counted, for the device moves whole pages, and compressed ones. Where
//!    nobody waits, nothing is known.
//!
//! Lock order: this one's state, then the cache's owners.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_admission::policy::share::{Blocks, BrokenReserves, CacheMode, Given, Promise, RefillMeter, keep_blocks};
use weir_admission::{Account, Gate, Shares};
use weir_io::{Clock, Nanos, Owner, sleep_until};

use crate::engines::BlockCache;
use crate::tenant::TermsBook;

/// So often in a δ it is looked who waits,
const LOOKS: u64 = 20;
/// but not more often than the one and not more seldom than the other, in nanoseconds.
const LOOK_EVERY: [Nanos; 2] = [5_000_000, 50_000_000];
/// R is measured over windows of at least this length, in nanoseconds: a shorter one has a handful of blocks.
const WINDOW_MIN: Nanos = 100_000_000;

/// What a node's block cache is kept for, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheShares {
    /// How it is shared.
    pub mode: CacheMode,
    /// The fair share and the reserve of every tenant that has tables open, in bytes; nothing where nothing is kept.
    pub shares: Shares,
    /// What the tenants of a promise can put in at least, in bytes a second, while the device is full: what reserves
    /// were reckoned with.
    pub refill: u64,
    /// Why the promise cannot be kept; `None` if it can.
    pub broken: Option<BrokenReserves>,
}

/// See the module.
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
    /// Of the partitions that were awake at the last turn.
    accounts: Vec<(Owner, Arc<Account>)>,
    /// Of those whose reads waited at the last look.
    waiting: BTreeMap<Owner, Look>,
    /// What the cache was told to keep, in bytes by tenant.
    told: BTreeMap<u32, u64>,
}

/// What was seen of an owner.
struct Look {
    /// See [`weir_admission::ReadQueue`].
    emptied: u64,
    /// Bytes that it had read into the cache.
    read: u64,
}

impl KeptBlocks {
    /// Of `cache`, whose misses pass `gate`, between tenants with these `terms`.
    pub fn new(mode: CacheMode, terms: Arc<TermsBook>, cache: &Arc<BlockCache>, gate: &Arc<Gate>) -> Arc<Self> {
        if mode != CacheMode::Fair {
            // From the first block on.
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

    /// Says what is kept from now on; `awake` are the partitions and their books.
    pub fn turn(&self, awake: impl Iterator<Item = (Owner, Arc<Account>)>) {
        if self.mode == CacheMode::Fair {
            return;
        }
        let mut state = self.state.lock();
        let tenants = self.cache.tenants();
        let claimants = self.terms.claimants(&tenants);
        state.refill = state.meter.units_per_sec().unwrap_or(0);
        // What indexes and filters take is not there for blocks.
        let capacity = self.cache.capacity_bytes().saturating_sub(self.cache.charged_bytes()) as u64;
        let kept = keep_blocks(self.mode, Blocks { capacity, refill: state.refill }, &claimants);
        if let Some(broken) = &kept.broken
            && state.broken.is_none()
        {
            tracing::warn!("cannot promise a share of the block cache within {}: {broken}", self.mode);
        }
        state.broken = kept.broken;
        state.accounts = if self.mode.promise().is_some() { awake.collect() } else { Vec::new() };
        state.turned = kept.shares;
        self.tell(&mut state);
    }

    /// Has the cache keep what it should.
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

    /// Measures; to be called often.
    fn look(&self, now: Nanos, promise: Promise) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let before = std::mem::take(&mut state.waiting);
        // Put in by those who have waited since the last look.
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

    /// All of it.
    pub fn seen(&self) -> CacheShares {
        let state = self.state.lock();
        CacheShares { mode: self.mode, shares: state.turned.clone(), refill: state.refill, broken: state.broken }
    }
}

/// Measures while something is promised. Ends with the node.
pub(crate) async fn measure(kept: Weak<KeptBlocks>, clock: Arc<dyn Clock>) {
    loop {
        let Some(promise) = kept.upgrade().and_then(|kept| kept.mode.promise()) else { return };
        let every = (promise.delta / LOOKS).clamp(LOOK_EVERY[0], LOOK_EVERY[1]);
        sleep_until(&clock, clock.now() + every).await;
        let Some(kept) = kept.upgrade() else { return };
        kept.look(clock.now(), promise);
    }
}
