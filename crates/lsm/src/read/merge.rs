//! Many sorted sources as one: a heap of cursors.
//!
//! 1. A seek moves every source; those that miss a block are loaded *together*, so that a scan over seven levels waits
//!    for one device latency and not for seven.
//! 2. A step moves only the source on top, then lets it sink to its place. While one source holds the next entries, as
//!    in most merges, that is two comparisons per entry.
//! 3. A merge goes one way: the seek that starts it says which. Turning round would need every source to be sought
//!    again.

use std::cmp::Ordering;

use futures_util::future::try_join_all;
use weir_io::Result;
use weir_model::engine::{Entry, Seq, compare};

use crate::cursor::{Cursor, Step};

/// A cursor over the union of `sources`. Sources must not share a (key, sequence number) pair.
pub struct MergeCursor<C> {
    sources: Vec<C>,
    /// Sources that stand on an entry, as a binary heap: the next one to give out is first.
    heap: Vec<usize>,
    forward: bool,
    /// Sources whose move was interrupted.
    pending: Vec<usize>,
}

impl<C: Cursor> MergeCursor<C> {
    /// A merge of `sources`, not yet positioned.
    pub fn new(sources: Vec<C>) -> Self {
        Self { heap: Vec::with_capacity(sources.len()), sources, forward: true, pending: Vec::new() }
    }

    /// All sources.
    pub fn sources_mut(&mut self) -> &mut [C] {
        &mut self.sources
    }

    /// The only source that stands on an entry, if there is no other: the merge has nothing left but the entries of
    /// this one. A caller that moves it, in the direction of the merge, must call [`MergeCursor::moved_only_source`].
    pub fn only_source(&mut self) -> Option<&mut C> {
        match self.heap[..] {
            [only] if self.pending.is_empty() => Some(&mut self.sources[only]),
            _ => None,
        }
    }

    /// Must be called after the [only source](MergeCursor::only_source) was moved. The move must not have missed a
    /// block.
    pub fn moved_only_source(&mut self) {
        self.settle_top();
    }

    fn start(&mut self, forward: bool, mut seek: impl FnMut(&mut C) -> Step) -> Step {
        self.forward = forward;
        self.heap.clear();
        self.pending.clear();
        for (index, source) in self.sources.iter_mut().enumerate() {
            if seek(source) == Step::Load {
                self.pending.push(index);
            }
        }
        self.rebuild_if_loaded()
    }

    fn rebuild_if_loaded(&mut self) -> Step {
        if !self.pending.is_empty() {
            return Step::Load;
        }
        self.heap.clear();
        self.heap.extend((0..self.sources.len()).filter(|&index| self.sources[index].entry().is_some()));
        for place in (0..self.heap.len() / 2).rev() {
            self.sink(place);
        }
        Step::Ready
    }

    fn advance(&mut self, forward: bool) -> Step {
        assert_eq!(self.forward, forward, "a merge goes one way");
        let top = self.heap[0];
        let source = &mut self.sources[top];
        let step = if forward { source.next() } else { source.prev() };
        if step == Step::Load {
            self.pending.push(top);
            return Step::Load;
        }
        self.settle_top();
        Step::Ready
    }

    /// Restores the heap after its top source has moved.
    fn settle_top(&mut self) {
        if self.sources[self.heap[0]].entry().is_none() {
            self.heap.swap_remove(0);
        }
        self.sink(0);
    }

    /// Whether the source at heap place `a` goes before the one at `b`.
    fn goes_before(&self, a: usize, b: usize) -> bool {
        let pair = |place: usize| self.sources[self.heap[place]].entry().map(|entry| (entry.key, entry.seq));
        let (Some(a), Some(b)) = (pair(a), pair(b)) else { return false };
        compare(a, b) == if self.forward { Ordering::Less } else { Ordering::Greater }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.goes_before(right, left) { right } else { left };
            if !self.goes_before(child, place) {
                return;
            }
            self.heap.swap(place, child);
            place = child;
        }
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources[*self.heap.first()?].entry()
    }

    fn seek_first(&mut self) -> Step {
        self.start(true, C::seek_first)
    }

    fn seek_last(&mut self) -> Step {
        self.start(false, C::seek_last)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        self.start(true, |source| source.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        self.start(false, |source| source.seek_before(key, seq))
    }

    fn next(&mut self) -> Step {
        self.advance(true)
    }

    fn prev(&mut self) -> Step {
        self.advance(false)
    }

    async fn load(&mut self) -> Result<Step> {
        // An empty heap means that a seek was interrupted; otherwise a step of the top source was.
        let seeking = self.heap.is_empty();
        let pending = std::mem::take(&mut self.pending);
        if let [only] = pending[..] {
            load_fully(&mut self.sources[only]).await?;
        } else {
            let wanted = self.sources.iter_mut().enumerate().filter(|(index, _)| pending.contains(index));
            try_join_all(wanted.map(|(_, source)| load_fully(source))).await?;
        }
        if seeking {
            return Ok(self.rebuild_if_loaded());
        }
        self.settle_top();
        Ok(Step::Ready)
    }
}

async fn load_fully<C: Cursor>(source: &mut C) -> Result<()> {
    while source.load().await? == Step::Load {}
    Ok(())
}
