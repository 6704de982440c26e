//! `ip4-fragment`: fragments a packet that exceeds the egress MTU (RFC 791 section 3.2).
//!
//! The packet itself becomes the first fragment; the others are new and count as generated. Either
//! all fragments are made or none. The first fragment keeps all options. In the others, options
//! that must not be copied become no-operations, as in the kernel, so that all headers have the
//! same length.
//!
//! - next: `ip4-rewrite`, `drop` (`no-buffer`: not enough chunks, or an MTU below 28;
//!   `bad-length`: a fragment that ends beyond any datagram)

use super::generated;
use crate::drop_reason::DropReason;
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use wattline_packet::checksum::Sum;
use wattline_packet::ipv4::{HEADER, Ipv4Header, MORE_FRAGMENTS, OFFSET};
use wattline_packet::{FromBytes, IntoBytes, ethernet};

const REWRITE: Edge = 0;
const DROP: Edge = 1;

/// Length of the longest header in bytes.
const HEADER_MAX: usize = 60;
// Options (RFC 791 section 3.1).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Bit in an option's type: all fragments carry the option.
const COPIED: u8 = 0x80;

/// Node `ip4-fragment`; see the module.
pub struct Ip4Fragment;

impl Node for Ip4Fragment {
    fn name(&self) -> &'static str {
        "ip4-fragment"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-rewrite", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let mtu = context.routes.table().hop(packet.next_hop).mtu;
            *edge = match fragment(context, packet, mtu, REWRITE) {
                Ok(()) => REWRITE,
                Err(reason) => {
                    packet.reason = reason;
                    DROP
                }
            };
        }
    }
}

/// Turns `packet` into the first of several fragments of at most `mtu` bytes, and sends the others
/// along an edge of the running node.
///
/// # Errors
/// Returns the reason to drop the packet.
pub fn fragment(
    context: &mut Context,
    packet: &mut Packet,
    mtu: u16,
    edge: Edge,
) -> Result<(), DropReason> {
    let bytes = packet.network_bytes(context.pool.memory());
    let (whole, _) = Ipv4Header::read_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
    // The offsets of further fragments would wrap to zero, over the beginning of the datagram.
    let from = usize::from(whole.fragment.get() & OFFSET) * 8;
    if from + usize::from(whole.total_length.get()) > usize::from(u16::MAX) {
        return Err(DropReason::BadLength);
    }
    let header = Header::read(bytes).ok_or(DropReason::BadHeaderLength)?;
    cut(context, packet, &header, usize::from(mtu), edge).ok_or(DropReason::NoBuffer)
}

/// Header of a packet with its options.
struct Header {
    fixed: Ipv4Header,
    /// Bytes of the header, of which the first `length` are valid.
    bytes: [u8; HEADER_MAX],
    length: usize,
}

impl Header {
    fn read(packet: &[u8]) -> Option<Self> {
        let (fixed, _) = Ipv4Header::read_from_prefix(packet).ok()?;
        let length = fixed.header_length();
        let mut bytes = [0; HEADER_MAX];
        bytes.get_mut(..length)?.copy_from_slice(packet.get(..length)?);
        (length >= HEADER).then_some(Self { fixed, bytes, length })
    }

