//! Link-layer types of captured packets.

use std::fmt;

/// Link-layer type of a capture (the `LINKTYPE_` registry of tcpdump.org).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet II or 802.3, without preamble and frame check sequence.
    pub const ETHERNET: Self = Self(1);
    /// A bare IPv4 or IPv6 packet.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: as [`Self::NULL`], in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1: 16 bytes before the network header.
    pub const LINUX_SLL: Self = Self(113);
    /// A bare IPv4 packet.
    pub const IPV4: Self = Self(228);
    /// A bare IPv6 packet.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2: 20 bytes before the network header.
    pub const LINUX_SLL2: Self = Self(276);

    /// Returns the number of bytes before the network header, if it is fixed. Ethernet has 14; the
    /// parser of the frame must handle VLAN tags.
    pub fn header_length(self) -> Option<usize> {
        match self {
            Self::RAW | Self::IPV4 | Self::IPV6 => Some(0),
            Self::NULL | Self::LOOP => Some(4),
            Self::ETHERNET => Some(14),
            Self::LINUX_SLL => Some(16),
            Self::LINUX_SLL2 => Some(20),
            _ => None,
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::NULL => "BSD loopback",
            Self::ETHERNET => "Ethernet",
            Self::RAW => "raw IP",
            Self::LOOP => "OpenBSD loopback",
            Self::LINUX_SLL => "Linux cooked v1",
            Self::IPV4 => "raw IPv4",
            Self::IPV6 => "raw IPv6",
            Self::LINUX_SLL2 => "Linux cooked v2",
            Self(other) => return write!(f, "link type {other}"),
        };
        write!(f, "{name} (link type {})", self.0)
    }
}
