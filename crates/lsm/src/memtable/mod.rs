//! The memtable: a skip list of leaves in an arena.
//!
//! 1. Entries are copied into a bump arena, key and value together. The arena's chunks never move, and are freed all at
//!    once with the memtable.
//! 2. A leaf has up to 32 entries in order, and begins with a position that never changes. Leaves are linked like the
//!    nodes of a skip list; a full one splits in two.
//! 3. One writer at a time; readers take no lock (see [`leaf`]).
//! 4. Nothing is removed or overwritten: a newer version of a key is one more entry in front of the older ones. It
//!    [hangs](chain) on one of them, and is not in a leaf itself.
//! 5. A large memtable also finds keys by a [hash table](hash_index): for point reads, and for writes of keys that it
//!    has.
//!
//! A skip list of single entries came first. Half of its time went into waiting for memory: a search passed some twenty
//! entries, each in a cache line and a page of its own. With leaves, a search passes leaves, which are few enough to
//! stay in the cache, then looks into one of them, and then at one entry. A locked B-tree is as fast from one thread,
//! but makes readers wait for the writer, and its memory is neither known exactly nor freed in one step; both matter
//! here, because a tenant's share is counted in these bytes.

mod arena;
mod chain;
mod cursor;
mod dead;
mod hash_index;
mod leaf;
mod prefetch;
mod record;
#[cfg(test)]
mod tests;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use weir_io::{Memory, Rng, Unbooked};
use weir_model::Value;
use weir_model::engine::{Entry, Found, Kind, SEQ_MAX, Seq};

use crate::cursor::{Cursor, Step};
use crate::table::{common_prefix, filter::hash};
use arena::Arena;
pub use cursor::MemtableCursor;
use dead::Census;
pub use dead::MemtableDead;
use hash_index::{HashIndex, Known};
use leaf::{HEIGHT_MAX, LEAF_RECORDS, Leaf, Look};
pub use prefetch::{PREFETCHED_MAX, Place, Places};
use record::{Record, Target};

/// A sorted set of entries in memory. Insert-only; shared by one writer and any number of readers.
pub struct Memtable {
    /// The first leaf, with links on all levels.
    head: Leaf,
    /// Levels in use: a search starts at the top one. A stale value only costs steps: answers are right all the same.
    height: AtomicUsize,
    /// The index of a large memtable, once it is complete.
    index: OnceLock<HashIndex>,
    /// About how many bytes the memtable has when it is sealed: a guess that decides about the index.
    full_bytes: usize,
    /// Bytes and number of entries, for `bytes` and `len`.
    used_bytes: AtomicUsize,
    entries: AtomicUsize,
    /// Whether there is a head or a cover.
    holds_heads: AtomicBool,
    writer: Mutex<Writer>,
    memory: Arc<dyn Memory>,
    /// Bytes that `memory` was told of.
    booked_bytes: AtomicUsize,
}

/// State that only the inserting thread touches.
struct Writer {
    records: Arena,
    leaves: Arena,
    /// Bytes that the arenas took for the head.
    head_bytes: usize,
    /// The last leaf: inserts in ascending order need no search.
    last: Leaf,
    recent: Recent,
    /// Records in leaves.
    anchors: usize,
    /// The index as long as it is not complete, and the first leaf whose anchors it lacks.
    unfinished: Option<(HashIndex, Leaf)>,
    /// Bytes of the index, complete or not.
    index_bytes: usize,
    census: Census,
    /// Draws tower heights. A fixed seed: the same inserts build the same list.
    rng: Rng,
}

/// Where the last new key went. New keys of a list or a stream come one beside the other.
#[derive(Clone, Copy)]
struct Recent {
    leaf: Leaf,
    /// The new key before it went into the same leaf: the leaf is worth a look for the next one.
    is_run: bool,
}

// SAFETY: leaves and records live in the arenas that the memtable owns. Leaves are only changed under the writer's
// lock, through atomics; records never change.
unsafe impl Send for Memtable {}
// SAFETY: as above; see `leaf` for how readers get along with the writer.
unsafe impl Sync for Memtable {}

impl Memtable {
    /// An empty memtable whose memory nobody counts. It takes about 1 KiB.
    pub fn new() -> Arc<Self> {
        Self::booked_to(Arc::new(Unbooked), 64 << 20, 0)
    }

