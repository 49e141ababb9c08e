//! One entry of the skip list, as it lies in the arena.
//!
//! ```text
//!  next[height-1] … next[1]   8 bytes each: links of the upper levels, growing downwards from the header
//!  next[0]                    8 bytes   <- a Node points here
//!  meta                       8 bytes: seq << 2 | has_expire << 1 | is_put
//!  key length, value length   4 bytes each
//!  expire_at_ms               8 bytes, only if has_expire
//!  key, value
//! ```
//!
//! Everything a comparison needs (next[0], meta, lengths, the first 40 bytes of the key) is usually one cache line.
//!
//! Invariants that the unsafe code rests on: a node is complete before a link to it is stored (Release), links are followed with
//! Acquire, nothing but links changes afterwards, and nodes live as long as the arena.

use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicPtr};

use super::arena::{ALIGN, Arena};
use crate::entry::{Entry, Kind, Seq};

/// Levels of the tallest tower. With a branching of 4, 13 levels suit 67 million entries.
pub(super) const HEIGHT_MAX: usize = 13;

const META_PUT: u64 = 1;
const META_EXPIRES: u64 = 2;

#[repr(C)]
struct Header {
    next: AtomicPtr<Header>,
    meta: u64,
    key_len: u32,
    value_len: u32,
}

const HEADER_BYTES: usize = size_of::<Header>();
const LINK_BYTES: usize = size_of::<AtomicPtr<Header>>();

/// A pointer to a node, or null. Valid as long as the arena it was made in: the memtable pairs the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(*mut Header);

/// What a search looks for: the first eight bytes of the key are compared as one number.
pub(super) struct Target<'a> {
    key: &'a [u8],
    head: u64,
    seq: Seq,
}

impl<'a> Target<'a> {
    pub(super) fn new(key: &'a [u8], seq: Seq) -> Self {
        Target { key, head: head(key), seq }
    }
}

/// The first eight bytes as a number that sorts like them; missing bytes count as 0.
#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(chunk)
        }
    }
}

impl Node {
    pub(super) const NULL: Node = Node(std::ptr::null_mut());

    /// Copies `entry` into the arena as a node of `height` levels with null links. Also says how many bytes it takes.
    pub(super) fn new(arena: &mut Arena, height: usize, entry: &Entry<'_>) -> (Node, usize) {
        debug_assert!((1..=HEIGHT_MAX).contains(&height));
        let key_len = u32::try_from(entry.key.len()).expect("keys are at most 64 KiB");
        let value_len = u32::try_from(entry.value.len()).expect("values are at most 512 MiB");
        let expires = entry.expire_at_ms != 0;
        let upper_bytes = (height - 1) * LINK_BYTES;
        let expire_bytes = if expires { 8 } else { 0 };
        let bytes =
            (upper_bytes + HEADER_BYTES + expire_bytes + entry.key.len() + entry.value.len()).next_multiple_of(ALIGN);
        let start = arena.allocate(bytes);
        let meta = entry.seq << 2
            | if expires { META_EXPIRES } else { 0 }
            | if entry.kind == Kind::Put { META_PUT } else { 0 };
        // SAFETY: `start` is aligned to 8 and valid for `bytes` bytes, of which each part below writes its own share, in the order of
        // the layout above.
        unsafe {
            let header = start.add(upper_bytes).cast::<Header>();
            header.write(Header { next: AtomicPtr::new(std::ptr::null_mut()), meta, key_len, value_len });
            for level in 1..height {
                header.cast::<AtomicPtr<Header>>().sub(level).write(AtomicPtr::new(std::ptr::null_mut()));
            }
            let mut rest = header.add(1).cast::<u8>();
            if expires {
                rest.cast::<u64>().write(entry.expire_at_ms);
                rest = rest.add(8);
            }
            rest.copy_from_nonoverlapping(entry.key.as_ptr(), entry.key.len());
            rest.add(entry.key.len()).copy_from_nonoverlapping(entry.value.as_ptr(), entry.value.len());
            (Node(header), bytes)
        }
    }

    #[inline]
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The link of `level`. The node must be live, and have been reached on `level` (so that its tower is that tall).
    #[inline]
    unsafe fn link<'a>(self, level: usize) -> &'a AtomicPtr<Header> {
        // SAFETY: the caller vouches for the tower's height; links lie downwards from the header.
        unsafe { &*self.0.cast::<AtomicPtr<Header>>().sub(level) }
    }

    /// The next node on `level`.
    ///
    /// # Safety
    /// The node is live and has more than `level` levels.
    #[inline]
    pub(super) unsafe fn next(self, level: usize) -> Node {
        // SAFETY: the caller's promise. Acquire pairs with the Release of `set_next`: the node's content is visible with the link.
        Node(unsafe { self.link(level) }.load(atomic::Ordering::Acquire))
    }

    /// Links `next` behind this node on `level`, which makes it visible to readers.
    ///
    /// # Safety
    /// As for [`Node::next`]; only one thread stores links at a time.
    #[inline]
    pub(super) unsafe fn set_next(self, level: usize, next: Node) {
        // SAFETY: the caller's promise.
        unsafe { self.link(level) }.store(next.0, atomic::Ordering::Release);
    }

    /// Asks the processor to fetch the node's first cache line.
    #[inline]
    pub(super) fn prefetch(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(self.0.cast());
        }
    }

    /// The entry.
    ///
    /// # Safety
    /// The node is live, not null and not the list's head, and its arena outlives `'a`.
    #[inline]
    pub(super) unsafe fn entry<'a>(self) -> Entry<'a> {
        // SAFETY: the layout that `new` wrote; nothing but `next` changes afterwards, and `next` is not borrowed here.
        unsafe {
            let meta = (*self.0).meta;
            let (key_len, value_len) = ((*self.0).key_len as usize, (*self.0).value_len as usize);
            let mut rest = self.0.add(1).cast::<u8>().cast_const();
            let mut expire_at_ms = 0;
            if meta & META_EXPIRES != 0 {
                expire_at_ms = rest.cast::<u64>().read();
                rest = rest.add(8);
            }
            Entry {
                key: std::slice::from_raw_parts(rest, key_len),
                seq: meta >> 2,
                kind: if meta & META_PUT != 0 { Kind::Put } else { Kind::Delete },
                expire_at_ms,
                value: std::slice::from_raw_parts(rest.add(key_len), value_len),
            }
        }
    }

    /// The node's place relative to `target` in the tree's order.
    ///
    /// # Safety
    /// As for [`Node::entry`].
    #[inline]
    pub(super) unsafe fn compare(self, target: &Target<'_>) -> Ordering {
        // SAFETY: the caller's promise.
        let entry = unsafe { self.entry() };
        // Missing bytes count as 0 in a head, so equal heads say nothing about the lengths; unequal ones decide.
        head(entry.key)
            .cmp(&target.head)
            .then_with(|| entry.key.cmp(target.key))
            .then_with(|| target.seq.cmp(&entry.seq))
    }
}
