//! Walking a memtable.

use std::sync::Arc;

use weir_io::Result;

use super::{Memtable, Node, Target};
use crate::cursor::{Cursor, Step};
use crate::entry::{Entry, Seq};

/// A position in a memtable; see [`Memtable::cursor`]. Going back costs a search, as the list is linked forward only.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// Null when not on an entry; never the head.
    node: Node,
}

// SAFETY: the node lives in the memtable that the cursor keeps, which is Send + Sync.
unsafe impl Send for MemtableCursor {}

impl MemtableCursor {
    pub(super) fn new(memtable: &Arc<Memtable>) -> Self {
        MemtableCursor { memtable: Arc::clone(memtable), node: Node::NULL }
    }

    fn stand_on(&mut self, node: Node) -> Step {
        self.node = if node == self.memtable.head { Node::NULL } else { node };
        Step::Ready
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if self.node.is_null() {
            return None;
        }
        // SAFETY: a node of the memtable that `self` keeps alive.
        Some(unsafe { self.node.entry() })
    }

    fn seek_first(&mut self) -> Step {
        // SAFETY: the head has all levels.
        let first = unsafe { self.memtable.head.next(0) };
        self.stand_on(first)
    }

    fn seek_last(&mut self) -> Step {
        let last = self.memtable.last();
        self.stand_on(last)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        let node = self.memtable.search(&Target::new(key, seq), None);
        self.stand_on(node)
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        let node = self.memtable.search_before(&Target::new(key, seq));
        self.stand_on(node)
    }

    #[inline]
    fn next(&mut self) -> Step {
        debug_assert!(!self.node.is_null(), "next without an entry");
        // SAFETY: a live node; every node has level 0.
        let next = unsafe { self.node.next(0) };
        if !next.is_null() {
            // SAFETY: a live node.
            unsafe { next.next(0) }.prefetch();
        }
        self.node = next;
        Step::Ready
    }

    fn prev(&mut self) -> Step {
        let Some(entry) = self.entry() else {
            debug_assert!(false, "prev without an entry");
            return Step::Ready;
        };
        let node = self.memtable.search_before(&Target::new(entry.key, entry.seq));
        self.stand_on(node)
    }

    async fn load(&mut self) -> Result<Step> {
        Ok(Step::Ready)
    }
}
