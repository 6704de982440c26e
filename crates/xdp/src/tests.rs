//! The program is run on crafted frames by the kernel itself (needs privileges).

use super::*;
use crate::bpf::BpfError;
use crate::loaded::Loaded;
use rustix::fd::AsFd;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

/// The program with a local address of each family and a socket on queue 0, the queue of test runs.
struct Fixture {
    program: XdpProgram,
    /// Its entry in the map is removed when it is closed.
    _socket: rustix::fd::OwnedFd,
}

/// Returns the fixture; `None` without privileges.
fn fixture() -> Option<Fixture> {
    let loaded = match Loaded::new(MAC, None) {
        Ok(loaded) => loaded,
        Err(error @ BpfError::MissingCapability { .. }) => {
            wattline_needs::rights(&error);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let program = XdpProgram { loaded, link: None, mode: XdpMode::Generic, refused: None };
    program.add_local(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), LocalAddress::Host).unwrap();
    program.add_local(IpAddr::V6("2001:db8::1".parse().unwrap()), LocalAddress::Host).unwrap();
    let socket = rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
    sockopt::set_xdp_rx_ring_size(&socket, 64).unwrap();
    program.set_socket(0, socket.as_fd()).unwrap();
    Some(Fixture { program, _socket: socket })
}

/// Returns an Ethernet frame to this station with this EtherType and payload.
pub(crate) fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&MAC[..], &[2, 0, 0, 0, 0, 9], &ether_type.to_be_bytes(), payload].concat()
}

fn ipv4(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut header = [0; 28];
    header[0] = 0x45;
    header[3] = 28;
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&[198, 51, 100, 1]);
    header[16..20].copy_from_slice(&[203, 0, 113, 5]);
    change(&mut header);
    frame(0x0800, &header)
}

fn ipv6(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut header = [0; 48];
    header[0] = 0x60;
    header[5] = 8;
    header[6] = 17;
    header[7] = 64;
    header[8..24].copy_from_slice(&"2001:db8:1::5".parse::<Ipv6Addr>().unwrap().octets());
    header[24..40].copy_from_slice(&"2001:db8:2::5".parse::<Ipv6Addr>().unwrap().octets());
    change(&mut header);
    frame(0x86dd, &header)
}

fn source_v6(address: &'static str) -> Vec<u8> {
    ipv6(|header| header[8..24].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets()))
}

fn destination_v6(address: &'static str) -> Vec<u8> {
    ipv6(|header| header[24..40].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets()))
}

fn source_v4(address: [u8; 4]) -> Vec<u8> {
    ipv4(|header| header[12..16].copy_from_slice(&address))
}

fn destination_v4(address: [u8; 4]) -> Vec<u8> {
    ipv4(|header| header[16..20].copy_from_slice(&address))
}

