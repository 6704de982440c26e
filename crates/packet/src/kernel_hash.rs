//! The kernel's hash of a flow for the choice of one of several next hops: `fib_multipath_hash()`
//! in net/ipv4/route.c, `rt6_multipath_hash()` in net/ipv6/route.c.
//!
//! The hash is known if the operator has set its key, `net.ipv4.fib_multipath_hash_seed` (Linux
//! 6.11). The key applies to both families. Both directions of a flow have the same hash.

use crate::flow::{quoted_by_ipv4, quoted_by_ipv6};
use crate::ipv4::Ipv4Packet;
use crate::ipv6::Ipv6Header;
use crate::protocol;
use siphasher::sip::SipHasher24;
use std::num::NonZeroU32;
use zerocopy::FromBytes;

/// Bytes that the kernel hashes before the addresses: `struct flow_keys` from its member `basic` on.
const BEFORE_ADDRESSES: usize = 36;
const PROTOCOL_AT: usize = 2;
const FLOW_LABEL_AT: usize = 4;
const PORTS_AT: usize = 28;
/// Offset of the flow label's bits in the first four bytes of an IPv6 header.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Fields that distinguish flows (`fib_multipath_hash_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashPolicy {
    /// 0: addresses; for IPv6 also flow label and next header. For an ICMP error, those of the
    /// quoted packet.
    Network,
    /// 1: addresses, protocol and ports.
    Transport,
}

impl HashPolicy {
    /// Returns the policy of a number; `None` for policies that depend on tunnels or on configured
    /// fields.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Network),
            1 => Some(Self::Transport),
            _ => None,
        }
    }
}

/// The hash with the settings of one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHash {
    /// Value of `net.ipv4.fib_multipath_hash_seed`.
    pub seed: NonZeroU32,
    /// Policy for IPv4; `None` if unknown.
    pub ipv4: Option<HashPolicy>,
    /// Policy for IPv6; `None` if unknown.
    pub ipv6: Option<HashPolicy>,
}

impl KernelHash {
    /// Returns the hash of an IPv4 packet; `None` if unknown. An ICMP error gets the hash of the
    /// flow that it quotes, with policy 1 too, unlike in the kernel.
    pub fn hash_ipv4(&self, packet: &Ipv4Packet) -> Option<u32> {
        let policy = self.ipv4?;
        let quoted = quoted_by_ipv4(packet);
        let has_ports = quoted.map_or(!packet.header.is_fragment(), |(inner, _)| inner.is_first());
        let (header, payload) = quoted.unwrap_or((packet.header, packet.payload));
        let addresses = [header.source, header.destination].map(|address| address.to_bytes());
        let mut fields = Fields::default();
        if policy == HashPolicy::Transport {
            fields.protocol = header.protocol;
            fields.ports = if has_ports { ports(header.protocol, payload) } else { [0; 4] };
        }
        Some(self.hash(fields, addresses, |address| u32::from_ne_bytes(*address)))
    }

    /// Returns the hash of an IPv6 packet that begins at `packet`; `None` also if its headers are
    /// malformed.
    pub fn hash_ipv6(&self, packet: &[u8]) -> Option<u32> {
        let (header, fields) = match self.ipv6? {
            HashPolicy::Network => {
                let (outer, payload) = Ipv6Header::ref_from_prefix(packet).ok()?;
                let quoted = match payload {
                    [1..=4, _, _, _, _, _, _, _, quoted @ ..]
                        if outer.next_header == protocol::ICMP6 =>
                    {
                        Ipv6Header::ref_from_prefix(quoted).ok()
                    }
                    _ => None,
                };
                let header = quoted.map_or(outer, |(inner, _)| inner);
                let label = header.version_class_flow.get() & FLOW_LABEL;
                (header, Fields { label, protocol: header.next_header, ..Fields::default() })
            }
            HashPolicy::Transport => {
                quoted_by_ipv6(packet).and_then(dissect).or_else(|| dissect(packet))?
            }
        };
        Some(self.hash(fields, [header.source, header.destination], |address| *address))
    }

    /// Hashes fields and addresses, the same for both directions: the lesser address and the lesser
    /// port come first, each on its own (`__flow_hash_consistentify()`).
    fn hash<const N: usize, O: Ord>(
        &self,
        fields: Fields,
        mut addresses: [[u8; N]; 2],
        order: impl Fn(&[u8; N]) -> O,
    ) -> u32 {
        addresses.sort_by_key(order);
        let [a, b, c, d] = fields.ports;
        let mut ports = [[a, b], [c, d]];
        ports.sort_by_key(|port| u16::from_ne_bytes(*port));
        let mut keys = [0; BEFORE_ADDRESSES + 36];
        keys[PROTOCOL_AT] = fields.protocol;
        keys[FLOW_LABEL_AT..FLOW_LABEL_AT + 4].copy_from_slice(&fields.label.to_be_bytes());
        keys[PORTS_AT..PORTS_AT + 4].copy_from_slice(ports.as_flattened());
        let end = BEFORE_ADDRESSES + 2 * N;
        keys[BEFORE_ADDRESSES..end].copy_from_slice(addresses.as_flattened());
        let half = u64::from(self.seed.get());
        let key = half << 32 | half;
        // Including the padding.
        let keys = &keys[..end.next_multiple_of(8)];
        // 0 means that there is no hash.
        (SipHasher24::new_with_keys(key, key).hash(keys) as u32).max(1)
    }
}

/// Fields of a packet other than its addresses.
#[derive(Default)]
struct Fields {
    label: u32,
    protocol: u8,
    ports: [u8; 4],
}

/// Ports, or the bytes that the kernel uses as ports.
fn ports(protocol: u8, payload: &[u8]) -> [u8; 4] {
    use protocol::{AUTHENTICATION, DCCP, ESP, SCTP, TCP, UDP, UDP_LITE};
    let ports = match protocol {
        TCP | UDP | UDP_LITE | SCTP | DCCP | ESP => payload.first_chunk(),
        AUTHENTICATION => payload.get(4..).and_then(|rest| rest.first_chunk()),
        _ => None,
    };
    ports.copied().unwrap_or_default()
}

/// Returns the header of an IPv6 packet, and the fields of its transport after the extension
/// headers that the kernel's dissector skips. Fragments, also atomic ones, add only their protocol.
fn dissect(packet: &[u8]) -> Option<(&Ipv6Header, Fields)> {
    use protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    let (header, mut rest) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let mut protocol = header.next_header;
    while let HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS = protocol {
        let [following, length] = *rest.first_chunk()?;
        protocol = following;
        rest = rest.get(8 + usize::from(length) * 8..)?;
    }
    let mut fields = Fields { protocol, ..Fields::default() };
    match protocol {
        FRAGMENT => fields.protocol = *rest.first()?,
        _ => fields.ports = ports(protocol, rest),
    }
    Some((header, fields))
}
