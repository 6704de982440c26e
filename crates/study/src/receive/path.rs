//! The receive path's sizes and switches.

use super::cache::InvalidCache;
use super::layout::{PAYLOAD_BYTES, PageStruct};
use super::machine::Caches;
use super::prefetch::Streams;
use serde::{Deserialize, Serialize};

/// Destination of received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Memory; the caches lose their copies.
    Memory,
    /// Packets and descriptors go into the last-level cache (direct cache access).
    Cache,
    /// Like `Cache`, with the packet's SKB and page structures.
    CacheWithMetadata,
}

/// Source of the packets' buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffers {
    /// An SKB and a buffer per packet, from the slab allocator.
    Slab,
    /// One contiguous range for SKBs and one for buffers, each reused as soon as it is free. Rings
    /// hold two batches, and the release reads no page structure.
    Contiguous,
}

/// The receive path: sizes and switches. `Default` is the paper's server with one core.
///
/// The paper prints the sizes of structures, packets per interrupt, connections, I/O size, the
/// chaining of packets, and the size of the last-level cache. Intel's documentation gives ways,
/// level 1 and prefetchers; Linux 2.6.21 and the driver's neighbouring versions give the rest
/// (docs/explanation/receive-path.md). **Assumed**, for lack of a source: the number of busy
/// [`Self::queues`], windows waiting in the sockets, the layout of a page structure, and the
/// prefetchers that the firmware enables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReceivePath {
    /// Number of busy receive queues. 8 flows that are hashed onto 8 queues leave 5.25 busy on
    /// average.
    pub queues: usize,
    /// Descriptors per queue: the driver's default.
    pub ring: usize,
    /// Cores that share the last-level cache and the queues.
    pub cores: usize,
    /// TCP connections, spread evenly over the queues.
    pub connections: usize,
    /// Packets per interrupt.
    pub batch: usize,
    /// Most packets of a chain (large receive offload); 1 without it.
    pub chain: usize,
    /// Bytes per read call of the application.
    pub io_bytes: u32,
    /// Bytes waiting in the socket of each connection.
    pub window_bytes: u32,
    /// Size of the shared last-level cache in bytes.
    pub llc_bytes: u64,
    /// Ways of the last-level cache.
    pub llc_ways: usize,
    /// Each core's prefetcher into the last level.
    #[serde(skip)]
    pub streams: Streams,
    /// True if level 1 fetches the line after one that is read through.
    pub next_line: bool,
    /// True if the last level fetches lines in pairs.
    pub pairs: bool,
    /// Fields of a page structure that a lookup reads.
    pub page_struct: PageStruct,
    /// True if the allocator has an array that all processors share.
    pub shared_array: bool,
    /// True if the driver prefetches headers.
    pub header_prefetch: bool,
    /// Destination of received data.
    pub delivery: Delivery,
    /// True if the card is on the processor's die, without PCI Express in between.
    pub on_die: bool,
    /// Source of the buffers.
    pub buffers: Buffers,
    /// True if a separate engine copies payload within the cache.
    pub copy_engine: bool,
    /// True if the stack drops packets from the caches after the copy.
    pub invalidate: bool,
    /// Seed of the sequence of queues.
    pub seed: u64,
}

impl Default for ReceivePath {
    fn default() -> Self {
        Self {
            queues: 5,
            ring: 1024,
            cores: 1,
            connections: 8,
            batch: 60,
            chain: 32,
            io_bytes: 16_384,
            window_bytes: 65_535,
            llc_bytes: 4 << 20,
            llc_ways: 16,
            streams: Streams::default(),
            next_line: true,
            pairs: false,
            page_struct: PageStruct::FirstLine,
            shared_array: true,
            header_prefetch: true,
            delivery: Delivery::Memory,
            on_die: false,
            buffers: Buffers::Slab,
            copy_engine: false,
            invalidate: false,
            seed: 1,
        }
    }
}

/// Reasons for refusing to simulate a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The cache is invalid.
    #[error(transparent)]
    Cache(#[from] InvalidCache),
    /// A number is out of range.
    #[error("{name} is {value}; allowed: {allowed}")]
    Range {
        /// Name of the field.
        name: &'static str,
        /// Value of the field.
        value: u64,
        /// Allowed range.
        allowed: &'static str,
    },
}

/// Limit on the buffers in use at once, so that all have a place.
const MOST_BUFFERS: usize = 1 << 17;

impl ReceivePath {
    /// Returns the number of buffers waiting in a ring.
    pub(super) fn posted(&self) -> usize {
        match self.buffers {
            Buffers::Slab => self.ring,
            Buffers::Contiguous => self.ring.min(2 * self.batch),
        }
    }

    /// Returns the caches of the host.
    pub(super) fn caches(&self) -> Caches {
        Caches {
            l1: (32 << 10, 8),
            llc: (self.llc_bytes, self.llc_ways),
            cores: self.cores,
            streams: self.streams,
            next_line: self.next_line,
            pairs: self.pairs,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidPath> {
        let range = |name, value: u64, ok: bool, allowed| match ok {
            true => Ok(()),
            false => Err(InvalidPath::Range { name, value, allowed }),
        };
        let size = |value: usize, most: usize| (1..=most).contains(&value);
        range("queues", self.queues as u64, size(self.queues, 64), "1 to 64")?;
        range("ring", self.ring as u64, size(self.ring, 4096), "1 to 4096")?;
        range("cores", self.cores as u64, size(self.cores, 8), "1 to 8")?;
        range("connections", self.connections as u64, size(self.connections, 4096), "1 to 4096")?;
        range("batch", self.batch as u64, size(self.batch, self.ring), "1 to ring")?;
        range("chain", self.chain as u64, size(self.chain, 64), "1 to 64")?;
        let (io, window) = (self.io_bytes, self.window_bytes);
        range("io_bytes", u64::from(io), (1..=1 << 20).contains(&io), "1 to 1048576")?;
        range("window_bytes", u64::from(window), window <= 1 << 22, "0 to 4194304")?;
        let standing = (io + window).div_ceil(PAYLOAD_BYTES) as usize + self.chain;
        let held = self.queues * self.ring + self.connections * (self.batch + standing);
        range("buffers in use", held as u64, held < MOST_BUFFERS, "131071 or less")
    }
}
