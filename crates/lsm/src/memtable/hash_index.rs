//! Finds the newest [anchor](super::chain) of each key of a large memtable by the key's hash. That is a look at one
//! cache line, where a search of the leaves waits for memory some five times. Most reads of a tree look for a key that
//! is further down; they, too, learn that here without a search. A write of a key that is here hangs its version on the
//! anchor.
//!
//! It is an open-addressing hash table of pointers to anchors, with 16 bits of the hash beside each pointer. Its size
//! is fixed. So it is made only for a memtable that is on its way to being full, whose anchors so far say how many
//! there will be: a thousand small memtables would need more for their indexes than for their entries. The anchors that
//! are there already are added bit by bit, one leaf with each insert, so that nobody waits for it. Readers see the
//! index when it is complete. An index that runs full, because the entries have become smaller, takes no new keys. A
//! key that it lacks may still be in the leaves then.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use weir_model::prefetch::prefetch;

use super::record::{Header, Record};
use crate::table::filter::lane_of;

/// An index takes at most a full memtable's bytes divided by this.
const SHARE_MAX: usize = 4;
/// The index is made when the memtable has its full bytes divided by this. Before, nobody knows how many entries there
/// will be.
const BEGIN_SHARE: usize = 16;
/// A smaller memtable is in the processor's cache, and has no index.
const BEGIN_BYTES_MIN: usize = 1 << 20;
/// A memtable with fewer anchors is searched in two or three steps, and has no index.
const BEGIN_ANCHORS_MIN: usize = 2048;
/// Slots of a cache line.
const LINE_SLOTS: usize = 8;
/// The most lines that are looked at for a key. One or two are enough except for clusters, of which the longest counts.
/// In twelve simulated indexes of 81,920 lines the longest had 15 lines at most with two thirds of the slots taken, and
/// 63 with five sixths.
const LINES_MAX: usize = 64;
/// Pointers need no more bits than this; the bits above belong to the hash.
const POINTER_BITS: u32 = 48;

#[repr(align(64))]
struct Line([AtomicPtr<Header>; LINE_SLOTS]);

/// What the index knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its newest anchor.
    Newest(Record),
    /// It is not in the memtable.
    Absent,
    /// Nothing is known: the leaves must be searched.
    Nothing,
}

/// A hash table from keys to their newest anchors. One thread at a time may add to it.
pub(super) struct HashIndex {
    /// Not empty.
    lines: Box<[Line]>,
    /// Whether a key was not taken for lack of room.
    is_full: AtomicBool,
}

impl HashIndex {
    /// Whether it is time for the index of a memtable that has these `bytes` and `anchors`, and will have `full_bytes`.
    #[inline]
    pub(super) fn is_due(bytes: usize, anchors: usize, full_bytes: usize) -> bool {
        bytes >= BEGIN_BYTES_MIN.max(full_bytes / BEGIN_SHARE) && anchors >= BEGIN_ANCHORS_MIN
    }

    /// An empty index for a memtable that has these `bytes` and `anchors`, and will have `full_bytes`.
    pub(super) fn new(bytes: usize, anchors: usize, full_bytes: usize) -> Self {
        let anchors = (anchors as u128 * full_bytes.max(bytes) as u128 / bytes.max(1) as u128) as usize;
        // Two thirds of the slots will be taken: most keys are in the first line that is looked at.
        let lines = (anchors + anchors / 2).div_ceil(LINE_SLOTS);
        let lines = lines.clamp(1, (full_bytes / SHARE_MAX / size_of::<Line>()).max(1));
        // From the system, whose pages are zero already and come one by one as keys are added: writing megabytes of
        // zeros here would hold up the insert.
        let lines = Box::new_zeroed_slice(lines);
        // SAFETY: pointers, of which null is one.
        Self { lines: unsafe { lines.assume_init() }, is_full: AtomicBool::new(false) }
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Adds an anchor of a key with this [`hash`](crate::table::filter::hash); `before` is the key's next older anchor,
    /// or null where that is not known. A reader that learns of the record through anything that synchronizes finds it.
    ///
    /// # Safety
    /// The records are of one memtable that outlives the index, and only one thread adds at a time.
    pub(super) unsafe fn add(&self, hash: u64, record: Record, before: Record) {
        // SAFETY: the caller's promise, and what it was in earlier calls.
        let (key, seq) = unsafe { (record.entry().key, record.seq()) };
        for slot in self.slots(hash) {
            // Nobody else stores.
            let stored = slot.load(Ordering::Relaxed);
            let known = record_of(stored);
            let is_same = !known.is_null()
                && tag_of(stored) == tag(hash)
                // SAFETY: as above.
                && (known == before || unsafe { known.entry().key == key });
            if known.is_null() || is_same {
                // Anchors may come out of order: several writers take their numbers first, and insert then.
                // SAFETY: as above.
                if known.is_null() || unsafe { known.seq() } < seq {
                    match tagged(record, hash) {
                        // Release: a reader that finds the pointer finds the complete record.
                        Some(pointer) => slot.store(pointer, Ordering::Release),
                        None => break,
                    }
                }
                return;
            }
        }
        self.is_full.store(true, Ordering::Release);
    }

    /// What is known of `key`, which has this hash.
    ///
    /// # Safety
    /// The memtable whose records were added is alive.
    #[inline]
    pub(super) unsafe fn find(&self, key: &[u8], hash: u64) -> Known {
        for slot in self.slots(hash) {
            let stored = slot.load(Ordering::Acquire);
            let record = record_of(stored);
            if record.is_null() {
                return self.missing();
            }
            // SAFETY: the caller's promise.
            if tag_of(stored) == tag(hash) && unsafe { record.entry() }.key == key {
                return Known::Newest(record);
            }
        }
        self.missing()
    }

    /// An anchor that the key with this hash may have: the right one except for one key in thousands. Null if the key
    /// has none. The anchor itself is not looked at.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> Record {
        for slot in self.slots(hash) {
            let stored = slot.load(Ordering::Acquire);
            if stored.is_null() || tag_of(stored) == tag(hash) {
                return record_of(stored);
            }
        }
        Record::NULL
    }

