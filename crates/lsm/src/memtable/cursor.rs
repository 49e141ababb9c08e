//! Walking a memtable.

use std::cmp::Ordering;
use std::sync::Arc;

use weir_io::Result;
use weir_model::engine::{Entry, Seq};

use super::Memtable;
use super::chain;
use super::leaf::{LEAF_RECORDS, Leaf};
use super::record::{Record, Target};
use crate::cursor::{Cursor, Step};

/// How many anchors ahead of the cursor are fetched into the processor's cache. For half as many, the newest version is
/// fetched, too.
const AHEAD: usize = 4;

/// A position in a memtable; see [`Memtable::cursor`] and [`Memtable::cursor_at`]. It copies the pointers of one leaf
/// at a time, so that it moves without looking at what the writer does. It does not see anchors that are inserted into
/// that leaf meanwhile.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// The copied leaf: `count` anchors, and the leaf behind it.
    anchors: [Record; LEAF_RECORDS],
    count: usize,
    next: Leaf,
    /// The anchor whose versions the cursor is among; `count` if it stands on none.
    at: usize,
    /// The version that it stands on, if on any.
    version: Record,
    /// If set, the cursor stands only on the newest version in each chain that is not newer than this, and skips a
    /// chain that has none. `None`: it stands on every version.
    newest_at: Option<Seq>,
}

// SAFETY: the records live in the memtable that the cursor keeps, which is Send + Sync.
unsafe impl Send for MemtableCursor {}

impl MemtableCursor {
    pub(super) fn new(memtable: &Arc<Memtable>, newest_at: Option<Seq>) -> Self {
        MemtableCursor {
            memtable: Arc::clone(memtable),
            anchors: [Record::NULL; LEAF_RECORDS],
            count: 0,
            next: Leaf::NULL,
            at: 0,
            version: Record::NULL,
            newest_at,
        }
    }

    /// Copies `leaf`, or nothing if it is null.
    fn copy(&mut self, leaf: Leaf) {
        (self.count, self.next) = (0, Leaf::NULL);
        if !leaf.is_null() {
            // SAFETY: a leaf of the memtable that `self` keeps.
            (self.count, self.next) = unsafe { leaf.copy(&mut self.anchors) };
            self.next.prefetch();
            self.anchors[..self.count.min(AHEAD)].iter().for_each(|anchor| anchor.prefetch());
        }
    }

    /// Copies the leaf where `target` belongs (see [`Memtable::look`]); returns the number of its anchors before
    /// `target`.
    fn copy_at(&mut self, target: &Target<'_>, at_most: Ordering) -> usize {
        loop {
            let (leaf, look) = self.memtable.look(target, at_most);
            super::leaf::dawdle();
            self.copy(leaf);
            // A leaf of the same length with the same neighbour is the one that was looked at.
            if (self.count, self.next) == (look.count, look.next) {
                return look.position;
            }
        }
    }

    fn stand_on_none(&mut self) {
        (self.at, self.version) = (self.count, Record::NULL);
    }

    /// Goes to the anchor at `at`, in the next leaf if this one has no more. Returns it, or null if there is none.
    fn go_to_anchor(&mut self, at: usize) -> Record {
        self.at = at;
        if at == self.count {
            let next = self.next;
            self.copy(next);
            self.at = 0;
            if self.count == 0 {
                self.stand_on_none();
                return Record::NULL;
            }
        }
        self.anchors[self.at]
    }

    /// Stands on the newest version of the anchor at `at`, or of the first one behind it that has one to stand on.
    fn stand_on_newest(&mut self, mut at: usize) {
        loop {
            let anchor = self.go_to_anchor(at);
            if anchor.is_null() {
                return;
            }
            // SAFETY: an anchor of the memtable that `self` keeps.
            self.version = unsafe {
                match self.newest_at {
                    None => chain::newest(anchor),
                    Some(seq) => chain::newest_at(anchor, seq),
                }
            };
            if !self.version.is_null() {
                return;
            }
            at = self.at + 1;
        }
    }

    /// Stands on the last version in front of `position`, which may be behind all anchors, among those that have been
    /// copied. `false` if there is none to stand on.
    fn stand_in_front(&mut self, position: usize) -> bool {
        for at in (0..position).rev() {
            let anchor = self.anchors[at];
            let version = match self.newest_at {
                None => anchor,
                // SAFETY: an anchor of the memtable that `self` keeps.
                Some(seq) => unsafe { chain::newest_at(anchor, seq) },
            };
            if !version.is_null() {
                (self.at, self.version) = (at, version);
                return true;
            }
        }
        false
    }