    /// An empty memtable whose arena is booked to `memory`, until the last reader lets go. The bytes of an empty
    /// memtable are not booked, for no flush could give them back. It will have about `full_bytes` when it is sealed.
    /// `now_ms` is the wall clock: times of expiry are known best near it.
    pub fn booked_to(memory: Arc<dyn Memory>, full_bytes: usize, now_ms: u64) -> Arc<Self> {
        let mut leaves = Arena::new(leaf::ALIGN);
        let (head, bytes) = Leaf::new(&mut leaves, HEIGHT_MAX, Record::NULL, 0);
        let head_bytes = leaves.allocated_bytes();
        let records = Arena::new(record::ALIGN);
        let rng = Rng::new(0x5717);
        let census = Census::new(now_ms);
        let writer = Writer {
            records,
            leaves,
            head_bytes,
            last: head,
            recent: Recent { leaf: head, is_run: false },
            anchors: 0,
            unfinished: None,
            index_bytes: 0,
            census,
            rng,
        };
        Arc::new(Memtable {
            head,
            height: AtomicUsize::new(1),
            index: OnceLock::new(),
            full_bytes,
            used_bytes: AtomicUsize::new(bytes),
            entries: AtomicUsize::new(0),
            holds_heads: AtomicBool::new(false),
            writer: Mutex::new(writer),
            memory,
            booked_bytes: AtomicUsize::new(0),
        })
    }

    /// Adds an entry. It is visible to readers when the call returns; a reader that must not see it yet asks for an
    /// older sequence number.
    ///
    /// # Panics
    /// If the same (key, seq) is in the memtable already.
    pub fn insert(&self, entry: Entry<'_>) {
        self.insert_at(entry, hash(entry.key), Place::UNKNOWN);
    }

    /// Like [`Memtable::insert`], where the key's [`hash`](crate::table::filter::hash) is known, and perhaps the place.
    ///
    /// # Panics
    /// As [`Memtable::insert`].
    pub fn insert_at(&self, entry: Entry<'_>, hash: u64, place: Place) {
        let mut writer = self.writer.lock();
        if matches!(entry.kind, Kind::Head | Kind::Cover) {
            // Before the entry: a reader that knows of the entry finds this set.
            self.holds_heads.store(true, Ordering::Release);
        }
        let hash = writer.index(self).map(|index| {
            // Needed once the entry has been copied.
            index.prefetch(hash);
            hash
        });
        let (record, mut bytes) = Record::new(&mut writer.records, &entry);
        // SAFETY: all leaves and records are of this memtable, and the lock makes this the writer.
        unsafe {
            if let Some(older) = self.insert_by_hash(&entry, hash, record) {
                writer.census.add(&entry, Some(older.entry()));
            } else {
                bytes += self.insert_in_order(&mut writer, &entry, hash, record, place.0);
            }
        }
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.entries.fetch_add(1, Ordering::Relaxed);
        if self.index.get().is_none() {
            self.go_on_with_index(&mut writer);
        }
        // The head's chunk is not booked. The sum changes only with a new chunk.
        let (taken, booked) = (writer.allocated_bytes() - writer.head_bytes, self.booked_bytes.load(Ordering::Relaxed));
        if taken > booked {
            self.booked_bytes.store(taken, Ordering::Relaxed);
            self.memory.take(taken - booked);
        }
    }

    /// Hangs the entry's `record` on its key's newest anchor, if the index knows that anchor, the anchor is older, and
    /// it has room. Returns the next older version.
    ///
    /// # Safety
    /// Only under the writer's lock; the record is this memtable's.
    #[inline]
    unsafe fn insert_by_hash(&self, entry: &Entry<'_>, hash: Option<u64>, record: Record) -> Option<Record> {
        // SAFETY: the caller's promise; what the index has is of this memtable.
        unsafe {
            let Known::Newest(anchor) = self.index.get()?.find(entry.key, hash?) else { return None };
            if anchor.seq() < entry.seq { chain::push(anchor, record) } else { None }
        }
    }

