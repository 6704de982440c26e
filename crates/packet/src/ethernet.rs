//! Ethernet II headers and 802.1Q tags.

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// EtherType of an 802.1ad service tag.
pub const SERVICE_VLAN: u16 = 0x88a8;

/// Length of a header without a tag, in bytes.
pub const HEADER: usize = 14;
/// Length of an 802.1Q tag, in bytes.
pub const TAG: usize = 4;

/// An Ethernet II header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EthernetHeader {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// EtherType of the following data.
    pub ether_type: U16,
}

/// An 802.1Q tag: the four bytes after the EtherType 0x8100.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VlanTag {
    /// Priority (3 bits), drop eligible (1 bit), VLAN id (12 bits).
    pub control: U16,
    /// EtherType of the following data.
    pub ether_type: U16,
}

impl VlanTag {
    /// Returns the VLAN id, 0 to 4095.
    pub fn id(&self) -> u16 {
        self.control.get() & 0x0fff
    }
}

/// Returns true if an EtherType, or an IEEE 802.3 length, is that of a protocol between neighbours,
/// which Linux neither forwards nor unpacks. XDP programs have the same list
/// (`crates/xdp/bpf/classify.h`); a test there compares the two.
pub fn is_of_link(kind: u16) -> bool {
    /// Lengths: LLC, followed by spanning tree or IS-IS.
    const LENGTHS: u16 = 0x0600;
    /// Wake-on-LAN, MSRP, RARP, PPPoE discovery, EAPOL, IEEE 1905.1, EAPOL before a station changes
    /// its access point, LLDP, MVRP, MMRP, PTP, CFM and the loopback test.
    const OTHERS: [u16; 13] = [
        0x0842, 0x22ea, 0x8035, 0x8863, 0x888e, 0x893a, 0x88c7, 0x88cc, 0x88f5, 0x88f6, 0x88f7,
        0x8902, 0x9000,
    ];
    /// Slow protocols: LACP and OAM.
    const SLOW: u16 = 0x8809;
    kind < LENGTHS || kind == ARP || kind == SLOW || OTHERS.contains(&kind)
}

/// Returns true if the group bit is set: broadcast and multicast.
#[inline]
pub fn is_group(address: &[u8; 6]) -> bool {
    address[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, VlanId};

    #[test]
    fn reads_what_etherparse_writes() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .single_vlan(VlanId::try_new(0x123).unwrap())
            .ipv4([1; 4], [2; 4], 64)
            .udp(1, 2)
            .write(&mut bytes, &[])
            .unwrap();
        let (header, rest) = EthernetHeader::ref_from_prefix(&bytes).unwrap();
        assert_eq!((header.destination, header.source), ([4; 6], [2; 6]));
        assert_eq!(header.ether_type.get(), VLAN);
        let (tag, _) = VlanTag::ref_from_prefix(rest).unwrap();
        assert_eq!((tag.id(), tag.ether_type.get()), (0x123, IPV4));
        assert!(is_group(&[0xff; 6]) && !is_group(&header.source));
    }

    #[test]
    fn too_short_is_no_header() {
        assert!(EthernetHeader::ref_from_prefix(&[0; 13]).is_err());
    }
}
