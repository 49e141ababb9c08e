//! One table's door to the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::BlockCache;
use super::shard::{Key, Origin};
use crate::table::Block;

/// Who writes a table, for what its blocks are worth while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Takes only the room of what merges have passed, and gives none.
    Anybody,
    /// A merge: takes no more, and gives way to flushes that are pressed, the first block first.
    Merge,
    /// A flush while nothing is kept of what merges write: what it writes is merged next, and worth more.
    PressedFlush,
}

/// Looks blocks of one table up, and books them to its owner. When dropped, takes the table's pinned blocks along:
/// nobody else would ever remove them. The others age out by themselves.
pub struct TableCache {
    cache: Arc<BlockCache>,
    table: u64,
    owner: u32,
    /// Offsets of the blocks that were inserted as pinned. Taken before a shard's lock.
    pinned: Mutex<Vec<u64>>,
    /// Set and never taken back: a block that was offered may be gone by now.
    took_offers: AtomicBool,
    /// Who writes what is offered.
    writer: Writes,
}

impl TableCache {
    pub(super) fn new(cache: Arc<BlockCache>, table: u64, owner: u32) -> Self {
        TableCache {
            cache,
            table,
            owner,
            pinned: Mutex::new(Vec::new()),
            took_offers: AtomicBool::new(false),
            writer: Writes::Anybody,
        }
    }

    /// What is [offered](TableCache::offer) from now on is what these write.
    #[must_use]
    pub fn offered_by(mut self, writer: Writes) -> Self {
        self.writer = writer;
        self
    }

    /// The block at `offset`, if it is there. Counts a hit or a miss.
    #[inline]
    pub fn get(&self, offset: u64) -> Option<Arc<Block>> {
        let key = self.key(offset);
        self.cache.shard(key).lock().get(key, self.owner)
    }

    /// The block at `offset`, if it is there; leaves no trace.
    pub fn peek(&self, offset: u64) -> Option<Arc<Block>> {
        let key = self.key(offset);
        self.cache.shard(key).lock().peek(key).cloned()
    }

    /// Whether the block at `offset` is there; leaves no trace.
    pub fn contains(&self, offset: u64) -> bool {
        let key = self.key(offset);
        self.cache.shard(key).lock().peek(key).is_some()
    }

    /// Puts a block in, and others out where necessary. A pinned one stays until the table is dropped
    /// or evicts it; where there are reserves, none is pinned.
    pub fn insert(&self, offset: u64, block: &Arc<Block>, pin: bool) {
        let is_pinned = pin && self.cache.may_pin();
        self.put(offset, block, if is_pinned { Origin::Pinned } else { Origin::Read });
    }

    fn put(&self, offset: u64, block: &Arc<Block>, origin: Origin) {
        let key = self.key(offset);
        let capacity_bytes = self.cache.shard_capacity_bytes();
        let evicted = self.cache.shard(key).lock().insert(key, self.owner, block, origin, capacity_bytes);
        if evicted.pinned {
            self.pinned.lock().push(offset);
        }
        // The blocks are freed here, after the lock.
        drop(evicted.blocks);
    }

    /// Puts in a block of about `bytes` bytes that is being written, if there is room for it, or if room can be made by
    /// what a merge [has passed](TableCache::pass), or, for a pressed flush, has [written](Writes): nothing else has to
    /// go for what nobody has asked for. It is not pinned, so that it is among the first to go for what somebody does
    /// ask for.
    pub fn offer(&self, offset: u64, bytes: usize, block: impl FnOnce() -> Option<Block>) {
        let key = self.key(offset);
        let capacity_bytes = self.cache.shard_capacity_bytes();
        let takes_merged = self.writer == Writes::PressedFlush;
        // Made without the lock; whoever takes the room meanwhile needs it more.
        let mut gone = Vec::new();
        let has_room =
            self.cache.shard(key).lock().make_room(self.owner, bytes, takes_merged, capacity_bytes, &mut gone);
        drop(gone);
        if has_room && let Some(block) = block() {
            self.took_offers.store(true, Ordering::Relaxed);
            self.put(offset, &Arc::new(block), Origin::Warm);
            if self.writer == Writes::Merge {
                self.cache.shard(key).lock().gives_way(key);
            }
        }
    }

    /// A merge has written the entries of the block at `offset` anew. Until it is committed, reads want the old ones;
    /// but where nobody has asked for them and there is no room for the new ones, these are worth more.
    pub fn pass(&self, offset: u64) {
        let key = self.key(offset);
        self.cache.shard(key).lock().pass(key);
    }

    /// Takes the pinned blocks out: for a table that has left the upper levels. What is still asked for comes back
    /// unpinned.
    pub fn unpin(&self) {
        let pinned = std::mem::take(&mut *self.pinned.lock());
        pinned.into_iter().for_each(|offset| self.evict(offset));
    }

    /// Whether anything was ever taken that was [offered](TableCache::offer).
    pub fn took_offers(&self) -> bool {
        self.took_offers.load(Ordering::Relaxed)
    }

    /// The block at `offset` is below the upper levels now: it goes, if it was kept only because it was written there.
    pub fn leave_upper(&self, offset: u64) {
        let key = self.key(offset);
        let removed = self.cache.shard(key).lock().leave_upper(key);
        drop(removed);
    }

    /// Takes a block out.
    pub fn evict(&self, offset: u64) {
        let key = self.key(offset);
        let removed = self.cache.shard(key).lock().remove(key);
        drop(removed);
    }

    #[inline]
    fn key(&self, offset: u64) -> Key {
        Key { table: self.table, offset }
    }
}

impl Drop for TableCache {
    fn drop(&mut self) {
        for offset in std::mem::take(self.pinned.get_mut()) {
            self.evict(offset);
        }
        self.cache.leave(self.owner);
    }
}
