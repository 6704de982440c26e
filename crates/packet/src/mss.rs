//! The maximum segment size that a TCP connection announces at its start (RFC 9293, section 3.7.1),
//! lowered in passing packets.

use crate::checksum;
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Fragment, Ipv6Header};
use crate::protocol::TCP;
use std::ops::Range;
use zerocopy::FromBytes;

/// Bytes of a TCP header without options.
const HEADER: usize = 20;
/// Bit of a SYN.
const SYN: u8 = 0x02;
/// Kinds of options: the end, one byte of padding, the maximum segment size with its length.
const END: u8 = 0;
const NOTHING: u8 = 1;
const SIZE: [u8; 2] = [2, 4];

/// Limits of the segment size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Largest payload of a segment, in bytes.
    pub segment: u16,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { mtu: u16::MAX, segment: u16::MAX };

    /// Applies both limits.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { mtu: self.mtu.min(other.mtu), segment: self.segment.min(other.segment) }
    }
}

/// Lowers the size that an IP packet announces, if it is a SYN and the size exceeds the limit. The
/// checksum is updated. Packets with wrong headers or options, or without an announced size, are
/// unchanged.
pub fn lower(packet: &mut [u8], limit: Limit) {
    let Some((header, segment)) = segment_of(packet) else { return };
    let most = limit.segment.min(limit.mtu.saturating_sub((header + HEADER) as u16));
    let Some(segment) = packet.get_mut(segment) else { return };
    let Some(at) = announced(segment) else { return };
    let old = [segment[at], segment[at + 1]];
    if u16::from_be_bytes(old) <= most {
        return;
    }
    let new = most.to_be_bytes();
    segment[at..at + 2].copy_from_slice(&new);
    // At an odd offset, the two bytes belong to different words of the sum, each with its bytes
    // swapped.
    let word = |[high, low]: [u8; 2]| {
        if at % 2 == 0 { u16::from_be_bytes([high, low]) } else { u16::from_be_bytes([low, high]) }
    };
    let sum =
        checksum::update(u16::from_be_bytes([segment[16], segment[17]]), word(old), word(new));
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the length of an IP header without options or extensions, and the range of the TCP
/// segment.
fn segment_of(packet: &[u8]) -> Option<(usize, Range<usize>)> {
    match packet.first()? >> 4 {
        4 => {
            let (header, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
            let is_first = header.fragment.get() & 0x1fff == 0;
            let is_tcp = header.protocol == TCP && header.header_length() >= ipv4::HEADER;
            let place = header.header_length()..usize::from(header.total_length.get());
            (is_first && is_tcp).then_some((ipv4::HEADER, place))
        }
        6 => {
            let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
            let found = ipv6::payload(packet)?;
            let is_first = !matches!(found.fragment, Fragment::Later(_));
            let place = found.offset..header.total_length();
            (is_first && found.protocol == TCP).then_some((ipv6::HEADER, place))
        }
        _ => None,
    }
}

/// Returns the offset of the size that a SYN announces.
fn announced(segment: &[u8]) -> Option<usize> {
    let length = usize::from(*segment.get(12)? >> 4) * 4;
    let header = segment.get(..length)?;
    if length < HEADER || header[13] & SYN == 0 {
        return None;
    }
    let mut at = HEADER;
    while let Some(option) = header.get(at..) {
        match *option {
            [] | [END, ..] => return None,
            [NOTHING, ..] => at += 1,
            [kind, bytes, ..] if [kind, bytes] == SIZE => {
                return (option.len() >= 4).then_some(at + 2);
            }
            // RFC 9293, section 3.1: the length counts the option's first two bytes.
            [_, bytes, ..] if bytes >= 2 => at += usize::from(bytes),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, TcpHeader};

    /// Returns a SYN with these options, and the offset of its TCP header.
    fn syn(is_v6: bool, options: &[u8]) -> (Vec<u8>, usize) {
        let mut tcp = TcpHeader::new(1, 2, 3, 4);
        tcp.syn = true;
        tcp.set_options_raw(options).unwrap();
        let mut packet = Vec::new();
        let built = if is_v6 {
            PacketBuilder::ipv6([0x20; 16], [0x26; 16], 64).tcp_header(tcp)
        } else {
            PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).tcp_header(tcp)
        };
        built.write(&mut packet, b"x").unwrap();
        (packet, if is_v6 { 40 } else { 20 })
    }

    const OF_MTU: Limit = Limit { mtu: 1400, segment: u16::MAX };

    #[test]
    fn size_is_lowered_wherever_it_stands_and_the_checksum_is_right() {
        let size = [2, 4, 0x05, 0xb4];
        for before in [&[][..], &[1], &[1, 1], &[3, 3, 7], &[8, 10, 0, 1, 2, 3, 4, 5, 6, 7]] {
            for is_v6 in [false, true] {
                let mut options = [before, &size[..]].concat();
                let (packet, header) = syn(is_v6, &options);
                let most = 1400 - header as u16 - 20;
                options[before.len() + 2..].copy_from_slice(&most.to_be_bytes());
                let mut lowered = packet.clone();
                lower(&mut lowered, OF_MTU);
                assert_eq!(lowered, syn(is_v6, &options).0, "{before:?}");
                let mut same = packet.clone();
                lower(&mut same, Limit { mtu: 1500, segment: 1460 });
                assert_eq!(
                    same[header..] == packet[header..],
                    !is_v6,
                    "1460 bytes fit only into IPv4"
                );
                lower(&mut lowered, Limit { segment: 536, ..Limit::NONE });
                options[before.len() + 2..].copy_from_slice(&536_u16.to_be_bytes());
                assert_eq!(lowered, syn(is_v6, &options).0);
            }
        }
    }

    #[test]
    fn nothing_else_is_touched() {
        let (packet, _) = syn(false, &[2, 4, 0x05, 0xb4]);
        let change = |at: usize, value: u8| {
            let mut packet = packet.clone();
            packet[at] = value;
            packet
        };
        for (what, other) in [
            ("no SYN", change(33, 0x10)),
            ("a later fragment", change(7, 1)),
            ("UDP", change(9, 17)),
            ("an end before it", change(40, 0)),
            ("a length of 3", change(41, 3)),
            ("an option of length 0", change(40, 5)),
            ("a header that ends before it", change(32, 0x50)),
            ("a header longer than the packet", change(32, 0xf0)),
            ("a header shorter than one", change(32, 0x40)),
            ("a packet that ends before it", change(3, 40)),
        ] {
            let mut same = other.clone();
            lower(&mut same, OF_MTU);
            assert_eq!(same, other, "{what}");
        }
        for length in 0..packet.len() - 1 {
            let mut cut = packet[..length].to_vec();
            lower(&mut cut, OF_MTU);
            assert_eq!(cut[..length.min(36)], packet[..length.min(36)]);
        }
    }

    /// At most the size and the checksum of a TCP header change, whatever the bytes.
    #[test]
    fn any_bytes_are_left_alone_but_for_two_fields() {
        bolero::check!().with_type::<(Vec<u8>, u16, u16)>().for_each(|(bytes, mtu, segment)| {
            for first in [None, Some(0x45), Some(0x60)] {
                let mut packet = bytes.clone();
                if let (Some(first), Some(byte)) = (first, packet.first_mut()) {
                    *byte = first;
                }
                let before = packet.clone();
                lower(&mut packet, Limit { mtu: *mtu, segment: *segment });
                let changed = (0..packet.len()).filter(|at| packet[*at] != before[*at]);
                let changed: Vec<_> = changed.collect();
                if changed.is_empty() {
                    continue;
                }
                let (_, segment) = segment_of(&before).unwrap();
                let start = segment.start;
                let at = start + announced(&before[segment]).unwrap();
                let fields = [start + 16, start + 17, at, at + 1];
                assert!(changed.iter().all(|at| fields.contains(at)), "{changed:?}");
            }
        });
    }
}
