//! One entry, as it lies in the arena.
//!
//! ```text
//!  meta                       8 bytes: seq << 3 | kind << 1 | has_expire
//!  key length                 3 bytes
//!  depth                      1 byte: versions below it on its anchor; 0 of an anchor
//!  value length               4 bytes
//!  link                       8 bytes: of an anchor, the newest version on it; of another, the next older one
//!  expire_at_ms               8 bytes, only if has_expire
//!  key, value
//! ```

use std::cmp::Ordering;
use std::sync::atomic::{AtomicPtr, Ordering as Memory};

use weir_model::engine::{Entry, Kind, Seq};

use super::arena::Arena;

const META_EXPIRES: u64 = 1;
const META_KIND: u64 = 6;
const KIND_SHIFT: u32 = 1;
const SEQ_SHIFT: u32 = 3;

/// Cache lines that are fetched of a record of unknown length.
const SHORT_LINES: usize = 3;

/// Bits of a key's length; the depth is above.
const KEY_LEN_BITS: u32 = 24;
const KEY_LEN_MASK: u32 = (1 << KEY_LEN_BITS) - 1;

#[repr(C)]
pub(super) struct Header {
    meta: u64,
    key_len_and_depth: u32,
    value_len: u32,
    /// The only field that may change once others see the record. See [`chain`](super::chain).
    link: AtomicPtr<Header>,
}

/// Alignment that the arena of records must have.
pub(super) const ALIGN: usize = align_of::<Header>();

/// A pointer to a record, or null. Valid as long as the arena it was made in; the entry it points to never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record(pub(super) *mut Header);

impl Record {
    pub(super) const NULL: Record = Record(std::ptr::null_mut());

    /// Copies `entry` into the arena, as an anchor on which nothing hangs. Also returns how many bytes it takes.
    pub(super) fn new(arena: &mut Arena, entry: &Entry<'_>) -> (Record, usize) {
        let key_len = u32::try_from(entry.key.len()).expect("keys are at most 65,562 bytes");
        assert!(key_len <= KEY_LEN_MASK, "keys are at most 65,562 bytes");
        let value_len = u32::try_from(entry.value.len()).expect("values are at most 512 MiB");
        let expires = entry.expire_at_ms != 0;
        let bytes = size_of::<Header>() + if expires { 8 } else { 0 } + entry.key.len() + entry.value.len();
        let start = arena.allocate(bytes);
        let meta = entry.seq << SEQ_SHIFT | (entry.kind as u64) << KIND_SHIFT | if expires { META_EXPIRES } else { 0 };
        // SAFETY: `start` is aligned and valid for `bytes` bytes, of which each part writes its own share, in the order
        // above.
        unsafe {
            let header = start.cast::<Header>();
            header.write(Header { meta, key_len_and_depth: key_len, value_len, link: AtomicPtr::default() });
            let mut rest = header.add(1).cast::<u8>();
            if expires {
                rest.cast::<u64>().write(entry.expire_at_ms);
                rest = rest.add(8);
            }
            rest.copy_from_nonoverlapping(entry.key.as_ptr(), entry.key.len());
            rest.add(entry.key.len()).copy_from_nonoverlapping(entry.value.as_ptr(), entry.value.len());
            (Record(header), bytes.next_multiple_of(ALIGN))
        }
    }

    #[inline]
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Asks the processor to fetch the record's first cache line.
    #[inline]
    pub(super) fn prefetch(self) {
        weir_model::prefetch::prefetch(self.0);
    }

    /// Asks the processor to fetch the record's first cache lines: all of a short one.
    #[inline]
    pub(super) fn prefetch_all(self) {
        for line in 0..SHORT_LINES {
            weir_model::prefetch::prefetch(self.0.wrapping_byte_add(line * weir_model::prefetch::LINE_BYTES));
        }
    }

    /// The entry's sequence number.
    ///
    /// # Safety
    /// As for [`Record::entry`].
    #[inline]
    pub(super) unsafe fn seq(self) -> Seq {
        // SAFETY: the caller's promise.
        unsafe { (*self.0).meta >> SEQ_SHIFT }
    }

