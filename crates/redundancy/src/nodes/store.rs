//! The packet cache: payloads in a ring, found by name.
//!
//! All workers share one. A writer reserves room with one addition to the head and then writes. No
//! worker waits for another, and workers may come and go. A reader may therefore meet a record that
//! is being overwritten. It copies the record first and checks the head afterwards (a sequence
//! lock, with the head as the sequence). The memory consists of atomic words, so that this is
//! defined; on x86-64 they cost as much as plain ones.
//!
//! A record is two words (the digest; a stamp) and the payload. It never wraps: after the ring
//! there is room for the longest record.

use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use wattline_packet::redundancy::{LONGEST_PAYLOAD, name_of};

/// Number of words before the payload.
const HEAD: usize = 2;
const LONGEST_RECORD: usize = HEAD + LONGEST_PAYLOAD.div_ceil(8);
/// Bits of a position in an index: it is unique over 128 GiB.
pub(super) const POSITION_BITS: u32 = 34;
/// Slots per bucket of names: one cache line.
const WAYS: usize = 8;
/// Bytes of cache per slot for a name.
const BYTES_PER_NAME: usize = 128;
/// Bit of a stamp: no packet may refer to this record any more.
const DEAD: u64 = 1 << 63;
/// Bit of a stamp: the decoder has confirmed that it has this record.
const CONFIRMED: u64 = 1 << 62;

/// Position of a record: words since the store was made.
pub(super) type Position = u64;

/// Metadata of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Digest of payload and protocol.
    pub digest: u64,
    /// Length of the payload in bytes.
    pub length: usize,
    /// Protocol number.
    pub protocol: u8,
    /// True if references to it are forbidden.
    pub dead: bool,
    /// True if the decoder has confirmed that it has the payload.
    pub confirmed: bool,
}

/// The packet cache.
pub struct Store {
    words: Box<[AtomicU64]>,
    /// Capacity of the ring in words, without the room after it.
    capacity: u64,
    names: Box<[AtomicU64]>,
    /// Position of the next record.
    head: CachePadded<AtomicU64>,
}

/// `count` words in resident memory, so that the first packets cause no page faults.
pub(super) fn zeroed(count: usize) -> Box<[AtomicU64]> {
    const PAGE: usize = 4096 / 8;
    let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    words.iter().step_by(PAGE).for_each(|word| word.store(0, Relaxed));
    words
}

/// Returns the low bits of a position (32), length (16), protocol (8). The stamp of a record shows
/// whether it is the wanted one.
fn stamp(at: Position, length: usize, protocol: u8) -> u64 {
    (at & 0xffff_ffff) | (length as u64) << 32 | u64::from(protocol) << 48
}

impl Store {
    /// Makes a cache of `bytes` bytes, but at least twice the longest record. Its index takes
    /// another sixteenth.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let capacity = (bytes / 8).max(2 * LONGEST_RECORD);
        let buckets = (capacity * 8 / BYTES_PER_NAME / WAYS).next_power_of_two();
        Self {
            words: zeroed(capacity + LONGEST_RECORD),
            capacity: capacity as u64,
            names: zeroed(buckets * WAYS),
            head: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Returns the capacity in bytes, for payloads and the heads of their records.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity * 8
    }

    /// Returns the position of the next record.
    pub(super) fn head(&self) -> Position {
        self.head.load(Relaxed)
    }

    /// Returns the full position from the low bits kept by an index.
    pub(super) fn unfold(&self, low: u64) -> Position {
        let head = self.head();
        let behind = head.wrapping_sub(low) & ((1 << POSITION_BITS) - 1);
        head.wrapping_sub(behind)
    }

    /// Words since the beginning of the record at `at`; beyond the capacity, the record is gone.
    pub(super) fn age(&self, at: Position) -> u64 {
        self.head().wrapping_sub(at)
    }

    fn is_whole(&self, at: Position) -> bool {
        // The copies above must be complete before the head is read.
        fence(Acquire);
        self.age(at) <= self.capacity
    }

    /// Advances the head by a payload of this length without storing it.
    pub(super) fn skip(&self, length: usize) {
        self.head.fetch_add((HEAD + length.div_ceil(8)) as u64, Relaxed);
    }