    /// Makes the header of the fragment with the `payload` bytes that begin `from` bytes into the
    /// whole.
    fn for_fragment(&self, from: usize, payload: usize, last: bool) -> Self {
        let Self { mut fixed, mut bytes, length } = *self;
        fixed.total_length.set((length + payload) as u16);
        // The whole may itself be a fragment: its offset and its flag carry over.
        let more = if last { 0 } else { MORE_FRAGMENTS };
        fixed.fragment.set((fixed.fragment.get() + (from / 8) as u16) | more);
        fixed.checksum.set(0);
        bytes[..HEADER].copy_from_slice(fixed.as_bytes());
        if from > 0 {
            drop_first_only(&mut bytes[HEADER..length]);
        }
        fixed.checksum.set(Sum::new().bytes(&bytes[..length]).checksum());
        bytes[..HEADER].copy_from_slice(fixed.as_bytes());
        Self { fixed, bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Replaces options that only the first fragment carries by no-operations (RFC 791 section 3.1,
/// flag "copied"), and malformed options as well.
fn drop_first_only(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        let length = match (*kind, options.get(at + 1)) {
            (NO_OPERATION, _) => 1,
            (END, _) => return,
            (_, Some(length)) if *length >= 2 => usize::from(*length),
            // The length is invalid, so the end of the option is unknown.
            _ => options.len() + 1,
        };
        let end = (at + length).min(options.len());
        let whole = at + length <= options.len();
        if !(whole && kind & COPIED != 0) {
            options[at..end].fill(NO_OPERATION);
        }
        at = end;
    }
}

fn cut(
    context: &mut Context,
    packet: &mut Packet,
    whole: &Header,
    mtu: usize,
    edge: Edge,
) -> Option<()> {
    let start = packet.network_offset();
    let total = usize::from(whole.fixed.total_length.get());
    if total <= mtu || mtu == 0 {
        return Some(()); // The next hop changed; `ip4-rewrite` handles it.
    }
    let payload = total.checked_sub(whole.length)?;
    // Each fragment but the last carries a multiple of eight bytes.
    let piece = mtu.min(generated::max_length(&context.pool)).checked_sub(whole.length)? & !7;
    let pieces = payload.checked_add(piece)?.checked_sub(1)?.checked_div(piece)?;
    if context.pool.free_chunks() < pieces - 1 {
        return None;
    }
    for number in 1..pieces {
        let from = number * piece;
        let length = piece.min(payload - from);
        let header = whole.for_fragment(from, length, number + 1 == pieces);
        let made =
            generated::packet(&mut context.pool, packet, ethernet::IPV4, |packet, buffer| {
                let (head, body) = buffer.split_at_mut_checked(whole.length)?;
                head.copy_from_slice(header.as_bytes());
                let from = whole.length + from;
                body.get_mut(..length)?.copy_from_slice(packet.get(from..)?.get(..length)?);
                Some(whole.length + length)
            });
        // Enough chunks were counted above, so this succeeds.
        let Some(mut made) = made else { continue };
        made.next_hop = packet.next_hop;
        context.counters.totals.generated.add(1);
        context.spawn(edge, made);
    }
    let header = whole.for_fragment(0, piece.min(payload), pieces == 1);
    let bytes = context.pool.memory().get_mut(start..start + whole.length)?;
    bytes.copy_from_slice(header.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, fix_checksum, frame4};
    use wattline_packet::ipv4::Ipv4Packet;

    /// Reassembles the fragments.
    fn reassembled(bench: &mut Bench, fragments: &[Packet], mtu: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        for (number, fragment) in fragments.iter().enumerate() {
            let memory = bench.context.pool.memory();
            let packet = Ipv4Packet::parse(fragment.network_bytes(memory)).unwrap();
            assert!(usize::from(packet.header.total_length.get()) <= mtu);
            let field = packet.header.fragment.get();
            assert_eq!(field & MORE_FRAGMENTS != 0, number + 1 < fragments.len());
            assert_eq!(usize::from(field & OFFSET) * 8, payload.len());
            payload.extend_from_slice(packet.payload);
        }
        payload
    }

    fn run(bench: &mut Bench, bytes: &[u8], mtu: u16) -> Option<Vec<Packet>> {
        let packet = bench.packet_via(bytes, &Bench::forward_mtu(1, mtu));
        let (edge, packet) = bench.process(&mut Ip4Fragment, packet);
        let mut fragments = vec![packet];
        fragments.extend(bench.spawned().iter().map(|(_, packet)| packet));
        (edge == REWRITE).then_some(fragments)
    }

    #[test]
    fn pieces_make_the_whole() {
        for mtu in [68, 576, 577, 1006, 1400] {
            let mut bench = Bench::new();
            let payload: Vec<u8> = (0..1480).map(|number| number as u8).collect();
            let fragments = run(&mut bench, &frame4(MAC_A, 64, &payload), mtu).unwrap();
            assert_eq!(reassembled(&mut bench, &fragments, usize::from(mtu)), payload);
            let generated = bench.context.counters.snapshot().generated;
            assert_eq!(generated, fragments.len() as u64 - 1);
        }
    }

    #[test]
    fn options_stay_in_the_first_fragment_or_are_copied() {
        // Record route (not copied), router alert (copied), no-operation, and the end.
        let options = [7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 1, 1, 1, 1, 0];
        let payload: Vec<u8> = (0..1400).map(|number| number as u8).collect();
        let mut bytes = frame4(MAC_A, 64, &[&options[..], &payload].concat());
        bytes[14] = 0x49;
        bytes[24..26].fill(0);
        let checksum = Sum::new().bytes(&bytes[14..14 + 36]).checksum();
        bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
        let mut bench = Bench::new();
        let fragments = run(&mut bench, &bytes, 600).unwrap();
        assert_eq!(fragments.len(), 3);
        assert_eq!(reassembled(&mut bench, &fragments, 600), payload);
        for (number, fragment) in fragments.iter().enumerate() {
            let memory = bench.context.pool.memory();
            let packet = Ipv4Packet::parse(fragment.network_bytes(memory)).unwrap();
            let copied = [1, 1, 1, 1, 1, 1, 1, 148, 4, 0, 0, 1, 1, 1, 1, 0];
            assert_eq!(packet.options, if number == 0 { options } else { copied });
        }
        // Only the first fragment carries malformed options.
        for (options, copied) in [
            ([131, 9, 4, 0], [1, 1, 1, 1]),
            ([131, 3, 4, 131], [131, 3, 4, 1]),
            ([131, 1, 1, 1], [1, 1, 1, 1]),
            ([0, 9, 9, 9], [0, 9, 9, 9]),
        ] {
            let mut changed = options;
            drop_first_only(&mut changed);
            assert_eq!(changed, copied, "{options:?}");
        }
    }

    #[test]
    fn a_fragment_of_a_fragment_keeps_its_place() {
        let mut bench = Bench::new();
        let mut bytes = frame4(MAC_A, 64, &[7; 1480]);
        bytes[20..22].copy_from_slice(&(MORE_FRAGMENTS | 512).to_be_bytes());
        fix_checksum(&mut bytes);
        let fragments = run(&mut bench, &bytes, 1000).unwrap();
        let memory = bench.context.pool.memory();
        let fields: Vec<u16> = fragments
            .iter()
            .map(|f| Ipv4Packet::parse(f.network_bytes(memory)).unwrap().header.fragment.get())
            .collect();
        assert_eq!(fields, [MORE_FRAGMENTS | 512, MORE_FRAGMENTS | (512 + 122)]);
    }

    #[test]
    fn a_fragment_that_ends_beyond_any_datagram_is_not_cut() {
        for (offset, passes) in [(8006, true), (8007, false), (OFFSET, false)] {
            let mut bytes = frame4(MAC_A, 64, &[7; 1464]);
            bytes[20..22].copy_from_slice(&offset.to_be_bytes());
            fix_checksum(&mut bytes);
            let mut bench = Bench::new();
            let packet = bench.packet_via(&bytes, &Bench::forward_mtu(1, 1000));
            let (edge, packet) = bench.process(&mut Ip4Fragment, packet);
            assert_eq!(
                (edge, bench.spawned().len()),
                if passes { (REWRITE, 1) } else { (DROP, 0) }
            );
            assert!(passes || packet.reason == DropReason::BadLength);
        }
    }

    #[test]
    fn without_chunks_nothing_is_sent_in_part() {
        let mut bench = Bench::new();
        while bench.context.pool.free_chunks() > 2 {
            bench.context.pool.take_chunk();
        }
        assert_eq!(run(&mut bench, &frame4(MAC_A, 64, &[0; 1480]), 576), None);
        assert_eq!(bench.context.pool.free_chunks(), 1);
        assert_eq!(run(&mut Bench::new(), &frame4(MAC_A, 64, &[0; 1480]), 27), None);
    }
}