    /// See [`chain`](super::chain).
    ///
    /// # Safety
    /// As for [`Record::entry`].
    #[inline]
    pub(super) unsafe fn link(self) -> Record {
        // SAFETY: the caller's promise. Acquire pairs with the Release of `set_link`: the record is complete when it
        // can be reached.
        Record(unsafe { (*self.0).link.load(Memory::Acquire) })
    }

    /// # Safety
    /// As for [`Record::entry`], and only the writer may.
    #[inline]
    pub(super) unsafe fn set_link(self, link: Record) {
        // SAFETY: the caller's promise.
        unsafe { (*self.0).link.store(link.0, Memory::Release) }
    }

    /// Versions below it on its anchor.
    ///
    /// # Safety
    /// As for [`Record::entry`].
    #[inline]
    pub(super) unsafe fn depth(self) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { ((*self.0).key_len_and_depth >> KEY_LEN_BITS) as u8 }
    }

    /// Makes it a version above `link`, before anybody else sees it.
    ///
    /// # Safety
    /// As for [`Record::entry`], and nobody else has got the record yet.
    #[inline]
    pub(super) unsafe fn hang(self, link: Record, depth: u8) {
        // SAFETY: the caller's promise.
        unsafe {
            (*self.0).key_len_and_depth |= u32::from(depth) << KEY_LEN_BITS;
            self.set_link(link);
        }
    }

    /// The entry.
    ///
    /// # Safety
    /// The record is not null, and its arena outlives `'a`.
    #[inline]
    pub(super) unsafe fn entry<'a>(self) -> Entry<'a> {
        // SAFETY: the layout that `new` wrote, complete before anybody else could get hold of the pointer.
        unsafe {
            let Header { meta, key_len_and_depth, value_len, .. } = &*self.0;
            let meta = *meta;
            let (key_len, value_len) = ((key_len_and_depth & KEY_LEN_MASK) as usize, *value_len as usize);
            let mut rest = self.0.add(1).cast::<u8>().cast_const();
            let mut expire_at_ms = 0;
            if meta & META_EXPIRES != 0 {
                expire_at_ms = rest.cast::<u64>().read();
                rest = rest.add(8);
            }
            Entry {
                key: std::slice::from_raw_parts(rest, key_len),
                seq: meta >> SEQ_SHIFT,
                kind: kind_of(meta),
                expire_at_ms,
                value: std::slice::from_raw_parts(rest.add(key_len), value_len),
            }
        }
    }

    /// The record's place relative to `target` in the tree's order.
    ///
    /// # Safety
    /// As for [`Record::entry`].
    #[inline]
    pub(super) unsafe fn compare(self, target: &Target<'_>) -> Ordering {
        // SAFETY: the caller's promise.
        let entry = unsafe { self.entry() };
        entry.key.cmp(target.key).then_with(|| target.seq.cmp(&entry.seq))
    }
}

#[inline]
fn kind_of(meta: u64) -> Kind {
    match (meta & META_KIND) >> KIND_SHIFT {
        0 => Kind::Delete,
        1 => Kind::Put,
        2 => Kind::Head,
        _ => Kind::Cover,
    }
}

/// Key bytes that are compared as numbers before anything else is looked at.
pub(super) const FRONT_BYTES: usize = 24;
/// The first bytes of a key, as numbers that sort like them; missing bytes count as 0.
pub(super) type Front = [u64; FRONT_BYTES / 8];

/// What a search looks for.
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) seq: Seq,
    pub(super) front: Front,
}

impl<'a> Target<'a> {
    #[inline]
    pub(super) fn new(key: &'a [u8], seq: Seq) -> Self {
        Target { key, seq, front: [head(key, 0), head(key, 8), head(key, 16)] }
    }
}

/// Eight bytes of `key` from `skip` on, as a number that sorts like them; missing bytes count as 0.
#[inline]
pub(super) fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(chunk)
        }
    }
}
