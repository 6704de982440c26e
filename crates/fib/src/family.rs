//! What sets IPv4 and IPv6 apart.

use crate::NextHopId;
use crate::cell::Cell;
use crate::multibit::{Prefix, Tables};

/// Addresses whose loads are in flight together: what a core keeps outstanding, and more.
pub(crate) const CHUNK: usize = 32;

/// What sets the families apart; this crate has both.
pub trait Family {
    /// A prefix.
    type Net: prefix_trie::Prefix + From<Self::Address> + Copy;
    /// An address.
    type Address;
    /// What an entry is stored in.
    type Cell: Cell;
    /// An address as readers have it, in host byte order.
    type Bits: Copy + Send + Sync;
    /// How many groups a table may have unless told otherwise.
    const DEFAULT_GROUPS: usize;
    /// As many groups as an entry can number.
    const MAX_GROUPS: usize;

    /// Without bits that the length leaves out.
    fn truncated(net: Self::Net) -> Self::Net;

    /// As the trie of cells has it.
    fn prefix(net: Self::Net) -> Prefix;

    /// The next hop of one address.
    fn lookup(tables: &Tables<Self::Cell>, address: Self::Bits) -> NextHopId;

    /// The next hops of at most a chunk, the portable way.
    fn lookup_chunk(
        tables: &Tables<Self::Cell>,
        addresses: &[Self::Bits],
        next_hops: &mut [NextHopId],
    );

    /// The next hops of whole chunks.
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
}
