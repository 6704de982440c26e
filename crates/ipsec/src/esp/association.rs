//! Security associations: what one direction of one tunnel needs (RFC 4301 section 4.4.2).
//!
//! Workers share them. What changes is atomic: sequence numbers, the anti-replay window,
//! counters, and whether the association is still alive.

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

/// What an association has done. Any worker adds, by a batch's worth at a time.
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

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Bytes of inner packets so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Packets dropped, by reason, where there are any.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let count = |reason: &DropReason| self.dropped[*reason as usize].load(Ordering::Relaxed);
        DropReason::ALL.iter().map(move |reason| (*reason, count(reason))).filter(|it| it.1 > 0)
    }
}

/// After how much an association is no longer used. `u64::MAX` stands for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets.
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: u64::MAX, bytes: u64::MAX }
    }
}

/// What both directions have.
pub struct Common {
    /// Its name in statistics.
    pub name: String,
    /// Which packets belong to it.
    pub spi: u32,
    /// Its algorithms and keys.
    pub transform: Transform,
    /// Whether sequence numbers have 64 bits.
    pub extended: bool,
    /// The end of the tunnel that is here.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// Own and far UDP port, where packets are encapsulated (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// The end of its life by use; kept to the batch.
    pub hard: Limits,
    /// What it has done.
    pub counters: Counters,
    ended: AtomicBool,
}

impl Common {
    /// A new one, alive.
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

    /// Ends its life: no packet is protected or accepted by it any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether it is at its end, by time or by use.
    pub fn is_at_end(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            || self.counters.packets() >= self.hard.packets
            || self.counters.bytes() >= self.hard.bytes
    }

    /// Bytes in front of the inner packet.
    pub(super) fn before(&self) -> usize {
        let ip = if self.local.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER };
        let udp = if self.udp.is_some() { UDP_HEADER } else { 0 };
        ip + udp + HEADER + self.transform.algorithm().iv()
    }

    /// The longest inner packet whose outer packet has at most `mtu` bytes.
    pub fn inner_mtu(&self, mtu: usize) -> usize {
        let algorithm = self.transform.algorithm();
        let room = mtu.saturating_sub(self.before() + algorithm.icv());
        (room - room % algorithm.alignment()).saturating_sub(TRAILER)
    }
}

/// What the outer header has of DSCP (RFC 4301 section 5.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dscp {
    /// That of the inner header.
    #[default]
    Copy,
    /// Always this, from 0 to 63.
    Set(u8),
}

/// What the outer IPv4 header has of "don't fragment" (RFC 4301 section 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DontFragment {
    /// That of the inner header; set for IPv6, which is never fragmented on the way.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set: the outer packet may be fragmented, and the peer has to put it together.
    Clear,
}

/// For packets that are sent.
pub struct Outbound {
    /// What both directions have.
    pub common: Common,
    /// Where sequence numbers come from.
    pub sequence: Sequence,
    /// Put over sequence numbers to get the IV of GCM; 0 where the numbers alone are unique.
    pub salt: u64,
    /// What the outer header has of DSCP.
    pub dscp: Dscp,
    /// What it has of "don't fragment".
    pub dont_fragment: DontFragment,
    /// The longest outer packet in bytes, where the way is narrower than the port shows.
    pub mtu: u16,
}

/// For packets that are received.
pub struct Inbound {
    /// What both directions have. Like the window it outlives this where the selectors change.
    pub common: Arc<Common>,
    /// What has been received.
    pub window: Arc<ReplayWindow>,
    /// Source and destination of inner packets that may come through it.
    pub selectors: Vec<Prefixes>,
}
