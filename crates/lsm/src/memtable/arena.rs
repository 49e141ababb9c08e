//! A bump arena: chunks that never move, freed together.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The first chunk; each further one doubles, so that a small memtable stays small.
const CHUNK_BYTES_MIN: usize = 1 << 10;
/// Chunks stop growing here: at most this much is unused at the end of a large memtable.
const CHUNK_BYTES_MAX: usize = 256 << 10;

pub(super) struct Arena {
    /// Alignment of everything handed out, in bytes.
    align: usize,
    chunks: Vec<Chunk>,
    /// The free rest of the chunk in use: `free_bytes` bytes from `free`.
    free: *mut u8,
    free_bytes: usize,
    next_chunk_bytes: usize,
    /// Bytes taken from the system.
    allocated_bytes: usize,
}

struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena owns its chunks exclusively; `free` points into one of them.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) const fn new(align: usize) -> Self {
        Arena {
            align,
            chunks: Vec::new(),
            free: std::ptr::null_mut(),
            free_bytes: 0,
            next_chunk_bytes: CHUNK_BYTES_MIN,
            allocated_bytes: 0,
        }
    }

    /// `bytes` uninitialised bytes, aligned, and valid until the arena is dropped. The pointer may be used for all of
    /// them.
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(self.align);
        if bytes > self.free_bytes {
            // An allocation that would waste most of a chunk gets its own chunk, and the chunk in use stays in use.
            if bytes > self.next_chunk_bytes / 4 {
                return self.new_chunk(bytes);
            }
            self.free = self.new_chunk(self.next_chunk_bytes);
            self.free_bytes = self.next_chunk_bytes;
            self.next_chunk_bytes = (self.next_chunk_bytes * 2).min(CHUNK_BYTES_MAX);
        }
        let start = self.free;
        // SAFETY: `free_bytes >= bytes` bytes are left in the chunk at `free`, so the result is inside or one past its
        // end.
        self.free = unsafe { start.add(bytes) };
        self.free_bytes -= bytes;
        start
    }

    /// Bytes taken from the system so far.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }

    fn new_chunk(&mut self, bytes: usize) -> *mut u8 {
        let layout = Layout::from_size_align(bytes, self.align).expect("an entry fits the address space");
        // SAFETY: `bytes` is not 0: no allocation is empty, as records and leaves have headers.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        self.chunks.push(Chunk { start, layout });
        self.allocated_bytes += bytes;
        start.as_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: allocated in `new_chunk` with this layout, and freed only here.
            unsafe { dealloc(chunk.start.as_ptr(), chunk.layout) }
        }
    }
}
