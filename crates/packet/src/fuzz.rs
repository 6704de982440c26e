//! Every parser with arbitrary bytes: nothing panics, and etherparse agrees on which are IP.

use crate::flow::FlowKey;
use crate::icmp4::{self, Icmp4Error};
use crate::icmp6::{self, Icmp6Error};
use crate::ipv4::Ipv4Packet;
use crate::{ethernet::EthernetHeader, ipv6};
use zerocopy::FromBytes;

#[test]
fn parsers_take_any_bytes() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let _ = EthernetHeader::ref_from_prefix(bytes);
        let mut buffer = [0; 1500];
        if let Ok(packet) = Ipv4Packet::parse(bytes) {
            assert!(etherparse::Ipv4HeaderSlice::from_slice(bytes).is_ok());
            let _ = FlowKey::of_ipv4(&packet).hash();
            let _ = icmp4::may_report(&packet);
            let length = icmp4::write(&mut buffer, Icmp4Error::TimeExceeded, 1, 64, bytes);
            let length = length.expect("a checked packet can be reported");
            assert!(Ipv4Packet::parse(&buffer[..length]).is_ok());
        } else {
            assert_eq!(icmp4::write(&mut buffer, Icmp4Error::TimeExceeded, 1, 64, bytes), None);
        }
        let _ = ipv6::payload(bytes);
        let _ = FlowKey::of_ipv6(bytes).map(|key| key.hash());
        let _ = icmp6::may_report(bytes, Icmp6Error::TimeExceeded);
        let written = icmp6::write(&mut buffer, Icmp6Error::TimeExceeded, [1; 16], 64, bytes);
        if let Some(length) = written {
            assert!(etherparse::Ipv6Slice::from_slice(&buffer[..length]).is_ok());
        }
    });
}
