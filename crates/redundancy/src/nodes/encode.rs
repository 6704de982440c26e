//! Encoding of a payload.

use super::bypass::Flows;
use super::index::Index;
use super::outbox::Outbox;
use super::peer::Peer;
use super::select::{Sample, Selection, Selector, WINDOW};
use super::store::{Position, Store};
use std::sync::Arc;
use wattline_packet::IntoBytes;
use wattline_packet::protocol::TCP;
use wattline_packet::redundancy::{
    HEADER, Header, Key, LONGEST_PAYLOAD, MOST_REGIONS, REGION, Region, VERSION, name_of,
};

/// Settings of an encoder.
#[derive(Debug, Clone)]
pub struct EncodeSettings {
    /// Size of the cache in bytes, without its indexes.
    pub cache_bytes: usize,
    /// Method that selects the windows to fingerprint.
    pub selection: Selection,
    /// Mean distance in bytes between selected windows.
    pub period: usize,
    /// Number of the stream in encoded packets.
    pub stream: u8,
    /// Key shared with the decoder.
    pub key: Key,
    /// True if most packets of flows that look encrypted and gain nothing are skipped.
    pub bypass_entropy: bool,
}

/// Length in bytes of the shortest payload that is offered to a decoder. For shorter ones, the
/// eight bytes of an offer would cost too much.
pub const SHORTEST_OFFERED: usize = 256;

/// State that all workers of an encoder share.
pub struct EncoderCache {
    store: Store,
    index: Index,
    /// Payloads to be offered to the decoder; `None` if it is assumed to receive all.
    outbox: Option<Outbox>,
    /// State of the decoder, as far as it is known.
    pub peer: Peer,
}

/// A payload to be offered to the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Position in the encoder's cache.
    pub at: u64,
    /// Digest of the payload.
    pub digest: u64,
}

impl EncoderCache {
    /// Creates an empty cache for an encoder that refers only to payloads confirmed by the decoder.
    #[must_use]
    pub fn confirmed(settings: &EncodeSettings) -> Self {
        Self { outbox: Some(Outbox::new()), ..Self::new(settings) }
    }

    /// Returns payloads to offer, the oldest first, and forgets them; for the control thread.
    #[must_use]
    pub fn take_offers(&self, most: usize) -> Vec<Offered> {
        let positions = self.outbox.as_ref().map(|outbox| outbox.take(most)).unwrap_or_default();
        let offered =
            |at| self.store.record_at(at).map(|found| Offered { at, digest: found.digest });
        positions.into_iter().filter_map(offered).collect()
    }

    /// Records the decoder's answer to an offer: whether it has the payload at this position.
    pub fn answered(&self, at: u64, is_present: bool) {
        match is_present {
            true => self.store.confirm(at),
            false => self.store.kill(at),
        }
    }

    /// Creates an empty cache for an encoder that assumes that the decoder received every packet.
    /// Packets are sent unencoded until the decoder is known to be alive.
    #[must_use]
    pub fn new(settings: &EncodeSettings) -> Self {
        Self {
            outbox: None,
            store: Store::new(settings.cache_bytes),
            index: Index::new(settings.cache_bytes, settings.period),
            peer: Peer::default(),
        }
    }

    /// Records that the decoder is alive and has a cache of this size. In a new run (`is_new`) it
    /// has none of the packets sent before.
    pub fn decoder_is_alive(&self, capacity_bytes: u64, generation: u16, is_new: bool) {
        let capacity = self.store.capacity_bytes().min(capacity_bytes) / 8;
        // Entries that the decoder will soon overwrite may be gone when the packet arrives.
        let reach = capacity - capacity / 8;
        let (_, floor, _) = self.peer.now();
        let floor = if is_new { self.store.head() } else { floor };
        self.peer.is_alive(reach, floor, generation);
    }

    /// Records that the decoder lacks the packet called `name`, so that no packet refers to it.
    pub fn decoder_misses(&self, name: u64) {
        if let Some(at) = self.store.find(name) {
            self.store.kill(at);
        }
    }

    /// Returns the bytes of memory in use, including the cache.
    pub fn memory_bytes(&self) -> u64 {
        let store = self.store.capacity_bytes();
        store + store / 16 + self.index.bytes() as u64
    }
}

/// Result of encoding a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded {
    /// The payload became shorter.
    Shorter {
        /// Bytes after the IP header.
        length: usize,
        /// Number of regions replaced by references.
        regions: usize,
    },
    /// No repeated region was found, or the gain was too small.
    WithoutGain,
    /// The payload's flow is bypassed.
    Skipped,
}

/// A payload is cached if more than one in `FRESH_PART` of its samples is in no young record.
const FRESH_PART: usize = 8;

/// A part of the payload that the decoder has.
#[derive(Clone, Copy)]
struct Match {
    name: u64,
    /// Offset in the cached record.
    offset: usize,
    /// Start in the payload.
    start: usize,
    end: usize,
}

