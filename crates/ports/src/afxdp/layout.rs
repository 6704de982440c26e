//! Division of frame memory into chunks, and of frames into descriptors.
//!
//! The kernel allows chunks of at most a page, so a longer frame is received and sent in several of
//! them. A worker's chunk holds its longest frame and spans one, two or four of the kernel's
//! chunks; only the first of these is lent for reception. With a power of two, the chunk of an
//! offset is found without a division.

/// Bytes that the kernel keeps free before each received frame (`XDP_PACKET_HEADROOM`).
pub(super) const KERNEL_HEADROOM: u32 = 256;
// `wattline_memory` relies on it: no device writes there.
const _: () = assert!(wattline_memory::HEAD <= KERNEL_HEADROOM as usize);
/// Bytes of a frame in addition to its IP packet: Ethernet header and one VLAN tag.
pub(super) const LINK_OVERHEAD: u32 = 14 + 4;
/// Chunk sizes that the kernel allows in ordinary pages.
const KERNEL_CHUNKS: [u32; 2] = [2048, 4096];
/// Most of the kernel's chunks in a worker's chunk.
const PIECES_MAX: u32 = 4;

/// The sizes of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a chunk of the kernel, a power of two.
    pub kernel: u32,
    /// The kernel's chunks in a chunk of the worker, a power of two.
    pub pieces: u32,
}

impl Layout {
    /// Returns the smallest layout that holds frames of this MTU behind `headroom` bytes in
    /// addition to the kernel's own.
    pub fn new(mtu: u32, headroom: u32) -> Self {
        let needed = mtu + LINK_OVERHEAD + KERNEL_HEADROOM + headroom;
        match KERNEL_CHUNKS.iter().find(|chunk| needed <= **chunk) {
            Some(chunk) => Self { kernel: *chunk, pieces: 1 },
            None => {
                let pieces = needed.div_ceil(KERNEL_CHUNKS[1]).next_power_of_two();
                Self { pieces, ..Self::PAGE }
            }
        }
    }

    /// The largest layout in which each frame is in one piece.
    pub const PAGE: Self = Self { kernel: KERNEL_CHUNKS[1], pieces: 1 };
    /// The largest layout.
    pub const LARGEST: Self = Self { kernel: KERNEL_CHUNKS[1], pieces: PIECES_MAX };

    /// Returns the bytes of a worker's chunk.
    pub fn chunk(self) -> u32 {
        self.kernel * self.pieces
    }

    /// Returns the largest MTU whose frames it holds.
    pub fn largest_mtu(self, headroom: u32) -> u32 {
        self.chunk().saturating_sub(KERNEL_HEADROOM + headroom + LINK_OVERHEAD)
    }

    /// Returns the first byte of the worker's chunk that contains this address.
    pub fn start(self, address: u64) -> u64 {
        address & !u64::from(self.chunk() - 1)
    }

    /// Returns the parts of a frame, each in one chunk of the kernel: address, length, and true if
    /// more follow.
    #[inline]
    pub fn parts(self, offset: u32, length: u16) -> impl Iterator<Item = (u64, u32, bool)> {
        let (mut at, mut left) = (offset, u32::from(length));
        std::iter::from_fn(move || {
            let part = left.min(self.kernel - (at & (self.kernel - 1)));
            let address = u64::from(at);
            at += part;
            left -= part;
            (part > 0).then_some((address, part, left > 0))
        })
    }

    /// Returns the number of parts of a frame.
    #[inline]
    pub fn count(self, offset: u32, length: u16) -> u32 {
        let end = (offset & (self.kernel - 1)) + u32::from(length);
        // Nearly all frames have one part, and a division takes longer than the rest of this
        // function.
        if end <= self.kernel { 1 } else { end.div_ceil(self.kernel) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_chunk_that_fits_is_chosen() {
        let layout = |mtu| {
            let Layout { kernel, pieces } = Layout::new(mtu, 0);
            (kernel, pieces)
        };
        assert_eq!(layout(1500), (2048, 1));
        assert_eq!(layout(1774), (2048, 1));
        assert_eq!(layout(1775), (4096, 1));
        assert_eq!(layout(3822), (4096, 1));
        assert_eq!(layout(3823), (4096, 2));
        assert_eq!(layout(9000), (4096, 4));
        assert_eq!(Layout::new(3822, 1).pieces, 2);
        for mtu in [1500, 3822, 3823, 9000, 9216, 16_110] {
            let layout = Layout::new(mtu, 0);
            assert!(mtu <= layout.largest_mtu(0) && layout.pieces <= PIECES_MAX, "{mtu}");
        }
        assert_eq!(Layout::PAGE.largest_mtu(128), 3694);
    }

    #[test]
    fn frame_is_divided_at_the_ends_of_kernel_chunks() {
        let layout = Layout { kernel: 4096, pieces: 4 };
        let parts = |offset, length| layout.parts(offset, length).collect::<Vec<_>>();
        assert_eq!(parts(256, 60), [(256, 60, false)]);
        assert_eq!(parts(256, 3840), [(256, 3840, false)]);
        assert_eq!(parts(256, 3841), [(256, 3840, true), (4096, 1, false)]);
        let start = 5 * 16_384;
        let expected = [(start + 256, 3840, true), (start + 4096, 4096, true)];
        assert_eq!(parts(start as u32 + 256, 9014)[..2], expected);
        for (offset, length) in [(256, 60), (256, 3840), (256, 3841), (200, 9014), (4000, 97)] {
            let parts = parts(offset, length);
            assert_eq!(parts.len() as u32, layout.count(offset, length));
            assert_eq!(parts.iter().map(|it| it.1).sum::<u32>(), u32::from(length));
        }
        assert_eq!(layout.start(start + 9000), start);
    }
}
