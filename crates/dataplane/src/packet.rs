//! A packet in the graph: its frame and the results of the nodes so far.

use crate::drop_reason::DropReason;
use crate::frame::Frame;
use crate::port::PortId;
use wattline_fib::NextHopId;
use wattline_memory::ChunkMemory;
use wattline_packet::ethernet;

/// A frame and its metadata: 16 bytes, so that a batch of them is a quarter of a page.
///
/// The network header always begins 14 bytes into [`Self::frame`]. If there is a tag before it,
/// `ethernet-input` moves the beginning of the frame by four bytes ([`Self::skip_tag`]). No node
/// has to check this, and one bounds check from the start of the frame covers all headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Location of the bytes.
    pub frame: Frame,
    /// Next hop after a lookup; never the id of a group after that.
    pub next_hop: NextHopId,
    /// VLAN id with which the packet arrived, 0 for none.
    pub vlan_in: u16,
    /// Egress port, valid after the rewrite. If a rule drops the packet, its number
    /// ([`Packet::deny`]).
    pub port_out: PortId,
    /// Reason of the drop; only nodes that drop packets set and read it.
    pub reason: DropReason,
    /// State of the packet with respect to IPsec.
    pub protection: Protection,
}

/// Protection that a packet had or needs with respect to IPsec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Protection {
    /// No protection: the packet was received or generated in clear.
    #[default]
    None,
    /// The packet came through a tunnel.
    Decrypted,
    /// The router made it from parts of a packet from a tunnel: it must not leave in clear.
    Confidential,
    /// The packet is the outer packet of a tunnel.
    Encrypted,
}

impl Protection {
    /// Returns the protection of an ICMP error that quotes a packet with this protection.
    #[must_use]
    pub fn for_quotation(self) -> Self {
        match self {
            Self::Decrypted => Self::Confidential,
            other => other,
        }
    }
}

impl Packet {
    /// Makes a packet for a frame that was just received.
    #[inline]
    pub fn new(frame: Frame) -> Self {
        Self {
            frame,
            next_hop: NextHopId::NONE,
            vlan_in: 0,
            port_out: PortId(0),
            reason: DropReason::Truncated,
            protection: Protection::None,
        }
    }

    /// Notes that the rule with this number drops the packet, or that no rule permits it (0).
    #[inline]
    pub fn deny(&mut self, reason: DropReason, rule: u16) {
        self.reason = reason;
        // The packet gets no egress port any more.
        self.port_out = PortId(rule);
    }

    /// Removes the tag of `vlan`: the link header is 14 bytes again, of which only the EtherType is
    /// meaningful. The whole header stays in memory.
    #[inline]
    pub fn skip_tag(&mut self, vlan: u16) {
        self.vlan_in = vlan;
        self.frame.offset += ethernet::TAG as u32;
        self.frame.length -= ethernet::TAG as u16;
    }

    /// Returns the frame as received, with its tag.
    #[inline]
    pub fn received(&self) -> Frame {
        let tag = if self.vlan_in == 0 { 0 } else { ethernet::TAG as u16 };
        Frame {
            offset: self.frame.offset - u32::from(tag),
            length: self.frame.length + tag,
            ..self.frame
        }
    }

    /// Returns the offset of the network header in bytes from the start of the pool's memory.
    #[inline]
    pub fn network_offset(&self) -> usize {
        self.frame.offset as usize + ethernet::HEADER
    }

    /// Returns the number of bytes from the network header to the end of the frame.
    #[inline]
    pub fn network_length(&self) -> usize {
        usize::from(self.frame.length).saturating_sub(ethernet::HEADER)
    }

    /// Returns the bytes from the network header to the end of the frame; empty if they do not lie
    /// within a chunk.
    #[inline]
    pub fn network_bytes<'a>(&self, memory: &'a ChunkMemory) -> &'a [u8] {
        let start = self.network_offset();
        memory.get(start..start + self.network_length()).unwrap_or_default()
    }

    /// Returns the same, for changes.
    #[inline]
    pub fn network_bytes_mut<'a>(&self, memory: &'a mut ChunkMemory) -> &'a mut [u8] {
        let start = self.network_offset();
        memory.get_mut(start..start + self.network_length()).unwrap_or_default()
    }
}

/// Returns the `N` bytes at offset `AT` of a header, without a bounds check at run time and in one
/// load. Bytes that are named one by one tend to be loaded one by one.
#[inline]
pub fn field<const AT: usize, const N: usize, const LENGTH: usize>(
    header: &[u8; LENGTH],
) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&header[AT..AT + N]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_tag_comes_back() {
        let frame = Frame { offset: 128, length: 64, port_in: PortId(3) };
        let mut packet = Packet::new(frame);
        assert_eq!((packet.network_offset(), packet.network_length()), (142, 50));
        assert_eq!(packet.received(), frame);
        packet.skip_tag(7);
        assert_eq!((packet.network_offset(), packet.network_length()), (146, 46));
        assert_eq!(packet.received(), frame);
        assert_eq!(size_of::<Packet>(), 16);
    }
}