fn tagged(vlan: u16, frame: &[u8]) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend(0x8100_u16.to_be_bytes());
    // With a priority, which is not part of the VLAN number.
    tagged.extend((vlan | 0x6000).to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

fn to_station(mac: [u8; 6]) -> Vec<u8> {
    let mut frame = ipv4(|_| ());
    frame[..6].copy_from_slice(&mac);
    frame
}

#[test]
fn every_frame_gets_its_verdict_and_is_counted_once() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    program.set_vlan(7, true).unwrap();
    use Verdict::*;
    let cases: Vec<(&str, Vec<u8>, Verdict)> = vec![
        ("IPv4 transit", ipv4(|_| ()), Redirected),
        ("IPv6 transit", ipv6(|_| ()), Redirected),
        ("smallest TTL that is forwarded", ipv4(|h| h[8] = 2), Redirected),
        ("smallest hop limit that is forwarded", ipv6(|h| h[7] = 2), Redirected),
        ("IPv4 fragment", ipv4(|h| h[6] = 0x20), Redirected),
        ("largest unicast", destination_v4([223, 255, 255, 255]), Redirected),
        ("smallest unicast", destination_v4([1, 0, 0, 0]), Redirected),
        ("next to loopback", destination_v4([128, 0, 0, 1]), Redirected),
        ("next to link-local", destination_v4([169, 253, 0, 1]), Redirected),
        ("next to a local address", destination_v4([192, 0, 2, 2]), Redirected),
        ("next to a local IPv6 address", destination_v6("2001:db8::2"), Redirected),
        ("just above loopback", destination_v6("::2"), Redirected),
        ("routed VLAN", tagged(7, &ipv4(|_| ())), Redirected),
        ("routed VLAN, IPv6", tagged(7, &ipv6(|_| ())), Redirected),
        ("other VLAN", tagged(8, &ipv4(|_| ())), Vlan),
        ("priority tag", tagged(0, &ipv4(|_| ())), Vlan),
        ("local in a VLAN", tagged(7, &destination_v4([192, 0, 2, 1])), Local),
        ("two tags", tagged(7, &tagged(7, &ipv4(|_| ()))), NotIp),
        ("tag cut off", tagged(7, &ipv4(|_| ()))[..16].to_vec(), Short),
        ("Ethernet alone", ipv4(|_| ())[..14].to_vec(), Short),
        ("IPv4 header cut", ipv4(|_| ())[..33].to_vec(), Short),
        ("IPv4 header alone", ipv4(|_| ())[..34].to_vec(), Redirected),
        ("IPv6 header cut", ipv6(|_| ())[..53].to_vec(), Short),
        ("IPv6 header alone", ipv6(|_| ())[..54].to_vec(), Redirected),
        ("broadcast", to_station([0xff; 6]), LinkMulticast),
        ("link multicast", to_station([1, 0, 0x5e, 0, 0, 5]), LinkMulticast),
        ("another station", to_station([2, 0, 0, 0, 0, 2]), OtherStation),
        ("another vendor", to_station([6, 0, 0, 0, 0, 1]), OtherStation),
        ("ARP", frame(0x0806, &[0; 28]), NotIp),
        ("LLDP", frame(0x88cc, &[0; 28]), NotIp),
        ("802.3 length", frame(40, &[0; 40]), NotIp),
        ("IPv6 in an IPv4 frame", ipv4(|h| h[0] = 0x60), Malformed),
        ("IPv4 header too short", ipv4(|h| h[0] = 0x44), Malformed),
        ("IPv4 options", ipv4(|h| h[0] = 0x46), Options),
        ("most IPv4 options", ipv4(|h| h[0] = 0x4f), Options),
        ("IPv4 in an IPv6 frame", ipv6(|h| h[0] = 0x45), Malformed),
        ("hop-by-hop options", ipv6(|h| h[6] = 0), Options),
        ("TTL 1", ipv4(|h| h[8] = 1), TimeToLive),
        ("TTL 0", ipv4(|h| h[8] = 0), TimeToLive),
        ("hop limit 1", ipv6(|h| h[7] = 1), TimeToLive),
        ("hop limit 0", ipv6(|h| h[7] = 0), TimeToLive),
        ("OSPF", destination_v4([224, 0, 0, 5]), Multicast),
        ("limited broadcast", destination_v4([255; 4]), Multicast),
        ("IPv6 multicast", destination_v6("ff02::5"), Multicast),
        ("to this network", destination_v4([0, 0, 0, 1]), Martian),
        ("to loopback", destination_v4([127, 0, 0, 1]), Martian),
        ("from this network", source_v4([0; 4]), Martian),
        ("from loopback", source_v4([127, 1, 2, 3]), Martian),
        ("from multicast", source_v4([224, 0, 0, 1]), Martian),
        ("to IPv6 loopback", destination_v6("::1"), Martian),
        ("to unspecified", destination_v6("::"), Martian),
        ("from unspecified", source_v6("::"), Martian),
        ("from IPv6 loopback", source_v6("::1"), Martian),
        ("from IPv6 multicast", source_v6("ff02::1"), Martian),
        ("to link-local", destination_v4([169, 254, 1, 1]), LinkLocal),
        ("from link-local", source_v4([169, 254, 1, 1]), LinkLocal),
        ("to IPv6 link-local", destination_v6("fe80::1"), LinkLocal),
        ("end of IPv6 link-local", destination_v6("febf::1"), LinkLocal),
        ("from IPv6 link-local", source_v6("fe80::1"), LinkLocal),
        ("to us", destination_v4([192, 0, 2, 1]), Local),
        ("to us by IPv6", destination_v6("2001:db8::1"), Local),
    ];
    for (name, packet, expected) in cases {
        let before = program.counters().unwrap();
        let run =
            program.loaded.program.test_run(&packet).unwrap_or_else(|e| panic!("{name}: {e}"));
        let after = program.counters().unwrap();
        let action = if expected == Redirected { XDP_REDIRECT } else { XDP_PASS };
        assert_eq!(run.result, action, "{name}");
        assert_eq!(run.packet, packet, "{name}: the frame stays as it is");
        for verdict in Verdict::ALL {
            let counted = after.get(verdict) - before.get(verdict);
            assert_eq!(counted, u64::from(verdict == expected), "{name}: {}", verdict.name());
        }
    }
}

/// Returns a UDP datagram from a DHCP server to a client, with a reply for this hardware address.
fn dhcp(client: [u8; 6]) -> Vec<u8> {
    let mut frame = ipv4(|header| {
        header[3] = 68;
        header[20..24].copy_from_slice(&[0, 67, 0, 68]);
    });
    let mut reply = [0; 40];
    reply[0] = 2;
    reply[28..34].copy_from_slice(&client);
    frame.extend(reply);
    frame
}

fn discovery(kind: u8, destination: &str) -> Vec<u8> {
    ipv6(|header| {
        header[6] = 58;
        header[7] = 255;
        header[24..40].copy_from_slice(&destination.parse::<Ipv6Addr>().unwrap().octets());
        header[40] = kind;
    })
}

