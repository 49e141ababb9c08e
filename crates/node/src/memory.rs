//! The memory in which all tenants' writes gather: one budget for the memtables of all partitions (C-10, DF-7).
//!
//! 1. Memtables book every chunk that they take from the system, to their tenant, in a [`Pool`].
//! 2. When what nobody flushes takes too much of it, a policy ([`to_seal`]) says whose memtables go to a table, full or
//!    not. That is done in the background, never by a writer.
//! 3. When the pool is nearly used up, writes wait for room in the pool's queue: those of tenants above their share as
//!    soon as a quarter is left, the others not before there is nothing. The room of a write is taken before it begins,
//!    so that any number of writers together stay within the budget.
//!
//! Lock order: a tree's state, a partition's booking, the pool. Wakers are called with the first two held: they only
//! queue.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use weir_admission::policy::share::{MemorySample, Memtables, TenantMemory, to_seal};
use weir_admission::{Part, Permit, Pool};
use weir_io::{Clock, Error, Event, Memory, Nanos, Owner, Result, sleep_until};
use weir_model::engine::UnflushedMemory;

/// The part of the budget that only tenants within their share may take: a quarter.
const HEADROOM: u64 = 4;
/// A write asks for the room of this part at most: larger ones must go on some time.
const ROOM: u64 = 8;
/// While somebody waits, the keeper looks so often whether something must be sealed, in nanoseconds.
const LOOK_AGAIN: Nanos = 5_000_000;
/// And otherwise when so large a part more is in use than at the last look.
const LOOK_AFTER: u64 = 32;

/// A partition as the write memory sees it.
pub(crate) trait MemtableOwner: Send + Sync {
    /// Whose its memtables are.
    fn owner(&self) -> Owner;

    /// What they take.
    fn memtable_bytes(&self) -> UnflushedMemory;

    /// Has them go to a table, full or not.
    fn seal_memtables(self: Arc<Self>);
}

/// See the module.
pub(crate) struct WriteMemory {
    pool: Arc<Pool>,
    capacity: u64,
    /// What memtables use, in bytes: the pool's figure without its lock, and without the room of writes under way.
    used: AtomicU64,
    /// The keeper looks when so much is in use.
    look_at: AtomicU64,
    awake: Mutex<BTreeMap<Owner, Weak<dyn MemtableOwner>>>,
    /// A flush has failed, or a partition is being closed: some who wait must not wait any longer.
    news: Event,
    /// The keeper should look.
    due: Arc<Event>,
    failures: Mutex<Failures>,
}

/// Of flushes, over all partitions.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<Error>,
}

/// What the memtables of one partition take.
struct Booking {
    memory: Arc<WriteMemory>,
    permit: Mutex<Permit>,
}

/// The room of a write, until it is in its memtable.
pub(crate) struct Room {
    /// `None`: no need to count.
    _permit: Option<Permit>,
}

impl Memory for Booking {
    fn take(&self, bytes: usize) {
        let mut permit = self.permit.lock();
        let units = permit.units() + bytes as u64;
        permit.set(units);
        drop(permit);
        let memory = &self.memory;
        let used = memory.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if used >= memory.look_at.load(Ordering::Relaxed) {
            memory.due.notify();
        }
    }

    fn give_back(&self, bytes: usize) {
        // Whoever waits is given room here, and woken.
        let mut permit = self.permit.lock();
        let units = permit.units() - bytes as u64;
        permit.set(units);
        drop(permit);
        let memory = &self.memory;
        let used = memory.used.fetch_sub(bytes as u64, Ordering::Relaxed) - bytes as u64;
        memory.look_at.fetch_min(memory.next_look(used), Ordering::Relaxed);
    }
}

