//! One table's door to the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::BlockCache;
use super::shard::{Key, Origin};
use crate::table::Block;

/// Who writes a table, which says how much its blocks are worth while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Takes the room only of blocks that merges have passed, and gives up none of its own.
    Anybody,
    /// A merge: takes no more room than that, and its blocks give way to pressed flushes, the first block first.
    Merge,
    /// A flush while blocks that merges write are not kept: its blocks are merged next, and worth more.
    PressedFlush,
}

/// Looks up blocks of one table, and books them to its owner. When dropped, it takes the table's pinned blocks out:
/// nobody else would ever remove them. The others age out by themselves.
pub struct TableCache {
    cache: Arc<BlockCache>,
    table: u64,
    owner: u32,
    /// Offsets of the blocks that were inserted as pinned. Taken before a shard's lock.
    pinned: Mutex<Vec<u64>>,
    /// Set and never taken back: a block that was offered may be gone by now.
    took_offers: AtomicBool,
    /// Who writes the blocks that are offered.
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

    /// Says who writes the blocks that are [offered](TableCache::offer) from now on.
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

    /// Puts in a block of about `bytes` bytes that is being written, if there is room for it. Room may be made by
    /// blocks that a merge [has passed](TableCache::pass), or, for a pressed flush, has [written](Writes). No other
    /// block has to go for one that nobody has asked for. The new block is not pinned, so that it is among the first to
    /// go for blocks that somebody does ask for.
    pub fn offer(&self, offset: u64, bytes: usize, block: impl FnOnce() -> Option<Block>) {
        let key = self.key(offset);
        let capacity_bytes = self.cache.shard_capacity_bytes();
        let takes_merged = self.writer == Writes::PressedFlush;
        // The block is made without the lock. Whoever takes the room meanwhile needs it more.
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

    /// Notes that a merge has written the entries of the block at `offset` anew. Until the merge has committed, reads
    /// want the old block. But where nobody has asked for it and there is no room for the new blocks, these are worth
    /// more.
    pub fn pass(&self, offset: u64) {
        let key = self.key(offset);
        self.cache.shard(key).lock().pass(key);
    }

    /// Takes the pinned blocks out: for a table that has left the upper levels. Blocks that are still asked for come
    /// back unpinned.
    pub fn unpin(&self) {
        let pinned = std::mem::take(&mut *self.pinned.lock());
        pinned.into_iter().for_each(|offset| self.evict(offset));
    }

    /// Whether any block that was [offered](TableCache::offer) was ever taken.
    pub fn took_offers(&self) -> bool {
        self.took_offers.load(Ordering::Relaxed)
    }

    /// Notes that the block at `offset` is below the upper levels now. It goes if it was kept only because it was
    /// written in an upper level.
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
