//! Leaves: up to 32 records in order, one line of numbers to search them by, and the links of the skip list.
//!
//! One writer changes leaves, under the memtable's lock; readers take no lock. Three rules make that work:
//!
//! 1. What a leaf begins with (`low`, `front`) never changes: all its records are at or after `low`, all before the
//!    next leaf's `low`.
//! 2. A change that moves records makes `version` odd, then moves, then makes it even again. A reader that saw the same
//!    even version before and after its look has seen a state that existed; otherwise it looks again. A record appended
//!    at the end moves nothing, so it needs no version.
//! 3. Whatever a reader sees in a slot in between is null or a record of this memtable, complete and never freed before
//!    the memtable: a torn look can find the wrong record, and is thrown away then, but it cannot find a wild pointer.
//!
//! A reader can only be made to wait by a writer that the scheduler took off the processor in the few nanoseconds of a
//! move in the very leaf that the reader needs.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering as Memory, fence};

use super::arena::Arena;
use super::record::{FRONT_BYTES, Front, Header, Record, Target, head};
use weir_model::prefetch::{LINE_BYTES, prefetch};

/// Records in a full leaf.
pub(super) const LEAF_RECORDS: usize = 32;
/// Levels of the tallest tower. With a branching of 4, 11 levels suit 4 million leaves.
pub(super) const HEIGHT_MAX: usize = 11;
/// Levels whose links are in the first cache line; those above lie behind the leaf, as many as there are.
const NEAR_LEVELS: usize = 2;
/// Alignment that the arena of leaves must have: a search that passes a leaf by touches one cache line.
pub(super) const ALIGN: usize = align_of::<Inner>();

#[repr(C, align(64))]
struct Inner {
    near: [AtomicPtr<Inner>; NEAR_LEVELS],
    /// The start of `low`'s key.
    front: Front,
    /// The first record that the leaf had; null in the list's head, which is in front of everything.
    low: Record,
    /// Odd while records are being moved.
    version: AtomicU32,
    /// Number of records | `skip` << 8. All records share the first `skip` bytes of the key with `low`, or more; 0 in
    /// the list's head.
    state: AtomicU32,
    /// Eight bytes of each record's key behind the skipped ones: see [`head`].
    heads: [AtomicU64; LEAF_RECORDS],
    records: [AtomicPtr<Header>; LEAF_RECORDS],
}

/// A pointer to a leaf, or null. Valid as long as the arena it was made in: the memtable pairs the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf(*mut Inner);

/// Number of records, and bytes skipped.
#[derive(Clone, Copy)]
pub(super) struct LeafState {
    pub(super) count: usize,
    pub(super) skip: usize,
}

impl LeafState {
    fn pack(self) -> u32 {
        (self.count | self.skip << 8) as u32
    }
}

/// A state of a leaf that existed, seen by a reader: where a target belongs among its records.
pub(super) struct Look {
    /// Number of records before the target.
    pub(super) position: usize,
    pub(super) count: usize,
    /// The record at `position`; null if that is `count`.
    pub(super) record: Record,
    pub(super) next: Leaf,
}

/// Marks where it would be bad luck to lose the processor. Tests have that bad luck now and then.
#[inline]
pub(super) fn dawdle() {
    #[cfg(test)]
    super::tests::dawdle();
}

impl Look {
    /// The first record that is not before `target`, be it the next leaf's; `None` if there is none, or if it does not
    /// begin like the target and was therefore not fetched.
    ///
    /// # Safety
    /// The leaves are live.
    #[inline]
    pub(super) unsafe fn first_behind(&self, target: &Target<'_>) -> Option<Record> {
        // SAFETY: the caller's promise; the next leaf is not the head. Its first record is its lowest: what is before
        // it belongs in front of the leaf.
        unsafe {
            if !self.record.is_null() {
                Some(self.record)
            } else if !self.next.is_null() && self.next.inner().front == target.front {
                Some(self.next.low())
            } else {
                None
            }
        }
    }
}

impl Leaf {
    pub(super) const NULL: Leaf = Leaf(std::ptr::null_mut());

