//! One shard: a map and two queues.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use weir_model::as_is::AsIs;
use weir_model::engine::CacheUsage;

use super::PINNED_SHARE_MAX;
use super::ghost::Ghosts;
use super::owners::Held;
use crate::table::{Block, Hint};

/// The small queue's part of the room that is not pinned: 1/10.
const SMALL_SHARE: usize = 10;
/// Look-ups are counted up to this.
const USES_MAX: u8 = 3;
/// A newcomer that was asked for this often moves on to the main queue.
const USES_TO_STAY: u8 = 1;
/// The most blocks of a queue that are passed over to find one that may go; if none is found, the new block is not
/// kept. The next search goes on where this one ended.
const SPARED_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) table: u64,
    pub(super) offset: u64,
}

impl Key {
    #[inline]
    pub(super) fn hash(self) -> u64 {
        let mixed = (self.table.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.offset).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(Key::hash(*self));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
    Pinned,
}

/// Why a block is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody read it.
    Read,
    /// Somebody read it in an upper level, where it is to stay.
    Pinned,
    /// It was just written into an upper level.
    Warm,
}

struct Slot {
    block: Arc<Block>,
    /// Where the block's content is. It is fetched together with the reference count; otherwise the search would wait
    /// for one after the other.
    hint: Hint,
    bytes: u32,
    owner: u32,
    uses: u8,
    queue: Queue,
    is_warm: bool,
    /// Whether its key is in `passed`.
    is_passed: bool,
}

/// What an insert did; dropped by the caller outside the lock.
#[derive(Default)]
pub(super) struct Inserted {
    /// Blocks that had to go.
    pub(super) blocks: Vec<Arc<Block>>,
    /// Whether the new one was pinned.
    pub(super) pinned: bool,
}

/// Invariant: every entry that is not pinned has its key in its queue. Queues may hold keys whose entry has been
/// removed, or has moved to another queue since; they are skipped, and swept when they become the majority.
#[derive(Default)]
pub(super) struct Shard {
    /// Keys come with a good hash, the same in every run.
    map: HashMap<Key, Slot, BuildHasherDefault<AsIs>>,
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    /// Blocks whose entries merges have written anew, the first one first. May hold keys that are gone, too.
    passed: VecDeque<Key>,
    /// Blocks that merges have written, in the same order.
    merged: VecDeque<Key>,
    ghosts: Ghosts,
    small_bytes: usize,
    main_bytes: usize,
    pinned_bytes: usize,
    warm_bytes: usize,
    /// By owner's number.
    usages: Vec<CacheUsage>,
    /// Hits and misses of owners that are gone.
    retired: CacheUsage,
    /// The bytes of each owner's tenant in all shards, by owner's number.
    held: Vec<Arc<Held>>,
}

/// A block that is put in: its owner, and its bytes.
#[derive(Clone, Copy)]
struct Newcomer {
    owner: u32,
    bytes: usize,
}

impl Shard {
    #[inline]
    pub(super) fn get(&mut self, key: Key, owner: u32) -> Option<Arc<Block>> {
        let found = self.map.get_mut(&key).map(|slot| {
            slot.hint.prefetch();
            slot.uses = (slot.uses + 1).min(USES_MAX);
            Arc::clone(&slot.block)
        });
        let usage = self.usage(owner);
        match found {
            Some(_) => usage.hits += 1,
            None => usage.misses += 1,
        }
        found
    }

    pub(super) fn peek(&self, key: Key) -> Option<&Arc<Block>> {
        self.map.get(&key).map(|slot| &slot.block)
    }

    /// Bytes that are pinned or warm.
    pub(super) fn upper_bytes(&self) -> usize {
        self.pinned_bytes + self.warm_bytes
    }

    /// Whether `bytes` more of `owner` fit. Only blocks that nobody has asked for may go to make room: those that
    /// merges have passed, or, if it `takes_merged`, those that merges have written. As many of them as have to go are
    /// put into `gone`.
    pub(super) fn make_room(
        &mut self,
        owner: u32,
        bytes: usize,
        takes_merged: bool,
        capacity_bytes: usize,
        gone: &mut Vec<Arc<Block>>,
    ) -> bool {
        let newcomer = Newcomer { owner, bytes };
        if self.pinned_bytes + bytes > capacity_bytes {
            return false;
        }
        while self.small_bytes + self.main_bytes + self.pinned_bytes + bytes > capacity_bytes {
            let passed = self.passed.pop_front();
            let is_passed = passed.is_some();
            let merged = || if takes_merged { self.merged.pop_front() } else { None };
            let Some(key) = passed.or_else(merged) else { return false };
            let Some(slot) = self.map.get_mut(&key) else { continue };
            slot.is_passed &= !is_passed;
            let owner = slot.owner;
            if slot.is_warm && slot.queue == Queue::Small && slot.uses == 0 && !self.is_spared(owner, newcomer) {
                gone.extend(self.remove(key));
            }
        }
        true
    }

