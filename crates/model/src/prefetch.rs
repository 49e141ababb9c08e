//! Tells the processor early which memory will be needed: a look-up then waits for several cache lines at once, not for
//! one after the other.

/// Bytes of a cache line, the unit of fetching.
pub const LINE_BYTES: usize = 64;

/// Asks for the cache line at `address`, which need not be valid.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