/// Returns a packet whose checksum is the sum of its pseudo header.
fn unfinished(protocol: u8, ipv6_too: bool) -> Vec<u8> {
    let (mut frame, addresses) = match ipv6_too {
        false => (ipv4(|header| header[9] = protocol), 26..34),
        true => (ipv6(|header| header[6] = protocol), 22..54),
    };
    let start = addresses.end;
    frame.resize(start + 20, 0);
    let length = frame.len() - start;
    let at = if ipv6_too { 18 } else { 16 };
    let total = if ipv6_too { length } else { length + 20 };
    frame[at..at + 2].copy_from_slice(&(total as u16).to_be_bytes());
    let words = frame[addresses].chunks(2).map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
    let mut sum = words.sum::<u32>() + u32::from(protocol) + length as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let field = start + if protocol == 6 { 16 } else { 6 };
    if protocol != 132 {
        frame[field..field + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    }
    frame
}

/// Workers lower the size of their segments, also if the checksum is unfinished.
#[test]
fn packets_that_begin_connections_go_to_workers() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    for is_v6 in [false, true] {
        let mut syn = unfinished(6, is_v6);
        let flags = if is_v6 { 54 } else { 34 } + 13;
        syn[flags] = 0x02;
        for (openings, expected) in [(false, Verdict::Unfinished), (true, Verdict::Redirected)] {
            program.set_leaves(Leaves::Unfinished, true).unwrap();
            program.set_leaves(Leaves::Openings, openings).unwrap();
            for (packet, expected) in
                [(syn.clone(), expected), (unfinished(6, is_v6), Verdict::Unfinished)]
            {
                let before = program.counters().unwrap();
                program.loaded.program.test_run(&packet).unwrap();
                let after = program.counters().unwrap();
                assert_eq!(after.get(expected) - before.get(expected), 1, "{is_v6} {openings}");
            }
        }
    }
}

#[test]
fn packets_of_other_consumers_are_left_to_the_kernel() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    program.set_vlan(7, true).unwrap();
    let route = |address: &str, bits, routed| {
        program.add_route(address.parse().unwrap(), bits, routed).unwrap();
    };
    route("203.0.0.0", 16, Routed::Kernel);
    route("203.0.113.0", 24, Routed::FastPath);
    route("203.0.114.0", 24, Routed::SameInterface(0));
    route("203.0.115.0", 24, Routed::SameInterface(7));
    route("2001:db8:9::", 48, Routed::Kernel);
    for kind in [Leaves::Routes, Leaves::Unfinished] {
        program.set_leaves(kind, true).unwrap();
    }
    program.add_local("2001:db8:2::7".parse().unwrap(), LocalAddress::Proxied).unwrap();
    use Verdict::*;
    let finished = |mut frame: Vec<u8>| {
        let last = frame.len() - 3;
        frame[last] ^= 1;
        frame
    };
    let cases: Vec<(&str, Vec<u8>, Verdict, Verdict)> = vec![
        ("reply to our client", dhcp(MAC), Client, Client),
        ("reply to a client", dhcp([0; 6]), Client, Client),
        ("reply in a VLAN", tagged(7, &dhcp(MAC)), Client, Client),
        ("reply to a client behind us", dhcp([2, 0, 0, 0, 0, 9]), Client, Redirected),
        ("solicitation", discovery(135, "2001:db8:2::5"), NeighbourDiscovery, Redirected),
        ("first type", discovery(133, "2001:db8:2::5"), NeighbourDiscovery, Redirected),
        ("last type", discovery(137, "2001:db8:2::5"), NeighbourDiscovery, Redirected),
        ("type before", discovery(132, "2001:db8:2::5"), Redirected, Redirected),
        ("type behind", discovery(138, "2001:db8:2::5"), Redirected, Redirected),
        ("proxied", discovery(135, "2001:db8:2::7"), NeighbourDiscovery, NeighbourDiscovery),
        ("echo to a proxied address", discovery(128, "2001:db8:2::7"), Redirected, Redirected),
        ("kernel route", destination_v4([203, 0, 1, 1]), KernelRoute, Redirected),
        ("kernel route, IPv6", destination_v6("2001:db8:9::1"), KernelRoute, Redirected),
        ("route inside it", destination_v4([203, 0, 113, 1]), Redirected, Redirected),
        ("same interface", destination_v4([203, 0, 114, 1]), SameInterface, Redirected),
        ("another VLAN", tagged(7, &destination_v4([203, 0, 114, 1])), Redirected, Redirected),
        ("same VLAN", tagged(7, &destination_v4([203, 0, 115, 1])), SameInterface, Redirected),
        ("no tag", destination_v4([203, 0, 115, 1]), Redirected, Redirected),
        ("unfinished TCP", unfinished(6, false), Unfinished, Redirected),
        ("unfinished UDP", unfinished(17, false), Unfinished, Redirected),
        ("unfinished SCTP", unfinished(132, false), Unfinished, Redirected),
        ("unfinished TCP, IPv6", unfinished(6, true), Unfinished, Redirected),
        ("unfinished UDP, IPv6", unfinished(17, true), Unfinished, Redirected),
        ("finished TCP", finished(unfinished(6, false)), Redirected, Redirected),
        ("finished TCP, IPv6", finished(unfinished(6, true)), Redirected, Redirected),
        ("no checksum", unfinished(47, false), Redirected, Redirected),
    ];
    for guarded in [false, true] {
        program.set_guarded(guarded).unwrap();
        for (name, packet, open, judged) in &cases {
            let expected = if guarded { *judged } else { *open };
            let before = program.counters().unwrap();
            let run = program.loaded.program.test_run(packet).unwrap();
            let after = program.counters().unwrap();
            assert_eq!(after.get(expected) - before.get(expected), 1, "{name}, {guarded}");
            let mut sent_on = packet.clone();
            if guarded && expected == Client {
                // Addressed to no station: only readers of raw frames get it.
                sent_on[..6].fill(0);
            }
            assert_eq!(run.packet, sent_on, "{name}, {guarded}");
        }
    }
}