    /// Notes that a merge has written this block: it gives way to a pressed flush.
    pub(super) fn gives_way(&mut self, key: Key) {
        if self.map.contains_key(&key) {
            self.merged.push_back(key);
        }
    }

    /// From now on the number `owner`, with all blocks under it, belongs to an owner whose tenant's bytes are counted
    /// in `held`. Numbers come one after the other.
    pub(super) fn begin(&mut self, owner: u32, held: &Arc<Held>) {
        let bytes = self.usages.get(owner as usize).map_or(0, |usage| usage.bytes as usize);
        match self.held.get_mut(owner as usize) {
            Some(before) => {
                before.remove(bytes);
                held.add(bytes);
                *before = Arc::clone(held);
            }
            None => self.held.push(Arc::clone(held)),
        }
    }

    /// Whether blocks of `owner` stay where they are when `newcomer` needs room: those of a tenant that has no more
    /// than its reserve do (DF-8). A tenant that is about to have more than its reserve gives a block of its own.
    fn is_spared(&self, owner: u32, newcomer: Newcomer) -> bool {
        let [held, of_newcomer] = [owner, newcomer.owner].map(|owner| &self.held[owner as usize]);
        held.is_within_reserve(if Arc::ptr_eq(held, of_newcomer) { newcomer.bytes } else { 0 })
    }

    fn are_of_one_tenant(&self, one: u32, other: u32) -> bool {
        Arc::ptr_eq(&self.held[one as usize], &self.held[other as usize])
    }

    /// Notes that a merge has passed this block.
    pub(super) fn pass(&mut self, key: Key) {
        if let Some(slot) = self.map.get_mut(&key)
            && !std::mem::replace(&mut slot.is_passed, true)
        {
            self.passed.push_back(key);
        }
    }

    /// Notes that the block has left the upper levels. It goes if it was kept only because it was written there. A
    /// block that was asked for stays, like any other.
    pub(super) fn leave_upper(&mut self, key: Key) -> Option<Arc<Block>> {
        let slot = self.map.get_mut(&key)?;
        if !slot.is_warm {
            return None;
        }
        if slot.queue == Queue::Small && slot.uses == 0 {
            return self.remove(key);
        }
        slot.is_warm = false;
        let (bytes, owner) = (slot.bytes as usize, slot.owner);
        self.usage(owner).warm_bytes -= bytes as u64;
        self.warm_bytes -= bytes;
        None
    }

