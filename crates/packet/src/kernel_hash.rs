//! The kernel's hash of a flow, by which it chooses one of several next hops: `fib_multipath_hash()` in
//! net/ipv4/route.c, `rt6_multipath_hash()` in net/ipv6/route.c.
//!
//! It is known where the operator has set its key, `net.ipv4.fib_multipath_hash_seed` (Linux 6.11). The key
//! holds for both families. Both directions of a flow have the same hash.

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

/// Fields by which flows differ (`fib_multipath_hash_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashPolicy {
    /// 0: addresses; of IPv6 also flow label and next header. Those of the packet that an ICMP error
    /// quotes.
    Network,
    /// 1: addresses, protocol and ports.
    Transport,
}

impl HashPolicy {
    /// Policy of a number; `None` for those that depend on tunnels or on chosen fields.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Network),
            1 => Some(Self::Transport),
            _ => None,
        }
    }
}

/// The hash as one network namespace is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHash {
    /// Value of `net.ipv4.fib_multipath_hash_seed`.
    pub seed: NonZeroU32,
    /// Policy for IPv4; `None` where it is unknown.
    pub ipv4: Option<HashPolicy>,
    /// Policy for IPv6.
    pub ipv6: Option<HashPolicy>,
}

impl KernelHash {
    /// Hash of an IPv4 packet; `None` where it is unknown. An ICMP error has that of the flow that it
    /// quotes, with policy 1 too, unlike in the kernel.
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

    /// The same of an IPv6 packet that begins at `packet`; `None` also if its headers are malformed.
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

    /// Hashes fields and addresses, both directions alike: the lesser address and the lesser port come
    /// first, each on its own (`__flow_hash_consistentify()`).
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
        // With the padding behind them.
        let keys = &keys[..end.next_multiple_of(8)];
        // 0 means that there is none.
        (SipHasher24::new_with_keys(key, key).hash(keys) as u32).max(1)
    }
}

/// Fields of a packet beside its addresses.
#[derive(Default)]
struct Fields {
    label: u32,
    protocol: u8,
    ports: [u8; 4],
}

/// Ports, or what the kernel takes for them.
fn ports(protocol: u8, payload: &[u8]) -> [u8; 4] {
    use protocol::{AUTHENTICATION, DCCP, ESP, SCTP, TCP, UDP, UDP_LITE};
    let ports = match protocol {
        TCP | UDP | UDP_LITE | SCTP | DCCP | ESP => payload.first_chunk(),
        AUTHENTICATION => payload.get(4..).and_then(|rest| rest.first_chunk()),
        _ => None,
    };
    ports.copied().unwrap_or_default()
}

/// Header of an IPv6 packet, and what its transport adds, behind the extension headers that the kernel's
/// dissector follows. Fragments add their protocol alone, atomic ones too.
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