/// While policies decide about forwarded packets, nothing is left to the kernel that it would
/// forward.
#[test]
fn guarded_interface_leaves_nothing_to_the_kernel_that_it_would_forward() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    program.add_local(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), LocalAddress::EndsTunnels).unwrap();
    for shared in ["192.0.2.0", "192.0.2.255"] {
        program.add_local(shared.parse().unwrap(), LocalAddress::Shared).unwrap();
    }
    program.set_vlan(7, true).unwrap();
    program.set_longest(1500).unwrap();
    program.set_guarded(true).unwrap();
    use Verdict::*;
    let options = |frame: Vec<u8>| {
        let mut frame = frame;
        frame[14] = 0x46;
        frame
    };
    let long = |frame: Vec<u8>| {
        let mut frame = frame;
        let at = if frame[12] == 8 { 16 } else { 18 };
        frame[at..at + 2].copy_from_slice(&3000_u16.to_be_bytes());
        frame
    };
    let esp = |frame: Vec<u8>| {
        let mut frame = frame;
        frame[14 + 9] = 50;
        frame
    };
    let service = |frame: Vec<u8>| {
        let mut frame = tagged(0, &frame);
        frame[12..14].copy_from_slice(&0x88a8_u16.to_be_bytes());
        frame
    };
    let service_of = |vlan: u16, frame: Vec<u8>| {
        let mut frame = tagged(vlan, &frame);
        frame[12..14].copy_from_slice(&0x88a8_u16.to_be_bytes());
        frame
    };
    let to_other = |mut frame: Vec<u8>| {
        frame[5] = 2;
        frame
    };
    let to_all = |mut frame: Vec<u8>| {
        frame[..6].fill(0xff);
        frame
    };
    let ttl = |ttl: u8, mut frame: Vec<u8>| {
        frame[14 + 8] = ttl;
        frame
    };
    let to_us = || destination_v4([192, 0, 2, 1]);
    let to_us_v6 = |next: u8, payload: [u8; 8]| {
        ipv6(|header| {
            header[6] = next;
            header[24..40].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
            header[40..48].copy_from_slice(&payload);
        })
    };
    let cases: Vec<(&str, Vec<u8>, Verdict)> = vec![
        ("IPv4 transit", ipv4(|_| ()), Redirected),
        ("IPv6 transit", ipv6(|_| ()), Redirected),
        ("TTL 1", ttl(1, ipv4(|_| ())), Redirected),
        ("TTL 0", ttl(0, ipv4(|_| ())), Redirected),
        ("TTL 1, with options", ttl(1, options(ipv4(|_| ()))), Redirected),
        ("TTL 1, another station", ttl(1, to_other(ipv4(|_| ()))), Station),
        ("hop limit 1", ipv6(|h| h[7] = 1), Redirected),
        ("hop limit 1, another station", to_other(ipv6(|h| h[7] = 1)), Station),
        ("hop limit 0, another VLAN", tagged(8, &ipv6(|h| h[7] = 0)), Tags),
        ("options", options(ipv4(|_| ())), Redirected),
        ("most options", ipv4(|h| h[0] = 0x4f), Redirected),
        ("hop-by-hop options", ipv6(|h| h[6] = 0), Redirected),
        ("link-local", destination_v4([169, 254, 1, 1]), Redirected),
        ("from link-local", source_v4([169, 254, 1, 1]), Redirected),
        ("to reserved", destination_v4([240, 0, 0, 1]), Redirected),
        ("just below broadcast", destination_v4([255, 255, 255, 254]), Redirected),
        ("from reserved", source_v4([240, 0, 0, 1]), Redirected),
        ("priority tag", tagged(0, &ipv4(|_| ())), Redirected),
        ("priority tag, IPv6", tagged(0, &ipv6(|_| ())), Redirected),
        ("priority tag of 802.1ad", service(ipv4(|_| ())), Redirected),
        ("two priority tags", tagged(0, &tagged(0, &ipv4(|_| ()))), Tags),
        ("a priority tag of 802.1ad before one", service(tagged(0, &ipv4(|_| ()))), Tags),
        ("too long", long(ipv4(|_| ())), TooLongForWorkers),
        ("too long, IPv6", long(ipv6(|_| ())), TooLongForWorkers),
        ("too long, with options", long(options(ipv4(|_| ()))), TooLongForWorkers),
        ("ESP", esp(to_us()), Redirected),
        // The kernel forwards these, or would with another setting.
        ("to this network", destination_v4([0, 0, 0, 1]), Redirected),
        ("from this network", source_v4([0, 1, 2, 3]), Redirected),
        ("from nowhere", source_v4([0; 4]), Redirected),
        ("to loopback", destination_v4([127, 0, 0, 1]), Redirected),
        ("from loopback", source_v4([127, 1, 2, 3]), Redirected),
        ("from multicast", source_v4([224, 0, 0, 1]), Redirected),
        ("to a network", destination_v4([192, 0, 2, 0]), Redirected),
        ("to all of a network", destination_v4([192, 0, 2, 255]), Redirected),
        ("to IPv6 link-local", destination_v6("fe80::1"), Redirected),
        ("from IPv6 link-local", source_v6("fe80::1"), Redirected),
        ("from unspecified", source_v6("::"), Redirected),
        ("to unspecified", destination_v6("::"), Redirected),
        ("from IPv6 loopback", source_v6("::1"), Redirected),
        ("to IPv6 loopback", destination_v6("::1"), Redirected),
        ("from IPv6 multicast", source_v6("ff02::1"), Redirected),
        ("IPv4 header cut", ipv4(|_| ())[..33].to_vec(), Redirected),
        ("IPv6 header cut", ipv6(|_| ())[..53].to_vec(), Redirected),
        // Headers that may forward a packet addressed to this machine.
        ("to us, with options", options(to_us()), Redirected),
        ("ESP, with options", esp(options(to_us())), Redirected),
        ("to us, with hop-by-hop options", to_us_v6(0, [0; 8]), Redirected),
        ("to us, with a routing header", to_us_v6(43, [0; 8]), Redirected),
        ("to us, with destination options", to_us_v6(60, [0; 8]), Redirected),
        (
            "to us, a routing header in a fragment",
            to_us_v6(44, [43, 0, 0, 1, 0, 0, 0, 9]),
            Redirected,
        ),
        ("to us, a fragment header in one", to_us_v6(44, [44, 0, 0, 0, 0, 0, 0, 9]), Redirected),
        ("to us, a fragment", to_us_v6(44, [17, 0, 0, 1, 0, 0, 0, 9]), Local),
        ("to us, a later fragment", to_us_v6(44, [43, 0, 0, 9, 0, 0, 0, 9]), Local),
        ("to us, authenticated", to_us_v6(51, [0; 8]), Local),
        ("to us by IPv6", to_us_v6(17, [0; 8]), Local),
        // For interfaces that the kernel may have on top of this one.
        ("another station", to_other(ipv4(|_| ())), Station),
        ("another station, IPv6", to_other(ipv6(|_| ())), Station),
        ("another station, with options", to_other(options(ipv4(|_| ()))), Station),
        ("another station, in our VLAN", to_other(tagged(7, &ipv4(|_| ()))), Station),
        ("to us at another station", to_other(to_us()), Local),
        ("to us at another station, with options", to_other(options(to_us())), Station),
        ("ESP to another station", to_other(esp(to_us())), Local),
        ("ARP to another station", to_other(frame(0x0806, &[0; 28])), OtherStation),
        ("LLC to another station", to_other(frame(38, &[0; 40])), Station),
        ("PPPoE discovery to another station", to_other(frame(0x8863, &[0; 28])), Station),
        ("another VLAN", tagged(8, &ipv4(|_| ())), Tags),
        ("another VLAN, IPv6", tagged(8, &ipv6(|_| ())), Tags),
        ("to us in another VLAN", tagged(8, &to_us()), Local),
        ("ARP in another VLAN", tagged(8, &frame(0x0806, &[0; 28])), NotIp),
        ("a VLAN in a VLAN", tagged(7, &tagged(9, &ipv4(|_| ()))), Tags),
        ("to us, a VLAN in a VLAN", tagged(7, &tagged(9, &to_us())), Local),
        ("three tags", tagged(7, &tagged(8, &tagged(9, &to_us()))), Tags),
        ("a VLAN of 802.1ad", service_of(8, ipv4(|_| ())), Tags),
        ("ours as one of 802.1ad", service_of(7, ipv4(|_| ())), Tags),
        ("to us in a VLAN of 802.1ad", service_of(8, to_us()), Local),
        ("a tag of 0x9100", frame(0x9100, &[0; 28]), Protocol),
        ("MPLS", frame(0x8847, &[0; 28]), Protocol),
        ("PPPoE", frame(0x8864, &[0; 28]), Protocol),
        ("PPPoE to all", to_all(frame(0x8864, &[0; 28])), Protocol),
        ("MACsec", frame(0x88e5, &[0; 28]), Protocol),
        ("an unknown protocol", frame(0x88b5, &[0; 28]), Protocol),
        ("MPLS in a VLAN", tagged(8, &frame(0x8847, &[0; 28])), Protocol),
        ("PPPoE discovery", to_all(frame(0x8863, &[0; 28])), LinkMulticast),
        ("LLDP", to_all(frame(0x88cc, &[0; 28])), LinkMulticast),
        ("spanning tree", to_all(frame(38, &[0; 40])), LinkMulticast),
        ("IPv4 to all stations", to_all(ipv4(|_| ())), Station),
        ("IPv6 to all stations", to_all(ipv6(|_| ())), Station),
        ("IPv4 to all stations of a VLAN", to_all(tagged(8, &ipv4(|_| ()))), Tags),
        ("a header cut, to all stations", to_all(ipv4(|_| ())[..33].to_vec()), Station),
        ("to us, to all stations", to_all(to_us()), Local),
        ("a network, to all stations", to_all(destination_v4([192, 0, 2, 255])), Local),
        ("limited broadcast, to all stations", to_all(destination_v4([255; 4])), Multicast),
        ("a group, to all stations", to_all(destination_v6("ff02::1")), Multicast),
        // Packets for this machine, for all stations, or never forwarded.
        ("to us", to_us(), Local),
        ("ESP, too long", esp(long(to_us())), Local),
        ("to us, too long", long(to_us()), Local),
        ("to us, priority tag", tagged(0, &to_us()), Local),
        ("ARP, priority tag", tagged(0, &frame(0x0806, &[0; 28])), NotIp),
        ("ARP", frame(0x0806, &[0; 28]), NotIp),
        ("to us, TTL 1", ttl(1, to_us()), Local),
        ("OSPF", destination_v4([224, 0, 0, 5]), Multicast),
        ("a group, with options", options(destination_v4([239, 0, 0, 5])), Multicast),
        ("limited broadcast", destination_v4([255; 4]), Multicast),
    ];
    for (name, packet, expected) in &cases {
        let before = program.counters().unwrap();
        let run = program.loaded.program.test_run(packet).unwrap_or_else(|e| panic!("{name}: {e}"));
        let after = program.counters().unwrap();
        let action = match expected {
            Redirected => XDP_REDIRECT,
            TooLongForWorkers | Tags | Station | Protocol => XDP_DROP,
            _ => XDP_PASS,
        };
        for verdict in Verdict::ALL {
            let counted = after.get(verdict) - before.get(verdict);
            assert_eq!(counted, u64::from(verdict == *expected), "{name}: {}", verdict.name());
        }
        assert_eq!(run.result, action, "{name}");
        assert_eq!(&run.packet, packet, "{name}: the frame stays as it is");
        let passed = after.passed() - before.passed();
        assert_eq!(passed, u64::from(action == XDP_PASS), "{name}");
    }
    // A new address or length does not change the guard, and without a socket nothing passes.
    program.set_mac(MAC).unwrap();
    program.set_longest(1400).unwrap();
    program.clear_socket(0).unwrap();
    for (name, packet, expected) in &cases {
        let action = program.loaded.program.test_run(packet).unwrap().result;
        let dropped =
            matches!(expected, Redirected | TooLongForWorkers | Tags | Station | Protocol);
        assert_eq!(action, if dropped { XDP_DROP } else { XDP_PASS }, "{name}");
    }
    let redirected = cases.iter().filter(|(.., verdict)| *verdict == Redirected).count();
    assert_eq!(program.counters().unwrap().get(NoWorker), redirected as u64);
    // Without the guard everything is as before.
    program.set_guarded(false).unwrap();
    for (name, packet, _) in &cases {
        assert_eq!(program.loaded.program.test_run(packet).unwrap().result, XDP_PASS, "{name}");
    }
}

