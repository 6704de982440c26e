//! IPv4: DIR-24-8 with entries of two bytes.
//!
//! One load tells the next hop of any address whose longest prefix has at most 24 bits, two
//! loads that of any other. 32 MiB for the first 24 bits, 512 bytes for each /24 that holds
//! longer prefixes.

use crate::grace::Grace;
use crate::multibit::{GROUP_CELLS, Multibit, Prefix, ROOT_CELLS, Tables};
use crate::prefetch::prefetch;
use crate::{FibError, NextHopId};
use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// As many groups as an entry can number.
const MAX_GROUPS: usize = 1 << 15;
const EXTENDED: u16 = 1 << 15;

/// Addresses whose loads are in flight together: what a core keeps outstanding, and more.
const CHUNK: usize = 32;

/// The writer's side of the IPv4 table.
#[derive(Debug)]
pub struct Fib4 {
    /// All prefixes: what an address falls back to when one is removed.
    routes: PrefixMap<Ipv4Net, NextHopId>,
    table: Multibit<AtomicU16>,
}

/// The readers' side of the IPv4 table; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fib4Reader {
    tables: Arc<Tables<AtomicU16>>,
}

impl Fib4 {
    /// An empty table whose readers are registered with `grace`, with room for as many /24s
    /// with longer prefixes inside as entries can number: 32,768 (16 MiB, used as needed).
    pub fn new(grace: &Grace) -> Self {
        Self::with_groups(grace, MAX_GROUPS)
    }

    /// An empty table in which at most `groups` /24s (of 512 bytes each, no more than 32,768)
    /// may hold prefixes longer than 24 bits. A group that readers may still be looking at
    /// counts.
    pub fn with_groups(grace: &Grace, groups: usize) -> Self {
        Self { routes: PrefixMap::new(), table: Multibit::new(grace, groups.min(MAX_GROUPS)) }
    }

    /// A reader; the worker that uses it must hold a slot of the same `grace`.
    pub fn reader(&self) -> Fib4Reader {
        Fib4Reader { tables: self.table.tables() }
    }

    /// Adds or replaces a prefix; gives back what it led to before.
    ///
    /// # Errors
    /// When the id is out of range or the bounded memory is used up; the table is then as it was.
    pub fn insert(
        &mut self,
        prefix: Ipv4Net,
        next_hop: NextHopId,
    ) -> Result<Option<NextHopId>, FibError> {
        if next_hop == NextHopId::NONE || next_hop > NextHopId::MAX {
            return Err(FibError::NextHopOutOfRange(next_hop.0));
        }
        let prefix = prefix.trunc();
        let before = self.routes.insert(prefix, next_hop);
        match before {
            Some(before) if before == next_hop => {}
            Some(_) => self.table.replace(cells_of(prefix), next_hop.0.into()),
            None => {
                if let Err(error) = self.table.insert(cells_of(prefix), next_hop.0.into()) {
                    self.routes.remove(&prefix);
                    return Err(error);
                }
            }
        }
        Ok(before)
    }

    /// Removes a prefix; gives back what it led to.
    pub fn remove(&mut self, prefix: Ipv4Net) -> Option<NextHopId> {
        let prefix = prefix.trunc();
        let before = self.routes.remove(&prefix)?;
        let (cover, length) = self
            .routes
            .get_lpm(&prefix)
            .map_or((NextHopId::NONE, 0), |(cover, id)| (*id, cover.prefix_len()));
        self.table.remove(cells_of(prefix), cover.0.into(), length);
        Some(before)
    }

    /// What exactly this prefix leads to.
    pub fn get(&self, prefix: Ipv4Net) -> Option<NextHopId> {
        self.routes.get(&prefix.trunc()).copied()
    }

    /// The longest prefix that holds `address`.
    pub fn longest_match(&self, address: Ipv4Addr) -> Option<(Ipv4Net, NextHopId)> {
        self.routes.get_lpm(&Ipv4Net::from(address)).map(|(prefix, id)| (prefix, *id))
    }

    /// All prefixes, in the order of their addresses, shorter ones first.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv4Net, NextHopId)> {
        self.routes.iter().map(|(prefix, id)| (prefix, *id))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Bytes that the table occupies: what readers look at, and the writer's books.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.routes.mem_size()
    }
}

fn cells_of(prefix: Ipv4Net) -> Prefix {
    Prefix { bits: u128::from(u32::from(prefix.addr())) << 96, length: prefix.prefix_len() }
}