    pub(super) fn insert(
        &mut self,
        key: Key,
        owner: u32,
        block: &Arc<Block>,
        origin: Origin,
        capacity_bytes: usize,
    ) -> Inserted {
        let mut inserted = Inserted::default();
        let bytes = block.bytes();
        let pinned_max = capacity_bytes / PINNED_SHARE_MAX.1 * PINNED_SHARE_MAX.0;
        let pin = origin == Origin::Pinned && self.pinned_bytes + bytes <= pinned_max;
        if let Some(slot) = self.map.get(&key) {
            if !pin || slot.queue == Queue::Pinned {
                return inserted;
            }
            inserted.blocks.extend(self.remove(key));
        }
        let evictable_max = capacity_bytes.saturating_sub(self.pinned_bytes);
        if bytes > evictable_max || u32::try_from(bytes).is_err() {
            return inserted;
        }
        let room_for = evictable_max - bytes;
        while self.small_bytes + self.main_bytes > room_for {
            let Some(block) = self.evict_one(evictable_max / SMALL_SHARE, Newcomer { owner, bytes }) else {
                return inserted;
            };
            inserted.blocks.push(block);
        }
        let queue = if pin {
            Queue::Pinned
        } else if self.ghosts.take(key.hash(), self.map.len()) {
            Queue::Main
        } else {
            Queue::Small
        };
        match queue {
            Queue::Small => self.small.push_back(key),
            Queue::Main => self.main.push_back(key),
            Queue::Pinned => inserted.pinned = true,
        }
        *self.bytes_of(queue) += bytes;
        self.held[owner as usize].add(bytes);
        let usage = self.usage(owner);
        usage.bytes += bytes as u64;
        usage.entries += 1;
        if origin != Origin::Warm {
            usage.read_bytes += bytes as u64;
        }
        if pin {
            usage.pinned_bytes += bytes as u64;
        }
        let is_warm = origin == Origin::Warm;
        if is_warm {
            usage.warm_bytes += bytes as u64;
            self.warm_bytes += bytes;
        }
        let (hint, bytes) = (block.hint(), bytes as u32);
        self.map.insert(
            key,
            Slot { block: Arc::clone(block), hint, bytes, owner, uses: 0, queue, is_warm, is_passed: false },
        );
        inserted
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<Block>> {
        let slot = self.map.remove(&key)?;
        let bytes = slot.bytes as usize;
        *self.bytes_of(slot.queue) -= bytes;
        self.held[slot.owner as usize].remove(bytes);
        let usage = self.usage(slot.owner);
        usage.bytes -= bytes as u64;
        usage.entries -= 1;
        if slot.queue == Queue::Pinned {
            usage.pinned_bytes -= bytes as u64;
        }
        if slot.is_warm {
            usage.warm_bytes -= bytes as u64;
            self.warm_bytes -= bytes;
        }
        self.sweep();
        Some(slot.block)
    }

    pub(super) fn usages(&self) -> &[CacheUsage] {
        &self.usages
    }

    pub(super) fn retired(&self) -> &CacheUsage {
        &self.retired
    }

    /// Whether `owner` has nothing here.
    pub(super) fn is_empty_of(&self, owner: u32) -> bool {
        self.usages.get(owner as usize).is_none_or(|usage| usage.entries == 0)
    }

    /// Notes that `owner`, which has nothing here, is gone: its number will be another's.
    pub(super) fn retire(&mut self, owner: u32) {
        if let Some(usage) = self.usages.get_mut(owner as usize) {
            self.retired.add(&std::mem::take(usage));
        }
    }

    /// Throws one entry out for `newcomer`: the first at the end of a queue whose tenant is above its reserve. `None`
    /// if there are only pinned ones, or if none was found.
    fn evict_one(&mut self, small_max: usize, newcomer: Newcomer) -> Option<Arc<Block>> {
        // How many were passed over in the small queue and in the main one, and the first of these that is of the
        // newcomer's tenant.
        let (mut spared, mut own) = ([0; 2], None);
        loop {
            let [small_is_done, main_is_done] = [spared[0] >= SPARED_MAX, spared[1] >= SPARED_MAX];
            // A shard may be full though its tenants are within their reserves, which are counted over all shards. Then
            // a tenant gives a block of its own for a newer one. Otherwise the cache would keep the first blocks for
            // ever.
            if small_is_done && main_is_done {
                return own.and_then(|key| self.remove(key));
            }
            let has_main = self.main_bytes > 0 && !main_is_done;
            if !small_is_done && (self.small_bytes > small_max || !has_main) {
                let Some(key) = self.small.pop_front() else {
                    if !has_main {
                        return own.and_then(|key| self.remove(key));
                    }
                    spared[0] = SPARED_MAX;
                    continue;
                };
                let Some(slot) = self.map.get_mut(&key).filter(|slot| slot.queue == Queue::Small) else { continue };
                if slot.uses >= USES_TO_STAY {
                    slot.uses = 0;
                    slot.queue = Queue::Main;
                    let bytes = slot.bytes as usize;
                    self.small_bytes -= bytes;
                    self.main_bytes += bytes;
                    self.main.push_back(key);
                    continue;
                }
                let owner = slot.owner;
                if self.is_spared(owner, newcomer) {
                    self.small.push_back(key);
                    spared[0] += 1;
                    own = own.or_else(|| self.are_of_one_tenant(owner, newcomer.owner).then_some(key));
                    continue;
                }
                self.ghosts.add(key.hash(), self.map.len());
                return self.remove(key);
            }
            let Some(key) = self.main.pop_front() else {
                spared[1] = SPARED_MAX;
                continue;
            };
            let Some(slot) = self.map.get_mut(&key).filter(|slot| slot.queue == Queue::Main) else { continue };
            let owner = slot.owner;
            if slot.uses > 0 {
                slot.uses -= 1;
                self.main.push_back(key);
                continue;
            }
            if self.is_spared(owner, newcomer) {
                self.main.push_back(key);
                spared[1] += 1;
                own = own.or_else(|| self.are_of_one_tenant(owner, newcomer.owner).then_some(key));
                continue;
            }
            return self.remove(key);
        }
    }

    /// Forgets the keys of removed entries when they are more than the others, so that the queues stay in proportion to
    /// the map.
    fn sweep(&mut self) {
        if self.small.len() + self.main.len() + self.passed.len() + self.merged.len() > 3 * self.map.len() + 64 {
            let map = &self.map;
            let is_in = |key: &Key, queue| map.get(key).is_some_and(|slot| slot.queue == queue);
            self.small.retain(|key| is_in(key, Queue::Small));
            self.main.retain(|key| is_in(key, Queue::Main));
            self.passed.retain(|key| map.contains_key(key));
            self.merged.retain(|key| map.contains_key(key));
        }
    }

    fn bytes_of(&mut self, queue: Queue) -> &mut usize {
        match queue {
            Queue::Small => &mut self.small_bytes,
            Queue::Main => &mut self.main_bytes,
            Queue::Pinned => &mut self.pinned_bytes,
        }
    }

    #[inline]
    fn usage(&mut self, owner: u32) -> &mut CacheUsage {
        let slot = owner as usize;
        if slot >= self.usages.len() {
            self.usages.resize(slot + 1, CacheUsage::default());
        }
        &mut self.usages[slot]
    }
}