/// An encoder; one per worker and IP version.
pub struct Encoder {
    shared: Arc<EncoderCache>,
    key: Key,
    stream: u8,
    selector: Selector,
    /// Index entry of each sample.
    entries: Vec<u64>,
    matches: Vec<Match>,
    /// Copy of the cached record under comparison.
    record: Loaded,
    flows: Option<Flows>,
    /// Number of retransmitted segments.
    retransmissions: u64,
}

/// A copy of a cached record.
struct Loaded {
    bytes: Box<[u8]>,
    at: Option<Position>,
    length: usize,
    name: u64,
}

impl Encoder {
    /// Creates an encoder with its own working memory.
    #[must_use]
    pub fn new(settings: &EncodeSettings, shared: Arc<EncoderCache>) -> Self {
        let most = LONGEST_PAYLOAD;
        Self {
            shared,
            key: settings.key,
            stream: settings.stream,
            selector: Selector::new(settings.selection, settings.period),
            entries: Vec::with_capacity(most),
            matches: Vec::with_capacity(MOST_REGIONS),
            record: Loaded { bytes: vec![0; most].into(), at: None, length: 0, name: 0 },
            flows: settings.bypass_entropy.then(Flows::new),
            retransmissions: 0,
        }
    }

    /// Returns the number of retransmitted segments recognised since the last call.
    pub fn take_retransmissions(&mut self) -> u64 {
        std::mem::take(&mut self.retransmissions)
    }

    /// Encodes a payload into `out`, which must be at least as long, and adds the payload to the
    /// cache. `flow` is a hash of its flow.
    pub fn encode(&mut self, protocol: u8, flow: u32, payload: &[u8], out: &mut [u8]) -> Encoded {
        let Self { shared, key, stream, selector, entries, matches, record, flows, .. } = self;
        let EncoderCache { store, index, outbox, peer } = &**shared;
        let (reach, floor, generation) = peer.now();
        let outbox = outbox.as_ref();
        if outbox.is_some() && reach == 0 {
            // No decoder is alive to confirm it.
            return Encoded::WithoutGain;
        }
        if flows.as_mut().is_some_and(|flows| flows.skips(flow, payload)) {
            if outbox.is_none() {
                // The decoder caches it, so positions must advance here as well.
                store.skip(payload.len());
            }
            return Encoded::Skipped;
        }
        let digest = key.digest(payload, protocol);
        let samples = selector.select(payload);
        matches.clear();
        if reach > 0 {
            // Reads all entries first, so that the memory accesses overlap.
            entries.clear();
            entries.extend(samples.iter().map(|sample| index.get(sample.fingerprint)));
            let may = |at: Position| store.age(at) <= reach && at >= floor;
            let retransmissions = &mut self.retransmissions;
            let only_confirmed = outbox.is_some();
            let mut finder = Finder {
                store,
                payload,
                protocol,
                matches,
                record,
                retransmissions,
                only_confirmed,
            };
            finder.find(samples, entries, may);
        }
        if let Some(outbox) = outbox {
            // If the last record of a window is young, the index keeps that record: the new one is
            // not confirmed yet.
            let (mut last, mut is_settled) = (None, false);
            for entry in entries.iter_mut().filter(|entry| **entry != 0) {
                let (at, _) = Index::place(*entry, store);
                if last != Some(at) {
                    let is_young = at >= floor && store.age(at) <= reach / 2;
                    is_settled = is_young && store.record_at(at).is_some_and(|found| !found.dead);
                    last = Some(at);
                }
                if !is_settled {
                    *entry = 0;
                }
            }
            let fresh = entries.iter().filter(|entry| **entry == 0).count();
            if payload.len() >= SHORTEST_OFFERED && FRESH_PART * fresh > samples.len() {
                let at = store.insert(digest, protocol, payload);
                let fresh = samples.iter().zip(&*entries).filter(|(_, entry)| **entry == 0);
                fresh.for_each(|(sample, _)| index.put(sample.fingerprint, at, sample.offset));
                if let Some(given_up) = outbox.put(at) {
                    store.kill(given_up);
                }
            }
        } else {
            let at = store.insert(digest, protocol, payload);
            for sample in samples {
                index.put(sample.fingerprint, at, sample.offset);
            }
        }
        record.at = None;
        let header = Header {
            version: VERSION << 4,
            stream: *stream,
            generation: generation.into(),
            protocol,
            regions: matches.len() as u8,
            digest: digest.into(),
            code: 0.into(),
        };
        match write(header, key, matches, payload, out) {
            Some(length) => {
                if let Some(flows) = flows {
                    flows.gained(flow);
                }
                Encoded::Shorter { length, regions: matches.len() }
            }
            None => Encoded::WithoutGain,
        }
    }
}

/// Searches the cache for parts of one payload.
struct Finder<'a> {
    store: &'a Store,
    payload: &'a [u8],
    protocol: u8,
    matches: &'a mut Vec<Match>,
    record: &'a mut Loaded,
    retransmissions: &'a mut u64,
    /// True if a record must be confirmed before packets may refer to it.
    only_confirmed: bool,
}

