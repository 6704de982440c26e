//! Writes the link-layer header of an outgoing packet: the last step of both rewrite nodes.

use crate::drop_reason::DropReason;
use crate::forwarding::Hop;
use crate::frame::ChunkMemory;
use crate::packet::Packet;
use wattline_packet::ethernet;

/// Writes the addresses and the tag of `hop` before the network header, and sets the frame's end to
/// the end of the IP packet of `length` bytes, without padding. The EtherType, which precedes the
/// network header, does not change.
///
/// # Errors
/// Returns [`DropReason::NoHeadroom`] if a tag does not fit into the chunk.
#[inline]
pub(super) fn write_link_header(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    chunk: u32,
    hop: &Hop,
    length: usize,
) -> Result<(), DropReason> {
    let network = packet.network_offset();
    let mut header = ethernet::HEADER;
    if hop.vlan != 0 {
        header += ethernet::TAG;
        if packet.frame.offset % chunk < ethernet::TAG as u32 {
            return Err(DropReason::NoHeadroom);
        }
        let [kind_high, kind_low] = ethernet::VLAN.to_be_bytes();
        let [high, low] = hop.vlan.to_be_bytes();
        if let Some(tag) = memory.get_mut(network - 6..network - 2) {
            tag.copy_from_slice(&[kind_high, kind_low, high, low]);
        }
    }
    let start = network - header;
    if let Some(addresses) = memory.get_mut(start..start + 12) {
        addresses.copy_from_slice(&hop.macs);
    }
    packet.frame.offset = start as u32;
    packet.frame.length = (header + length) as u16;
    packet.port_out = hop.port;
    Ok(())
}
