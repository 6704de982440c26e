//! Program to which a filter is compiled.

use super::headers::Headers;

/// Most tests and operators of a filter. The stack is one word of bits.
pub(super) const OPERATIONS_MAX: usize = 64;

/// A step of a filter, which operates on a stack of truth values.
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

/// Source or destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Either,
}

impl Test {
    /// Returns true if the test holds for a frame at a port.
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