    /// An empty leaf with `height` null links, into which nothing before `low` may be put. Also returns its bytes.
    pub(super) fn new(arena: &mut Arena, height: usize, low: Record, skip: usize) -> (Leaf, usize) {
        debug_assert!((1..=HEIGHT_MAX).contains(&height));
        let bytes = size_of::<Inner>() + height.saturating_sub(NEAR_LEVELS) * size_of::<AtomicPtr<Inner>>();
        let start = arena.allocate(bytes).cast::<Inner>();
        let front = if low.is_null() {
            Front::default()
        } else {
            // SAFETY: a record of the memtable that the leaf is for.
            let key = unsafe { low.entry() }.key;
            [head(key, 0), head(key, 8), head(key, 16)]
        };
        // SAFETY: `start` is aligned and valid for `bytes` bytes: the leaf and the far links behind it.
        unsafe {
            start.write(Inner {
                near: [const { AtomicPtr::new(std::ptr::null_mut()) }; NEAR_LEVELS],
                front,
                low,
                version: AtomicU32::new(0),
                state: AtomicU32::new(LeafState { count: 0, skip }.pack()),
                heads: [const { AtomicU64::new(0) }; LEAF_RECORDS],
                records: [const { AtomicPtr::new(std::ptr::null_mut()) }; LEAF_RECORDS],
            });
            for level in NEAR_LEVELS..height {
                start.add(1).cast::<AtomicPtr<Inner>>().add(level - NEAR_LEVELS).write(AtomicPtr::default());
            }
        }
        (Leaf(start), bytes.next_multiple_of(ALIGN))
    }

