//! Decoding of a payload.

use super::peer::Misses;
use super::store::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use wattline_packet::redundancy::{
    BadHeader, Encoded, Key, LONGEST_PAYLOAD, MOST_MISSING, name_of,
};

/// State that all workers of a decoder share.
pub struct DecoderCache {
    /// Packets that encoded packets may refer to.
    store: Store,
    /// Packets that arrived, until the encoder offers its own ones; `None` if all are assumed to be
    /// from it. Packets of others evict each other here, but none in the cache.
    arrived: Option<Store>,
    /// Missed packets to report to the encoder.
    pub misses: Misses,
    generation: u16,
    /// Set when a packet came from an encoder that does not know this generation.
    is_unknown: AtomicBool,
}

/// Divisor: the arrived packets get this part of the cache's size in addition.
const ARRIVED_PART: usize = 4;

impl DecoderCache {
    /// Makes an empty cache that takes only packets that the encoder offers.
    #[must_use]
    pub fn confirmed(cache_bytes: usize, generation: u16) -> Self {
        let arrived = Some(Store::new(cache_bytes / ARRIVED_PART));
        Self { arrived, ..Self::new(cache_bytes, generation) }
    }

    /// Moves an arrived packet to the cache, where encoded packets may refer to it; for the control
    /// thread. Returns false if the packet is gone. `buffer` has room for the longest payload.
    pub fn accept(&self, digest: u64, buffer: &mut [u8]) -> bool {
        let stores = self.arrived.iter().chain([&self.store]);
        let mut found = stores.filter_map(|store| {
            let at = store.find(name_of(digest))?;
            let record = store.record_at(at).filter(|record| record.digest == digest)?;
            let is_whole = store.copy(at, 0, buffer.get_mut(..record.length)?);
            is_whole.then_some(record)
        });
        let Some(record) = found.next() else { return false };
        let payload = buffer.get(..record.length).unwrap_or_default();
        self.store.insert(digest, record.protocol, payload);
        true
    }

    fn remember(&self, digest: u64, protocol: u8, payload: &[u8]) {
        self.arrived.as_ref().unwrap_or(&self.store).insert(digest, protocol, payload);
    }

    /// Makes an empty cache of this many bytes that takes all packets that arrive; `generation` is
    /// the number of the decoder's run.
    #[must_use]
    pub fn new(cache_bytes: usize, generation: u16) -> Self {
        Self {
            store: Store::new(cache_bytes),
            arrived: None,
            misses: Misses::new(MOST_MISSING),
            generation,
            is_unknown: AtomicBool::new(false),
        }
    }

    /// Returns the capacity of the cache in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.store.capacity_bytes()
    }

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        let stores = self.arrived.iter().chain([&self.store]);
        stores.map(|store| store.capacity_bytes() + store.capacity_bytes() / 16).sum()
    }

    /// Returns true if the generation must be reported to an encoder; once per occurrence.
    pub fn take_unknown(&self) -> bool {
        self.is_unknown.load(Relaxed) && self.is_unknown.swap(false, AcqRel)
    }
}

/// Result of decoding a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The original payload, byte for byte.
    Whole {
        /// Protocol number of the original IP header.
        protocol: u8,
        /// The restored payload.
        payload: &'a [u8],
    },
    /// The payload belongs to another stream.
    Foreign,
    /// The encoder has another version of the protocol.
    OtherVersion,
    /// Header or regions are not from an encoder that has the key.
    Forged,
    /// The payload does not have the format of an encoder.
    Malformed,
    /// The payload refers to a packet that is not in the cache, perhaps not yet.
    Missing,
    /// The restored payload has the wrong digest.
    Damaged,
}

/// A decoder; one per worker and IP version.
pub struct Decoder {
    shared: Arc<DecoderCache>,
    key: Key,
    stream: u8,
    buffer: Box<[u8]>,
}

impl Decoder {
    /// Makes a decoder for the packets of one stream.
    #[must_use]
    pub fn new(stream: u8, key: Key, shared: Arc<DecoderCache>) -> Self {
        Self { shared, key, stream, buffer: vec![0; LONGEST_PAYLOAD].into() }
    }

    /// Adds a payload that arrived unencoded to the cache.
    pub fn remember(&self, protocol: u8, payload: &[u8]) {
        self.shared.remember(self.key.digest(payload, protocol), protocol, payload);
    }

    /// Returns true if a packet that an encoded packet refers to may still arrive. The encoder does
    /// not refer to packets before they are confirmed.
    #[must_use]
    pub fn may_come(&self) -> bool {
        self.shared.arrived.is_none()
    }

    /// Restores the bytes that follow an IP header, and adds them to the cache.
    pub fn decode(&mut self, bytes: &[u8]) -> Decoded<'_> {
        let encoded = match Encoded::parse(bytes) {
            Ok(encoded) => encoded,
            Err(BadHeader::Version) => return Decoded::OtherVersion,
            Err(_) => return Decoded::Malformed,
        };
        if encoded.header.stream != self.stream {
            return Decoded::Foreign;
        }
        if !encoded.is_authentic(&self.key) {
            return Decoded::Forged;
        }
        if encoded.header.generation.get() != self.shared.generation {
            self.shared.is_unknown.store(true, Relaxed);
        }
        let Some(payload) = self.buffer.get_mut(..encoded.length) else {
            return Decoded::Malformed;
        };
        match assemble(&self.shared.store, &encoded, payload) {
            Some(true) => {}
            Some(false) => return Decoded::Missing,
            None => return Decoded::Malformed,
        }
        let (protocol, digest) = (encoded.header.protocol, encoded.header.digest.get());
        let payload = &*payload;
        if self.key.digest(payload, protocol) != digest {
            return Decoded::Damaged;
        }
        self.shared.remember(digest, protocol, payload);
        Decoded::Whole { protocol, payload }
    }

    /// Records the missing packets of a payload that could not be restored, for a report to the
    /// encoder.
    pub fn report(&self, bytes: &[u8]) {
        let Ok(encoded) = Encoded::parse(bytes) else { return };
        for region in encoded.regions {
            if self.shared.store.find(region.name()).is_none() {
                self.shared.misses.note(region.name());
            }
        }
        if self.shared.arrived.is_none() {
            // This packet is missing now as well.
            self.shared.misses.note(name_of(encoded.header.digest.get()));
        }
    }
}

/// Assembles literals and regions. Returns false if a packet is missing; `None` if the lengths
/// contradict each other or a region lies outside its packet.
fn assemble(store: &Store, encoded: &Encoded, mut payload: &mut [u8]) -> Option<bool> {
    let mut literals = encoded.literals;
    for region in encoded.regions {
        let gap = usize::from(region.gap.get());
        let (now, later) = literals.split_at_checked(gap)?;
        let (place, rest) = payload.split_at_mut_checked(gap)?;
        place.copy_from_slice(now);
        literals = later;
        let (place, rest) = rest.split_at_mut_checked(usize::from(region.length.get()))?;
        let Some(at) = store.find(region.name()) else { return Some(false) };
        if !store.copy(at, usize::from(region.offset.get()), place) {
            return Some(false);
        }
        payload = rest;
    }
    (payload.len() == literals.len()).then(|| payload.copy_from_slice(literals))?;
    Some(true)
}