    /// Stores a payload of at most [`LONGEST_PAYLOAD`] bytes; returns its position.
    pub(super) fn insert(&self, digest: u64, protocol: u8, payload: &[u8]) -> Position {
        let payload = &payload[..payload.len().min(LONGEST_PAYLOAD)];
        let size = HEAD + payload.len().div_ceil(8);
        let at = self.head.fetch_add(size as u64, AcqRel);
        // A reader that sees one of the following words also sees the new head.
        fence(Release);
        let start = (at % self.capacity) as usize;
        let Some([first, second, cells @ ..]) = self.words.get(start..start + size) else {
            return at;
        };
        first.store(digest, Relaxed);
        second.store(stamp(at, payload.len(), protocol), Relaxed);
        let (words, rest) = payload.as_chunks::<8>();
        for (cell, word) in cells.iter().zip(words) {
            cell.store(u64::from_le_bytes(*word), Relaxed);
        }
        if let (Some(cell), false) = (cells.last(), rest.is_empty()) {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            cell.store(u64::from_le_bytes(last), Relaxed);
        }
        self.remember_name(digest, at);
        at
    }

    fn bucket(&self, name: u64) -> (&[AtomicU64], u64) {
        let buckets = self.names.len() / WAYS;
        let start = (name as usize & (buckets - 1)) * WAYS;
        // The bits of a name that did not choose the bucket, as far as there is room.
        let tag = (name_of(name) >> 18) << POSITION_BITS;
        (self.names.get(start..start + WAYS).unwrap_or_default(), tag)
    }

    /// Stores the name in the slot of the same name, of a lost record, or of the oldest one.
    fn remember_name(&self, digest: u64, at: Position) {
        let (slots, tag) = self.bucket(digest);
        let low = at & ((1 << POSITION_BITS) - 1);
        let age = |slot: &&AtomicU64| match slot.load(Relaxed) {
            0 => u64::MAX,
            entry if entry & !((1 << POSITION_BITS) - 1) == tag => u64::MAX - 1,
            entry => at.wrapping_sub(entry) & ((1 << POSITION_BITS) - 1),
        };
        if let Some(slot) = slots.iter().max_by_key(age) {
            slot.store(tag | low, Release);
        }
    }

    /// Returns the position of the packet with this name; `None` if it is gone.
    pub(super) fn find(&self, name: u64) -> Option<Position> {
        let (slots, tag) = self.bucket(name);
        for slot in slots {
            let entry = slot.load(Acquire);
            if entry == 0 || entry & !((1 << POSITION_BITS) - 1) != tag {
                continue;
            }
            let at = self.unfold(entry & ((1 << POSITION_BITS) - 1));
            if self.record_at(at).is_some_and(|record| name_of(record.digest) == name) {
                return Some(at);
            }
        }
        None
    }

    fn cells(&self, at: Position) -> Option<&[AtomicU64]> {
        if self.age(at) > self.capacity {
            return None;
        }
        self.words.get((at % self.capacity) as usize..)
    }

    /// Returns the metadata of the record at a position; `None` if no record begins there.
    pub(super) fn record_at(&self, at: Position) -> Option<Record> {
        let [digest, second, ..] = self.cells(at)? else { return None };
        let (digest, second) = (digest.load(Relaxed), second.load(Relaxed));
        let [length, protocol] = [(second >> 32) as u16, (second >> 48) as u8 as u16];
        let (length, protocol) = (usize::from(length), protocol as u8);
        let right = second & !(DEAD | CONFIRMED) == stamp(at, length, protocol);
        (right && self.is_whole(at)).then_some(Record {
            digest,
            length,
            protocol,
            dead: second & DEAD != 0,
            confirmed: second & CONFIRMED != 0,
        })
    }

