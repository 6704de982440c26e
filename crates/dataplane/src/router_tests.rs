//! Tests of the whole router between two test ports: its output, and that no frame is lost.

use crate::testing::{
    MAC_A, MAC_B, MAC_NEIGHBOUR, Router, fix_checksum, frame4, frame4_vlan, frame6, net,
};
use etherparse::checksum::Sum16BitWords;
use proptest::prelude::*;
use wattline_packet::ethernet::{IPV4, IPV6};
use wattline_packet::icmp4;
use wattline_packet::ipv4::Ipv4Packet;
use wattline_units::Span;

#[test]
fn forwards_ipv4_and_ipv6() {
    let mut router = Router::new();
    let (four, six) = (frame4(MAC_A, 64, b"payload"), frame6(MAC_A, 64, b"payload"));
    router.ports[0].send(&four);
    router.ports[0].send(&six);
    let counted = router.settle();
    assert_eq!((counted.received, counted.forwarded), (2, 2));
    let mut expected = [four, six];
    for frame in &mut expected {
        frame[..6].copy_from_slice(&MAC_NEIGHBOUR);
        frame[6..12].copy_from_slice(&MAC_B);
    }
    expected[0][14 + 8] = 63;
    fix_checksum(&mut expected[0]);
    expected[1][14 + 7] = 63;
    let mut sent = router.ports[1].sent();
    sent.sort_by_key(|frame| frame[12]);
    assert_eq!(sent, expected);
    assert!(router.ports[0].sent().is_empty());
}

#[test]
fn order_is_kept_within_a_burst_larger_than_a_batch() {
    let mut router = Router::new();
    for number in 0..200u8 {
        router.ports[0].send(&frame4(MAC_A, 64, &[number; 8]));
    }
    router.settle();
    let sent: Vec<u8> = router.ports[1].sent().iter().map(|frame| frame[40]).collect();
    assert_eq!(sent, (0..200).collect::<Vec<_>>());
}

