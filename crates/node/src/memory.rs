//! The write memory: one budget for the memtables of all partitions, in which all tenants' writes gather (C-10, DF-7).
//!
//! 1. Memtables book every chunk that they take from the system, to their tenant, in a [`Pool`].
//! 2. When memtables that nobody flushes take too much of the pool, a policy ([`to_seal`]) says whose memtables go to a
//!    table, full or not. That is done in the background, never by a writer.
//! 3. When the pool is nearly used up, writes wait for room in the pool's queue. Writes of tenants above their share
//!    wait as soon as no more is left than is kept for the others; the others wait only when nothing is left. A write
//!    takes its room before it begins, so that any number of writers together stay within the budget.
//! 4. A quarter is kept, or what another policy says ([`WriteShares`]).
//! 5. While somebody waits for room, the node's gate lets one byte of background pass for ten of foreground (C-6). Only
//!    flushes end the wait, and readers that use all of the device would otherwise hold flushes up for ever. The rule
//!    for a tree whose own memtables are full (U-11) does not help here, because other trees' memtables may take the
//!    room. A policy may also leave flushes a part of the device, so that they end before writes stall.
//! 6. Where flushes fail (a full disk), waiting may have no end. A waiting write is refused if a flush of its own
//!    tenant fails, or if any flush fails while all memory that could come back is that of partitions whose flushes
//!    fail. As long as another flush may give memory back, it waits: also one of a partition that is falling asleep,
//!    or whose log is being replayed.
//!
//! Lock order: a tree's state, a partition's booking, what is known of shares, the pool. Wakers are called with the
//! first three held: they only queue. Neither the lists of partitions nor the list of what each was last seen to hold
//! is locked together with anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use weir_admission::policy::Floor;
use weir_admission::policy::share::{Claimant, MemorySample, Memtables, ShareMode, TenantMemory, to_seal};
use weir_admission::{Gate, Part, Permit, Pool, Precedence, Rank};
use weir_io::{Clock, Error, Event, Memory, Nanos, Owner, Result, sleep_until};
use weir_model::engine::UnflushedMemory;

use crate::write_shares::{MemoryShares, WriteShares};

/// A write asks for at most this part of the budget: larger writes must go on some time.
const ROOM: u64 = 8;
/// While somebody waits, the keeper checks this often whether something must be sealed, in nanoseconds.
const LOOK_AGAIN: Nanos = 5_000_000;
/// Otherwise it looks when this large a part more is in use than at the last look,
const LOOK_AFTER: u64 = 32;
/// or this part, where each tenant has a quota that it may use up while most of the budget is free.
const LOOK_AFTER_IN_QUOTAS: u64 = 128;
/// While somebody waits for room, this many bytes of foreground pass for one of background: the same ratio as between
/// flushes and compactions.
const FLUSHES_PASS: u32 = 10;

/// A partition as the write memory sees it.
pub(crate) trait MemtableOwner: Send + Sync {
    /// The owner of its memtables.
    fn owner(&self) -> Owner;

    /// Bytes that its memtables take.
    fn memtable_bytes(&self) -> UnflushedMemory;

    /// Seals its memtables, full or not, so that they go to a table.
    fn seal_memtables(self: Arc<Self>);
}

/// The precedence of foreground and the floor of background at the gate.
struct Front {
    /// As the gate was last set.
    precedence: Precedence,
    /// The part that a policy leaves to background; `None` = what foreground leaves.
    floor: Option<Floor>,
}

