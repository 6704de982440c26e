//! Index from the fingerprint of a window to its last position, shared by all workers of an
//! encoder. It is only a hint: the bytes are compared before use.

use super::store::{POSITION_BITS, Position, Store, zeroed};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Bits of an entry for the offset in a payload.
const OFFSET_BITS: u32 = 14;
const TAG_SHIFT: u32 = POSITION_BITS + OFFSET_BITS;

/// The table: an entry is tag (16 bits), offset (14) and position (34).
pub(super) struct Index(Box<[AtomicU64]>);

impl Index {
    /// Makes an index for a cache of `bytes` bytes with one window in `period`; it has twice that
    /// many entries, so that few collide.
    pub fn new(bytes: usize, period: usize) -> Self {
        let entries = (2 * bytes / period).next_power_of_two().max(1024);
        Self(zeroed(entries))
    }

    fn slot(&self, fingerprint: u64) -> Option<&AtomicU64> {
        self.0.get(fingerprint as usize & (self.0.len() - 1))
    }

    /// Returns the entry of a fingerprint; 0 if there is none.
    #[inline]
    pub fn get(&self, fingerprint: u64) -> u64 {
        let entry = self.slot(fingerprint).map_or(0, |slot| slot.load(Acquire));
        if (entry ^ fingerprint) >> TAG_SHIFT == 0 { entry } else { 0 }
    }

    /// Returns the position of an entry: the record, and the offset in its payload.
    #[inline]
    pub fn place(entry: u64, store: &Store) -> (Position, usize) {
        let offset = entry >> POSITION_BITS & ((1 << OFFSET_BITS) - 1);
        (store.unfold(entry & ((1 << POSITION_BITS) - 1)), offset as usize)
    }

    /// Stores the position of a window.
    #[inline]
    pub fn put(&self, fingerprint: u64, at: Position, offset: u16) {
        let tag = fingerprint >> TAG_SHIFT << TAG_SHIFT;
        let position = at & ((1 << POSITION_BITS) - 1);
        if let Some(slot) = self.slot(fingerprint) {
            slot.store(tag | u64::from(offset) << POSITION_BITS | position, Release);
        }
    }

    /// Returns the size of the index in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len() * 8
    }

    /// Returns the number of entries in use, for tests.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.0.iter().filter(|entry| entry.load(Acquire) != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_finds_only_stored_windows() {
        let store = Store::new(1 << 20);
        for number in 0..100 {
            store.insert(number, 6, &[0; 1000]);
        }
        let index = Index::new(1 << 20, 32);
        index.put(0xabcd_0000_0000_1234, 5000, 9000);
        let entry = index.get(0xabcd_0000_0000_1234);
        assert_eq!(Index::place(entry, &store), (5000, 9000));
        assert_eq!(index.get(0xabce_0000_0000_1234), 0, "another tag");
        assert_eq!(index.get(0xabcd_0000_0000_1235), 0, "another slot");
        assert_eq!(index.used(), 1);
        assert_eq!(index.bytes(), (2 << 20) / 32 * 8);
    }
}