    /// Copies `into.len()` bytes of a record from `offset` bytes into its payload. Returns false if
    /// they have been overwritten; `into` is then undefined.
    #[must_use]
    pub(super) fn copy(&self, at: Position, offset: usize, into: &mut [u8]) -> bool {
        let Some(record) = self.record_at(at) else { return false };
        if offset + into.len() > record.length {
            return false;
        }
        let Some(cells) = self.cells(at).and_then(|cells| cells.get(HEAD + offset / 8..)) else {
            return false;
        };
        let word = |cell: &AtomicU64| cell.load(Relaxed).to_le_bytes();
        let shift = offset % 8;
        let (head, body) = into.split_at_mut((8 - shift).min(into.len()) * usize::from(shift > 0));
        let mut cells = cells.iter();
        if let (false, Some(cell)) = (head.is_empty(), cells.as_slice().first()) {
            head.copy_from_slice(&word(cell)[shift..][..head.len()]);
            cells.next();
        }
        let (words, rest) = body.as_chunks_mut::<8>();
        for (eight, cell) in words.iter_mut().zip(&mut cells) {
            *eight = word(cell);
        }
        if let (false, Some(cell)) = (rest.is_empty(), cells.next()) {
            rest.copy_from_slice(&word(cell)[..rest.len()]);
        }
        self.is_whole(at)
    }

    /// Forbids further references to the record.
    pub(super) fn kill(&self, at: Position) {
        self.mark(at, DEAD);
    }

    /// Records that the decoder has the payload of the record.
    pub(super) fn confirm(&self, at: Position) {
        self.mark(at, CONFIRMED);
    }

    fn mark(&self, at: Position, flag: u64) {
        let Some([_, cell, ..]) = self.cells(at) else { return };
        let seen = cell.load(Relaxed);
        if self.record_at(at).is_some() {
            // Only if it is unchanged: a word of another record must not be modified. A flag that
            // another thread sets meanwhile wins, which costs savings only.
            let _ = cell.compare_exchange(seen, seen | flag, Relaxed, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(seed: usize, length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
    }

    proptest! {
        #[test]
        fn any_part_of_a_stored_record_is_read_back(
            lengths in prop::collection::vec(0usize..3000, 1..80),
            offset in 0usize..3000,
            count in 0usize..3000,
        ) {
            // There is room for only some of them, so the ring wraps several times.
            let store = Store::new(0);
            let mut places = Vec::new();
            for (number, length) in lengths.iter().enumerate() {
                let digest = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                places.push((digest, store.insert(digest, 6, &bytes(number, *length))));
            }
            for (number, (digest, at)) in places.iter().enumerate() {
                let whole = bytes(number, lengths[number]);
                let mut part = vec![0; count];
                let there = store.copy(*at, offset, &mut part);
                if store.age(*at) > store.capacity {
                    prop_assert!(!there && store.find(name_of(*digest)).is_none());
                    continue;
                }
                prop_assert_eq!(store.find(name_of(*digest)), Some(*at));
                prop_assert_eq!(there, offset + count <= whole.len());
                if there {
                    prop_assert_eq!(&part[..], &whole[offset..offset + count]);
                }
            }
        }
    }

    #[test]
    fn the_newest_of_a_name_is_found_and_the_dead_are_known() {
        let store = Store::new(1 << 16);
        let first = store.insert(5, 6, b"payload");
        let second = store.insert(5, 6, b"payload");
        assert!(first != second && store.find(5) == Some(second));
        store.kill(second);
        assert!(store.record_at(second).unwrap().dead && !store.record_at(first).unwrap().dead);
        store.confirm(first);
        let record = store.record_at(first).unwrap();
        assert!(record.confirmed && !record.dead && !store.record_at(second).unwrap().confirmed);
        assert_eq!(store.record_at(second + 1), None, "no record begins there");
    }

    #[test]
    fn skipped_bytes_age_stored_ones() {
        let store = Store::new(0);
        let at = store.insert(5, 6, &[1; 1000]);
        while store.age(at) <= store.capacity {
            assert!(store.record_at(at).is_some());
            store.skip(1400);
        }
        assert_eq!((store.record_at(at), store.find(5)), (None, None));
    }

    #[test]
    fn readers_never_get_a_mixture_of_two_records() {
        let store = Store::new(0);
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let digest = round * 2 + writer + 1;
                        let length = 200 + (round % 1200) as usize;
                        store.insert(digest, 6, &vec![digest as u8; length]);
                    }
                });
            }
            let mut seen = 0;
            for name in (1..40_000).cycle().take(200_000) {
                let Some(at) = store.find(name) else { continue };
                let mut part = [0; 150];
                if store.copy(at, 13, &mut part) {
                    assert_eq!(part, [name as u8; 150]);
                    seen += 1;
                }
            }
            println!("{seen} records read while others were written");
        });
    }
}