/// Each address is known exactly while it is present, even if addresses share bits.
#[test]
fn local_addresses_are_known_one_by_one() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    let numbers = || (0_u32..1500).map(|number| number.wrapping_mul(2_654_435_769));
    let v4 = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        [20, a, b, c]
    };
    let v6 = |number: u32| Ipv6Addr::from(0x2001_0db8_0007_u128 << 80 | u128::from(number));
    let result = |frame: &[u8]| program.loaded.program.test_run(frame).unwrap().result;
    let of_v6 = |number| {
        let address = v6(number).octets();
        ipv6(move |header| header[24..40].copy_from_slice(&address))
    };
    let check = |expected: fn(usize) -> u32| {
        for (place, number) in numbers().enumerate() {
            let expected = expected(place);
            assert_eq!(result(&destination_v4(v4(number))), expected, "{:?}", v4(number));
            assert_eq!(result(&of_v6(number)), expected, "{}", v6(number));
        }
    };
    check(|_| XDP_REDIRECT);
    for number in numbers().step_by(2) {
        program.add_local(v4(number).into(), LocalAddress::Host).unwrap();
        program.add_local(v6(number).into(), LocalAddress::Host).unwrap();
    }
    check(|place| if place % 2 == 0 { XDP_PASS } else { XDP_REDIRECT });
    for number in numbers().step_by(2) {
        program.remove_local(v4(number).into()).unwrap();
        program.remove_local(v6(number).into()).unwrap();
    }
    check(|_| XDP_REDIRECT);
}

