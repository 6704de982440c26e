//! IPv4: DIR-24-8 with a byte for each of the first 24 bits, and entries of two bytes if a byte is
//! not enough.
//!
//! For an address whose longest prefix has at most 24 bits, one load gives a next hop below 255,
//! two loads any other next hop. For any other address three loads give the next hop. The table
//! takes 16 MiB, 4 KiB for each /13 with a cell that needs a whole entry, and 512 bytes for each
//! /24 with longer prefixes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod entry;
mod scalar;

use crate::family::{CHUNK, Family};
use crate::fib::Fib;
use crate::measure::measure;
use crate::multibit::{Prefix, Tables};
use crate::reader::Reader;
use crate::root::WHOLE;
use crate::{Choice, NextHopId, SimdLevel};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering, fence};
use wattline_memory::prefetch;

/// Largest number of groups that an entry can name.
const MAX_GROUPS: usize = 1 << 15;

/// Writer of the IPv4 table. It has room for 32,768 /24s with longer prefixes inside (512 bytes
/// each, used as needed), the number that entries can name, or for fewer if requested.
pub type Fib4 = Fib<V4>;

/// IPv4.
#[derive(Debug)]
pub struct V4;

/// Reader of the IPv4 table.
pub type Fib4Reader = Reader<V4>;

impl Family for V4 {
    type Net = Ipv4Net;
    type Address = Ipv4Addr;
    type Cell = AtomicU16;
    type Bits = u32;
    const LEVELS: &[SimdLevel] = &[SimdLevel::Scalar, SimdLevel::Avx2, SimdLevel::Avx512];
    const FREQUENT_LENGTHS: &[u8] = &[20, 22, 24];
    const DEFAULT_GROUPS: usize = MAX_GROUPS;
    const MAX_GROUPS: usize = MAX_GROUPS;

    fn truncated(net: Ipv4Net) -> Ipv4Net {
        net.trunc()
    }

    fn prefix(net: Ipv4Net) -> Prefix {
        Prefix { bits: u128::from(u32::from(net.addr())) << 96, length: net.prefix_len() }
    }

    fn choice() -> &'static Choice {
        static CHOICE: LazyLock<Choice> = LazyLock::new(measure::<V4>);
        &CHOICE
    }

    fn address(bits: u128) -> u32 {
        (bits >> 96) as u32
    }

    #[inline]
    fn lookup(tables: &Tables<AtomicU16>, address: u32) -> NextHopId {
        let mut next_hop = [NextHopId::NONE];
        scalar::lookup(tables, &[address], &mut next_hop);
        next_hop[0]
    }

    #[inline]
    fn lookup_chunk(tables: &Tables<AtomicU16>, addresses: &[u32], next_hops: &mut [NextHopId]) {
        scalar::lookup(tables, addresses, next_hops);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    #[allow(unsafe_code)] // as declared
    unsafe fn lookup_chunks_avx2(
        tables: &Tables<AtomicU16>,
        chunks: &[[u32; CHUNK]],
        next_hop_chunks: &mut [[NextHopId; CHUNK]],
    ) {
        avx2::lookup(tables, chunks, next_hop_chunks);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    #[allow(unsafe_code)] // as declared
    unsafe fn lookup_chunks_avx512(
        tables: &Tables<AtomicU16>,
        chunks: &[[u32; CHUNK]],
        next_hop_chunks: &mut [[NextHopId; CHUNK]],
    ) {
        avx512::lookup(tables, chunks, next_hop_chunks);
    }
}

impl Fib4Reader {
    /// Returns a function that prefetches the first cell of a lookup (address in host byte
    /// order), for callers with other work to do before the lookup.
    #[inline]
    pub fn prefetcher(&self) -> impl Fn(u32) {
        let root = self.tables.root.bytes();
        move |address| prefetch(&root[(address >> 8) as usize])
    }

    /// Like [`Self::lookup_batch`], for addresses in the caller's records, which also take the next
    /// hop; nothing is copied.
    #[inline]
    pub fn lookup_records<R>(
        &self,
        records: &mut [R],
        address: impl Fn(&R) -> u32,
        next_hop: impl Fn(&mut R) -> &mut NextHopId,
    ) {
        let root = self.tables.root.bytes();
        let mut seen = 0;
        for record in &mut *records {
            let byte = root[(address(record) >> 8) as usize].load(Ordering::Relaxed);
            // Only this byte carries into the next bit, cheaper than a maximum.
            seen |= u32::from(byte) + 1;
            *next_hop(record) = NextHopId(byte.into());
        }
        // Everything written before a byte was stored is visible from here on.
        fence(Ordering::Acquire);
        if seen > u32::from(WHOLE) {
            for record in records {
                if next_hop(record).0 == u16::from(WHOLE) {
                    *next_hop(record) = scalar::whole(&self.tables, address(record));
                }
            }
            fence(Ordering::Acquire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FibError;
    use crate::grace::Grace;

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