#[test]
fn expired_ttl_is_answered_from_the_ingress_port() {
    let mut router = Router::new();
    router.ports[0].send(&frame4(MAC_A, 1, b"payload"));
    router.ports[0].send(&frame6(MAC_A, 1, b"payload"));
    let counted = router.settle();
    assert_eq!((counted.generated, counted.dropped["ttl-expired"]), (2, 2));
    let sent = router.ports[0].sent();
    assert_eq!(sent.len(), 2);
    for frame in &sent {
        let read = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
        match read.net {
            Some(etherparse::NetSlice::Ipv4(ip)) => {
                let header = ip.header().to_header();
                assert_eq!(header.calc_header_checksum(), header.header_checksum);
                assert_eq!((header.source, header.time_to_live), ([192, 0, 2, 1], 64));
            }
            Some(etherparse::NetSlice::Ipv6(ip)) => assert_eq!(ip.header().hop_limit(), 64),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn long_packets_are_cut_or_refused() {
    let mut router = Router::new();
    let via = crate::testing::Bench::forward_mtu(1, 576);
    router.routes.route(net("203.0.113.5/32"), &via).unwrap();
    router.routes.publish().unwrap();
    let payload: Vec<u8> = (0..1480).map(|number| number as u8).collect();
    let mut frame = frame4(MAC_A, 64, &payload);
    router.ports[0].send(&frame);
    let counted = router.settle();
    assert_eq!((counted.forwarded, counted.generated), (3, 2));
    let mut joined = Vec::new();
    for frame in router.ports[1].sent() {
        let packet = Ipv4Packet::parse(&frame[14..]).unwrap();
        assert_eq!(packet.header.ttl, 63);
        joined.extend_from_slice(packet.payload);
    }
    assert_eq!(joined, payload);

    frame[20] = 0x40;
    fix_checksum(&mut frame);
    router.ports[0].send(&frame);
    let counted = router.settle();
    assert_eq!(counted.dropped["too-big"], 1);
    let sent = router.ports[0].sent();
    assert_eq!(icmp4::type_and_code(&sent[0][14..]), Some((3, 4)));
    assert_eq!(sent[0][14 + 26..14 + 28], 576u16.to_be_bytes());
}

#[test]
fn an_egress_port_without_an_mtu_drops_packets_and_stops_no_other_port() {
    let mut router = Router::new();
    let via = crate::testing::Bench::forward_mtu(1, 0);
    for prefix in ["203.0.113.5/32", "2001:db8:3::5/128"] {
        router.routes.route(net(prefix), &via).unwrap();
    }
    router.routes.publish().unwrap();
    router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    router.ports[0].send(&frame6(MAC_A, 64, b"payload"));
    let counted = router.settle();
    assert_eq!((counted.forwarded, counted.dropped_total()), (1, 2), "an ICMPv6 error goes back");
}

/// Linux does the same, though no sender makes such short packets (RFC 8200 section 5).
#[test]
fn an_mtu_too_small_for_ipv6_counts_as_it_is() {
    let mut router = Router::new();
    let via = crate::testing::Bench::forward_mtu(1, 1000);
    router.routes.route(net("2001:db8:3::5/128"), &via).unwrap();
    router.routes.publish().unwrap();
    router.ports[0].send(&frame6(MAC_A, 64, &[7; 960]));
    router.ports[0].send(&frame6(MAC_A, 64, &[7; 961]));
    let counted = router.settle();
    assert_eq!((router.ports[1].sent().len(), counted.dropped["too-big"]), (1, 1));
    let answer = router.ports[0].sent();
    assert_eq!((answer[0][54], &answer[0][58..62]), (2, &1000_u32.to_be_bytes()[..]));
}

#[test]
fn vlan_frames_are_routed_where_the_vlan_is_known() {
    let mut router = Router::new();
    router.ports[0].send(&frame4_vlan(MAC_A, 7));
    router.ports[0].send(&frame4_vlan(MAC_A, 8));
    let counted = router.settle();
    assert_eq!((counted.forwarded, counted.punted), (1, 1));
    assert_eq!(router.ports[1].sent()[0][12..15], [8, 0, 0x45]);
}

#[test]
fn held_packets_leave_once_the_neighbour_is_known() {
    use crate::next_hop::NextHop;
    use crate::port::PortId;
    let mut router = Router::new();
    let unknown = NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None };
    router.routes.route(net("203.0.113.0/24"), &unknown).unwrap();
    router.routes.publish().unwrap();
    router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    assert_eq!(router.settle().held, 1);
    let request = router.requests.try_recv().unwrap();
    assert_eq!((request.port, request.address), (PortId(1), "203.0.113.5".parse().unwrap()));
    router.routes.route(net("203.0.113.5/32"), &crate::testing::Bench::forward(1)).unwrap();
    router.routes.publish().unwrap();
    let counted = router.settle();
    assert_eq!((counted.held, counted.forwarded), (0, 1));
    assert_eq!(counted.ports[1].transmitted_packets, 1, "counted without another batch");
    assert_eq!(router.ports[1].sent()[0][14 + 8], 63);
}

#[test]
fn unanswered_neighbours_end_in_host_unreachable() {
    use crate::next_hop::NextHop;
    use crate::port::PortId;
    let mut router = Router::new();
    let unknown = NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None };
    router.routes.route(net("203.0.113.0/24"), &unknown).unwrap();
    router.routes.publish().unwrap();
    router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    router.settle();
    router.now += Span::from_millis(3_000);
    let counted = router.settle();
    assert_eq!((counted.dropped["neighbour-timeout"], counted.generated), (1, 1));
    let sent = router.ports[0].sent();
    assert_eq!(icmp4::type_and_code(&sent[0][14..]), Some((3, 1)));
}

#[test]
fn a_full_transmit_ring_is_a_counted_drop() {
    let mut router = Router::with_transmit_limit(Some(3));
    for _ in 0..10 {
        router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    }
    let counted = router.settle();
    assert_eq!((counted.forwarded, counted.dropped["transmit-ring-full"]), (3, 7));
}

#[test]
fn stopped_worker_frees_held_packets() {
    use crate::next_hop::NextHop;
    use crate::port::PortId;
    let mut router = Router::new();
    let unknown = NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None };
    router.routes.route(net("203.0.113.0/24"), &unknown).unwrap();
    router.routes.publish().unwrap();
    router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    router.settle();
    router.worker.shut_down();
    let counted = router.worker.counters().snapshot();
    assert_eq!((counted.held, counted.dropped["shutdown"]), (0, 1));
    assert!(counted.is_conserved());
    assert_eq!(router.worker.free_chunks(), router.chunks);
}