/// ESP and other packets to this machine, by protocol and the first bytes of their payload.
/// The data plane judges frames by the same list.
#[test]
fn guarded_interface_drops_a_family_that_the_kernel_does_not_forward() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    program.add_local(address, LocalAddress::EndsTunnels).unwrap();
    program.add_left(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).unwrap();
    let mut esp = destination_v4([192, 0, 2, 1]);
    esp[14 + 9] = 50;
    let cases = [
        ("IPv4", ipv4(|_| ()), XDP_PASS, XDP_DROP),
        ("IPv4 with TTL 1", ipv4(|header| header[8] = 1), XDP_PASS, XDP_DROP),
        ("IPv6", ipv6(|_| ()), XDP_REDIRECT, XDP_REDIRECT),
        ("to us", destination_v4([192, 0, 2, 1]), XDP_PASS, XDP_PASS),
        // A worker would forward the inner packet.
        ("ESP", esp, XDP_REDIRECT, XDP_PASS),
    ];
    for leaves in [true, false] {
        program.set_leaves(Leaves::Prefixes, leaves).unwrap();
        for guarded in [false, true] {
            program.set_guarded(guarded).unwrap();
            for (name, frame, plain, strict) in &cases {
                let expected = match (leaves, guarded) {
                    (true, false) => *plain,
                    (true, true) => *strict,
                    (false, _) if name.starts_with("IP") => XDP_REDIRECT,
                    (false, _) => continue,
                };
                let expected =
                    if *name == "IPv4 with TTL 1" && !guarded { XDP_PASS } else { expected };
                let action = program.loaded.program.test_run(frame).unwrap().result;
                assert_eq!(action, expected, "{name}, left {leaves}, guarded {guarded}");
            }
        }
    }
    assert_eq!(program.counters().unwrap().get(Verdict::ForwardingOff), 2);
}

