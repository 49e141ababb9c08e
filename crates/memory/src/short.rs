//! The bytes of a value: a few are stored in place, and cost neither an allocation nor a look elsewhere.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr;

/// More bytes than this are stored elsewhere.
pub(crate) const SHORT_BYTES_MAX: usize = 12;
/// Where in the place the pointer to them is stored then.
const POINTER_AT: usize = SHORT_BYTES_MAX - size_of::<*mut u8>();

/// The bytes of a value. They take as much space as a pointer and a length.
#[repr(C, align(8))]
pub(crate) struct Bytes {
    len: u32,
    /// The first `len` are the bytes; where there are more than fit, the last ones are a pointer, which is aligned.
    place: [MaybeUninit<u8>; SHORT_BYTES_MAX],
}

// SAFETY: they are owned, as those of a box are.
unsafe impl Send for Bytes {}
// SAFETY: nothing changes them.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Copies `bytes`.
    ///
    /// # Panics
    /// If they are 4 GiB or more, which no value is.
    pub fn new(bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).expect("a value is shorter");
        let mut place = [MaybeUninit::uninit(); SHORT_BYTES_MAX];
        if bytes.len() > SHORT_BYTES_MAX {
            let pointer = Box::into_raw(Box::<[u8]>::from(bytes)).cast::<u8>();
            // SAFETY: a pointer fits behind `POINTER_AT`.
            unsafe { place.as_mut_ptr().add(POINTER_AT).cast::<*mut u8>().write_unaligned(pointer) };
        } else {
            // SAFETY: they are no more than the place has, and lie elsewhere.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_mut_ptr().cast(), bytes.len()) };
        }
        Self { len, place }
    }

    /// Memory that `len` bytes take besides their place.
    pub const fn heap_bytes(len: usize) -> usize {
        if len > SHORT_BYTES_MAX { len.next_multiple_of(8) } else { 0 }
    }

    /// The pointer to the bytes, if they are stored elsewhere.
    #[inline]
    fn elsewhere(&self) -> Option<*mut u8> {
        // SAFETY: more bytes than fit are where the pointer says that `new` has written there.
        let pointer = || unsafe { self.place.as_ptr().add(POINTER_AT).cast::<*mut u8>().read_unaligned() };
        (self.len as usize > SHORT_BYTES_MAX).then(pointer)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.elsewhere().map_or(self.place.as_ptr().cast(), <*mut u8>::cast_const);
        // SAFETY: `new` has written so many bytes there, and nothing changes them.
        unsafe { std::slice::from_raw_parts(start, self.len as usize) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(pointer) = self.elsewhere() {
            // SAFETY: pointer and length are those of the box that `new` has taken apart.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(pointer, self.len as usize)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_kept_wherever_they_move() {
        assert_eq!(size_of::<Bytes>(), size_of::<Box<[u8]>>());
        let all: Vec<(Vec<u8>, Bytes)> = (0..100_u8)
            .map(|len| {
                let bytes: Vec<u8> = (0..len).collect();
                let kept = Bytes::new(&bytes);
                (bytes, kept)
            })
            .collect();
        for (bytes, kept) in all {
            let moved = Box::new(kept);
            assert_eq!(moved[..], bytes);
            let is_here = moved.as_ptr().addr().wrapping_sub((&raw const *moved).addr()) < size_of::<Bytes>();
            assert_eq!(is_here, bytes.len() <= SHORT_BYTES_MAX);
            assert_eq!(Bytes::heap_bytes(bytes.len()) > 0, !is_here);
        }
    }
}
