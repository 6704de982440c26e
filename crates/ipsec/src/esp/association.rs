//! Security associations (SAs): the state of one direction of one tunnel (RFC 4301 section 4.4.2).
//!
//! Workers share them. The parts that change are atomic: sequence numbers, the anti-replay window,
//! counters, and the end of life.

use super::policy::Prefixes;
use super::replay::ReplayWindow;
use super::sequence::Sequence;
use super::transform::Transform;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wattline_dataplane::drop_reason::DropReason;
use wattline_packet::esp::{HEADER, TRAILER, UDP_HEADER};
use wattline_packet::{ipv4, ipv6};

/// Counters of an SA; any worker adds a batch at a time.
#[derive(Debug)]
pub struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: Box<[AtomicU64]>,
}

impl Default for Counters {
    fn default() -> Self {
        let dropped = DropReason::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self { packets: AtomicU64::new(0), bytes: AtomicU64::new(0), dropped }
    }
}

impl Counters {
    /// Counts packets with the bytes of their inner packets.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a packet that was dropped.
    pub fn drop(&self, reason: DropReason) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Returns the bytes of inner packets.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the dropped packets by reason; reasons with a count of zero are absent.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let count = |reason: &DropReason| self.dropped[*reason as usize].load(Ordering::Relaxed);
        DropReason::ALL.iter().map(move |reason| (*reason, count(reason))).filter(|it| it.1 > 0)
    }
}

/// Use after which an SA ends. `u64::MAX` means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: u64::MAX, bytes: u64::MAX }
    }
}

/// State common to both directions.
pub struct Common {
    /// Name in statistics.
    pub name: String,
    /// SPI, which identifies the SA's packets.
    pub spi: u32,
    /// Algorithm and keys.
    pub transform: Transform,
    /// True if sequence numbers have 64 bits.
    pub extended: bool,
    /// Address of the tunnel's end here.
    pub local: IpAddr,
    /// Address of the far end.
    pub remote: IpAddr,
    /// Own and far UDP port if packets are encapsulated in UDP (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// Hard limit of use; checked once per batch.
    pub hard: Limits,
    /// Counters of the SA.
    pub counters: Counters,
    ended: AtomicBool,
}

impl Common {
    /// Makes a new SA, alive.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        name: String,
        spi: u32,
        transform: Transform,
        extended: bool,
        (local, remote): (IpAddr, IpAddr),
        udp: Option<(u16, u16)>,
        hard: Limits,
    ) -> Self {
        let (counters, ended) = (Counters::default(), AtomicBool::new(false));
        Self { name, spi, transform, extended, local, remote, udp, hard, counters, ended }
    }

    /// Ends the SA: it protects and accepts no more packets.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Returns true if the SA has ended, by time or by use.
    pub fn is_at_end(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            || self.counters.packets() >= self.hard.packets
            || self.counters.bytes() >= self.hard.bytes
    }

    /// Returns the number of bytes before the inner packet.
    pub(super) fn before(&self) -> usize {
        let ip = if self.local.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER };
        let udp = if self.udp.is_some() { UDP_HEADER } else { 0 };
        ip + udp + HEADER + self.transform.algorithm().iv()
    }

    /// Returns the longest inner packet whose outer packet has at most `mtu` bytes.
    pub fn inner_mtu(&self, mtu: usize) -> usize {
        let algorithm = self.transform.algorithm();
        let room = mtu.saturating_sub(self.before() + algorithm.icv());
        (room - room % algorithm.alignment()).saturating_sub(TRAILER)
    }
}

/// DSCP of the outer header (RFC 4301 section 5.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dscp {
    /// Same as in the inner header.
    #[default]
    Copy,
    /// Always this value, 0 to 63.
    Set(u8),
}

/// "Don't fragment" flag of the outer IPv4 header (RFC 4301 section 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DontFragment {
    /// Same as in the inner header; set for IPv6, which is never fragmented on its path.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set: the outer packet may be fragmented, and the peer must reassemble it.
    Clear,
}

/// An SA for packets that are sent.
pub struct Outbound {
    /// State common to both directions.
    pub common: Common,
    /// Source of sequence numbers.
    pub sequence: Sequence,
    /// Added to a sequence number, modulo 2^64, to give the number from which the IV is made.
    pub iv_offset: u64,
    /// DSCP of the outer header.
    pub dscp: Dscp,
    /// "Don't fragment" flag of the outer header.
    pub dont_fragment: DontFragment,
    /// Longest outer packet in bytes, if the path has a smaller MTU than the port.
    pub mtu: u16,
}

/// An SA for packets that are received.
pub struct Inbound {
    /// State common to both directions. Like the window, it survives a change of the selectors.
    pub common: Arc<Common>,
    /// Received sequence numbers.
    pub window: Arc<ReplayWindow>,
    /// Source and destination prefixes of the inner packets that may come through it.
    pub selectors: Vec<Prefixes>,
}