#[test]
fn guarded_interface_passes_the_protocols_of_the_link_and_no_others() {
    use wattline_packet::ethernet::{self, is_of_link};
    let Some(Fixture { program, _socket }) = fixture() else { return };
    program.set_guarded(true).unwrap();
    let judged = [ethernet::IPV4, ethernet::IPV6, ethernet::VLAN, ethernet::SERVICE_VLAN];
    for kind in (0..=u16::MAX).filter(|kind| !judged.contains(kind)) {
        let action = program.loaded.program.test_run(&frame(kind, &[0; 46])).unwrap().result;
        let expected = if is_of_link(kind) { XDP_PASS } else { XDP_DROP };
        assert_eq!(action, expected, "{kind:#06x}");
    }
}

#[test]
fn esp_goes_to_the_socket_where_tunnels_end() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    let payload4 = |protocol: u8, fragment: u8, payload: &[u8]| {
        let mut frame = destination_v4([192, 0, 2, 1]);
        (frame[14 + 9], frame[14 + 6]) = (protocol, fragment);
        frame.truncate(34);
        frame.extend(payload);
        frame
    };
    let payload6 = |protocol: u8, payload: &[u8]| {
        let mut frame = destination_v6("2001:db8::1");
        frame[14 + 6] = protocol;
        frame.truncate(54);
        frame.extend(payload);
        frame
    };
    let udp = |port: u16, payload: &[u8]| {
        let mut datagram = vec![0x11, 0x94];
        datagram.extend(port.to_be_bytes());
        datagram.extend([0, 8 + payload.len() as u8, 0, 0]);
        datagram.extend(payload);
        datagram
    };
    let esp = [0, 0, 0x10, 1, 0, 0, 0, 1];
    let cases = [
        ("ESP", payload4(50, 0, &esp), true),
        ("ESP over IPv6", payload6(50, &esp), true),
        ("ESP in UDP", payload4(17, 0, &udp(4500, &esp)), true),
        ("ESP in UDP over IPv6", payload6(17, &udp(4500, &esp)), true),
        ("a fragment of ESP", payload4(50, 0x20, &esp), false),
        ("IKE", payload4(17, 0, &udp(500, &esp)), false),
        ("IKE behind NAT", payload4(17, 0, &udp(4500, &[0; 28])), false),
        ("IKE behind NAT over IPv6", payload6(17, &udp(4500, &[0; 28])), false),
        ("a keepalive", payload4(17, 0, &udp(4500, &[0xff])), false),
        ("UDP cut off", payload4(17, 0, &[0x11, 0x94]), false),
        ("TCP", payload4(6, 0, &[0; 20]), false),
        ("ICMP", payload6(58, &[128, 0, 0, 0]), false),
    ];
    use LocalAddress::{EndsTunnels, Host};
    for kind in [Host, EndsTunnels, Host] {
        for address in ["192.0.2.1", "2001:db8::1"] {
            program.add_local(address.parse().unwrap(), kind).unwrap();
        }
        for (name, packet, is_esp) in &cases {
            let ends_tunnels = kind == EndsTunnels;
            let action = if *is_esp && ends_tunnels { XDP_REDIRECT } else { XDP_PASS };
            assert_eq!(
                program.loaded.program.test_run(packet).unwrap().result,
                action,
                "{name}, {kind:?}"
            );
        }
    }
}