    #[inline]
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.0);
    }

    /// Asks the processor to fetch what [`Leaf::prefetch_record`] compares.
    ///
    /// # Safety
    /// The leaf is live.
    #[inline]
    pub(super) unsafe fn prefetch_heads(self) {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let count = inner.state().count;
        inner.heads[..count].iter().step_by(LINE_BYTES / size_of::<u64>()).for_each(|head| prefetch(head));
    }

    /// About how many records are before `target`, without regard to the writer; asks for the record behind them to be
    /// fetched.
    ///
    /// # Safety
    /// The leaf is live.
    #[inline]
    pub(super) unsafe fn prefetch_record(self, target: &Target<'_>) -> usize {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let position = inner.position(inner.state(), target);
        if let Some(record) = inner.records.get(position) {
            prefetch(record);
        }
        position
    }

    /// The record that is about at `position`; null where there is none.
    ///
    /// # Safety
    /// The leaf is live.
    #[inline]
    pub(super) unsafe fn guess(self, position: usize) -> Record {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let count = inner.state().count;
        let record = inner.record(position, count);
        // SAFETY: every leaf has level 0; leaves behind others are live, and not the head.
        unsafe {
            let next = self.next(0);
            if position >= count && !next.is_null() { next.low() } else { record }
        }
    }

    /// # Safety
    /// The leaf is live and not null.
    #[inline]
    unsafe fn inner<'a>(self) -> &'a Inner {
        // SAFETY: the caller's promise; what changes in a leaf is atomic.
        unsafe { &*self.0 }
    }

    /// # Safety
    /// The leaf is live and has more than `level` levels.
    #[inline]
    unsafe fn link<'a>(self, level: usize) -> &'a AtomicPtr<Inner> {
        // SAFETY: the caller's promise; far links lie behind the leaf.
        unsafe {
            if level < NEAR_LEVELS {
                &self.inner().near[level]
            } else {
                &*self.0.add(1).cast::<AtomicPtr<Inner>>().add(level - NEAR_LEVELS)
            }
        }
    }

    /// The next leaf on `level`.
    ///
    /// # Safety
    /// The leaf is live and has more than `level` levels.
    #[inline]
    pub(super) unsafe fn next(self, level: usize) -> Leaf {
        // SAFETY: the caller's promise. Acquire pairs with the Release of `set_next`: the leaf is complete when it can
        // be reached.
        Leaf(unsafe { self.link(level) }.load(Memory::Acquire))
    }

    /// # Safety
    /// As for [`Leaf::next`], and only the writer may.
    pub(super) unsafe fn set_next(self, level: usize, next: Leaf) {
        // SAFETY: the caller's promise.
        unsafe { self.link(level) }.store(next.0, Memory::Release);
    }

    /// The leaf's first record; null in the list's head.
    ///
    /// # Safety
    /// The leaf is live and not null.
    #[inline]
    pub(super) unsafe fn low(self) -> Record {
        // SAFETY: the caller's promise.
        unsafe { self.inner() }.low
    }

    /// Where the leaf begins, relative to `target`.
    ///
    /// # Safety
    /// The leaf is live and not the list's head.
    #[inline]
    pub(super) unsafe fn compare(self, target: &Target<'_>) -> Ordering {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        for (mine, other) in inner.front.iter().zip(&target.front) {
            if mine != other {
                return mine.cmp(other);
            }
        }
        // SAFETY: the low record is not null, as this is not the head.
        unsafe { inner.low.compare(target) }
    }

    /// Where `target` belongs in this leaf, which must begin at or before it. Readers and the writer may ask.
    ///
    /// # Safety
    /// The leaf is live.
    #[inline]
    pub(super) unsafe fn look(self, target: &Target<'_>) -> Look {
        // SAFETY: the caller's promise.
        unsafe {
            self.read(|inner, state, next| {
                let position = inner.position(state, target);
                let record = inner.record(position, state.count);
                Look { position, count: state.count, record, next }
            })
        }
    }

    /// Copies all records out. Returns their number, and the next leaf.
    ///
    /// # Safety
    /// The leaf is live.
    pub(super) unsafe fn copy(self, records: &mut [Record; LEAF_RECORDS]) -> (usize, Leaf) {
        // SAFETY: the caller's promise.
        unsafe {
            self.read(|inner, state, next| {
                for (slot, record) in records.iter_mut().zip(&inner.records[..state.count]) {
                    *slot = Record(record.load(Memory::Acquire));
                }
                (state.count, next)
            })
        }
    }

    /// Looks until it has seen a state that existed.
    ///
    /// # Safety
    /// The leaf is live.
    #[inline]
    unsafe fn read<T>(self, mut look: impl FnMut(&Inner, LeafState, Leaf) -> T) -> T {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let mut tries = 0_u32;
        loop {
            let version = inner.version.load(Memory::Acquire);
            if version.is_multiple_of(2) {
                // SAFETY: every leaf has level 0.
                let next = unsafe { self.next(0) };
                let seen = look(inner, inner.state(), next);
                fence(Memory::Acquire);
                if inner.version.load(Memory::Relaxed) == version {
                    return seen;
                }
            }
            tries += 1;
            if tries.is_multiple_of(64) {
                std::thread::yield_now(); // The writer may be waiting for this very processor.
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Puts `record` at `position`; there must be room.
    ///
    /// # Safety
    /// The leaf is live, the record belongs there, and only the writer may.
    pub(super) unsafe fn insert(self, position: usize, record: Record) {
        // SAFETY: the caller's promise; records in use are not null.
        unsafe {
            let inner = self.inner();
            let LeafState { count, skip } = inner.state();
            debug_assert!(count < LEAF_RECORDS && position <= count);
            let key = record.entry().key;
            let shared =
                if inner.low.is_null() { 0 } else { crate::table::common_prefix(inner.low.entry().key, key).min(skip) };
            let state = LeafState { count: count + 1, skip: shared };
            if position == count && shared == skip {
                inner.put(position, head(key, skip), record);
                inner.state.store(state.pack(), Memory::Release);
                return;
            }
            self.change(|| {
                for slot in (position..count).rev() {
                    inner.heads[slot + 1].store(inner.heads[slot].load(Memory::Relaxed), Memory::Relaxed);
                    inner.records[slot + 1].store(inner.records[slot].load(Memory::Relaxed), Memory::Release);
                    dawdle();
                }
                inner.put(position, head(key, shared), record);
                if shared != skip {
                    for slot in 0..=count {
                        let key = inner.record(slot, count + 1).entry().key;
                        inner.heads[slot].store(head(key, shared), Memory::Relaxed);
                    }
                }
                inner.state.store(state.pack(), Memory::Release);
            });
        }
    }

    /// Moves the records from `middle` on to `upper`, a new leaf that begins with the first of them, and links it in
    /// behind this one.
    ///
    /// # Safety
    /// Both leaves are live, and only the writer may.
    pub(super) unsafe fn split(self, middle: usize, upper: Leaf) {
        // SAFETY: the caller's promise; records in use are not null.
        unsafe {
            let inner = self.inner();
            let LeafState { count, skip } = inner.state();
            for slot in middle..count {
                upper.insert(slot - middle, inner.record(slot, count));
            }
            upper.set_next(0, self.next(0));
            self.change(|| {
                self.set_next(0, upper);
                dawdle();
                inner.state.store(LeafState { count: middle, skip }.pack(), Memory::Release);
            });
        }
    }

    /// Does `change` in a way that readers notice.
    ///
    /// # Safety
    /// The leaf is live, and only the writer may.
    unsafe fn change(self, change: impl FnOnce()) {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let version = inner.version.load(Memory::Relaxed);
        inner.version.store(version.wrapping_add(1), Memory::Relaxed);
        // What follows is not seen before the odd version, as readers end with an Acquire fence.
        fence(Memory::Release);
        change();
        inner.version.store(version.wrapping_add(2), Memory::Release);
    }
}

impl Inner {
    #[inline]
    fn state(&self) -> LeafState {
        let state = self.state.load(Memory::Acquire) as usize;
        LeafState { count: (state & 0xff).min(LEAF_RECORDS), skip: state >> 8 }
    }

    #[inline]
    fn record(&self, slot: usize, count: usize) -> Record {
        if slot < count { Record(self.records[slot].load(Memory::Acquire)) } else { Record::NULL }
    }

    #[inline]
    fn put(&self, slot: usize, head: u64, record: Record) {
        self.heads[slot].store(head, Memory::Relaxed);
        self.records[slot].store(record.0, Memory::Release);
    }

    /// Number of records before `target`. In a torn look the answer may be wrong, but not more than the count.
    #[inline]
    fn position(&self, state: LeafState, target: &Target<'_>) -> usize {
        let LeafState { count, skip } = state;
        if skip > 0 && !self.shares(skip, target) {
            // The target is behind `low`, and differs where all records agree with it: it is behind all of them.
            return count;
        }
        let wanted = head(target.key, skip);
        let heads = &self.heads[..count];
        let mut start = 0;
        let mut len = count;
        while len > 0 {
            let half = len / 2;
            let before = heads[start + half].load(Memory::Relaxed) < wanted;
            start = if before { start + half + 1 } else { start };
            len = if before { len - half - 1 } else { half };
        }
        // Among equal heads the whole record decides.
        let mut end = start;
        while end < count && heads[end].load(Memory::Relaxed) == wanted {
            end += 1;
        }
        while start < end {
            let middle = (start + end) / 2;
            let record = self.record(middle, count);
            // SAFETY: not null, so a record of this memtable (rule 3).
            if !record.is_null() && unsafe { record.compare(target) } == Ordering::Less {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// Whether the first `len` bytes of `low`'s key are those of the target's.
    #[inline]
    fn shares(&self, len: usize, target: &Target<'_>) -> bool {
        if len <= FRONT_BYTES {
            // The target is not before `low`, so bytes that it lacks do no harm: with them missing, it would be before
            // `low`.
            let mut rest = len;
            for (mine, other) in self.front.iter().zip(&target.front) {
                let same = ((mine ^ other).leading_zeros() / 8) as usize;
                if same < rest.min(8) {
                    return false;
                }
                rest = rest.saturating_sub(8);
            }
            return true;
        }
        // SAFETY: bytes are skipped only where there is a low record.
        let low = unsafe { self.low.entry() }.key;
        target.key.get(..len) == Some(&low[..len])
    }
}
