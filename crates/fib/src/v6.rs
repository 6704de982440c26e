//! IPv6: a multibit trie, 24 bits and then 8 at a time, with entries of four bytes.
//!
//! A lookup takes one load per level, and a level needs what the one before it said. A batch
//! goes down level by level together, so that the loads of a level are in flight at once.

use crate::grace::Grace;
use crate::multibit::{GROUP_CELLS, Multibit, Prefix, ROOT_CELLS, Tables};
use crate::{FibError, NextHopId};
use ipnet::Ipv6Net;
use prefix_trie::PrefixMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Twice what the full Internet table of 2024 needs: 256 MiB, used as needed.
const DEFAULT_GROUPS: usize = 1 << 18;
/// As many groups as an entry can number.
const MAX_GROUPS: usize = 1 << 31;
const EXTENDED: u32 = 1 << 31;

/// Addresses that go down the trie together.
const CHUNK: usize = 32;
/// Levels below the root that a chunk goes down together: to /48, where nearly all of the
/// Internet table ends. What is left then goes on alone.
const LEVELS_TOGETHER: u32 = 3;

/// The writer's side of the IPv6 table.
#[derive(Debug)]
pub struct Fib6 {
    /// All prefixes: what an address falls back to when one is removed.
    routes: PrefixMap<Ipv6Net, NextHopId>,
    table: Multibit<AtomicU32>,
}

/// The readers' side of the IPv6 table; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fib6Reader {
    tables: Arc<Tables<AtomicU32>>,
}

impl Fib6 {
    /// An empty table whose readers are registered with `grace`, with room for 262,144 groups
    /// (256 MiB, used as needed).
    pub fn new(grace: &Grace) -> Self {
        Self::with_groups(grace, DEFAULT_GROUPS)
    }

    /// An empty table of at most `groups` groups of 1 KiB: a prefix of more than 24 bits needs
    /// one for every further 8 bits or part of them, shared with the prefixes beside it.
    /// A group that readers may still be looking at counts.
    pub fn with_groups(grace: &Grace, groups: usize) -> Self {
        Self { routes: PrefixMap::new(), table: Multibit::new(grace, groups.min(MAX_GROUPS)) }
    }

    /// A reader; the worker that uses it must hold a slot of the same `grace`.
    pub fn reader(&self) -> Fib6Reader {
        Fib6Reader { tables: self.table.tables() }
    }