/// The write memory of a node: it books memtables, makes writes wait for room, and has memtables sealed.
pub(crate) struct WriteMemory {
    pool: Arc<Pool>,
    capacity: u64,
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
    shares: WriteShares,
    /// Held while the gate is set, so that the last to look has the last word.
    front: Mutex<Front>,
    /// When this much is in use, writes ask the pool for room.
    short_at: AtomicU64,
    /// Bytes that memtables use: the pool's figure without its lock, and without the room of writes under way.
    used: AtomicU64,
    /// The keeper looks when this much is in use.
    look_at: AtomicU64,
    partitions: Mutex<Partitions>,
    /// Memtable bytes that nobody flushed when the knobs were last turned, and whether it was as much at the turn
    /// before. Empty where nobody is promised anything.
    held: Mutex<BTreeMap<Owner, Held>>,
    /// A flush has failed, or a partition is being closed: some waiting writes must not wait any longer.
    news: Event,
    /// The keeper should look.
    due: Arc<Event>,
    failures: Mutex<Failures>,
}

/// The partitions that have memtables. They are under one lock, so that whoever looks at both lists does not miss a
/// partition that goes from one to the other.
#[derive(Default)]
struct Partitions {
    awake: PartitionList,
    /// Partitions that flush without being asked: those that are being closed, and those whose logs are replayed.
    flushing: PartitionList,
}

type PartitionList = BTreeMap<Owner, Weak<dyn MemtableOwner>>;

/// Failures of flushes, over all partitions.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<Error>,
    /// The partitions whose last flush failed, each with that failure and the count that it made.
    failing: BTreeMap<Owner, (u64, Error)>,
    /// No flush of any other partition is under way or can be begun.
    is_hopeless: bool,
}

/// An entry of [`WriteMemory::held`].
#[derive(Clone, Copy, Default)]
struct Held {
    bytes: u64,
    rests: bool,
}

/// The booking of one partition's memtables.
struct Booking {
    memory: Arc<WriteMemory>,
    permit: Mutex<Permit>,
}

/// The room of a write, until it is in its memtable.
pub(crate) struct Room {
    /// `None` if there is no need to count.
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
        let memory = &self.memory;
        let mut permit = self.permit.lock();
        let tenant = permit.tenant();
        // A tenant within its share may take again what it gives back.
        let is_above = memory.pool.part(tenant).used > memory.pool.share(tenant);
        memory.shares.freed(memory.clock.now(), if is_above { bytes as u64 } else { 0 });
        let units = permit.units() - bytes as u64;
        permit.set(units);
        drop(permit);
        let used = memory.used.fetch_sub(bytes as u64, Ordering::Relaxed) - bytes as u64;
        memory.look_at.fetch_min(memory.next_look(used), Ordering::Relaxed);
    }
}

impl WriteMemory {
    /// A budget of `capacity` bytes, shared as `shares` says, for memtables whose flushes pass `gate`.
    pub fn new(capacity: u64, shares: WriteShares, clock: Arc<dyn Clock>, gate: &Arc<Gate>) -> Arc<Self> {
        let memory = Arc::new(Self {
            pool: Pool::new(capacity),
            capacity,
            clock,
            gate: Arc::clone(gate),
            shares,
            front: Mutex::new(Front { precedence: Precedence::Strict, floor: None }),
            short_at: AtomicU64::new(0),
            used: AtomicU64::new(0),
            look_at: AtomicU64::new(0),
            partitions: Mutex::default(),
            held: Mutex::default(),
            news: Event::default(),
            due: Arc::default(),
            failures: Mutex::default(),
        });
        memory.look_at.store(memory.next_look(0), Ordering::Relaxed);
        memory.turn();
        memory
    }

    /// Turns the pool's knobs: once a second, for the tenants that are awake then.
    pub fn turn(&self) {
        let mut tenants: Vec<u32> = {
            let mut partitions = self.partitions.lock();
            partitions.flushing.retain(|_, partition| partition.strong_count() > 0);
            partitions.awake.keys().map(|owner| owner.tenant).collect()
        };
        tenants.dedup();
        let common = self.shares.turn(&self.pool, &tenants);
        let short_at = match self.shares.mode() {
            // Each tenant may use up its own quota while the others' is free.
            ShareMode::Quota => 0,
            ShareMode::Quarter | ShareMode::Fair | ShareMode::Delta(_) => {
                self.capacity.saturating_sub(common + self.capacity / ROOM)
            }
        };
        self.short_at.store(short_at, Ordering::Relaxed);
        if self.is_promised() {
            self.see_who_rests();
        }
    }

