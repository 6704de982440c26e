//! Packets that the router generates.

use crate::frame::{Frame, FramePool};
use crate::packet::Packet;
use wattline_packet::ethernet;

/// Room in bytes before the network header: an Ethernet header and a tag, so that a tag fits
/// whatever the pool's headroom.
const BEFORE: usize = ethernet::HEADER + ethernet::TAG;

/// Returns the length in bytes of the largest network packet that fits into a chunk.
pub(super) fn max_length(pool: &FramePool) -> usize {
    ((pool.chunk_size() - pool.headroom()) as usize).saturating_sub(BEFORE)
}

/// Generates a packet with the port, VLAN and protection of `about`, in a new chunk. `write` gets
/// the bytes of `about` from the network header on and the room for the new network packet; it
/// returns the length of that packet. `None` if there is no free chunk or `write` returns `None`.
pub(super) fn packet(
    pool: &mut FramePool,
    about: &Packet,
    ether_type: u16,
    write: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>,
) -> Option<Packet> {
    let room = max_length(pool);
    let chunk = pool.take_chunk()?;
    let offset = chunk + pool.headroom();
    let network = offset as usize + BEFORE;
    let start = about.network_offset();
    let (read, to) = (start..start + about.network_length(), network - 2..network + room);
    let length = pool.memory().pair(read, to).and_then(|(about, generated)| {
        let (kind, generated) = generated.split_first_chunk_mut::<2>()?;
        *kind = ether_type.to_be_bytes();
        write(about, generated)
    });
    let Some(length) = length.and_then(|length| u16::try_from(BEFORE + length).ok()) else {
        pool.free(chunk);
        return None;
    };
    let mut packet = Packet::new(Frame { offset, length, port_in: about.frame.port_in });
    packet.skip_tag(about.vlan_in);
    packet.protection = about.protection;
    Some(packet)
}