    /// Puts the entry's `record` where it belongs among all others: on an anchor, or into a leaf as a new one. `place`
    /// is null, or the leaf where that may be. Returns the bytes that leaves took for it.
    ///
    /// # Safety
    /// Only under the writer's lock; the record is this memtable's.
    unsafe fn insert_in_order(
        &self,
        writer: &mut Writer,
        entry: &Entry<'_>,
        hash: Option<u64>,
        record: Record,
        place: Leaf,
    ) -> usize {
        let target = Target::new(entry.key, entry.seq);
        let mut bytes = 0;
        // SAFETY: the caller's promise: all leaves and records are of this memtable, and this is the writer.
        unsafe {
            let is_last = writer.last == self.head || writer.last.compare(&target) != Greater;
            let recent = writer.recent;
            let mut leaf = match is_last {
                true => writer.last,
                false if !place.is_null() && self.is_place_of(place, &target) => place,
                false if recent.is_run && self.is_place_of(recent.leaf, &target) => recent.leaf,
                false => self.search(&target, Equal),
            };
            let is_run = leaf == recent.leaf;
            let mut look = leaf.look(&target);
            // The newest anchor of the key that is not newer than the entry.
            let anchor = look.first_behind(&target).filter(|anchor| anchor.entry().key == entry.key);
            let older = anchor.map(|anchor| {
                assert!(anchor.seq() != entry.seq, "sequence number {} is used twice for one key", entry.seq);
                chain::newest(anchor)
            });
            if let Some(older) = anchor.and_then(|anchor| chain::push(anchor, record)) {
                writer.census.add(entry, Some(older.entry()));
                return bytes;
            }
            writer.census.add(entry, older.map(|older| older.entry()));
            if look.count == LEAF_RECORDS {
                let (upper, upper_bytes) = self.split(writer, leaf, look.position, record);
                bytes += upper_bytes;
                if upper.compare(&target) != Greater {
                    leaf = upper;
                }
                look = leaf.look(&target);
            }
            if let (Some(index), Some(hash)) = (writer.index(self), hash) {
                index.add(hash, record, anchor.unwrap_or(Record::NULL));
            }
            leaf.insert(look.position, record);
            writer.recent = Recent { leaf, is_run };
        }
        writer.anchors += 1;
        bytes
    }

    /// Whether a search for `target` would find `leaf`.
    ///
    /// # Safety
    /// The leaf is this memtable's.
    #[inline]
    unsafe fn is_place_of(&self, leaf: Leaf, target: &Target<'_>) -> bool {
        // SAFETY: the caller's promise; only the first leaf is the head.
        unsafe {
            let next = leaf.next(0);
            let begins_before = leaf == self.head || leaf.compare(target) != Greater;
            begins_before && (next.is_null() || next.compare(target) == Greater)
        }
    }

    /// Begins the index when it is time, then adds a leaf with each call. Later inserts add themselves. If a leaf
    /// splits, its entries go to a leaf that is still ahead, or have been added before.
    fn go_on_with_index(&self, writer: &mut Writer) {
        let Some((index, leaf)) = writer.unfinished.take() else {
            if HashIndex::is_due(self.bytes(), writer.anchors, self.full_bytes) {
                let index = HashIndex::new(self.bytes(), writer.anchors, self.full_bytes);
                writer.index_bytes = index.bytes();
                writer.unfinished = Some((index, self.head));
            }
            return;
        };
        let mut records = [Record::NULL; LEAF_RECORDS];
        // SAFETY: a leaf of this memtable, and its records.
        let next = unsafe {
            let (count, next) = leaf.copy(&mut records);
            records[..count].iter().for_each(|&record| index.add(hash(record.entry().key), record, Record::NULL));
            next
        };
        if next.is_null() {
            // Nobody else sets it: the lock is held.
            let _ = self.index.set(index);
        } else {
            writer.unfinished = Some((index, next));
        }
    }

