//! The block cache: one for a node, shared by all tenants' tables.
//!
//! 1. Entries are spread over shards by hash. Each shard is a short lock around a map and two queues (S3-FIFO).
//!    Newcomers wait in the small queue and are thrown out unless they are asked for again. Entries that were asked for
//!    again, or that come back soon after having been thrown out (the ghosts remember), live in the main queue. A scan
//!    therefore passes through without washing the cache out.
//! 2. Every entry has an owner, whose bytes, hits and misses are counted. A tenant, with all its owners together, may
//!    have a reserve: as long as it has no more than that, it loses no entry to others (DF-8). The entry that goes
//!    instead is the first at the end of a queue whose tenant is above its reserve. [`shard`]'s `evict_one` is the one
//!    place that decides this.
//! 3. Pinned entries (the blocks of the upper levels) are in no queue. They may take up to [`PINNED_SHARE_MAX`] of the
//!    capacity; further blocks are cached like everything else. Once there are reserves nothing is pinned.
//! 4. Memory that tables keep anyway (index and filter) is charged against the capacity, so that the capacity bounds it
//!    all.
//!
//! A table gets a number from the cache when it is opened, unique as long as the process lives: two trees can never mix
//! up their blocks, and neither can two tables that had the same file number one after the other.

mod ghost;
mod owners;
mod shard;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_io::Owner;
use weir_model::engine::CacheUsage;

use owners::{Held, Owners};
use shard::{Key, Shard};
pub use table::{TableCache, Writes};

/// Pinned entries take at most this part of a shard: 3/4.
pub const PINNED_SHARE_MAX: (usize, usize) = (3, 4);

/// A cache of blocks with a capacity in bytes.
pub struct BlockCache {
    capacity_bytes: AtomicUsize,
    charged_bytes: AtomicUsize,
    next_table: AtomicU64,
    /// Set and never taken back.
    has_reserves: AtomicBool,
    /// A power of two.
    shards: Box<[Mutex<Shard>]>,
    /// Owners are partitions that are open here. Taken before a shard's lock.
    owners: Mutex<Owners>,
}

/// Bytes charged against the cache's capacity until this is dropped.
pub struct Charge {
    cache: Arc<BlockCache>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.cache.charged_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BlockCache {
    /// A cache of `capacity_bytes`, in `shards` parts (rounded up to a power of two). A block larger than its shard is
    /// not cached.
    pub fn new(capacity_bytes: usize, shards: usize) -> Arc<Self> {
        let shards = shards.next_power_of_two();
        Arc::new(BlockCache {
            capacity_bytes: AtomicUsize::new(capacity_bytes),
            charged_bytes: AtomicUsize::new(0),
            next_table: AtomicU64::new(1),
            has_reserves: AtomicBool::new(false),
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
            owners: Mutex::default(),
        })
    }

    /// The capacity, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Changes the capacity; a smaller one takes effect shard by shard, with the next insert into each.
    pub fn set_capacity_bytes(&self, bytes: usize) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes charged by [`BlockCache::charge`].
    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    /// Charges `bytes` that are kept elsewhere against the capacity.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
        Charge { cache: Arc::clone(self), bytes }
    }

    /// A door to the cache for one table of `owner`, under a number that no other table gets.
    pub fn table(self: &Arc<Self>, owner: Owner) -> TableCache {
        let table = self.next_table.fetch_add(1, Ordering::Relaxed);
        TableCache::new(Arc::clone(self), table, self.enter(owner))
    }

    /// What the cache holds and has done for all owners together.
    pub fn usage(&self) -> CacheUsage {
        let mut sum = CacheUsage::default();
        for shard in &self.shards {
            let shard = shard.lock();
            sum.add(shard.retired());
            shard.usages().iter().for_each(|usage| sum.add(usage));
        }
        sum
    }

    /// Bytes of the upper levels: pinned or warm entries.
    pub fn upper_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().upper_bytes()).sum()
    }

    /// What the cache holds and has done for `owner`, since it last had no table here.
    pub fn usage_of(&self, owner: Owner) -> CacheUsage {
        let owners = self.owners.lock();
        let mut sum = CacheUsage::default();
        let Some(number) = owners.number(owner) else { return sum };
        for shard in &self.shards {
            if let Some(usage) = shard.lock().usages().get(number as usize) {
                sum.add(usage);
            }
        }
        sum
    }

    /// From now on, keeps this many bytes for each tenant, and nothing for tenants that are not named. Where others
    /// have taken room of a reserve, the tenant gets it back block by block as it puts its own in.
    pub fn set_reserves(&self, reserves: BTreeMap<u32, u64>) {
        self.has_reserves.store(true, Ordering::Relaxed);
        self.owners.lock().set_reserves(reserves);
    }

    /// Tenants with tables open, in order.
    pub fn tenants(&self) -> Vec<u32> {
        self.owners.lock().tenants()
    }

    /// Bytes of all owners of `tenant`, pinned ones too.
    pub fn bytes_of(&self, tenant: u32) -> u64 {
        self.owners.lock().bytes_of(tenant)
    }

    /// Whether blocks may be pinned: not once there are reserves. A reserve may become smaller, and pinned blocks would
    /// not go for that; and blocks within a reserve stay anyway.
    fn may_pin(&self) -> bool {
        !self.has_reserves.load(Ordering::Relaxed)
    }

    fn enter(&self, owner: Owner) -> u32 {
        let retire = |number| {
            let is_empty = self.shards.iter().all(|shard| shard.lock().is_empty_of(number));
            // No table is open that could put anything back meanwhile.
            is_empty.then(|| self.shards.iter().for_each(|shard| shard.lock().retire(number))).is_some()
        };
        let begin = |number, held: &Arc<Held>| self.shards.iter().for_each(|shard| shard.lock().begin(number, held));
        self.owners.lock().enter(owner, retire, begin)
    }

    fn leave(&self, number: u32) {
        let hand_over = |nobody: &Arc<Held>| self.shards.iter().for_each(|shard| shard.lock().begin(number, nobody));
        self.owners.lock().leave(number, hand_over);
    }

    #[inline]
    fn shard(&self, key: Key) -> &Mutex<Shard> {
        // The map inside the shard uses the low and the highest bits.
        &self.shards[(key.hash() >> 40) as usize & (self.shards.len() - 1)]
    }

    fn shard_capacity_bytes(&self) -> usize {
        self.capacity_bytes().saturating_sub(self.charged_bytes()) / self.shards.len()
    }
}
