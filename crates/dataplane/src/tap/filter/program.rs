//! Program to which a filter is compiled.

use super::headers::Headers;

/// Most tests and operators of a filter. A stack of bits in one word holds what is not yet joined.
pub(super) const OPERATIONS_MAX: usize = 64;

/// A step of a filter, which works on a stack of truth values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Test(Test),
    Not,
    And,
    Or,
}

/// Test of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    All,
    Version(u8),
    Protocol(u8),
    /// Version and protocol: ICMP is one protocol for IPv4 and another for IPv6.
    ProtocolOf(u8, u8),
    Net {
        side: Side,
        version: u8,
        network: u128,
        mask: u128,
    },
    Port {
        side: Side,
        from: u16,
        to: u16,
    },
    Interface(u16),
    Vlan(u16),
}

/// End of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Either,
}

impl Test {
    /// Whether it holds for a frame at a port.
    pub fn holds(self, at: u16, headers: &Headers) -> bool {
        match self {
            Self::All => true,
            Self::Version(version) => headers.version == version,
            Self::Protocol(protocol) => headers.protocol == Some(protocol),
            Self::ProtocolOf(version, protocol) => {
                headers.version == version && headers.protocol == Some(protocol)
            }
            Self::Net { side, version, network, mask } => {
                let within = |address: u128| address & mask == network;
                headers.version == version && side.holds(headers.addresses, within)
            }
            Self::Port { side, from, to } => {
                let within = |port: u16| (from..=to).contains(&port);
                headers.ports.is_some_and(|ports| side.holds(ports, within))
            }
            Self::Interface(port) => port == at,
            Self::Vlan(vlan) => headers.vlan == Some(vlan),
        }
    }
}

impl Side {
    fn holds<T>(self, (source, destination): (T, T), test: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => test(source),
            Self::Destination => test(destination),
            Self::Either => test(source) || test(destination),
        }
    }
}
