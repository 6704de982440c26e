//! Asking the processor for the line of a frame before it is needed.

use wattline_memory::prefetch as prefetch_cell;

/// Starts loading the cache line at `offset` of `bytes` into all cache levels; outside of
/// `bytes`, or on a processor without such an instruction, nothing happens.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], offset: usize) {
    if let Some(byte) = bytes.get(offset) {
        prefetch_cell(byte);
    }
}
