//! Asking the processor for a line of memory before it is needed.

/// Starts loading the cache line at `offset` of `bytes` into all cache levels; outside of
/// `bytes`, or on a processor without such an instruction, nothing happens.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(offset) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could observe and never
        // faults; SSE, which has it, is part of every x86-64 processor.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, offset);
}