    /// Goes on in front of the copied leaf, which has an anchor.
    fn go_in_front_of_leaf(&mut self) -> Step {
        let first = self.anchors[0];
        // SAFETY: records of the memtable that `self` keeps.
        let (key, seq) = unsafe { (first.entry().key, chain::newest(first).seq()) };
        self.seek_before(key, seq)
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        // SAFETY: a record of the memtable that `self` keeps.
        (!self.version.is_null()).then(|| unsafe { self.version.entry() })
    }

    fn seek_first(&mut self) -> Step {
        let head = self.memtable.head;
        self.copy(head);
        self.stand_on_newest(0);
        Step::Ready
    }

    fn seek_last(&mut self) -> Step {
        let last = self.memtable.last();
        self.copy(last);
        // It may have been split since it was found.
        while !self.next.is_null() {
            let next = self.next;
            self.copy(next);
        }
        if self.count == 0 {
            self.stand_on_none();
        } else if !self.stand_in_front(self.count) {
            return self.go_in_front_of_leaf();
        }
        Step::Ready
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        let target = Target::new(key, seq);
        let at = self.copy_at(&target, Ordering::Equal);
        self.stand_on_newest(at);
        // SAFETY: a record of the memtable that `self` keeps; the anchor is not before the target.
        unsafe {
            if !self.version.is_null() && self.version.entry().key == key {
                self.version = chain::newest_at(self.anchors[self.at], seq.min(self.newest_at.unwrap_or(seq)));
            }
        }
        Step::Ready
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        let (mut key, mut seq) = (key, seq);
        loop {
            let position = self.copy_at(&Target::new(key, seq), Ordering::Less);
            // SAFETY: records of the memtable that `self` keeps. The next leaf begins at the target or behind it.
            unsafe {
                // Versions in front of the target may hang on the first anchor that is not in front of it.
                let behind = match self.anchors[..self.count].get(position) {
                    Some(&anchor) => anchor,
                    None if self.next.is_null() => Record::NULL,
                    None => self.next.low(),
                };
                if !behind.is_null() && behind.entry().key == key {
                    let above = match self.newest_at {
                        None => chain::oldest_above(behind, seq),
                        Some(at) => match chain::newest_at(behind, at) {
                            newest if !newest.is_null() && newest.seq() > seq => newest,
                            _ => Record::NULL,
                        },
                    };
                    if !above.is_null() {
                        let anchor = self.go_to_anchor(position);
                        debug_assert!(anchor == behind, "a leaf begins with the same record for ever");
                        self.version = above;
                        return Step::Ready;
                    }
                }
            }
            if self.stand_in_front(position) {
                return Step::Ready;
            }
            // Only the list's head can have no record before the target. In other leaves, the records before the target
            // are too new.
            if position == 0 {
                self.stand_on_none();
                return Step::Ready;
            }
            let first = self.anchors[0];
            // SAFETY: as above.
            (key, seq) = unsafe { (first.entry().key, chain::newest(first).seq()) };
        }
    }

    #[inline]
    fn next(&mut self) -> Step {
        debug_assert!(!self.version.is_null(), "next without an entry");
        let anchor = self.anchors[self.at];
        // SAFETY: records of the memtable that `self` keeps.
        unsafe {
            if self.newest_at.is_none() && self.version != anchor {
                self.version = chain::older(anchor, self.version);
                self.version.link().prefetch();
                return Step::Ready;
            }
            let anchors = &self.anchors[..self.count];
            if let Some(ahead) = anchors.get(self.at + 1 + AHEAD) {
                ahead.prefetch();
            }
            if let Some(ahead) = anchors.get(self.at + 1 + AHEAD / 2) {
                ahead.link().prefetch();
            }
        }
        self.stand_on_newest(self.at + 1);
        Step::Ready
    }

    fn prev(&mut self) -> Step {
        debug_assert!(!self.version.is_null(), "prev without an entry");
        let above = match self.newest_at {
            // SAFETY: records of the memtable that `self` keeps.
            None => unsafe { chain::oldest_above(self.anchors[self.at], self.version.seq()) },
            Some(_) => Record::NULL,
        };
        if !above.is_null() {
            self.version = above;
        } else if !self.stand_in_front(self.at) {
            return self.go_in_front_of_leaf();
        }
        Step::Ready
    }

    async fn load(&mut self) -> Result<Step> {
        Ok(Step::Ready)
    }
}
