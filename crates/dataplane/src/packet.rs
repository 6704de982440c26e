//! A packet on its way through the graph: its frame and what nodes found out about it.

use crate::drop_reason::DropReason;
use crate::frame::Frame;
use crate::port::PortId;
use wattline_fib::NextHopId;
use wattline_packet::ethernet;

/// A frame and its metadata: 16 bytes, so that a batch of them is a quarter of a page.
///
/// The network header begins 14 bytes into [`Self::frame`], always: where a tag stands
/// before it, `ethernet-input` lets the frame begin four bytes later
/// ([`Self::skip_tag`]). So no node has to ask, and one bounds check from the start of the
/// frame covers all that it looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Where the bytes are.
    pub frame: Frame,
    /// Where to, once a lookup said so; never the id of a group after that.
    pub next_hop: NextHopId,
    /// VLAN that it came in on, 0 for none.
    pub vlan_in: u16,
    /// Way out, once it was rewritten.
    pub port_out: PortId,
    /// Why it is going to be dropped; only nodes that drop set and read it.
    pub reason: DropReason,
    /// What IPsec has to do with it.
    pub protection: Protection,
}

/// How far a packet is protected by IPsec, or has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Protection {
    /// Not at all, as it was received or made.
    #[default]
    None,
    /// It came through a tunnel.
    Decrypted,
    /// The router made it of parts of one that came through a tunnel: it must not leave in clear.
    Confidential,
    /// It is the outer packet of a tunnel.
    Encrypted,
}

impl Protection {
    /// That of an ICMP error about such a packet, which quotes it.
    #[must_use]
    pub fn of_quotation(self) -> Self {
        match self {
            Self::Decrypted => Self::Confidential,
            other => other,
        }
    }
}

impl Packet {
    /// A frame that was just received.
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

    /// Takes the tag of `vlan` off: what is left of the link header is 14 bytes again, of
    /// which only the EtherType means anything. The whole header stays in memory.
    #[inline]
    pub fn skip_tag(&mut self, vlan: u16) {
        self.vlan_in = vlan;
        self.frame.offset += ethernet::TAG as u32;
        self.frame.length -= ethernet::TAG as u16;
    }

    /// The frame as it was received: with its tag.
    #[inline]
    pub fn received(&self) -> Frame {
        let tag = if self.vlan_in == 0 { 0 } else { ethernet::TAG as u16 };
        Frame {
            offset: self.frame.offset - u32::from(tag),
            length: self.frame.length + tag,
            ..self.frame
        }
    }

    /// Where the network header begins, in bytes from the start of the pool's memory.
    #[inline]
    pub fn network_offset(&self) -> usize {
        self.frame.offset as usize + ethernet::HEADER
    }

    /// Bytes from the network header to the end of the frame.
    #[inline]
    pub fn network_length(&self) -> usize {
        usize::from(self.frame.length).saturating_sub(ethernet::HEADER)
    }

    /// The bytes from the network header to the end of the frame; empty where the
    /// descriptor lies.
    #[inline]
    pub fn network_bytes<'a>(&self, memory: &'a [u8]) -> &'a [u8] {
        let start = self.network_offset();
        memory.get(start..start + self.network_length()).unwrap_or_default()
    }
}

/// `N` bytes of the pool's memory as an array: one comparison, then none.
#[inline]
pub fn array_at<const N: usize>(memory: &[u8], start: usize) -> Option<&[u8; N]> {
    memory.get(start..start + N)?.first_chunk()
}

/// The `N` bytes at `AT` of a header. Nothing is compared, and they are loaded at once,
/// while of bytes that are named one by one the compiler tends to load some apart.
#[inline]
pub fn field<const AT: usize, const N: usize, const LENGTH: usize>(
    header: &[u8; LENGTH],
) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&header[AT..AT + N]);
    field
}

/// [`array_at`], to be written to.
#[inline]
pub fn array_at_mut<const N: usize>(memory: &mut [u8], start: usize) -> Option<&mut [u8; N]> {
    memory.get_mut(start..start + N)?.first_chunk_mut()
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