    fn is_promised(&self) -> bool {
        matches!(self.shares.mode(), ShareMode::Quota | ShareMode::Delta(_))
    }

    /// Finds partitions whose memtables have come to rest. They must be looked at once more although no memory is
    /// taken: by the keeper, and not here.
    fn see_who_rests(&self) {
        let awake = alive(&self.partitions.lock().awake);
        let bytes: Vec<_> = awake.iter().map(|partition| partition.memtable_bytes().held).collect();
        let mut held = self.held.lock();
        let see = |(partition, bytes): (&Arc<dyn MemtableOwner>, u64)| {
            let owner = partition.owner();
            let before = held.get(&owner).copied().unwrap_or_default();
            (owner, Held { bytes, rests: bytes > 0 && bytes == before.bytes })
        };
        let now: BTreeMap<Owner, Held> = awake.iter().zip(bytes).map(see).collect();
        let has_come_to_rest =
            now.iter().any(|(owner, now)| now.rests && held.get(owner).is_some_and(|then| !then.rests));
        *held = now;
        drop(held);
        if has_come_to_rest {
            self.look_at.store(0, Ordering::Relaxed);
            self.due.notify();
        }
    }

    /// The shares that tenants are entitled to, and how they were kept.
    pub fn shares(&self) -> MemoryShares {
        self.shares.seen()
    }

    /// Why `claimants`, all tenants of the node, cannot be promised their shares, in words. `None` if they can, if it
    /// is not known yet, or if it was as bad with the claimants that were there `before`.
    pub fn worsened(&self, before: &[Claimant], claimants: &[Claimant]) -> Option<String> {
        self.shares.worsened(before, claimants)
    }

    /// The pool, which knows how much each tenant uses.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where a partition of `tenant` books its memtables.
    pub fn booking(self: &Arc<Self>, tenant: u32) -> Arc<dyn Memory> {
        Arc::new(Booking { memory: Arc::clone(self), permit: Mutex::new(self.pool.book(tenant, 0)) })
    }

    /// From now on the partition's memtables may be flushed for others' sake.
    pub fn register(&self, partition: Weak<dyn MemtableOwner>, owner: Owner) {
        // A failure before the partition was closed says nothing now: perhaps it has nothing to flush any more.
        self.failures.lock().failing.remove(&owner);
        let mut partitions = self.partitions.lock();
        partitions.awake.insert(owner, partition);
        partitions.flushing.remove(&owner);
    }

    /// The partition is being closed: it flushes by itself, or will be dropped. Writes that wait to enter it wait no
    /// longer.
    pub fn leave(&self, owner: Owner) {
        {
            let mut partitions = self.partitions.lock();
            if let Some(partition) = partitions.awake.remove(&owner) {
                partitions.flushing.insert(owner, partition);
            }
        }
        self.news.notify();
    }

    /// Until it is registered, or gone, the partition flushes its memtables without being asked.
    pub fn flushes_by_itself(&self, partition: Weak<dyn MemtableOwner>, owner: Owner) {
        self.partitions.lock().flushing.insert(owner, partition);
    }

    /// A flush of `owner` has failed.
    pub fn flush_failed(&self, owner: Owner, error: &Error) {
        {
            let mut failures = self.failures.lock();
            failures.count += 1;
            failures.last = Some(error.clone());
            let count = failures.count;
            failures.failing.insert(owner, (count, error.clone()));
        }
        self.news.notify();
    }

    /// A flush of `owner` has succeeded.
    pub fn flush_succeeded(&self, owner: Owner) {
        self.failures.lock().failing.remove(&owner);
    }

