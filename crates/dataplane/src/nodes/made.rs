//! Packets that the router makes itself.

use crate::frame::{Frame, FramePool};
use crate::packet::Packet;
use wattline_packet::ethernet;

/// Room before the network header: an Ethernet header and a tag, so that one can be
/// pushed whatever the pool's headroom.
const BEFORE: usize = ethernet::HEADER + ethernet::TAG;

/// Bytes that a network packet made here may have at most.
pub(super) fn room(pool: &FramePool) -> usize {
    ((pool.chunk_size() - pool.headroom()) as usize).saturating_sub(BEFORE)
}

/// Makes a packet of the same port, VLAN and protection as `about` in a chunk of its own: `write`
/// gets the bytes of `about` from the network header on and the room for the new network
/// packet, and returns the length of that. `None` when there is no chunk or `write`
/// gives none.
pub(super) fn make(
    pool: &mut FramePool,
    about: &Packet,
    ether_type: u16,
    write: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>,
) -> Option<Packet> {
    let room = room(pool);
    let chunk = pool.take_chunk()?;
    let offset = chunk + pool.headroom();
    let network = offset as usize + BEFORE;
    let start = about.network_offset();
    let ranges = [start..start + about.network_length(), network - 2..network + room];
    let length = match pool.bytes().get_disjoint_mut(ranges) {
        Ok([about, made]) => made.split_first_chunk_mut::<2>().and_then(|(kind, made)| {
            *kind = ether_type.to_be_bytes();
            write(about, made)
        }),
        Err(_) => None,
    };
    let Some(length) = length.and_then(|length| u16::try_from(BEFORE + length).ok()) else {
        pool.free(chunk);
        return None;
    };
    let mut packet = Packet::new(Frame { offset, length, port_in: about.frame.port_in });
    packet.skip_tag(about.vlan_in);
    packet.protection = about.protection;
    Some(packet)
}