impl Finder<'_> {
    fn find(&mut self, samples: &[Sample], entries: &[u64], may: impl Fn(Position) -> bool) {
        let mut covered = 0;
        for (sample, entry) in samples.iter().zip(entries) {
            let start = usize::from(sample.offset);
            if *entry == 0 || start < covered || self.matches.len() == MOST_REGIONS {
                continue;
            }
            let (at, offset) = Index::place(*entry, self.store);
            if !may(at) || !(self.record.at == Some(at) || self.load(at)) {
                continue;
            }
            let known = self.record.bytes.get(..self.record.length).unwrap_or_default();
            let window = |bytes: &[u8], at: usize| {
                bytes.get(at..).and_then(|rest| rest.first_chunk::<WINDOW>().copied())
            };
            if window(known, offset).is_none()
                || window(known, offset) != window(self.payload, start)
            {
                continue;
            }
            let before = common_suffix(&self.payload[covered..start], &known[..offset]);
            let length = common_prefix(&self.payload[start..], &known[offset..]);
            covered = start + length;
            self.matches.push(Match {
                name: self.record.name,
                offset: offset - before,
                start: start - before,
                end: covered,
            });
        }
    }

    /// Copies the record at `at` into `self.record`; false if packets may not refer to it.
    fn load(&mut self, at: Position) -> bool {
        self.record.at = None;
        let Some(found) = self.store.record_at(at) else { return false };
        if found.dead || (self.only_confirmed && !found.confirmed) {
            return false;
        }
        let Some(into) = self.record.bytes.get_mut(..found.length) else { return false };
        if !self.store.copy(at, 0, into) {
            return false;
        }
        // Equal ports and sequence number: this is the same segment again, so the first copy was
        // probably lost. Neither this packet nor any other may refer to that copy. A confirmed copy
        // was not lost.
        let again = !self.only_confirmed
            && self.protocol == TCP
            && found.protocol == TCP
            && self.payload.first_chunk::<8>() == into.first_chunk::<8>();
        if again {
            self.store.kill(at);
            *self.retransmissions += 1;
            return false;
        }
        *self.record = Loaded {
            bytes: std::mem::take(&mut self.record.bytes),
            at: Some(at),
            length: found.length,
            name: name_of(found.digest),
        };
        true
    }
}

/// Writes header, regions and literals; `None` if the result is not shorter than the payload.
fn write(
    mut header: Header,
    key: &Key,
    matches: &[Match],
    payload: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let covered: usize = matches.iter().map(|it| it.end - it.start).sum();
    let length = HEADER + matches.len() * REGION + payload.len() - covered;
    if matches.is_empty() || length >= payload.len() {
        return None;
    }
    let (head, rest) = out.get_mut(..length)?.split_first_chunk_mut::<HEADER>()?;
    let (regions, mut literals) = rest.split_at_mut_checked(matches.len() * REGION)?;
    let mut last = 0;
    let mut copy = |from: usize, to: usize| {
        let (now, later) = std::mem::take(&mut literals).split_at_mut_checked(to - from)?;
        now.copy_from_slice(payload.get(from..to)?);
        literals = later;
        Some(())
    };
    for (found, place) in matches.iter().zip(regions.chunks_exact_mut(REGION)) {
        let [offset, length, gap] =
            [found.offset, found.end - found.start, found.start - last].map(|it| it as u16);
        place.copy_from_slice(Region::new(found.name, offset, length, gap).as_bytes());
        copy(last, found.start)?;
        last = found.end;
    }
    copy(last, payload.len())?;
    header.sign(regions, key);
    head.copy_from_slice(header.as_bytes());
    Some(length)
}

/// Counts equal bytes at the beginning.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (eights_a, _) = a.as_chunks::<8>();
    let (eights_b, _) = b.as_chunks::<8>();
    let same = eights_a.iter().zip(eights_b).take_while(|(a, b)| a == b).count() * 8;
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// Counts equal bytes at the end.
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn common_prefix_and_suffix_are_equal_bytes(
            same in prop::collection::vec(any::<u8>(), 0..60),
            a in prop::collection::vec(any::<u8>(), 0..9),
            b in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let [front_a, front_b] = [&a, &b].map(|tail| [&same[..], tail].concat());
            let prefix = common_prefix(&front_a, &front_b);
            prop_assert!(prefix >= same.len() && front_a[..prefix] == front_b[..prefix]);
            let ends = prefix == front_a.len().min(front_b.len());
            prop_assert!(ends || front_a[prefix] != front_b[prefix]);
            let [back_a, back_b] = [&a, &b].map(|head| [&head[..], &same].concat());
            let suffix = common_suffix(&back_a, &back_b);
            prop_assert!(suffix >= same.len());
            prop_assert_eq!(&back_a[back_a.len() - suffix..], &back_b[back_b.len() - suffix..]);
        }
    }
}
