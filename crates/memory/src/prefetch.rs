//! Prefetches a line of memory before it is needed.

#![allow(unsafe_code)] // std has the instruction only as an unsafe function

/// Starts loading the cache line of `cell`; does nothing on processors without such an instruction.
#[inline(always)]
pub fn prefetch<T>(cell: &T) {
    prefetch_at(std::ptr::from_ref(cell).cast());
}

/// Does the same for an address, from which nothing is read.
#[inline(always)]
pub(crate) fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could observe and never faults; SSE,
        // which contains it, is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
