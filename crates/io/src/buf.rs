//! Page-aligned buffers for direct I/O.
//!
//! Buffers are recycled through a small pool per thread, because a fresh 256 KiB allocation costs 64 page faults.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The unit of direct I/O, in bytes: offsets, lengths and addresses are multiples of it.
pub const PAGE: usize = 4096;

/// Size classes kept by the pool: 4 KiB << 0..=8, that is up to 1 MiB. Larger buffers are not pooled.
const POOL_CLASSES: usize = 9;
/// Most bytes a thread keeps in the pool, per class.
const POOL_CLASS_BYTES_MAX: usize = 2 << 20;

/// A byte buffer whose start and capacity are multiples of [`PAGE`]. Dereferences to its `len` valid bytes.
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    /// Valid bytes: all of them have been initialised. Invariant: `len <= capacity`.
    len: usize,
    /// A multiple of `PAGE`; 0 means nothing is allocated.
    capacity: usize,
}

// SAFETY: the buffer owns its allocation exclusively, like a Vec<u8>.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuf {}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { classes: [const { Vec::new() }; POOL_CLASSES] }) };
}

struct Pool {
    classes: [Vec<NonNull<u8>>; POOL_CLASSES],
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, pointers) in self.classes.iter_mut().enumerate() {
            for pointer in pointers.drain(..) {
                // SAFETY: pooled pointers were allocated by `allocate` with exactly this class's layout.
                unsafe { dealloc(pointer.as_ptr(), layout(PAGE << class)) }
            }
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, PAGE).expect("capacity fits an isize")
}

/// The size class of `capacity` in the pool; `None` if buffers of this capacity are not pooled.
fn class_of(capacity: usize) -> Option<usize> {
    let class = (capacity / PAGE).trailing_zeros() as usize;
    (capacity.is_power_of_two() && class < POOL_CLASSES).then_some(class)
}

fn allocate(capacity: usize) -> NonNull<u8> {
    // A thread that is ending has no pool any more.
    let pooled = class_of(capacity)
        .and_then(|class| POOL.try_with(|pool| pool.borrow_mut().classes[class].pop()).unwrap_or_default());
    pooled.unwrap_or_else(|| {
        let layout = layout(capacity);
        // SAFETY: the layout has a non-zero size: callers never allocate a capacity of 0.
        let pointer = unsafe { alloc(layout) };
        NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(layout))
    })
}

impl AlignedBuf {
    /// An empty buffer that allocates nothing.
    pub const fn new() -> Self {
        Self { ptr: NonNull::dangling(), len: 0, capacity: 0 }
    }

    /// An empty buffer for at least `capacity` bytes. Up to 1 MiB the capacity is a power of two.
    pub fn with_capacity(capacity: usize) -> Self {
        if capacity == 0 {
            return Self::new();
        }
        let pages = capacity.div_ceil(PAGE);
        let pages = if pages <= 1 << (POOL_CLASSES - 1) { pages.next_power_of_two() } else { pages };
        let capacity = pages * PAGE;
        Self { ptr: allocate(capacity), len: 0, capacity }
    }

    /// A buffer of `len` zero bytes, ready to be read into.
    pub fn with_len(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.resize(len, 0);
        buf
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }

    /// Bytes the buffer can hold without a new allocation; a multiple of [`PAGE`].
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the content, keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the length `len`, filling new bytes with `value`.
    pub fn resize(&mut self, len: usize, value: u8) {
        if len > self.len {
            self.reserve(len - self.len);
            // SAFETY: reserve made room for `len` bytes, and the range [self.len, len) is ours.
            unsafe { self.ptr.as_ptr().add(self.len).write_bytes(value, len - self.len) }
        }
        self.len = len;
    }

    /// Makes room for `additional` more bytes; grows at least twofold.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = self.len.checked_add(additional).expect("a buffer fits the address space");
        if wanted <= self.capacity {
            return;
        }
        let mut grown = Self::with_capacity(wanted.max(self.capacity * 2));
        grown.extend_from_slice(self);
        *self = grown;
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: reserve made room for `bytes.len()` more bytes; `bytes` cannot overlap an exclusively owned buffer.
        unsafe { self.ptr.as_ptr().add(self.len).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        self.len += bytes.len();
    }

    /// Appends zeros up to the next multiple of [`PAGE`]; returns how many bytes were added.
    pub fn pad_to_page(&mut self) -> usize {
        let padding = self.len.next_multiple_of(PAGE) - self.len;
        self.resize(self.len + padding, 0);
        padding
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        if let Some(class) = class_of(self.capacity) {
            // A thread that is ending has no pool any more: then the memory goes back to the allocator.
            let kept = POOL.try_with(|pool| {
                let pointers = &mut pool.borrow_mut().classes[class];
                let room = pointers.len() < (POOL_CLASS_BYTES_MAX / (PAGE << class)).max(1);
                if room {
                    pointers.push(self.ptr);
                }
                room
            });
            if kept.unwrap_or(false) {
                return;
            }
        }
        // SAFETY: allocated by `allocate` with this layout, and not pooled.
        unsafe { dealloc(self.ptr.as_ptr(), layout(self.capacity)) }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised (invariant of `len`).
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_pads_and_keeps_its_bytes_aligned() {
        let mut buf = AlignedBuf::copy_of(&[7; 100]);
        buf.extend_from_slice(&[8; PAGE]);
        assert_eq!(buf.pad_to_page(), 2 * PAGE - (PAGE + 100));
        assert_eq!(buf.len(), 2 * PAGE);
        assert_eq!(buf.as_ptr() as usize % PAGE, 0);
        assert!(buf[..100].iter().all(|&b| b == 7) && buf[100..PAGE + 100].iter().all(|&b| b == 8));
        assert!(buf[PAGE + 100..].iter().all(|&b| b == 0));
    }

    #[test]
    fn a_recycled_buffer_starts_empty_and_zeroed() {
        drop(AlignedBuf::copy_of(&[9; PAGE]));
        let buf = AlignedBuf::with_len(PAGE);
        assert!(buf.iter().all(|&b| b == 0));
    }
}
