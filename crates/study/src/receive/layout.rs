//! Memory layout of packets and their metadata: buffers, SKBs, page structures and slabs.

use super::cache::{LINE_BYTES, Line};
use super::data::{BUFFER_LINES, Data, SHARED_INFO_LINE, SLAB_LINES};
use super::prefetch::PAGE_LINES;
use serde::{Deserialize, Serialize};

/// Offset of the frame in its buffer: `NET_SKB_PAD` and `NET_IP_ALIGN`.
const FRAME_AT: u32 = 16 + 2;
/// Offset of the payload: Ethernet, IPv4 and TCP headers come first.
pub(super) const PAYLOAD_AT: u32 = FRAME_AT + 14 + 20 + 20;
/// Payload of a full frame (MTU of 1500 B).
pub const PAYLOAD_BYTES: u32 = 1460;
/// Lines of a buffer filled by a full frame.
pub const FRAME_LINES: u32 = (PAYLOAD_AT + PAYLOAD_BYTES).div_ceil(LINE_BYTES);
/// Bytes of a full frame in its buffer.
pub(super) const FRAME_BYTES: u32 = PAYLOAD_AT + PAYLOAD_BYTES - FRAME_AT;
/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_BYTES: u32 = 16;
/// Descriptors in a line.
pub(super) const PER_LINE: u32 = LINE_BYTES / DESCRIPTOR_BYTES;
/// Bytes of the driver's record for a descriptor.
const RECORD_BYTES: u32 = 40;
/// Lines of an SKB: 240 B at a distance of 256.
pub(super) const SKB_LINES: u32 = 4;
/// SKBs in a page, behind its management lines.
pub(super) const SKBS_PER_PAGE: u32 = (PAGE_LINES - SLAB_LINES) / SKB_LINES;
/// Buffers in a page.
pub(super) const BUFFERS_PER_PAGE: u32 = PAGE_LINES / BUFFER_LINES;
/// Number of the first page structure of buffers, behind those of SKBs.
const BUFFER_PAGES_AT: u32 = 1 << 20;

/// Assumption about the fields of a page structure that a lookup reads: its flags and, 40 bytes on,
/// its list head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageStruct {
    /// Structures of 128 B (the paper) with the fields of Linux 2.6.21: the first line.
    FirstLine,
    /// Structures of 128 B with the two fields in different lines.
    BothLines,
    /// Structures of 56 B, as in Linux 2.6.21 on x86-64: one or two lines, shared with neighbours.
    Packed,
}

impl PageStruct {
    /// Returns the lines that a lookup reads in the structure with this number.
    fn lines(self, number: u32) -> impl Iterator<Item = Line> {
        let (first, last) = match self {
            Self::FirstLine => (2 * number, 2 * number),
            Self::BothLines => (2 * number, 2 * number + 1),
            Self::Packed => (56 * number / LINE_BYTES, (56 * number + 47) / LINE_BYTES),
        };
        (first..=last).map(|line| Data::Page.line(line))
    }

    /// Returns the lines of the structure of a page of SKBs.
    pub(super) fn skb_lines(self, page: u32) -> impl Iterator<Item = Line> {
        self.lines(page)
    }

    /// Returns the lines of the structure of a page of buffers.
    pub(super) fn buffer_lines(self, page: u32) -> impl Iterator<Item = Line> {
        self.lines(BUFFER_PAGES_AT + page)
    }
}

/// Returns a line of a buffer.
pub(super) fn payload(buffer: u32, line: u32) -> Line {
    Data::Payload.line(buffer * BUFFER_LINES + line)
}

/// Returns the line of a buffer's shared information.
pub(super) fn shared_info(buffer: u32) -> Line {
    payload(buffer, SHARED_INFO_LINE)
}

/// Returns a line of an SKB.
pub(super) fn skb_line(skb: u32, line: u32) -> Line {
    let page = skb / SKBS_PER_PAGE * PAGE_LINES;
    Data::Skb.line(page + SLAB_LINES + skb % SKBS_PER_PAGE * SKB_LINES + line)
}

/// Returns the management lines of a page of SKBs, at its start.
pub(super) fn skb_slab(page: u32) -> impl Iterator<Item = Line> {
    (0..SLAB_LINES).map(move |line| Data::Skb.line(page * PAGE_LINES + line))
}

/// Returns the management line of a page of buffers, outside the page.
pub(super) fn buffer_slab(page: u32) -> Line {
    Data::Slab.line(page)
}

/// Returns the line of a descriptor. Each ring begins on a new page.
pub(super) fn descriptor(queue: usize, slot: usize, ring: usize) -> Line {
    let lines = (ring as u32).div_ceil(PER_LINE).next_multiple_of(PAGE_LINES);
    Data::Descriptor.line(queue as u32 * lines + slot as u32 / PER_LINE)
}

/// Returns the line of a descriptor's record.
pub(super) fn record(queue: usize, slot: usize, ring: usize) -> Line {
    let lines = (ring as u32 * RECORD_BYTES).div_ceil(LINE_BYTES).next_multiple_of(PAGE_LINES);
    Data::Record.line(queue as u32 * lines + slot as u32 * RECORD_BYTES / LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn frame_fills_24_lines_before_its_shared_information() {
        assert_eq!((PAYLOAD_AT, FRAME_LINES, FRAME_BYTES), (72, 24, 1514));
        const { assert!(FRAME_LINES <= SHARED_INFO_LINE) };
    }

    #[test]
    fn skbs_share_no_line_with_each_other_or_their_management() {
        let mut seen = HashSet::new();
        for skb in 0..3 * SKBS_PER_PAGE {
            assert!((0..SKB_LINES).all(|line| seen.insert(skb_line(skb, line))));
        }
        assert!((0..3).flat_map(skb_slab).all(|line| seen.insert(line)));
        assert_eq!(seen.len() as u32, 3 * (SKBS_PER_PAGE * SKB_LINES + SLAB_LINES));
    }

    #[test]
    fn lookup_in_packed_structures_reads_one_and_five_eighths_of_a_line() {
        let lines: usize = (0..8).map(|page| PageStruct::Packed.skb_lines(page).count()).sum();
        assert_eq!(lines, 13);
        assert_eq!(PageStruct::FirstLine.skb_lines(3).count(), 1);
        assert_eq!(PageStruct::BothLines.skb_lines(3).count(), 2);
    }
}