#[test]
fn settings_can_be_changed() {
    let Some(Fixture { program, _socket }) = fixture() else { return };
    let run = |packet: &[u8]| program.loaded.program.test_run(packet).unwrap().result;
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let to_us = destination_v4([192, 0, 2, 1]);
    assert_eq!(run(&to_us), XDP_PASS);
    program.remove_local(address).unwrap();
    program.remove_local(address).unwrap();
    assert_eq!(run(&to_us), XDP_REDIRECT);

    program.set_mac([2, 0, 0, 0, 0, 7]).unwrap();
    assert_eq!(run(&to_us), XDP_PASS);
    assert_eq!(run(&to_station([2, 0, 0, 0, 0, 7])), XDP_REDIRECT);

    program.set_mac(MAC).unwrap();
    program.set_longest(1500).unwrap();
    let long4 = |length: u16| ipv4(|header| header[2..4].copy_from_slice(&length.to_be_bytes()));
    let long6 = |length: u16| ipv6(|header| header[4..6].copy_from_slice(&length.to_be_bytes()));
    for (packet, action) in [
        (long4(1500), XDP_REDIRECT),
        (long4(1501), XDP_PASS),
        (long4(u16::MAX), XDP_PASS),
        (long6(1460), XDP_REDIRECT),
        (long6(1461), XDP_PASS),
        (long6(u16::MAX), XDP_PASS),
    ] {
        assert_eq!(run(&packet), action, "{:?}", &packet[14..20]);
    }
    assert_eq!(program.counters().unwrap().get(Verdict::TooLong), 4);
    program.set_mac(MAC).unwrap();
    assert_eq!(run(&long4(1501)), XDP_PASS, "a new address changes nothing about it");
    program.clear_socket(0).unwrap();
    let before = program.counters().unwrap().get(Verdict::NoSocket);
    assert_eq!(run(&ipv4(|_| ())), XDP_PASS);
    assert_eq!(program.counters().unwrap().get(Verdict::NoSocket), before + 1);
    assert!(program.set_vlan(4096, true).is_err());
    assert!(program.clear_socket(QUEUES_MAX).is_err());
}

#[test]
fn missing_interface_is_named() {
    match XdpProgram::load(u32::MAX >> 1, MAC, XdpModeChoice::Auto) {
        Err(XdpError::NoInterface { .. }) => {}
        Err(XdpError::Bpf(error @ BpfError::MissingCapability { .. })) => {
            wattline_needs::rights(&error);
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("attached to nothing"),
    }
}

/// Only programs that forward by themselves, or wait, need CAP_PERFMON, which an operator may
/// withhold. The verifier of Linux 6.1 requires it of any program that stores a number where a
/// pointer was.
#[test]
fn programs_that_do_not_need_perfmon_load_without_it() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let thread = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        if !sets.effective.contains(CapabilitySet::BPF | CapabilitySet::NET_ADMIN) {
            return wattline_needs::rights("this process has no CAP_BPF or no CAP_NET_ADMIN");
        }
        // The second implies the first.
        sets.effective.remove(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        let is_old = rustix::system::uname().release().to_bytes().starts_with(b"6.1.");
        match Loaded::new(MAC, None) {
            Ok(_) => {}
            Err(BpfError::Rejected { log, .. }) if is_old => {
                return assert!(log.contains("attempt to corrupt spilled pointer"), "{log}");
            }
            Err(error) => panic!("{error}"),
        }
        crate::LiveGenerator::new(1, &[0; 60], None).unwrap();
        match crate::Copies::new().and_then(|it| crate::XdpForward::new(&it.into())) {
            Err(BpfError::MissingCapability { missing, .. }) => {
                assert_eq!(missing, ["CAP_PERFMON"])
            }
            other => panic!("{other:?}"),
        }
    });
    thread.join().unwrap();
}