    /// Adds or replaces a prefix; gives back what it led to before.
    ///
    /// # Errors
    /// When the id is out of range or the bounded memory is used up; the table is then as it was.
    pub fn insert(
        &mut self,
        prefix: Ipv6Net,
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
    pub fn remove(&mut self, prefix: Ipv6Net) -> Option<NextHopId> {
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
    pub fn get(&self, prefix: Ipv6Net) -> Option<NextHopId> {
        self.routes.get(&prefix.trunc()).copied()
    }

    /// The longest prefix that holds `address`.
    pub fn longest_match(&self, address: Ipv6Addr) -> Option<(Ipv6Net, NextHopId)> {
        self.routes.get_lpm(&Ipv6Net::from(address)).map(|(prefix, id)| (prefix, *id))
    }

    /// All prefixes, in the order of their addresses, shorter ones first.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv6Net, NextHopId)> {
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

fn cells_of(prefix: Ipv6Net) -> Prefix {
    Prefix { bits: prefix.addr().into(), length: prefix.prefix_len() }
}

impl Fib6Reader {
    /// The next hop of one address (host byte order).
    #[inline]
    pub fn lookup(&self, address: u128) -> NextHopId {
        let mut next_hop = [NextHopId::NONE];
        self.lookup_chunk(&[address], &mut next_hop);
        next_hop[0]
    }

    /// The next hops of a batch of addresses (host byte order), memory latency hidden.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u128], next_hops: &mut [NextHopId]) {
        assert_eq!(addresses.len(), next_hops.len());
        // Whole chunks are arrays, so that the compiler knows how long its loops are.
        let (chunks, rest) = addresses.as_chunks::<CHUNK>();
        let (next_hop_chunks, rest_next_hops) = next_hops.as_chunks_mut::<CHUNK>();
        for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
            self.lookup_chunk(addresses, next_hops);
        }
        self.lookup_chunk(rest, rest_next_hops);
    }

    #[inline(always)]
    fn lookup_chunk(&self, addresses: &[u128], next_hops: &mut [NextHopId]) {
        let root: &[AtomicU32; ROOT_CELLS] = self.root();
        let groups: &[AtomicU32] = &self.tables.groups;
        let mut entries = [0; CHUNK];
        let mut seen = 0;
        for (entry, address) in entries.iter_mut().zip(addresses) {
            *entry = root[(address >> 104) as usize].load(Ordering::Relaxed);
            seen |= *entry;
        }
        let mut shift = 104;
        for _ in 0..LEVELS_TOGETHER {
            // What was written before an entry was stored is seen from here on.
            fence(Ordering::Acquire);
            if seen & EXTENDED == 0 {
                break;
            }
            shift -= 8;
            seen = 0;
            for (entry, address) in entries.iter_mut().zip(addresses) {
                // Those that are there already load cell 0 and drop it: a load that always
                // hits costs less than a branch that is often mispredicted.
                let extended = *entry & EXTENDED != 0;
                let cell = if extended { cell_below(*entry, *address, shift) } else { 0 };
                let below = groups[cell].load(Ordering::Relaxed);
                *entry = if extended { below } else { *entry };
                seen |= *entry;
            }
        }
        for ((entry, address), next_hop) in entries.iter().zip(addresses).zip(next_hops) {
            let (mut entry, mut shift) = (*entry, shift);
            while entry & EXTENDED != 0 {
                fence(Ordering::Acquire);
                shift -= 8;
                entry = groups[cell_below(entry, *address, shift)].load(Ordering::Relaxed);
            }
            *next_hop = NextHopId(entry as u16);
        }
        fence(Ordering::Acquire);
    }

    /// As an array of known size: every 24-bit index is inside, and no check is needed.
    #[inline]
    fn root(&self) -> &[AtomicU32; ROOT_CELLS] {
        self.tables.root.first_chunk().expect("the root has this size")
    }
}

/// The cell that an address picks in the group that `entry` names: by the 8 bits above `shift`.
#[inline]
fn cell_below(entry: u32, address: u128, shift: u32) -> usize {
    // Shifts of one word, not of two: most levels need no more than the upper half.
    let byte =
        if shift >= 64 { (address >> 64) as u64 >> (shift - 64) } else { address as u64 >> shift };
    (entry & !EXTENDED) as usize * GROUP_CELLS + usize::from(byte as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv6Net {
        text.parse().unwrap()
    }

    fn at(reader: &Fib6Reader, text: &str) -> u16 {
        reader.lookup(text.parse::<Ipv6Addr>().unwrap().into()).0
    }

    #[test]
    fn prefixes_of_every_depth_nest() {
        let mut fib = Fib6::new(&Grace::new());
        let reader = fib.reader();
        let prefixes = ["::/0", "2000::/3", "2001:db8::/32", "2001:db8::/33", "2001:db8::1/128"];
        for (i, prefix) in prefixes.into_iter().enumerate() {
            fib.insert(net(prefix), NextHopId(i as u16 + 1)).unwrap();
        }
        assert_eq!(at(&reader, "ff02::1"), 1);
        assert_eq!(at(&reader, "2001:db7::"), 2);
        assert_eq!(at(&reader, "2001:db8:8000::"), 3);
        assert_eq!(at(&reader, "2001:db8::2"), 4);
        assert_eq!(at(&reader, "2001:db8::1"), 5);
        for (i, prefix) in prefixes.into_iter().enumerate().rev() {
            assert_eq!(at(&reader, "2001:db8::1"), i as u16 + 1);
            assert_eq!(fib.remove(net(prefix)), Some(NextHopId(i as u16 + 1)));
        }
        assert_eq!(at(&reader, "2001:db8::1"), 0);
    }

    #[test]
    fn a_full_table_refuses_and_stays_as_it_was() {
        let mut fib = Fib6::with_groups(&Grace::new(), 13);
        // A host route needs 13 groups below the root: (128 - 24) / 8.
        fib.insert(net("2001:db8::1/128"), NextHopId(1)).unwrap();
        assert_eq!(fib.insert(net("2001:db8:1::/56"), NextHopId(2)), Err(FibError::Full(13)));
        assert_eq!(at(&fib.reader(), "2001:db8:1::"), 0);
        assert_eq!(fib.len(), 1);
        fib.insert(net("2001:db8::2/127"), NextHopId(2)).unwrap();
        assert_eq!(at(&fib.reader(), "2001:db8::3"), 2);
        fib.remove(net("2001:db8::1/128"));
        assert_eq!(at(&fib.reader(), "2001:db8::3"), 2);
        fib.remove(net("2001:db8::2/127"));
        fib.insert(net("2001:db8:1::/56"), NextHopId(2)).unwrap();
        assert_eq!(at(&fib.reader(), "2001:db8:1:12::"), 2);
    }
}
