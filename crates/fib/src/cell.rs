//! One entry of a table: a next hop, or the number of a group.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// Bits that readers load while the writer stores.
///
/// Only atomic integers may implement this trait: tables begin as zero bytes, which must be valid.
pub trait Stored: Send + Sync {
    /// Loads the entry with relaxed order. An acquire fence must follow before a read of the group
    /// that the entry names.
    fn read(&self) -> u32;

    /// Stores the entry; a reader that follows it sees everything written before.
    fn write(&self, entry: u32);
}

/// A whole entry. The top bit distinguishes a group's number from a next hop.
pub trait Cell: Stored {
    /// Bit that is set if the other bits are a group's number.
    const EXTENDED: u32;
}

impl Cell for AtomicU16 {
    const EXTENDED: u32 = 1 << 15;
}

impl Cell for AtomicU32 {
    const EXTENDED: u32 = 1 << 31;
}

impl Stored for AtomicU8 {
    #[inline]
    fn read(&self) -> u32 {
        self.load(Ordering::Relaxed).into()
    }

    #[inline]
    fn write(&self, entry: u32) {
        self.store(entry as u8, Ordering::Release);
    }
}

impl Stored for AtomicU16 {
    #[inline]
    fn read(&self) -> u32 {
        self.load(Ordering::Relaxed).into()
    }

    #[inline]
    fn write(&self, entry: u32) {
        self.store(entry as u16, Ordering::Release);
    }
}

impl Stored for AtomicU32 {
    #[inline]
    fn read(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn write(&self, entry: u32) {
        self.store(entry, Ordering::Release);
    }
}