    /// Puts a new leaf behind the full `leaf`, and moves its upper half there. If `record`, for which room is wanted at
    /// `position`, comes behind all records of the leaf, none is moved and the new leaf begins with `record`: inserts
    /// in ascending order leave full leaves.
    ///
    /// # Safety
    /// Only under the writer's lock; leaf and record are this memtable's.
    unsafe fn split(&self, writer: &mut Writer, leaf: Leaf, position: usize, record: Record) -> (Leaf, usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut records = [Record::NULL; LEAF_RECORDS];
            leaf.copy(&mut records);
            let middle = if position == LEAF_RECORDS { LEAF_RECORDS } else { LEAF_RECORDS / 2 };
            let low = *records.get(middle).unwrap_or(&record);
            let entry = low.entry();
            // The leaf skips at most the prefix that its records share. That of neighbours is a good guess; a leaf with
            // few entries adapts.
            let neighbour = records[middle - 1].entry().key;
            let height = writer.draw_height();
            let (upper, bytes) = Leaf::new(&mut writer.leaves, height, low, common_prefix(neighbour, entry.key));
            let mut before = [self.head; HEIGHT_MAX];
            self.search_path(&Target::new(entry.key, entry.seq), &mut before);
            leaf.split(middle, upper);
            if upper.next(0).is_null() {
                writer.last = upper;
            }
            self.height.fetch_max(height, Ordering::Relaxed);
            for (level, &previous) in before.iter().enumerate().take(height).skip(1) {
                upper.set_next(level, previous.next(level));
                previous.set_next(level, upper);
            }
            (upper, bytes)
        }
    }

    /// Whether a head or a cover was inserted.
    #[inline]
    pub fn holds_heads(&self) -> bool {
        self.holds_heads.load(Ordering::Acquire)
    }

    /// The newest version of `key` with a sequence number of at most `at`; it may be a tombstone.
    pub fn get(self: &Arc<Self>, key: &[u8], at: Seq) -> Option<Found> {
        self.get_hashed(key, hash(key), at)
    }

    /// Like [`Memtable::get`], where the key's [`hash`](crate::table::filter::hash) is known.
    #[inline]
    pub fn get_hashed(self: &Arc<Self>, key: &[u8], hash: u64, at: Seq) -> Option<Found> {
        // SAFETY: records of this memtable.
        unsafe {
            match self.index.get().map_or(Known::Nothing, |index| index.find(key, hash)) {
                Known::Absent => None,
                Known::Newest(anchor) => {
                    let version = chain::newest_at(anchor, at);
                    // Older versions may hang on another anchor.
                    if version.is_null() { self.search_for(key, at) } else { Some(self.found(version.entry())) }
                }
                Known::Nothing => self.search_for(key, at),
            }
        }
    }

    /// [`Memtable::get`] by the leaves.
    fn search_for(self: &Arc<Self>, key: &[u8], at: Seq) -> Option<Found> {
        let target = Target::new(key, at);
        let (_, look) = self.look(&target, Equal);
        // SAFETY: records of this memtable; they are not used beyond this call except through `Value`, which keeps the
        // memtable.
        unsafe {
            // The anchor is not newer than `at`, so its chain has an answer.
            let anchor = look.first_behind(&target).filter(|anchor| anchor.entry().key == key)?;
            Some(self.found(chain::newest_at(anchor, at).entry()))
        }
    }

    /// An answer from an entry of this memtable. It keeps the memtable alive.
    #[inline]
    fn found(self: &Arc<Self>, entry: Entry<'_>) -> Found {
        Found {
            seq: entry.seq,
            kind: entry.kind,
            expire_at_ms: entry.expire_at_ms,
            // SAFETY: the bytes live in the arena of this memtable: entries are immutable, and the arena goes with the
            // memtable.
            value: unsafe { Value::held(Arc::clone(self), entry.value) },
        }
    }

    /// A cursor over all entries. It may or may not see entries that are inserted while it moves. Never answers `Load`.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self, None)
    }

    /// A cursor for a read as of `at`. Of the versions in one chain, it stands on the newest that is not newer than
    /// `at`, and steps over the others without looking at them. It may still show several versions of a key, newest
    /// first, from several chains. It may be sent only to `at` or to [`SEQ_MAX`] of a key. Never answers `Load`.
    pub fn cursor_at(self: &Arc<Self>, at: Seq) -> MemtableCursor {
        MemtableCursor::new(self, Some(at))
    }

    /// The smallest and the largest key; `None` if there is no entry.
    pub fn ends(self: &Arc<Self>) -> Option<[Box<[u8]>; 2]> {
        let mut cursor = self.cursor();
        let first = cursor.seek_first();
        debug_assert_eq!(first, Step::Ready, "memtables are in memory");
        let smallest = cursor.entry()?.key.into();
        let last = cursor.seek_last();
        debug_assert_eq!(last, Step::Ready, "memtables are in memory");
        Some([smallest, cursor.entry()?.key.into()])
    }

    /// Bytes that the entries take, with their share of the index.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes taken from the system: [`Memtable::bytes`], the free rest of the last chunks, and the index. Waits for a
    /// running insert.
    pub fn allocated_bytes(&self) -> usize {
        self.writer.lock().allocated_bytes()
    }

    /// Bytes that are booked: [`Memtable::allocated_bytes`] beyond those of an empty memtable.
    pub fn booked_bytes(&self) -> usize {
        self.booked_bytes.load(Ordering::Relaxed)
    }

    /// What is dead in it at `now_ms`, by the wall clock. Waits for a running insert.
    pub fn dead(&self, now_ms: u64) -> MemtableDead {
        self.writer.lock().census.dead(self.bytes() as u64, now_ms)
    }

    /// Number of entries (versions, not keys).
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaf where `target` belongs, and its place there. `at_most` says whether a leaf that begins with the very
    /// target counts as behind it (`Less`) or not (`Equal`).
    #[inline]
    fn look(&self, target: &Target<'_>, at_most: std::cmp::Ordering) -> (Leaf, Look) {
        let mut leaf = self.search(target, at_most);
        leaf::dawdle();
        loop {
            // SAFETY: leaves of this memtable.
            let look = unsafe { leaf.look(target) };
            // The leaf may have been split since it was found.
            // SAFETY: as above; no leaf but the first is the head.
            if look.next.is_null() || unsafe { look.next.compare(target) } > at_most {
                return (leaf, look);
            }
            leaf = look.next;
        }
    }

    /// The last leaf that begins before `target`, or at it if `at_most` is `Equal`.
    #[inline]
    fn search(&self, target: &Target<'_>, at_most: std::cmp::Ordering) -> Leaf {
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        let mut leaf = self.head;
        // The leaf that ended the level above: known to be too far, so never compared again.
        let mut bound = Leaf::NULL;
        loop {
            // SAFETY: `leaf` is the head or was reached on a level of at least `level`; leaves live as long as `self`.
            let next = unsafe { leaf.next(level) };
            if level > 0 {
                // Where the search goes if `next` is too far: both fetches overlap instead of adding up.
                // SAFETY: as above.
                unsafe { leaf.next(level - 1) }.prefetch();
            }
            // SAFETY: a leaf of this memtable, not the head.
            if next != bound && !next.is_null() && unsafe { next.compare(target) } <= at_most {
                leaf = next;
                continue;
            }
            bound = next;
            if level == 0 {
                return leaf;
            }
            level -= 1;
        }
    }

    /// The last leaf that begins before `target`, on each level in use.
    fn search_path(&self, target: &Target<'_>, before: &mut [Leaf; HEIGHT_MAX]) {
        let mut leaf = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: as in `search`.
                let next = unsafe { leaf.next(level) };
                // SAFETY: as in `search`.
                if next.is_null() || unsafe { next.compare(target) } != Less {
                    break;
                }
                leaf = next;
            }
            before[level] = leaf;
        }
    }

    /// The last leaf.
    fn last(&self) -> Leaf {
        let mut leaf = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: as in `search`.
                let next = unsafe { leaf.next(level) };
                if next.is_null() {
                    break;
                }
                leaf = next;
            }
        }
        leaf
    }
}

impl Writer {
    /// The index, complete or not, into which new keys go as well.
    fn index<'a>(&'a self, memtable: &'a Memtable) -> Option<&'a HashIndex> {
        memtable.index.get().or(self.unfinished.as_ref().map(|(index, _)| index))
    }

    fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes() + self.leaves.allocated_bytes() + self.index_bytes
    }

    /// 1 with probability 3/4, 2 with 3/16, and so on.
    fn draw_height(&mut self) -> usize {
        let zeros = self.rng.next_u64().trailing_zeros() as usize;
        (1 + zeros / 2).min(HEIGHT_MAX)
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.memory.give_back(*self.booked_bytes.get_mut());
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable").field("entries", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

const _: () = assert!(SEQ_MAX < 1 << 61, "a sequence number, a kind and a flag share 64 bits");