impl Fib4Reader {
    /// The next hop of one address (host byte order).
    #[inline]
    pub fn lookup(&self, address: u32) -> NextHopId {
        let mut next_hop = [NextHopId::NONE];
        self.lookup_chunk(&[address], &mut next_hop);
        next_hop[0]
    }

    /// What starts loading that at which a lookup of an address (host byte order) will look
    /// first: for callers that have other work to do before they look it up.
    #[inline]
    pub fn prefetcher(&self) -> impl Fn(u32) {
        let root = self.root();
        move |address| prefetch(&root[(address >> 8) as usize])
    }

    /// The next hops of a batch of addresses (host byte order), memory latency hidden.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u32], next_hops: &mut [NextHopId]) {
        assert_eq!(addresses.len(), next_hops.len());
        // Whole chunks are arrays, so that the compiler knows how long its loops are.
        let (chunks, rest) = addresses.as_chunks::<CHUNK>();
        let (next_hop_chunks, rest_next_hops) = next_hops.as_chunks_mut::<CHUNK>();
        for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
            self.lookup_chunk(addresses, next_hops);
        }
        self.lookup_chunk(rest, rest_next_hops);
    }

    /// [`Self::lookup_batch`] for addresses that stand in records of the caller's, which have
    /// a place for the next hop: neither is copied.
    #[inline]
    pub fn lookup_records<R>(
        &self,
        records: &mut [R],
        address: impl Fn(&R) -> u32,
        next_hop: impl Fn(&mut R) -> &mut NextHopId,
    ) {
        let root: &[AtomicU16; ROOT_CELLS] = self.root();
        let mut seen = 0;
        for record in &mut *records {
            let entry = root[(address(record) >> 8) as usize].load(Ordering::Relaxed);
            seen |= entry;
            *next_hop(record) = NextHopId(entry);
        }
        // What was written before an entry was stored is seen from here on.
        fence(Ordering::Acquire);
        if seen & EXTENDED != 0 {
            for record in records {
                let entry = next_hop(record).0;
                if entry & EXTENDED != 0 {
                    *next_hop(record) = self.in_group(entry, address(record));
                }
            }
            fence(Ordering::Acquire);
        }
    }

    /// First all loads from the root, none of which waits for another; then, if there were
    /// any, those from groups.
    #[inline(always)]
    fn lookup_chunk(&self, addresses: &[u32], next_hops: &mut [NextHopId]) {
        let root: &[AtomicU16; ROOT_CELLS] = self.root();
        let mut seen = 0;
        for (address, next_hop) in addresses.iter().zip(&mut *next_hops) {
            let entry = root[(address >> 8) as usize].load(Ordering::Relaxed);
            seen |= entry;
            *next_hop = NextHopId(entry);
        }
        // What was written before an entry was stored is seen from here on.
        fence(Ordering::Acquire);
        if seen & EXTENDED != 0 {
            self.follow(addresses, next_hops);
        }
    }

    /// Replaces the groups among `next_hops` by what they say.
    #[inline]
    fn follow(&self, addresses: &[u32], next_hops: &mut [NextHopId]) {
        for (address, next_hop) in addresses.iter().zip(next_hops) {
            if next_hop.0 & EXTENDED != 0 {
                *next_hop = self.in_group(next_hop.0, *address);
            }
        }
        fence(Ordering::Acquire);
    }

    /// What the group that a root's entry names says of an address.
    #[inline]
    fn in_group(&self, entry: u16, address: u32) -> NextHopId {
        let groups: &[AtomicU16] = &self.tables.groups;
        let cell = usize::from(entry & !EXTENDED) * GROUP_CELLS + (address & 0xff) as usize;
        NextHopId(groups[cell].load(Ordering::Relaxed))
    }

    /// As an array of known size: every 24-bit index is inside, and no check is needed.
    #[inline]
    fn root(&self) -> &[AtomicU16; ROOT_CELLS] {
        self.tables.root.first_chunk().expect("the root has this size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn at(reader: &Fib4Reader, text: &str) -> u16 {
        reader.lookup(text.parse::<Ipv4Addr>().unwrap().into()).0
    }

    #[test]
    fn longer_prefixes_win_in_any_order() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut fib = Fib4::new(&Grace::new());
            let reader = fib.reader();
            let prefixes = ["0.0.0.0/0", "10.0.0.0/8", "10.1.1.0/24", "10.1.1.128/25"];
            for i in order {
                fib.insert(net(prefixes[i]), NextHopId(i as u16 + 1)).unwrap();
            }
            assert_eq!(at(&reader, "9.255.255.255"), 1);
            assert_eq!(at(&reader, "10.1.0.255"), 2);
            assert_eq!(at(&reader, "10.1.1.127"), 3);
            assert_eq!(at(&reader, "10.1.1.128"), 4);
            assert_eq!(at(&reader, "10.1.2.0"), 2);
            assert_eq!(at(&reader, "255.255.255.255"), 1);
            let addresses = [0x0a01_017f, 0x0a01_0180, 0x0a01_0200, 0];
            let mut records = addresses.map(|address| (address, NextHopId::NONE));
            reader.lookup_records(&mut records, |record| record.0, |record| &mut record.1);
            assert_eq!(records.map(|record| record.1.0), [3, 4, 2, 1]);
        }
    }

    #[test]
    fn removal_leads_back_to_the_covering_prefix() {
        let mut fib = Fib4::new(&Grace::new());
        let reader = fib.reader();
        fib.insert(net("10.0.0.0/8"), NextHopId(1)).unwrap();
        fib.insert(net("10.1.0.0/16"), NextHopId(2)).unwrap();
        fib.insert(net("10.1.1.1/32"), NextHopId(3)).unwrap();
        assert_eq!(fib.remove(net("10.1.0.0/16")), Some(NextHopId(2)));
        assert_eq!(fib.remove(net("10.1.0.0/16")), None);
        assert_eq!(at(&reader, "10.1.1.0"), 1);
        assert_eq!(at(&reader, "10.1.1.1"), 3);
        assert_eq!(fib.remove(net("10.1.1.1/32")), Some(NextHopId(3)));
        assert_eq!(at(&reader, "10.1.1.1"), 1);
        assert_eq!(fib.remove(net("10.0.0.0/8")), Some(NextHopId(1)));
        assert_eq!(at(&reader, "10.1.1.1"), 0);
        assert!(fib.is_empty());
    }

    #[test]
    fn a_full_table_refuses_and_stays_as_it_was() {
        let grace = Grace::new();
        let mut fib = Fib4::with_groups(&grace, 1);
        fib.insert(net("10.0.0.1/32"), NextHopId(1)).unwrap();
        assert_eq!(fib.insert(net("10.0.1.1/32"), NextHopId(2)), Err(FibError::Full(1)));
        assert_eq!(fib.len(), 1);
        assert_eq!(fib.get(net("10.0.1.1/32")), None);
        assert_eq!(at(&fib.reader(), "10.0.1.1"), 0);
        fib.insert(net("10.0.0.2/32"), NextHopId(2)).unwrap();
        fib.insert(net("10.0.1.0/24"), NextHopId(3)).unwrap();
        assert_eq!(at(&fib.reader(), "10.0.1.1"), 3);
        fib.remove(net("10.0.0.1/32"));
        fib.remove(net("10.0.0.2/32"));
        fib.insert(net("10.0.1.1/32"), NextHopId(2)).unwrap();
        assert_eq!(at(&fib.reader(), "10.0.1.1"), 2);
    }

    #[test]
    fn refuses_ids_that_entries_cannot_hold() {
        let mut fib = Fib4::new(&Grace::new());
        for id in [0, 0x8000, 0xffff] {
            let refused = fib.insert(net("10.0.0.0/8"), NextHopId(id));
            assert_eq!(refused, Err(FibError::NextHopOutOfRange(id)));
        }
        fib.insert(net("10.0.0.0/8"), NextHopId::MAX).unwrap();
        assert_eq!(at(&fib.reader(), "10.0.0.0"), 0x7fff);
    }

    #[test]
    fn host_bits_of_a_prefix_do_not_matter() {
        let mut fib = Fib4::new(&Grace::new());
        fib.insert(net("10.1.2.3/8"), NextHopId(1)).unwrap();
        assert_eq!(fib.get(net("10.0.0.0/8")), Some(NextHopId(1)));
        assert_eq!(fib.insert(net("10.9.9.9/8"), NextHopId(2)), Ok(Some(NextHopId(1))));
        let address = Ipv4Addr::new(10, 7, 7, 7);
        assert_eq!(fib.longest_match(address), Some((net("10.0.0.0/8"), NextHopId(2))));
        assert_eq!(fib.iter().collect::<Vec<_>>(), [(net("10.0.0.0/8"), NextHopId(2))]);
    }
}
