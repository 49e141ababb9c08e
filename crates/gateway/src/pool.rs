//! Buffers that the connections of one thread share in turn. The same few buffers stay in the processor's cache, and
//! ten thousand idle connections hold none.

use std::cell::RefCell;

/// Capacity of a pooled buffer.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;

/// Buffers kept per thread.
const KEPT_MAX: usize = 64;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer of at least [`BUFFER_BYTES`].
pub(crate) fn take() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Gives a buffer back. One that has grown, or that never was of this size, goes to the allocator.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if (BUFFER_BYTES..=4 * BUFFER_BYTES).contains(&buffer.capacity()) {
        buffer.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < KEPT_MAX {
                pool.push(buffer);
            }
        });
    }
}
