//! Kinds of data, phases of a packet, and their counters.

use super::cache::Line;
use super::prefetch::PAGE_LINES;
use serde::Serialize;
use wattline_units::named;

/// Bits of a line's number below its kind of data.
const KIND_SHIFT: u32 = 24;

/// Line of a buffer with its shared information, behind the frame.
pub(super) const SHARED_INFO_LINE: u32 = 25;
/// Lines of a buffer: 2 kB.
pub(super) const BUFFER_LINES: u32 = 32;
/// Lines at the start of a page of SKBs that hold the allocator's management.
pub(super) const SLAB_LINES: u32 = 2;

named! {
    /// Kind of data in a line.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Data {
        /// Descriptors of the receive rings.
        Descriptor = "descriptor",
        /// The driver's record for each descriptor.
        Record = "record",
        /// Packet metadata.
        Skb = "skb",
        /// Packet metadata behind the packet in its buffer (`skb_shared_info`).
        SharedInfo = "shared-info",
        /// The allocator's management of each slab.
        Slab = "slab",
        /// Page structures, which lead from a buffer to its allocator.
        Page = "page",
        /// Packets as delivered by the card.
        Payload = "payload",
        /// Buffers of the application.
        User = "user",
    }
}

impl Data {
    /// Number of kinds of data.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the `offset`th line of this kind; the kinds do not overlap. Shared information lies
    /// in pages of payload, and most slabs are managed in pages of SKBs.
    pub(super) fn line(self, offset: u32) -> Line {
        debug_assert!(offset < 1 << KIND_SHIFT);
        (self as u32 + 1) << KIND_SHIFT | offset
    }

    /// Returns the kind of data for which a line's page is used.
    #[inline]
    pub(super) fn from_page(line: Line) -> Self {
        Self::ALL[((line >> KIND_SHIFT) as usize).saturating_sub(1).min(Self::COUNT - 1)]
    }

    /// Returns the kind of data in a line of such a page.
    #[inline]
    pub(super) fn within(self, line: Line) -> Self {
        match self {
            Self::Payload if line % BUFFER_LINES == SHARED_INFO_LINE => Self::SharedInfo,
            Self::Skb if line % PAGE_LINES < SLAB_LINES => Self::Slab,
            other => other,
        }
    }

    #[inline]
    pub(super) fn offset(line: Line) -> usize {
        (line & ((1 << KIND_SHIFT) - 1)) as usize
    }
}

named! {
    /// Phase in which a line is accessed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Phase {
        /// The driver maps descriptors to SKBs (step 7), and chains packets of a flow.
        Conversion = "conversion",
        /// The driver refills the ring (step 8).
        Refill = "refill",
        /// TCP/IP reads headers.
        Protocol = "protocol",
        /// Payload goes to the application.
        Copy = "copy",
        /// Buffers go back to the allocator.
        Release = "release",
    }
}

impl Phase {
    /// Number of phases.
    pub const COUNT: usize = Self::ALL.len();
}

/// Counts of one kind of data in one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Accesses of lines by the processor (loads and stores).
    pub touches: u64,
    /// Accesses that missed level 1, and so went to the last-level cache.
    pub l1_misses: u64,
    /// Accesses that missed the last-level cache as well.
    pub llc_misses: u64,
    /// Last-level misses of software prefetches and of the level-1 prefetcher.
    pub hidden_misses: u64,
    /// Accesses of requested lines that were still in flight.
    pub late: u64,
    /// Cycles for which late accesses waited.
    pub waited_cycles: u64,
}

/// Counts of all kinds of data in all phases.
pub(super) type AllCounts = [[Counts; Data::COUNT]; Phase::COUNT];

/// Lines transferred to and from memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Lines written by the card, bypassing the caches.
    pub dma_writes: u64,
    /// Lines read, on demand or prefetched.
    pub reads: u64,
    /// Modified lines that were written back.
    pub write_backs: u64,
}

impl Memory {
    /// Returns the sum of all transfers.
    pub fn total(&self) -> u64 {
        self.dma_writes + self.reads + self.write_backs
    }
}

/// Accesses to the last-level cache between two uses of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distance {
    /// Number of long distances: above [`Distance::LONG`].
    pub count: u64,
    pub(super) sum: u64,
}

impl Distance {
    /// Bound of long distances; shorter distances are within a batch and do not count as reuse.
    pub const LONG: u64 = 4096;

    /// Returns the mean of the long distances; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_kind_of_its_data() {
        for data in Data::ALL {
            assert_eq!(Data::from_page(data.line(12_345)), data);
            assert_eq!(Data::offset(data.line(12_345)), 12_345);
        }
        let kind = |line| Data::from_page(line).within(line);
        assert_eq!(kind(Data::Payload.line(3 * BUFFER_LINES + 24)), Data::Payload);
        assert_eq!(kind(Data::Payload.line(3 * BUFFER_LINES + 25)), Data::SharedInfo);
        assert_eq!(kind(Data::Skb.line(5 * PAGE_LINES + 1)), Data::Slab);
        assert_eq!(kind(Data::Skb.line(5 * PAGE_LINES + 2)), Data::Skb);
    }
}
