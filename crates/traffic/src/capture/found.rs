//! Result of finding a packet, for both formats.

use super::buffer::Buffer;
use super::{LinkType, Problem};
use std::io::Read;
use std::ops::Range;

/// Location of a packet in the buffer.
#[derive(Debug)]
pub(super) struct Found {
    /// Picoseconds since 1970; `None` if the format gives no time.
    pub(super) picos: Option<i128>,
    pub(super) original_length: u32,
    pub(super) link_type: LinkType,
    pub(super) interface: u32,
    pub(super) data: Range<usize>,
    /// Length in bytes of the whole record or block.
    pub(super) block: usize,
}

/// Fails with a reason if the stream ends before `wanted` bytes.
pub(super) fn need<R: Read>(
    buffer: &mut Buffer<R>,
    wanted: usize,
    what: &'static str,
) -> Result<(), Problem> {
    if buffer.fill(wanted).map_err(Problem::Io)? {
        return Ok(());
    }
    let left = buffer.data().len() as u64;
    Err(Problem::Truncated { what, wanted: wanted as u64, left })
}
