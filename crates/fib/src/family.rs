//! Differences between IPv4 and IPv6.

use crate::cell::Cell;
use crate::multibit::{Prefix, Tables};
use crate::{Choice, NextHopId, SimdLevel};

/// Addresses whose loads overlap; at least as many as a core keeps outstanding.
pub(crate) const CHUNK: usize = 32;

/// Differences between the address families; both are in this crate.
pub trait Family {
    /// Type of a prefix.
    type Net: prefix_trie::Prefix + From<Self::Address> + Copy;
    /// Type of an address.
    type Address;
    /// Type of a stored entry.
    type Cell: Cell;
    /// Type of an address for readers, in host byte order.
    type Bits: Copy + Send + Sync;
    /// Implementations of its batch lookup, narrower ones first.
    const LEVELS: &[SimdLevel];
    /// Lengths of prefixes to which many packets go.
    const FREQUENT_LENGTHS: &[u8];
    /// Default limit on the number of groups in a table.
    const DEFAULT_GROUPS: usize;
    /// Largest number of groups that entries can name.
    const MAX_GROUPS: usize;

    /// Returns the prefix with its host bits cleared.
    fn truncated(net: Self::Net) -> Self::Net;

    /// Returns the prefix as the trie of cells uses it.
    fn prefix(net: Self::Net) -> Prefix;

    /// Returns the implementation that this process uses, measured at the first call.
    fn choice() -> &'static Choice;

    /// Returns the address that begins with these bits.
    fn address(bits: u128) -> Self::Bits;

    /// Looks up the next hop of one address.
    fn lookup(tables: &Tables<Self::Cell>, address: Self::Bits) -> NextHopId;

    /// Looks up at most a chunk of addresses, in the portable way.
    fn lookup_chunk(
        tables: &Tables<Self::Cell>,
        addresses: &[Self::Bits],
        next_hops: &mut [NextHopId],
    );

    /// Looks up whole chunks of addresses.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)] // instructions that not every processor has
    unsafe fn lookup_chunks_avx2(
        tables: &Tables<Self::Cell>,
        chunks: &[[Self::Bits; CHUNK]],
        next_hop_chunks: &mut [[NextHopId; CHUNK]],
    );

    /// Looks up whole chunks of addresses, where [`Self::LEVELS`] has AVX-512.
    ///
    /// # Safety
    /// The processor must have AVX-512 (its foundation).
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)] // instructions that not every processor has
    unsafe fn lookup_chunks_avx512(
        tables: &Tables<Self::Cell>,
        chunks: &[[Self::Bits; CHUNK]],
        next_hop_chunks: &mut [[NextHopId; CHUNK]],
    ) {
        // SAFETY: processors with AVX-512 have AVX2.
        unsafe { Self::lookup_chunks_avx2(tables, chunks, next_hop_chunks) };
    }
}