/// Frames from random noise to nearly valid packets.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let four = || {
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..1700))
            .prop_map(|(ttl, payload)| frame4(MAC_A, ttl, &payload))
    };
    let six = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..1700))
        .prop_map(|(ttl, payload)| frame6(MAC_A, ttl, &payload));
    let patched = (four(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(
        |(mut frame, at, value, fix)| {
            let at = at.index(frame.len().min(60));
            frame[at] = value;
            if fix {
                fix_checksum(&mut frame);
            }
            frame
        },
    );
    let whole = prop_oneof![
        four(),
        six,
        patched,
        any::<u8>().prop_map(|vlan| frame4_vlan(MAC_A, vlan % 16)),
        prop::collection::vec(any::<u8>(), 0..200),
    ];
    (whole, prop::option::weighted(0.3, any::<prop::sample::Index>())).prop_map(
        |(mut frame, cut)| {
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len() + 1));
            }
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any input there is no panic, every frame is accounted for, no chunk is lost, and the
    /// output is well-formed according to etherparse.
    #[test]
    fn nothing_is_lost_whatever_comes(
        frames in prop::collection::vec((0usize..2, any_frame()), 0..100),
        mtu in 68u16..1600,
    ) {
        let mut router = Router::new();
        let via = crate::testing::Bench::forward_mtu(1, mtu);
        router.routes.route(net("203.0.113.0/24"), &via).unwrap();
        router.routes.publish().unwrap();
        for (port, frame) in &frames {
            router.ports[*port].send(frame);
        }
        let counted = router.settle();
        prop_assert_eq!(counted.received, frames.len() as u64);
        prop_assert!(counted.forwarded > 0 || counted.dropped_total() + counted.punted == counted.received);
        for port in &router.ports {
            for frame in port.sent() {
                match &frame[12..14] {
                    [8, 0] => {
                        let header = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]);
                        let header = header.unwrap();
                        // Computed over the bytes, since etherparse's own header lacks the reserved
                        // bit.
                        let sum = Sum16BitWords::new().add_slice(header.slice());
                        prop_assert_eq!(sum.ones_complement(), 0);
                        prop_assert_eq!(usize::from(header.total_len()), frame.len() - 14);
                        prop_assert!(header.total_len() <= mtu.max(1500));
                    }
                    [0x86, 0xdd] => {
                        let header = etherparse::Ipv6HeaderSlice::from_slice(&frame[14..]);
                        let length = usize::from(header.unwrap().payload_length());
                        prop_assert_eq!(length + 54, frame.len());
                    }
                    other => prop_assert!(false, "EtherType {other:?} left the router"),
                }
            }
        }
    }
}

/// Input without structure other than lengths; the fuzzer finds the structure.
#[test]
fn fuzz_frames() {
    bolero::check!().with_type::<Vec<Vec<u8>>>().for_each(|frames| {
        let mut router = Router::new();
        for mut frame in frames.iter().filter(|bytes| bytes.len() <= 1800).cloned() {
            // Makes three quarters of the frames reach the IP nodes.
            let kind = frame.first().and_then(|first| {
                [Some(IPV4), Some(IPV6), None, Some(IPV4)][usize::from(first % 4)]
            });
            if let (Some(kind), Some(head)) = (kind, frame.get_mut(..14)) {
                head[..6].copy_from_slice(&MAC_A);
                head[12..].copy_from_slice(&kind.to_be_bytes());
            }
            router.ports[usize::from(frame.len() % 2 == 0)].send(&frame);
        }
        router.settle();
    });
}
