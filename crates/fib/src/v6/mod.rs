//! IPv6: a multibit trie, 24 bits and then 8 at a time, with entries of four bytes.
//!
//! A lookup takes one load per level, and each level depends on the one before. A batch descends
//! level by level together, so that the loads of a level overlap.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod entry;
mod scalar;

use crate::family::{CHUNK, Family};
use crate::fib::Fib;
use crate::measure::measure;
use crate::multibit::{Prefix, Tables};
use crate::reader::Reader;
use crate::{Choice, NextHopId, SimdLevel};
use ipnet::Ipv6Net;
use std::net::Ipv6Addr;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;

/// Default number of groups: 256 MiB, twice the size of the full Internet table of 2024.
const DEFAULT_GROUPS: usize = 1 << 18;
/// Largest number of groups whose cells a gather can index with 31 bits: 8 GiB.
const MAX_GROUPS: usize = 1 << 23;

/// Writer of the IPv6 table. It has room for 262,144 groups of 1 KiB (used as needed) by default. A
/// prefix of more than 24 bits needs one group for every further 8 bits or part of them, shared
/// with neighbouring prefixes.
pub type Fib6 = Fib<V6>;

/// The address family IPv6.
#[derive(Debug)]
pub struct V6;

/// Reader of the IPv6 table.
pub type Fib6Reader = Reader<V6>;

impl Family for V6 {
    type Net = Ipv6Net;
    type Address = Ipv6Addr;
    type Cell = AtomicU32;
    type Bits = u128;
    const LEVELS: &[SimdLevel] = &[SimdLevel::Scalar, SimdLevel::Avx2];
    const FREQUENT_LENGTHS: &[u8] = &[32, 40, 44, 48];
    const DEFAULT_GROUPS: usize = DEFAULT_GROUPS;
    const MAX_GROUPS: usize = MAX_GROUPS;

    fn truncated(net: Ipv6Net) -> Ipv6Net {
        net.trunc()
    }

    fn prefix(net: Ipv6Net) -> Prefix {
        Prefix { bits: net.addr().into(), length: net.prefix_len() }
    }

    fn choice() -> &'static Choice {
        static CHOICE: LazyLock<Choice> = LazyLock::new(measure::<V6>);
        &CHOICE
    }

    fn address(bits: u128) -> u128 {
        bits
    }

    #[inline]
    fn lookup(tables: &Tables<AtomicU32>, address: u128) -> NextHopId {
        let mut next_hop = [NextHopId::NONE];
        scalar::lookup::<1>(tables, &[address], &mut next_hop);
        next_hop[0]
    }

    #[inline]
    fn lookup_chunk(tables: &Tables<AtomicU32>, addresses: &[u128], next_hops: &mut [NextHopId]) {
        scalar::lookup::<CHUNK>(tables, addresses, next_hops);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    #[allow(unsafe_code)] // declared unsafe by the trait
    unsafe fn lookup_chunks_avx2(
        tables: &Tables<AtomicU32>,
        chunks: &[[u128; CHUNK]],
        next_hop_chunks: &mut [[NextHopId; CHUNK]],
    ) {
        avx2::lookup(tables, chunks, next_hop_chunks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FibError;
    use crate::grace::Grace;

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
