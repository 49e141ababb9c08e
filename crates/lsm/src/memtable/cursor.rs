//! Walking a memtable.

use std::cmp::Ordering;
use std::sync::Arc;

use weir_io::Result;
use weir_model::engine::{Entry, Seq};

use super::Memtable;
use super::leaf::{LEAF_RECORDS, Leaf};
use super::record::{Record, Target};
use crate::cursor::{Cursor, Step};

/// How many records ahead of the cursor are fetched into the processor's cache.
const AHEAD: usize = 4;

/// A position in a memtable; see [`Memtable::cursor`]. It copies the pointers of one leaf at a time, so that it moves
/// without a look at what the writer is doing: what is inserted into that leaf meanwhile, it does not see.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// The copied leaf: `count` records, and the leaf behind it.
    records: [Record; LEAF_RECORDS],
    count: usize,
    next: Leaf,
    /// The record that the cursor stands on; `count` if on none.
    at: usize,
}

// SAFETY: the records live in the memtable that the cursor keeps, which is Send + Sync.
unsafe impl Send for MemtableCursor {}

impl MemtableCursor {
    pub(super) fn new(memtable: &Arc<Memtable>) -> Self {
        MemtableCursor {
            memtable: Arc::clone(memtable),
            records: [Record::NULL; LEAF_RECORDS],
            count: 0,
            next: Leaf::NULL,
            at: 0,
        }
    }

    /// Copies `leaf`, or nothing if it is null, and stands on its first record.
    fn enter(&mut self, leaf: Leaf) {
        (self.count, self.next, self.at) = (0, Leaf::NULL, 0);
        if !leaf.is_null() {
            // SAFETY: a leaf of the memtable that `self` keeps.
            (self.count, self.next) = unsafe { leaf.copy(&mut self.records) };
            self.next.prefetch();
            self.records[..self.count.min(AHEAD)].iter().for_each(|record| record.prefetch());
        }
    }

    /// Copies the leaf where `target` belongs (see [`Memtable::look`]); returns the number of its records before
    /// `target`.
    fn enter_at(&mut self, target: &Target<'_>, at_most: Ordering) -> usize {
        loop {
            let (leaf, look) = self.memtable.look(target, at_most);
            super::leaf::dawdle();
            self.enter(leaf);
            // A leaf of the same length with the same neighbour is the one that was looked at.
            if (self.count, self.next) == (look.count, look.next) {
                return look.position;
            }
        }
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if self.at >= self.count {
            return None;
        }
        // SAFETY: a record of the memtable that `self` keeps.
        Some(unsafe { self.records[self.at].entry() })
    }

    fn seek_first(&mut self) -> Step {
        let head = self.memtable.head;
        self.enter(head);
        Step::Ready
    }

    fn seek_last(&mut self) -> Step {
        let last = self.memtable.last();
        self.enter(last);
        // It may have been split since it was found.
        while !self.next.is_null() {
            let next = self.next;
            self.enter(next);
        }
        self.at = self.count.saturating_sub(1);
        Step::Ready
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        let target = Target::new(key, seq);
        self.at = self.enter_at(&target, Ordering::Equal);
        if self.at == self.count {
            let next = self.next;
            self.enter(next);
        }
        Step::Ready
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        let target = Target::new(key, seq);
        // Only the list's head can have no record before the target.
        let position = self.enter_at(&target, Ordering::Less);
        self.at = position.checked_sub(1).unwrap_or(self.count);
        Step::Ready
    }

    #[inline]
    fn next(&mut self) -> Step {
        debug_assert!(self.at < self.count, "next without an entry");
        self.at += 1;
        if let Some(ahead) = self.records[..self.count].get(self.at + AHEAD) {
            ahead.prefetch();
        }
        if self.at == self.count {
            let next = self.next;
            self.enter(next);
        }
        Step::Ready
    }

    fn prev(&mut self) -> Step {
        debug_assert!(self.at < self.count, "prev without an entry");
        if self.at > 0 {
            self.at -= 1;
        } else if let Some(first) = self.records[..self.count].first() {
            // SAFETY: a record of the memtable that `self` keeps.
            let first = unsafe { first.entry() };
            return self.seek_before(first.key, first.seq);
        }
        Step::Ready
    }

    async fn load(&mut self) -> Result<Step> {
        Ok(Step::Ready)
    }
}
