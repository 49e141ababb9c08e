//! The memtable: a skip list in an arena.
//!
//! 1. Entries are copied into a bump arena, key and value inline; chunks never move, and go all at once with the memtable.
//! 2. One writer at a time links new nodes in, bottom level first; readers follow links without locks, and never wait.
//! 3. Nothing is removed or overwritten: a newer version of a key is one more entry in front of the older ones.
//!
//! A locked B-tree is as fast from one thread, but makes readers wait for the writer, and its memory is neither known exactly nor
//! freed in one step; both matter more here, because a tenant's share is counted in these bytes.

mod arena;
mod cursor;
mod node;
#[cfg(test)]
mod tests;

use std::cmp::Ordering::{Equal, Less};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_io::Rng;

use crate::entry::{Entry, Kind, SEQ_MAX, Seq};
use crate::value::{Found, Value};
use arena::Arena;
pub use cursor::MemtableCursor;
use node::{HEIGHT_MAX, Node, Target};

/// A sorted set of entries in memory. Insert-only; shared by one writer and any number of readers.
pub struct Memtable {
    /// A node without an entry, with links on all levels.
    head: Node,
    /// Levels in use: a search starts at the top one. A stale value costs steps, never an answer.
    height: AtomicUsize,
    /// Bytes and number of entries, for `bytes` and `len`.
    used_bytes: AtomicUsize,
    entries: AtomicUsize,
    writer: Mutex<Writer>,
}

/// What only the inserting thread touches.
struct Writer {
    arena: Arena,
    /// The last node on each level (the head where there is none): inserts in ascending order need no search.
    tail: [Node; HEIGHT_MAX],
    /// Draws tower heights. A fixed seed: the same inserts build the same list.
    rng: Rng,
}

// SAFETY: nodes are only changed under the writer's lock, through atomics, and live in the arena that the memtable owns.
unsafe impl Send for Memtable {}
// SAFETY: as above; readers only follow links (Acquire) to nodes that were complete when linked (Release).
unsafe impl Sync for Memtable {}

impl Memtable {
    /// An empty memtable; takes about 1 KiB.
    pub fn new() -> Arc<Self> {
        let mut arena = Arena::new();
        let nothing = Entry { key: &[], seq: 0, kind: Kind::Delete, expire_at_ms: 0, value: &[] };
        let (head, bytes) = Node::new(&mut arena, HEIGHT_MAX, &nothing);
        Arc::new(Memtable {
            head,
            height: AtomicUsize::new(1),
            used_bytes: AtomicUsize::new(bytes),
            entries: AtomicUsize::new(0),
            writer: Mutex::new(Writer { arena, tail: [head; HEIGHT_MAX], rng: Rng::new(0x5717) }),
        })
    }

    /// Adds an entry. It is visible to readers when the call returns; a reader that must not see it yet asks for an older sequence number.
    ///
    /// # Panics
    /// If the same (key, seq) is in the memtable already.
    pub fn insert(&self, entry: Entry<'_>) {
        let mut writer = self.writer.lock();
        let height = writer.draw_height();
        let (node, bytes) = Node::new(&mut writer.arena, height, &entry);
        let mut before = [self.head; HEIGHT_MAX];
        let target = Target::new(entry.key, entry.seq);
        let is_last = writer.tail[0] == self.head || {
            // SAFETY: a node of this list, not the head.
            unsafe { writer.tail[0].compare(&target) == Less }
        };
        if is_last {
            before = writer.tail;
        } else {
            let after = self.search(&target, Some(&mut before));
            // SAFETY: a node of this list, not the head.
            let is_new = after.is_null() || unsafe { after.compare(&target) } != Equal;
            assert!(is_new, "sequence number {} is used twice for one key", entry.seq);
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.store(height, Ordering::Relaxed);
        }
        for (level, &previous) in before.iter().enumerate().take(height) {
            // SAFETY: `previous` was reached on `level`, or is the head or a tail of that level; `node` has `height` levels. The
            // writer's lock makes this the only thread that stores links.
            unsafe {
                let next = previous.next(level);
                node.set_next(level, next);
                previous.set_next(level, node);
                if next.is_null() {
                    writer.tail[level] = node;
                }
            }
        }
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// The newest version of `key` with a sequence number of at most `at`; it may be a tombstone.
    pub fn get(self: &Arc<Self>, key: &[u8], at: Seq) -> Option<Found> {
        let node = self.search(&Target::new(key, at), None);
        if node.is_null() {
            return None;
        }
        // SAFETY: a node of this list; the entry is not used beyond this call except through `Value`, which keeps the memtable.
        let entry = unsafe { node.entry() };
        (entry.key == key).then(|| Found {
            seq: entry.seq,
            kind: entry.kind,
            expire_at_ms: entry.expire_at_ms,
            value: Value::in_memtable(self, entry.value),
        })
    }

    /// A cursor over all entries, also those that are inserted while it moves. Never answers `Load`.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self)
    }

    /// Bytes that the entries take, with their share of the index.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes taken from the system: [`Memtable::bytes`] and the free rest of the last chunks. Waits for a running insert.
    pub fn allocated_bytes(&self) -> usize {
        self.writer.lock().arena.allocated_bytes()
    }

    /// Number of entries (versions, not keys).
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first node at or after `target`, or null. `before`, if given, receives the last node before it on each level in use.
    #[inline]
    fn search(&self, target: &Target<'_>, before: Option<&mut [Node; HEIGHT_MAX]>) -> Node {
        let mut before = before;
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        let mut node = self.head;
        // The node that ended the level above: known not to be before the target, so never compared again.
        let mut bound = Node::NULL;
        loop {
            // SAFETY: `node` is the head or was reached on a level of at least `level`; nodes live as long as `self`.
            let next = unsafe { node.next(level) };
            if level > 0 {
                // Where the search goes if `next` turns out too far. Both fetches overlap; without it they would add up.
                // SAFETY: as above.
                unsafe { node.next(level - 1) }.prefetch();
            }
            // SAFETY: `next` is a node of this list.
            if next != bound && !next.is_null() && unsafe { next.compare(target) } == Less {
                node = next;
                continue;
            }
            bound = next;
            if let Some(before) = before.as_deref_mut() {
                before[level] = node;
            }
            if level == 0 {
                return next;
            }
            level -= 1;
        }
    }

    /// The last node before `target`, or the head.
    fn search_before(&self, target: &Target<'_>) -> Node {
        let mut before = [self.head; HEIGHT_MAX];
        self.search(target, Some(&mut before));
        before[0]
    }

    /// The last node, or the head.
    fn last(&self) -> Node {
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: as in `search`.
                let next = unsafe { node.next(level) };
                if next.is_null() {
                    break;
                }
                node = next;
            }
        }
        node
    }
}

impl Writer {
    /// 1 with probability 3/4, 2 with 3/16, and so on.
    fn draw_height(&mut self) -> usize {
        let zeros = self.rng.next_u64().trailing_zeros() as usize;
        (1 + zeros / 2).min(HEIGHT_MAX)
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable").field("entries", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

const _: () = assert!(SEQ_MAX < 1 << 62, "a sequence number and two flags share 64 bits");
