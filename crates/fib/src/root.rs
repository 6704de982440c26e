//! The cells of the first 24 bits of an address: a byte each, and a whole entry if the entry does
//! not fit into a byte.
//!
//! Lookups of a full table wait for memory, so the bytes that they read determine their rate. The
//! data plane numbers next hops from 1, and few routers have more than 254.

use crate::NextHopId;
use crate::cell::{Cell, Stored};
use crate::memory::Region;
use std::sync::atomic::AtomicU8;
use wattline_memory::Supply;

/// Number of address bits that the root resolves.
pub const ROOT_BITS: u8 = 24;
/// Number of cells in the root.
pub(crate) const ROOT_CELLS: usize = 1 << ROOT_BITS;
/// Byte of a cell whose entry is in [`Root::whole`]. Every smaller byte is the entry.
pub(crate) const WHOLE: u8 = NextHopId::BYTE_MAX.0 as u8 + 1;

/// The root.
#[derive(Debug)]
pub struct Root<C> {
    pub(crate) bytes: Region<AtomicU8>,
    /// Entries of the cells with the byte [`WHOLE`]. The others are outdated and never read.
    pub(crate) whole: Region<C>,
}

impl<C: Cell> Root<C> {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Region::zeroed(ROOT_CELLS, Supply::AsTouched),
            whole: Region::zeroed(ROOT_CELLS, Supply::Sparsely),
        }
    }

    /// Returns the bytes as an array of known size: every 24-bit index is inside, so no check is
    /// needed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[AtomicU8; ROOT_CELLS] {
        self.bytes.first_chunk().expect("the root has this size")
    }

    /// Loads the entry of a cell, for the writer.
    pub(crate) fn read(&self, cell: usize) -> u32 {
        match self.bytes[cell].read() {
            byte if byte == u32::from(WHOLE) => self.whole[cell].read(),
            entry => entry,
        }
    }

    /// Stores an entry; returns true if it does not fit into a byte. A reader finds either the
    /// previous entry or this one: the whole entry is stored before its byte.
    pub(crate) fn write(&self, cell: usize, entry: u32) -> bool {
        let is_whole = entry >= WHOLE.into();
        if is_whole {
            self.whole[cell].write(entry);
        }
        self.bytes[cell].write(entry.min(WHOLE.into()));
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU16;

    #[test]
    fn entries_that_exceed_a_byte_are_whole() {
        let root = Root::<AtomicU16>::new();
        let group = AtomicU16::EXTENDED | 3;
        for (entry, is_whole) in
            [(7, false), (254, false), (255, true), (256, true), (group, true), (0, false)]
        {
            assert_eq!(root.write(9, entry), is_whole, "{entry}");
            assert_eq!(root.read(9), entry);
            assert_eq!(root.bytes[9].read() == u32::from(WHOLE), is_whole);
        }
        assert_eq!((root.read(8), root.read(10)), (0, 0));
    }
}
