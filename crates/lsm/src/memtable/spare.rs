//! Chunks of memtables that are gone, for the next ones.
//!
//! Given back to the allocator, their pages go back to the kernel, and the next memtable's first writes pay for fresh ones: zeroing a huge page
//! takes milliseconds where the machine is virtual, and memtables that were filled alike are full at the same moment. Measured on two
//! processors with 16 of them: writes that waited 25 ms for nothing else. So the process keeps what it has touched, up to a bound. It is the
//! process's as the allocator is: a chunk has no owner while nobody uses it.

use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;

use parking_lot::Mutex;

/// Bytes of every chunk here.
pub(super) const BYTES: usize = 256 << 10;
/// Chunks kept at most: 64 MiB for leaves, and as much for records.
const KEPT_MAX: usize = 256;

/// Unused chunks of one alignment.
pub(super) struct Spare {
    layout: Layout,
    chunks: Mutex<Vec<Chunk>>,
}

struct Chunk(NonNull<u8>);

// SAFETY: whoever holds it is its only owner.
unsafe impl Send for Chunk {}

impl Spare {
    /// None yet. `align` is a power of two.
    pub(super) const fn new(align: usize) -> Self {
        let Ok(layout) = Layout::from_size_align(BYTES, align) else { panic!("a power of two") };
        Self { layout, chunks: Mutex::new(Vec::new()) }
    }

    /// What every chunk here was allocated with.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// One that was used before, as it was left; the caller owns it.
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        self.chunks.lock().pop().map(|chunk| chunk.0)
    }

    /// # Safety
    ///
    /// `start` was allocated with [`Spare::layout`], and nobody uses it any more.
    pub(super) unsafe fn give(&self, start: NonNull<u8>) {
        let mut chunks = self.chunks.lock();
        if chunks.len() < KEPT_MAX {
            chunks.push(Chunk(start));
            return;
        }
        drop(chunks);
        // SAFETY: the caller's.
        unsafe { dealloc(start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::alloc;

    use super::*;

    #[test]
    fn what_was_given_is_taken_again_and_no_more_than_the_bound_is_kept() {
        let spare = Spare::new(64);
        assert!(spare.take().is_none());
        for _ in 0..KEPT_MAX + 3 {
            // SAFETY: the layout is not empty.
            let chunk = NonNull::new(unsafe { alloc(spare.layout()) }).expect("memory");
            // SAFETY: just allocated.
            unsafe { spare.give(chunk) };
        }
        let mut taken = Vec::new();
        while let Some(chunk) = spare.take() {
            taken.push(chunk);
        }
        assert_eq!(taken.len(), KEPT_MAX);
        // SAFETY: allocated with the layout, and nobody has them.
        taken.into_iter().for_each(|chunk| unsafe { dealloc(chunk.as_ptr(), spare.layout()) });
    }
}