impl WriteMemory {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: u64) -> Arc<Self> {
        let pool = Pool::new(capacity);
        pool.set_headroom(capacity / HEADROOM);
        Arc::new(Self {
            pool,
            capacity,
            used: AtomicU64::new(0),
            look_at: AtomicU64::new(capacity / 2),
            awake: Mutex::default(),
            news: Event::default(),
            due: Arc::default(),
            failures: Mutex::default(),
        })
    }

    /// Who uses what.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where a partition of `tenant` books its memtables.
    pub fn booking(self: &Arc<Self>, tenant: u32) -> Arc<dyn Memory> {
        Arc::new(Booking { memory: Arc::clone(self), permit: Mutex::new(self.pool.book(tenant, 0)) })
    }

    /// From now on its memtables may be flushed for others' sake.
    pub fn register(&self, partition: Weak<dyn MemtableOwner>, owner: Owner) {
        self.awake.lock().insert(owner, partition);
    }

    /// It is being closed: flushes itself, or will be dropped. Whoever waits to write to it waits no longer.
    pub fn leave(&self, owner: Owner) {
        self.awake.lock().remove(&owner);
        self.news.notify();
    }

    /// Some flush has failed.
    pub fn flush_failed(&self, error: &Error) {
        {
            let mut failures = self.failures.lock();
            failures.count += 1;
            failures.last = Some(error.clone());
        }
        self.news.notify();
    }

    /// Whether only tenants within their share find room. Costs a load.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.capacity - self.capacity / HEADROOM - self.capacity / ROOM
    }

    /// A smaller memtable is not flushed by a replay for others' sake, in bytes.
    pub fn worth_flushing(&self) -> u64 {
        self.capacity / 64
    }

    /// Room for `bytes` more of `tenant`, if there is any.
    pub fn try_room(&self, tenant: u32, bytes: usize) -> Option<Room> {
        if !self.is_short() {
            return Some(Room { _permit: None });
        }
        let permit = self.pool.try_acquire(tenant, self.units(bytes))?;
        Some(Room { _permit: Some(permit) })
    }

    /// What a write of so many bytes asks the pool for.
    fn units(&self, bytes: usize) -> u64 {
        (bytes as u64).min(self.capacity / ROOM)
    }

    /// Waits for the room that [`WriteMemory::try_room`] did not find, or until `ends`.
    ///
    /// # Errors
    /// A flush failed meanwhile: waiting has no end in sight.
    pub async fn room(&self, tenant: u32, bytes: usize, ends: impl Fn() -> bool + Send + Sync) -> Result<Room> {
        let failed_before = self.failures.lock().count;
        let acquire = pin!(self.pool.acquire(tenant, self.units(bytes)));
        self.due.notify();
        let look = || {
            if ends() {
                return Some(Ok(Room { _permit: None }));
            }
            let failures = self.failures.lock();
            failures.last.clone().filter(|_| failures.count > failed_before).map(Err)
        };
        match select(acquire, pin!(self.news.wait(look))).await {
            Either::Left((permit, _)) => Ok(Room { _permit: Some(permit) }),
            Either::Right((ended, _)) => ended,
        }
    }

    fn next_look(&self, used: u64) -> u64 {
        (self.capacity / 2).max(used + self.capacity / LOOK_AFTER)
    }

    fn is_waited_for(&self) -> bool {
        self.pool.stats().waiting > 0
    }

    fn is_due(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.look_at.load(Ordering::Relaxed) || self.is_waited_for()
    }

    /// Seals what has to be sealed.
    fn look(&self) {
        let used = self.used.load(Ordering::Relaxed);
        self.look_at.store(self.next_look(used), Ordering::Relaxed);
        // The guard is gone before a partition may be dropped here, its last holder: that would lock it again.
        let awake: Vec<Arc<dyn MemtableOwner>> = self.awake.lock().values().filter_map(Weak::upgrade).collect();
        let bytes: Vec<_> = awake.iter().map(|partition| partition.memtable_bytes()).collect();
        let memtables = awake.iter().zip(&bytes);
        let memtables = memtables.map(|(partition, bytes)| Memtables {
            owner: partition.owner(),
            held: bytes.held,
            since: bytes.since,
        });
        let tenant = |(tenant, part): (u32, Part)| TenantMemory { tenant, used: part.used, reserve: part.reserve };
        let sample = MemorySample {
            capacity: self.capacity,
            used,
            leaving: bytes.iter().map(|bytes| bytes.leaving).sum(),
            is_waited_for: self.is_waited_for(),
            tenants: self.pool.parts().into_iter().filter(|(_, part)| part.used > 0).map(tenant).collect(),
            memtables: memtables.collect(),
        };
        for owner in to_seal(&sample) {
            let Ok(index) = awake.binary_search_by_key(&owner, |partition| partition.owner()) else { return };
            tracing::debug!(?owner, held = sample.memtables[index].held, used, "flushing for room in the write memory");
            Arc::clone(&awake[index]).seal_memtables();
        }
    }
}

impl Drop for WriteMemory {
    fn drop(&mut self) {
        // The keeper ends.
        self.due.notify();
    }
}

/// Looks whenever much has been taken since the last look, and often while somebody waits. Ends with the node.
pub(crate) async fn keep(memory: Weak<WriteMemory>, clock: Arc<dyn Clock>) {
    loop {
        let Some(memory) = memory.upgrade() else { return };
        memory.look();
        if memory.is_waited_for() {
            drop(memory);
            sleep_until(&clock, clock.now() + LOOK_AGAIN).await;
            continue;
        }
        let due = Arc::clone(&memory.due);
        let node = Arc::downgrade(&memory);
        drop(memory);
        due.wait(|| node.upgrade().is_none_or(|memory| memory.is_due()).then_some(())).await;
    }
}