    /// Asks the processor to fetch what [`HashIndex::find`] looks at first.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[lane_of(hash, self.lines.len())]);
    }

    fn missing(&self) -> Known {
        // Loaded after the slot: if the index was full when a key came, this says so to every reader that can know of
        // the key.
        if self.is_full.load(Ordering::Acquire) { Known::Nothing } else { Known::Absent }
    }

    /// Where a key with this hash may be, in the order in which slots are taken.
    #[inline]
    fn slots(&self, hash: u64) -> impl Iterator<Item = &AtomicPtr<Header>> {
        let (first, lines) = (lane_of(hash, self.lines.len()), self.lines.len());
        let line =
            move |step: usize| &self.lines[if first + step < lines { first + step } else { (first + step) % lines }];
        (0..LINES_MAX.min(lines)).flat_map(move |step| &line(step).0)
    }
}

/// The bits of a hash that stand beside a pointer. They are not among those that choose the line.
#[inline]
fn tag(hash: u64) -> usize {
    hash as usize & 0xffff
}

#[inline]
fn tag_of(stored: *mut Header) -> usize {
    stored.addr() >> POINTER_BITS
}

#[inline]
fn record_of(stored: *mut Header) -> Record {
    Record(stored.map_addr(|address| address & ((1 << POINTER_BITS) - 1)))
}

/// The record's pointer with the hash's bits; `None` if the system gives addresses that leave no room for them.
fn tagged(record: Record, hash: u64) -> Option<*mut Header> {
    let has_room = record.0.addr() >> POINTER_BITS == 0;
    has_room.then(|| record.0.map_addr(|address| address | tag(hash) << POINTER_BITS))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use weir_model::engine::{Entry, Kind, Seq};

    use super::super::arena::Arena;
    use super::super::record;
    use super::*;
    use crate::table::filter::hash;

    fn record(arena: &mut Arena, key: u64, seq: Seq) -> Record {
        let key = key.to_be_bytes();
        Record::new(arena, &Entry { key: &key, seq, kind: Kind::Put, expire_at_ms: 0, value: b"v" }).0
    }

    fn find(index: &HashIndex, key: u64) -> Known {
        let key = key.to_be_bytes();
        // SAFETY: the arena outlives the index in every test.
        unsafe { index.find(&key, hash(&key)) }
    }

    fn add(index: &HashIndex, record: Record, before: Record) {
        // SAFETY: as above; there is one thread.
        unsafe { index.add(hash(record.entry().key), record, before) }
    }

    #[test]
    fn the_newest_anchor_of_every_key_is_found_and_no_other() {
        let mut arena = Arena::new(record::ALIGN);
        let keys = if cfg!(miri) { 60 } else { 10_000 };
        let index = HashIndex::new(keys * 100, keys, keys * 100);
        let wanted: Vec<Record> = (0..keys as u64)
            .map(|key| {
                let [old, new, middle] = [1, 3, 2].map(|seq| record(&mut arena, key, seq));
                add(&index, old, Record::NULL);
                add(&index, new, if key % 2 == 0 { old } else { Record::NULL });
                add(&index, middle, old);
                new
            })
            .collect();
        for (key, wanted) in wanted.into_iter().enumerate() {
            assert_eq!(find(&index, key as u64), Known::Newest(wanted));
            assert_eq!(find(&index, (key + keys) as u64), Known::Absent);
        }
    }

    #[test]
    fn a_full_index_still_has_the_newest_of_what_it_took_and_denies_nothing() {
        let mut arena = Arena::new(record::ALIGN);
        let index = HashIndex::new(1 << 20, 1 << 20, 64 * SHARE_MAX * 3);
        assert_eq!(index.bytes(), 3 * 64);
        for (count, seq) in (0..40_u64).zip(1..) {
            add(&index, record(&mut arena, count, seq), Record::NULL);
        }
        let taken = (0..40).filter(|&key| find(&index, key) != Known::Nothing).count();
        assert_eq!(taken, 3 * LINE_SLOTS, "all slots are used, and the rest is not denied");
        for key in 0..40 {
            let newer = record(&mut arena, key, 100);
            let was_taken = find(&index, key) != Known::Nothing;
            add(&index, newer, Record::NULL);
            assert_eq!(find(&index, key), if was_taken { Known::Newest(newer) } else { Known::Nothing });
        }
    }

    #[test]
    fn it_is_as_large_as_its_memtable_wants_and_no_larger() {
        // 4 MiB with 40,000 entries of a memtable that will have 64 MiB: 640,000 entries, and half as many free slots.
        assert_eq!(HashIndex::new(4 << 20, 40_000, 64 << 20).bytes(), 640_000 * 3 / 2 * 8);
        assert_eq!(HashIndex::new(4 << 20, 400_000, 64 << 20).bytes(), 16 << 20);
        assert_eq!(HashIndex::new(0, 0, 0).bytes(), 64);
    }

    #[test]
    fn what_is_no_pointer_of_this_system_is_not_taken() {
        let far = Record(ptr::without_provenance_mut(1 << POINTER_BITS | 8));
        assert_eq!(tagged(far, 0), None);
        let near = Record(ptr::without_provenance_mut(8));
        let pointer = tagged(near, 0xffff_1234).expect("it has room");
        assert_eq!((record_of(pointer), tag_of(pointer)), (near, 0x1234));
    }
}