    /// Why `tenant` would wait for room in vain, if a flush has failed since there were `failed_before` failures.
    fn is_in_vain(&self, tenant: u32, failed_before: u64) -> Option<Error> {
        let failures = self.failures.lock();
        let all = Owner { tenant, partition: 0 }..=Owner { tenant, partition: u32::MAX };
        let own = failures.failing.range(all).find(|(_, (count, _))| *count > failed_before);
        match own {
            Some((_, (_, error))) => Some(error.clone()),
            None => failures.last.clone().filter(|_| failures.is_hopeless && failures.count > failed_before),
        }
    }

    /// Whether writes must ask for room. Costs two loads.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.short_at.load(Ordering::Relaxed)
    }

    /// A replay does not flush a memtable of fewer bytes than this for others' sake.
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

    /// The units that a write of `bytes` bytes asks the pool for.
    fn units(&self, bytes: usize) -> u64 {
        (bytes as u64).min(self.capacity / ROOM)
    }

    /// Waits for the room that [`WriteMemory::try_room`] did not find, or until `ends` is true.
    ///
    /// # Errors
    /// A flush failed meanwhile, and waiting has no end in sight.
    pub async fn room(&self, tenant: u32, bytes: usize, ends: impl Fn() -> bool + Send + Sync) -> Result<Room> {
        let failed_before = self.failures.lock().count;
        let acquire = self.pool.acquire(tenant, self.units(bytes));
        let (is_due, asked_at) = (acquire.is_due(), self.clock.now());
        let acquire = pin!(acquire);
        self.due.notify();
        let look = || {
            if ends() {
                return Some(Ok(Room { _permit: None }));
            }
            self.is_in_vain(tenant, failed_before).map(Err)
        };
        match select(acquire, pin!(self.news.wait(look))).await {
            Either::Left((permit, _)) => {
                if is_due {
                    self.shares.had_its_share(tenant, self.clock.now() - asked_at);
                }
                Ok(Room { _permit: Some(permit) })
            }
            Either::Right((ended, _)) => ended,
        }
    }

    /// The partitions whose last flush failed, of those that are awake. The others are forgotten.
    fn failing(&self, is_awake: impl Fn(&Owner) -> bool) -> BTreeSet<Owner> {
        let mut failures = self.failures.lock();
        failures.failing.retain(|owner, _| is_awake(owner));
        failures.failing.keys().copied().collect()
    }

    fn set_hopeless(&self, is_hopeless: bool) {
        let was_hopeless = std::mem::replace(&mut self.failures.lock().is_hopeless, is_hopeless);
        if is_hopeless && !was_hopeless {
            self.news.notify();
        }
    }

    fn next_look(&self, used: u64) -> u64 {
        match self.shares.mode() {
            ShareMode::Quarter | ShareMode::Fair => (self.capacity / 2).max(used + self.capacity / LOOK_AFTER),
            // Half of what may be lent, which is at least half of all.
            ShareMode::Delta(_) => (self.capacity / 4).max(used + self.capacity / LOOK_AFTER),
            ShareMode::Quota => used + self.capacity / LOOK_AFTER_IN_QUOTAS,
        }
    }

    /// Background has at least this much of the device while foreground waits for it, and more while writes wait for
    /// room; `None` = what foreground leaves.
    pub fn set_floor(&self, floor: Option<Floor>) {
        let mut front = self.front.lock();
        front.floor = floor;
        self.turn_gate(&mut front);
    }

    /// Gives background a part of the device while foreground waits for it, as long as only a flush helps.
    fn let_flushes_pass(&self) {
        self.turn_gate(&mut self.front.lock());
    }

    fn turn_gate(&self, front: &mut Front) {
        let wanted = match front.floor {
            Some(Floor { foreground, merges }) if foreground < FLUSHES_PASS || !self.is_waited_for() => {
                // Under the profiles that have a floor, all compactions stand in one queue.
                Precedence::ShareDownTo(if merges { Rank::CompactDeep } else { Rank::Flush }, foreground)
            }
            _ if self.is_waited_for() => Precedence::Share(FLUSHES_PASS),
            _ => Precedence::Strict,
        };
        if front.precedence != wanted {
            front.precedence = wanted;
            self.gate.set_precedence(Rank::Foreground, wanted);
        }
    }

    fn is_waited_for(&self) -> bool {
        self.pool.stats().waiting > 0
    }

    fn is_due(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.look_at.load(Ordering::Relaxed) || self.is_waited_for()
    }

    /// Seals the memtables that have to be sealed.
    fn look(&self) {
        let used = self.used.load(Ordering::Relaxed);
        self.look_at.store(self.next_look(used), Ordering::Relaxed);
        // The lock must be free before a partition is dropped here by its last holder: that would take the lock again.
        let (awake, flushing) = {
            let partitions = self.partitions.lock();
            (alive(&partitions.awake), alive(&partitions.flushing))
        };
        let bytes: Vec<_> = awake.iter().map(|partition| partition.memtable_bytes()).collect();
        let comes_back_by_itself =
            flushing.iter().map(|partition| partition.memtable_bytes()).any(|bytes| bytes.held + bytes.leaving > 0);
        let held = self.held.lock().clone();
        let failing = self.failing(|owner| awake.binary_search_by_key(owner, |partition| partition.owner()).is_ok());
        let memtables = awake.iter().zip(&bytes).map(|(partition, bytes)| Memtables {
            owner: partition.owner(),
            held: bytes.held,
            leaving: bytes.leaving,
            since: bytes.since,
            rests: held.get(&partition.owner()).is_some_and(|then| then.rests && then.bytes == bytes.held),
            fails: failing.contains(&partition.owner()),
        });
        let (waiting, parts) = (self.pool.waiting(), self.pool.parts());
        self.shares.look(self.clock.now(), !waiting.is_empty());
        self.let_flushes_pass();
        let users: Vec<(u32, Part)> = parts.into_iter().filter(|(_, part)| part.used > 0).collect();
        let equal = self.capacity / (users.len() as u64).max(1);
        let (mode, shares) = (self.shares.mode(), self.shares.turned());
        let tenant = |(tenant, part): (u32, Part)| TenantMemory {
            tenant,
            used: part.used,
            reserve: part.reserve,
            share: shares.tenants.get(&tenant).map_or(equal, |share| share.units),
            quota: (mode == ShareMode::Quota && part.reserve > 0).then_some(part.reserve),
            waits: waiting.binary_search(&tenant).is_ok(),
        };
        let sample = MemorySample {
            // A part of the quarter may always be lent: nobody has to give up memory to keep that part free.
            capacity: self.capacity - if mode == ShareMode::Quarter { 0 } else { shares.common },
            used,
            is_waited_for: waiting.iter().any(|tenant| !failing.iter().any(|owner| owner.tenant == *tenant)),
            is_promised: self.is_promised(),
            tenants: users.into_iter().map(tenant).collect(),
            memtables: memtables.collect(),
        };
        let sealed = to_seal(&sample);
        let may_come_back = sample.memtables.iter().any(|memtables| memtables.leaving > 0 && !memtables.fails)
            || sealed.iter().any(|owner| !failing.contains(owner))
            || comes_back_by_itself;
        self.set_hopeless(sample.is_waited_for && !may_come_back);
        for owner in sealed {
            let Ok(index) = awake.binary_search_by_key(&owner, |partition| partition.owner()) else { return };
            tracing::debug!(
                ?owner,
                held = sample.memtables[index].held,
                used,
                "flushing to make room in the write memory"
            );
            Arc::clone(&awake[index]).seal_memtables();
        }
    }
}

/// Those of `partitions` that are still there.
fn alive(partitions: &PartitionList) -> Vec<Arc<dyn MemtableOwner>> {
    partitions.values().filter_map(Weak::upgrade).collect()
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

#[cfg(test)]
mod tests;
