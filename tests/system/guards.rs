//! No packet bypasses an access list, a check of source addresses or the inbound check of IPsec,
//! neither by Wattline nor by the kernel, which gets the packets that XDP programs do not take.
//!
//! Frames are generated from all kinds of headers: extension headers, options and fragments,
//! special addresses (RFC 6890) as source and destination, tags and stations. A model decides what
//! a guard may pass according to the RFCs. It needs no parser, since it knows how the frame was
//! made. The kernel is set as permissively as possible, and has interfaces of its own on top of the
//! guarded port. Each frame carries its number, by which it is recognised wherever it leaves.

use crate::crafted::set_checksum;
use crate::harness::{binary, privileged, quiet};
use crate::ipsec::{KIND, keys, tunnel_end};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::{self, Mode, Wattline};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::raw::{RawSocket, Sniffer};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Station, Topology, mac_text};

const LIMIT: Duration = Duration::from_secs(60);
/// Frames that are sent at once, few enough for every queue.
const BURST: usize = 48;
const TELNET: u16 = 23;
const WEB: u16 = 80;
/// Beyond the sink, and behind the source.
const FAR4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7);
const BEHIND4: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 7);
const BEHIND6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x66, 0, 0, 0, 7);
/// A virtual router's address and station (RFC 9568), a macvlan on the guarded port.
const VIRTUAL4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
const VIRTUAL_MAC: [u8; 6] = [0, 0, 0x5e, 0, 1, 7];

/// Addresses of all special-purpose registries (RFC 6890 and its updates), and some next to them.
const SPECIAL4: [Ipv4Addr; 27] = [
    Ipv4Addr::UNSPECIFIED,
    Ipv4Addr::new(0, 1, 2, 3),
    Ipv4Addr::new(0, 255, 0, 9),
    Ipv4Addr::new(10, 99, 0, 5),
    Ipv4Addr::new(100, 64, 0, 1),
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::new(127, 9, 9, 9),
    Ipv4Addr::new(169, 254, 1, 1),
    Ipv4Addr::new(172, 16, 0, 1),
    Ipv4Addr::new(192, 0, 0, 1),
    Ipv4Addr::new(192, 0, 0, 170),
    Ipv4Addr::new(192, 0, 2, 1),
    Ipv4Addr::new(192, 31, 196, 1),
    Ipv4Addr::new(192, 88, 99, 1),
    Ipv4Addr::new(192, 168, 1, 1),
    Ipv4Addr::new(198, 18, 9, 1),
    Ipv4Addr::new(198, 51, 100, 1),
    Ipv4Addr::new(224, 0, 0, 5),
    Ipv4Addr::new(239, 1, 1, 1),
    Ipv4Addr::new(240, 0, 0, 1),
    Ipv4Addr::new(255, 255, 255, 254),
    Ipv4Addr::BROADCAST,
    // Addresses of the networks of both ports, and of the router.
    Ipv4Addr::new(198, 18, 0, 0),
    Ipv4Addr::new(198, 18, 0, 255),
    Ipv4Addr::new(198, 19, 0, 0),
    Ipv4Addr::new(198, 19, 0, 255),
    RIGHT.v4,
];

const SPECIAL6: [&str; 27] = [
    "::",
    "::1",
    "::2",
    "::10.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::1",
    "64:ff9b:1::1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:2::1",
    "2001:db8:77::1",
    "2001:10::1",
    "2001:20::1",
    "2002:a00::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fe80::99",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff05::1",
    "ff0e::1",
    "2001:2:0:1::",
    "2001:2:0:2::1",
];

/// Headers before the IP packet of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Plain,
    Tags(&'static [(u16, u16)]),
    /// For this station instead of the port's.
    Station([u8; 6]),
    /// Behind this EtherType and these bytes.
    Shim(u16, &'static [u8]),
    /// Behind LLC and SNAP.
    Snap,
}

const LINKS: [Link; 18] = [
    Link::Plain,
    Link::Tags(&[(0x8100, 0)]),
    Link::Tags(&[(0x88a8, 0)]),
    Link::Tags(&[(0x8100, 0), (0x8100, 0)]),
    Link::Tags(&[(0x8100, 50), (0x8100, 51)]),
    Link::Tags(&[(0x8100, 77)]),
    Link::Tags(&[(0x88a8, 60)]),
    Link::Tags(&[(0x88a8, 60), (0x8100, 61)]),
    Link::Tags(&[(0x8100, 0), (0x88a8, 60)]),
    Link::Tags(&[(0x9100, 50)]),
    Link::Tags(&[(0x8100, 50), (0x8100, 51), (0x8100, 52)]),
    Link::Station(VIRTUAL_MAC),
    Link::Station([2, 9, 9, 9, 9, 9]),
    Link::Station([0xff; 6]),
    Link::Station([1, 0, 0x5e, 0, 0, 5]),
    // A label that is popped here, and a session.
    Link::Shim(0x8847, &[0, 6, 0x41, 64]),
    Link::Shim(0x8864, &[0x11, 0, 0, 1, 0, 100, 0, 0x21]),
    Link::Snap,
];

impl Link {
    /// Returns true if a worker of the port can judge the packet: it is for the port's own station,
    /// and in no VLAN.
    fn is_judged(self) -> bool {
        matches!(self, Self::Plain | Self::Tags(&[(0x8100 | 0x88a8, 0)]))
    }

    fn frame(self, from: Station, to: Station, kind: u16, packet: &[u8]) -> Vec<u8> {
        let to = if let Self::Station(mac) = self { mac } else { to.mac };
        let mut frame = [to, from.mac].concat();
        match self {
            Self::Plain | Self::Station(_) => frame.extend(kind.to_be_bytes()),
            Self::Tags(tags) => {
                for (tag, vlan) in tags {
                    frame.extend(tag.to_be_bytes());
                    frame.extend((0x6000 | vlan).to_be_bytes());
                }
                frame.extend(kind.to_be_bytes());
            }
            Self::Shim(shim, header) => {
                frame.extend(shim.to_be_bytes());
                frame.extend(header);
            }
            Self::Snap => {
                frame.extend((packet.len() as u16 + 8).to_be_bytes());
                frame.extend([0xaa, 0xaa, 3, 0, 0, 0]);
                frame.extend(kind.to_be_bytes());
            }
        }
        frame.extend(packet);
        frame
    }
}

/// A header between the IP header and the payload, or the payload's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// Header of this number and length in bytes; options and the like are padding.
    Extension(u8, usize),
    /// The same, but its length exceeds the packet.
    Overlong(u8),
    /// A routing header of this type with segments left.
    Route(u8),
    /// A fragment: its offset in units of 8 bytes, and whether more follow.
    Fragment(u16, bool),
}
use Header::{Extension, Fragment, Overlong, Route};

impl Header {
    fn number(self) -> u8 {
        match self {
            Extension(number, _) | Overlong(number) => number,
            Route(_) => 43,
            Fragment(..) => 44,
        }
    }

    fn bytes(self, next: u8) -> Vec<u8> {
        match self {
            Extension(51, length) => {
                let mut bytes = vec![next, (length / 4 - 2) as u8];
                bytes.resize(length, 0);
                bytes
            }
            Extension(_, length) => {
                let mut bytes = vec![next, (length / 8 - 1) as u8, 1, (length - 4) as u8];
                bytes.resize(length, 0);
                // Padding behind the first option, whose length has a byte.
                if length > 255 {
                    bytes[3] = 4;
                }
                bytes
            }
            Overlong(_) => vec![next, 255, 1, 4, 0, 0, 0, 0],
            Route(kind) => {
                // One segment behind the first: the packet's next destination.
                let mut bytes = vec![next, 4, kind, 1, 1, 0, 0, 0];
                bytes.extend(FAR6.octets());
                bytes.extend(LEFT.v6.octets());
                bytes
            }
            Fragment(offset, more) => {
                let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
                vec![next, 0, high, low, 0, 0, 0, 9]
            }
        }
    }
}

/// Payload of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// To this port, so many bytes of it.
    Tcp(u16, usize),
    Udp(u16),
    Ping,
    /// Another protocol.
    Other(u8),
}

impl Payload {
    fn number(self, is_ipv6: bool) -> u8 {
        match self {
            Self::Tcp(..) => 6,
            Self::Udp(_) => 17,
            Self::Ping => {
                if is_ipv6 {
                    58
                } else {
                    1
                }
            }
            Self::Other(number) => number,
        }
    }

    /// With the number of the frame in the first 8 bytes that routers do not read, and behind ICMP's.
    fn bytes(self, is_ipv6: bool, frame: u32) -> Vec<u8> {
        let to = match self {
            Self::Tcp(port, _) | Self::Udp(port) => port,
            Self::Ping | Self::Other(_) => WEB,
        };
        let mut mark = SIGN.to_vec();
        mark.extend(to.to_be_bytes());
        mark.extend((SIGN_OF_NUMBER | frame).to_be_bytes());
        match self {
            Self::Tcp(_, length) => {
                mark.extend([0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
                mark.resize(40, b'.');
                mark.truncate(length);
                mark
            }
            Self::Udp(_) | Self::Other(_) => {
                mark.resize(40, b'.');
                mark
            }
            Self::Ping => {
                let kind = if is_ipv6 { 128 } else { 8 };
                let mut bytes = vec![kind, 0, 0, 0, 0, 1, 0, 1];
                bytes.extend(mark);
                bytes
            }
        }
    }
}

/// The source port of all frames, then the destination port, then a number of 24 bits with a sign.
const SIGN: [u8; 2] = [0xc3, 0xa5];
const SIGN_OF_NUMBER: u32 = 0xd700_0000;

/// The number of a generated frame that was forwarded; `None` for others, and for ICMP errors and
/// redirects, which quote it.
fn number_of(frame: &[u8]) -> Option<u32> {
    let quotes = match frame.get(12..14)? {
        [8, 0] => {
            let behind = 14 + usize::from(frame.get(14)? & 15) * 4;
            frame.get(23) == Some(&1) && matches!(frame.get(behind)?, 3 | 4 | 5 | 11 | 12)
        }
        [0x86, 0xdd] => frame.get(20) == Some(&58) && matches!(frame.get(54)?, 0..=127 | 137),
        _ => false,
    };
    let is_sign = |bytes: &&[u8]| bytes.starts_with(&SIGN) && bytes[4] == 0xd7;
    let found = frame.windows(8).find(is_sign).filter(|_| !quotes)?;
    Some(u32::from_be_bytes([0, found[5], found[6], found[7]]))
}

/// A packet as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Case {
    link: Link,
    source: IpAddr,
    destination: IpAddr,
    hops: u8,
    /// Options of IPv4, padded.
    options: &'static [u8],
    chain: Vec<Header>,
    payload: Payload,
}

impl Case {
    fn new(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, payload: Payload) -> Self {
        let (source, destination) = (source.into(), destination.into());
        let (link, options) = (Link::Plain, &[][..]);
        Self { link, source, destination, hops: 64, options, chain: Vec::new(), payload }
    }

    fn frame(&self, from: Station, to: Station, number: u32) -> Vec<u8> {
        let is_ipv6 = self.source.is_ipv6();
        let last = self.payload.number(is_ipv6);
        let is_fragment = |header: &&Header| matches!(header, Fragment(..));
        // IPv4 has fragments in its own header.
        let chain = self.chain.iter().filter(|it| is_ipv6 || !is_fragment(it));
        let mut chain: Vec<Header> = chain.copied().collect();
        let numbers: Vec<u8> = chain.iter().map(|it| it.number()).chain([last]).collect();
        let mut rest = Vec::new();
        for (header, next) in chain.drain(..).zip(&numbers[1..]) {
            rest.extend(header.bytes(*next));
        }
        rest.extend(self.payload.bytes(is_ipv6, number));
        let (kind, packet) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = 20 + self.options.len();
                let mut header = vec![0x40 | (length / 4) as u8, 0];
                header.extend(((length + rest.len()) as u16).to_be_bytes());
                header.extend([0x12, 0x34]);
                let fragment = self.chain.iter().find(is_fragment);
                let field = match fragment {
                    Some(Fragment(offset, more)) => offset | u16::from(*more) << 13,
                    _ => 0,
                };
                header.extend(field.to_be_bytes());
                header.extend([self.hops, numbers[0], 0, 0]);
                header.extend(source.octets());
                header.extend(destination.octets());
                header.extend(self.options);
                set_checksum(&mut header);
                (0x0800, [header, rest].concat())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![0x60, 0, 0, 0];
                header.extend((rest.len() as u16).to_be_bytes());
                header.extend([numbers[0], self.hops]);
                header.extend(source.octets());
                header.extend(destination.octets());
                (0x86dd, [header, rest].concat())
            }
            _ => unreachable!("both addresses are of one version"),
        };
        self.link.frame(from, to, kind, &packet)
    }

    /// Returns true if `deny tcp 23, permit the rest` may pass the packet (RFC 7045, RFC 7112, RFC
    /// 1858).
    fn may_pass_telnet_list(&self) -> bool {
        let mut later = None;
        let mut is_first = false;
        for header in &self.chain {
            match header {
                Overlong(_) => return false,
                // An unassigned number could be a protocol or an extension header.
                Extension(146.., _) => return false,
                Extension(..) | Route(_) if later.is_some() => return false,
                Fragment(0, more) => is_first |= *more,
                Fragment(offset, _) => later = Some(*offset),
                Extension(..) | Route(_) => {}
            }
        }
        match (later, self.payload) {
            (_, Payload::Other(number)) => number < 146 || self.source.is_ipv4(),
            (Some(offset), Payload::Tcp(..)) => offset > 1,
            (None, Payload::Tcp(port, length)) => port != TELNET && (!is_first || length >= 20),
            _ => true,
        }
    }

    /// Returns true if a router has to forward the packet if its list permits it.
    fn is_ordinary(&self) -> bool {
        let is_far = [IpAddr::from(FAR4), FAR6.into()].contains(&self.destination);
        let is_near = [IpAddr::from(SOURCE.v4), SOURCE.v6.into()].contains(&self.source);
        let is_plain = |header: &Header| {
            matches!(header, Extension(60 | 135 | 139 | 140 | 51, _) | Fragment(..))
        };
        self.link == Link::Plain
            && self.hops > 1
            && self.options.is_empty()
            && is_far
            && is_near
            && self.chain.iter().all(is_plain)
    }
}

/// The options of IPv4 packets.
const OPTIONS: [&[u8]; 8] = [
    &[],
    &[1, 1, 1, 1],
    &[0, 0, 0, 0],
    &[148, 4, 0, 0],
    &[7, 7, 4, 0, 0, 0, 0, 0],
    // Source routes to FAR4.
    &[131, 7, 4, 203, 0, 113, 7, 0],
    &[137, 7, 4, 198, 19, 0, 2, 0],
    &[1, 1, 1, 131, 7, 4, 203, 0, 113, 7, 0, 0],
];

/// Chains of headers: each alone, in pairs, repeated, and in fragments; more of them if `all`.
fn chains(all: bool) -> Vec<Vec<Header>> {
    let kinds = [0, 43, 51, 60, 135, 139, 140];
    let one = |kind: u8| Extension(kind, if kind == 51 { 24 } else { 8 });
    let mut chains: Vec<Vec<Header>> = vec![Vec::new()];
    chains.extend(kinds.map(|kind| vec![one(kind)]));
    for number in [253, 254, 146, 200, 255] {
        chains.push(vec![Extension(number, 8)]);
        chains.push(vec![one(60), Extension(number, 8)]);
    }
    for count in [2, 7, 15, 16, 17, 32, 33, 34, 64, 100, 160] {
        for kind in [60, 140] {
            chains.push(vec![one(kind); count]);
        }
        chains.push([vec![one(60); count], vec![Fragment(0, false)]].concat());
    }
    chains.push(vec![Extension(60, 1024)]);
    chains.push(vec![Extension(0, 256), Extension(60, 512)]);
    for kind in kinds {
        chains.push(vec![Overlong(kind)]);
        chains.push(vec![one(60), Overlong(kind)]);
        chains.push(vec![Fragment(0, true), one(kind)]);
        chains.push(vec![one(kind), Fragment(0, true)]);
        chains.push(vec![Fragment(0, true), Overlong(kind)]);
        chains.push(vec![Fragment(9, true), one(kind)]);
    }
    for (offset, more) in
        [(0, false), (0, true), (1, false), (1, true), (2, true), (9, false), (8191, false)]
    {
        chains.push(vec![Fragment(offset, more)]);
        chains.push(vec![one(60), Fragment(offset, more)]);
    }
    chains.push(vec![Fragment(0, true), Fragment(0, false)]);
    chains.push(vec![Fragment(0, false), Fragment(1, true)]);
    for kind in [0, 2, 3, 4] {
        chains.push(vec![Route(kind)]);
        chains.push(vec![one(60), Route(kind)]);
        chains.push(vec![one(0), one(60), Route(kind)]);
        chains.push(vec![Fragment(0, false), Route(kind)]);
        chains.push(vec![Fragment(0, false), one(60), Route(kind)]);
        chains.push(vec![one(60), Fragment(0, false), Route(kind)]);
    }
    if all {
        for first in kinds {
            for second in kinds {
                chains.push(vec![one(first), one(second)]);
                for third in kinds {
                    chains.push(vec![one(first), one(second), one(third)]);
                    chains.push(vec![one(first), Fragment(0, true), one(second), one(third)]);
                }
            }
        }
        chains.extend((1..170).map(|count| vec![one(60); count]));
        for length in (8..=1024).step_by(8) {
            chains.push(vec![Extension(60, length)]);
        }
    }
    chains
}

/// Returns the cases from `near` hosts to `far` ones; more if `all`.
fn cases(near: [IpAddr; 2], far: [IpAddr; 2], router: [IpAddr; 2], all: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let telnet = Payload::Tcp(TELNET, 40);
    // Addresses, on all links.
    let special4 = || SPECIAL4.into_iter().map(IpAddr::from);
    let special6 = || SPECIAL6.into_iter().map(|it| it.parse::<IpAddr>().unwrap());
    let behind = [IpAddr::from(BEHIND4), BEHIND6.into()];
    for link in LINKS {
        for (family, special) in
            [(0, special4().collect::<Vec<_>>()), (1, special6().collect::<Vec<_>>())]
        {
            let normal = [near[family], far[family], router[family], behind[family]];
            for address in special.into_iter().chain(normal) {
                for end in [far[family], behind[family], router[family]] {
                    cases.push(Case { link, ..Case::new(address, end, telnet) });
                }
                cases.push(Case { link, ..Case::new(near[family], address, telnet) });
            }
        }
    }
    // Options and TTLs.
    let links = if all { &LINKS[..] } else { &[LINKS[0], LINKS[1], LINKS[11]][..] };
    for link in links {
        for options in OPTIONS {
            for destination in [far[0], behind[0], router[0], VIRTUAL4.into()] {
                for source in [near[0], Ipv4Addr::new(0, 1, 2, 3).into()] {
                    for hops in [64, 1] {
                        let case = Case::new(source, destination, telnet);
                        cases.push(Case { link: *link, options, hops, ..case });
                    }
                }
            }
        }
    }
    // Fragments and authentication headers of IPv4.
    let mut chains4 = vec![vec![Extension(51, 24)], vec![Extension(51, 24); 3], vec![Overlong(51)]];
    for (offset, more) in [(0, true), (1, false), (1, true), (2, false), (9, true), (8000, false)] {
        chains4.push(vec![Fragment(offset, more)]);
        chains4.push(vec![Fragment(offset, more), Extension(51, 24)]);
    }
    let payloads = [
        telnet,
        Payload::Tcp(WEB, 40),
        Payload::Tcp(WEB, 8),
        Payload::Tcp(WEB, 16),
        Payload::Tcp(TELNET, 8),
        Payload::Udp(TELNET),
        Payload::Ping,
        Payload::Other(50),
        Payload::Other(253),
    ];
    for link in links {
        for chain in &chains4 {
            for payload in payloads {
                for destination in [far[0], behind[0], router[0]] {
                    let case = Case::new(near[0], destination, payload);
                    cases.push(Case { link: *link, chain: chain.clone(), ..case });
                }
            }
        }
    }
    // Chains of IPv6.
    let payloads6 =
        if all { &payloads[..] } else { &[telnet, payloads[1], Payload::Other(59)][..] };
    for link in links {
        for chain in chains(all) {
            for payload in payloads6 {
                for destination in [far[1], behind[1], router[1]] {
                    let case = Case::new(near[1], destination, *payload);
                    cases.push(Case { link: *link, chain: chain.clone(), ..case });
                }
            }
        }
    }
    // Longer than the link takes.
    cases.retain(|case| case.frame(SOURCE, LEFT, 0).len() <= 1514);
    cases
}

/// Makes a macvlan with an address of its own on the left port, as keepalived does.
fn add_virtual_router(topology: &Topology) {
    let mac = mac_text(VIRTUAL_MAC);
    let lines = format!(
        "link add link left name virtual7 address {mac} type macvlan mode private\n\
         link set virtual7 up\naddress add {VIRTUAL4}/32 dev virtual7"
    );
    topology.router.ip(&lines).unwrap();
    let neighbour = format!("neighbour replace {VIRTUAL4} lladdr {mac} nud permanent dev uplink");
    topology.source.ip(&neighbour).unwrap();
}

/// The router, with a kernel that forwards whatever it can.
struct Lab {
    topology: Topology,
}

impl Lab {
    fn build() -> Self {
        let options = Options { static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        let router = &topology.router;
        add_virtual_router(&topology);
        router
            .ip(&format!(
                "route add 10.66.0.0/16 via {}\nroute add 2001:2:0:66::/64 via {}",
                SOURCE.v4, SOURCE.v6
            ))
            .unwrap();
        for (name, lower, kind) in [
            ("left.50", "left", "vlan id 50"),
            ("left.50.51", "left.50", "vlan id 51"),
            ("left.60", "left", "vlan proto 802.1ad id 60"),
            ("left.60.61", "left.60", "vlan id 61"),
        ] {
            // Not every kernel has VLANs.
            let _ = router
                .ip(&format!("link add link {lower} name {name} type {kind}\nlink set {name} up"));
        }
        for (device, end, hosts) in [
            ("left", SOURCE, ["198.18.0.0", "198.18.0.255", "fe80::99"]),
            ("right", SINK, ["198.19.0.0", "198.19.0.255", "fe80::99"]),
        ] {
            for host in hosts {
                let mac = mac_text(end.mac);
                let line =
                    format!("neighbour replace {host} lladdr {mac} nud permanent dev {device}");
                let _ = router.ip(&line);
            }
        }
        for of in ["all", "left", "right", "virtual7", "left/50/51", "left/60", "left/60/61"] {
            let of = of.replace('/', ".");
            for (key, value) in [
                ("ipv4/conf/IF/accept_source_route", "1"),
                ("ipv4/conf/IF/bc_forwarding", "1"),
                ("ipv6/conf/IF/seg6_enabled", "1"),
                ("ipv6/conf/IF/rpl_seg_enabled", "1"),
                ("ipv6/conf/IF/accept_source_route", "1"),
            ] {
                // Older kernels do not have it.
                let _ = router.sysctl(&[(&key.replace("IF", &of), value)]);
            }
        }
        let _ = router.sysctl(&[("mpls/platform_labels", "1000"), ("mpls/conf/left/input", "1")]);
        let _ = router.run("ip", &["-f", "mpls", "route", "add", "100", "dev", "lo"], LIMIT);
        Self { topology }
    }

    /// Sends frames from one side, and returns the numbers of the frames that leave by any.
    fn forwarded(&self, from_sink: bool, frames: &[(u32, Vec<u8>)]) -> BTreeSet<u32> {
        let Topology { source, sink, .. } = &self.topology;
        let sides = [(source, SOURCE.interface), (sink, SINK.interface)];
        let sniffers =
            sides.map(|(of, at)| Sniffer::start(of, at, |it| number_of(it).is_some()).unwrap());
        let (namespace, interface) = sides[usize::from(from_sink)];
        let socket = RawSocket::open(namespace, interface).unwrap();
        for burst in frames.chunks(BURST) {
            for (number, frame) in burst {
                assert!(socket.send(frame).unwrap(), "frame {number} is too long");
            }
            std::thread::sleep(Duration::from_millis(4));
        }
        std::thread::sleep(Duration::from_millis(250));
        let received = sniffers.into_iter().flat_map(Sniffer::finish);
        received.filter_map(|it| number_of(&it.frame)).collect()
    }

    fn start(&self, configuration: impl Fn(&Path) -> String) -> Wattline {
        let started = Wattline::start_with(&self.topology, binary(), configuration);
        started.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A guard, and its model.
struct Guard {
    name: &'static str,
    configuration: &'static str,
    /// Returns true if the guard may pass a packet that a worker sees.
    may_pass: fn(&Case) -> bool,
    /// True if ordinary packets have to pass if `may_pass` returns true for them.
    passes_ordinary: bool,
}

/// Returns true if the routes of [`Lab`] lead back to the source by the left port (RFC 3704).
fn is_behind_left(case: &Case) -> bool {
    match case.source {
        // The addresses of networks belong to no host.
        IpAddr::V4(it) => {
            matches!(it.octets(), [198, 18, 0, host] if host != 0 && host != 255)
                || it.octets().starts_with(&[10, 66])
        }
        IpAddr::V6(it) => matches!(it.segments(), [0x2001, 2, 0, 1 | 0x66, ..]),
    }
}

/// Returns true if there is a route to the source other than the default routes.
fn is_routed(case: &Case) -> bool {
    is_behind_left(case)
        || match case.source {
            IpAddr::V4(it) => matches!(it.octets(), [198, 18 | 19, 0, _] | [203, 0, 113, _]),
            IpAddr::V6(it) => {
                matches!(it.segments(), [0x2001, 2, 0, 2, ..] | [0x2001, 0xdb8, 7, ..])
            }
        }
}

const GUARDS: [Guard; 4] = [
    Guard {
        name: "acl deny",
        configuration: "[[acl]]\non = [\"left\"]\naction = \"deny\"\n",
        may_pass: |_| false,
        passes_ordinary: false,
    },
    Guard {
        name: "acl telnet",
        configuration: "[[acl]]\nname = \"telnet\"\non = [\"left\"]\naction = \"deny\"\n\
                        protocol = \"tcp\"\ndestination_ports = 23\n\
                        [[acl]]\nname = \"rest\"\non = [\"left\"]\naction = \"permit\"\n",
        may_pass: Case::may_pass_telnet_list,
        passes_ordinary: true,
    },
    Guard {
        name: "urpf strict",
        configuration: "[urpf]\nstrict = [\"left\"]\n",
        may_pass: is_behind_left,
        passes_ordinary: true,
    },
    Guard {
        name: "urpf loose",
        configuration: "[urpf]\nloose = [\"left\"]\n",
        may_pass: is_routed,
        passes_ordinary: true,
    },
];

const IPSEC: Guard =
    Guard { name: "ipsec", configuration: "", may_pass: |_| false, passes_ordinary: false };

/// Sends all cases to a guard; checks that no packet leaves that its model stops, and that ordinary
/// ones do.
fn check(lab: &Lab, guard: &Guard, mode: &str, from_sink: bool, cases: &[Case], log: &str) {
    let (from, to) = if from_sink { (SINK, RIGHT) } else { (SOURCE, LEFT) };
    let number = |index: usize| index as u32;
    let frames: Vec<(u32, Vec<u8>)> = cases
        .iter()
        .enumerate()
        .map(|(index, case)| (number(index), case.frame(from, to, number(index))))
        .collect();
    let left = lab.forwarded(from_sink, &frames);
    let may_pass = |case: &Case| case.link.is_judged() && (guard.may_pass)(case);
    let leaks: Vec<&Case> = left
        .iter()
        .filter_map(|number| cases.get(*number as usize))
        .filter(|case| !may_pass(case))
        .collect();
    let held = cases.iter().filter(|case| !may_pass(case)).count();
    println!(
        "{}, {mode}: {} cases, {held} to be held back, {} forwarded, {} leaks",
        guard.name,
        cases.len(),
        left.len(),
        leaks.len()
    );
    assert!(
        leaks.is_empty(),
        "{}, {mode}: {:#?}\n{log}",
        guard.name,
        &leaks[..leaks.len().min(20)]
    );
    if !guard.passes_ordinary {
        return;
    }
    let must = |index: &u32| {
        let case = &cases[*index as usize];
        case.is_ordinary() && may_pass(case)
    };
    let mut missing: Vec<u32> =
        (0..cases.len() as u32).filter(must).filter(|number| !left.contains(number)).collect();
    // A busy machine loses some.
    for _ in 0..3 {
        let again: Vec<_> = missing.iter().map(|it| frames[*it as usize].clone()).collect();
        if again.is_empty() {
            break;
        }
        let passed = lab.forwarded(from_sink, &again);
        missing.retain(|number| !passed.contains(number));
    }
    let missing: Vec<&Case> = missing.iter().map(|it| &cases[*it as usize]).collect();
    assert!(missing.is_empty(), "{}, {mode} lost {missing:#?}\n{log}", guard.name);
}

/// Packets to the router itself arrive at a guarded port, also at an interface on top of it.
fn local_packets_arrive(lab: &Lab, name: &str) {
    for address in [LEFT.v4.to_string(), LEFT.v6.to_string(), VIRTUAL4.to_string()] {
        let mut ping = lab.topology.source.command("ping");
        ping.args(["-n", "-c", "1", "-W", "10", &address]);
        let output = command::run_to_end(&mut ping, LIMIT, "").unwrap();
        assert!(output.status.success(), "{name}: no answer from {address}");
    }
}

fn nothing_leaks(all: bool) {
    let near = [IpAddr::from(SOURCE.v4), SOURCE.v6.into()];
    let far = [IpAddr::from(FAR4), FAR6.into()];
    let router = [IpAddr::from(LEFT.v4), LEFT.v6.into()];
    let outbound = cases(near, far, router, all);
    let lab = Lab::build();
    // The kernel alone forwards many of the packets that the guards stop.
    let frames = outbound.iter().enumerate();
    let frames: Vec<(u32, Vec<u8>)> =
        frames.map(|(at, case)| (at as u32, case.frame(SOURCE, LEFT, at as u32))).collect();
    let by_kernel = lab.forwarded(false, &frames);
    println!("no guard, kernel: {} cases, {} forwarded", outbound.len(), by_kernel.len());
    assert!(by_kernel.len() > outbound.len() / 8, "{} of {}", by_kernel.len(), outbound.len());

    for (mode, name) in [(Mode::Adaptive, "workers"), (Mode::XdpForward, "XDP forwarding")] {
        for guard in &GUARDS {
            if guard.name == "urpf loose" {
                let routes = |action: &str| {
                    format!(
                        "route {action} default via {}\nroute {action} default via {}",
                        SINK.v4, SINK.v6
                    )
                };
                let far = |action: &str| {
                    format!(
                        "route {action} 203.0.113.0/24 via {}\nroute {action} 2001:db8:7::/48 via {}",
                        SINK.v4, SINK.v6
                    )
                };
                let router = &lab.topology.router;
                router.ip(&[far("add"), routes("del")].join("\n")).unwrap();
                run(&lab, guard, mode, name, &outbound);
                router.ip(&[routes("add"), far("del")].join("\n")).unwrap();
            } else {
                run(&lab, guard, mode, name, &outbound);
            }
        }
    }

    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), KIND);
    let networks = [
        ["198.18.0.0/24", "0.0.0.0/0"],
        ["2001:2:0:1::/64", "::/0"],
        ["10.66.0.0/16", "0.0.0.0/0"],
        ["2001:2:0:66::/64", "::/0"],
    ];
    let text = |socket: &Path| {
        forwarder::configuration(Mode::Adaptive, 1, socket)
            + &tunnel_end(folder.path(), KIND, 0, &networks)
    };
    let wattline = lab.start(text);
    // Only the router stops packets.
    let _ = lab.topology.router.ip("xfrm policy flush");
    // Sources without a policy do not concern it.
    let protected: Vec<Case> =
        outbound.iter().filter(|case| is_behind_left(case)).cloned().collect();
    check(
        &lab,
        &Guard { name: "ipsec out", ..IPSEC },
        "workers",
        false,
        &protected,
        &wattline.log(),
    );
    let inbound = cases(
        [IpAddr::from(SINK.v4), SINK.v6.into()],
        near,
        [IpAddr::from(RIGHT.v4), RIGHT.v6.into()],
        all,
    );
    let is_protected = |case: &&Case| [near[0], near[1]].contains(&case.destination);
    let mut inbound: Vec<Case> = inbound.iter().filter(is_protected).cloned().collect();
    let mut behind = inbound.clone();
    for case in &mut behind {
        case.destination = if case.source.is_ipv4() { BEHIND4.into() } else { BEHIND6.into() };
    }
    inbound.extend(behind);
    check(&lab, &Guard { name: "ipsec in", ..IPSEC }, "workers", true, &inbound, &wattline.log());
}

fn run(lab: &Lab, guard: &Guard, mode: Mode, name: &str, cases: &[Case]) {
    let text = |socket: &Path| forwarder::configuration(mode, 1, socket) + guard.configuration;
    let wattline = lab.start(text);
    let log = wattline.log();
    assert!(log.contains("virtual7 is on top of left"), "{log}");
    local_packets_arrive(lab, guard.name);
    check(lab, guard, name, false, cases, &log);
    local_packets_arrive(lab, guard.name);
}

#[test]
fn no_generated_frame_passes_a_guard() {
    privileged("no_generated_frame_passes_a_guard", || nothing_leaks(false));
}

#[test]
#[ignore = "many more header chains: `make test-long`"]
fn no_generated_frame_of_the_long_series_passes_a_guard() {
    privileged("no_generated_frame_of_the_long_series_passes_a_guard", || nothing_leaks(true));
}

/// An interface that is made on top of the port while packets flow does not bypass the list either.
#[test]
fn an_interface_that_appears_on_a_guarded_port_is_reported_and_forwards_nothing() {
    let test = "an_interface_that_appears_on_a_guarded_port_is_reported_and_forwards_nothing";
    quiet(test, || {
        let options = Options { static_neighbours: true, ..Options::default() };
        let lab = Lab { topology: Topology::build(options).unwrap() };
        let text = |socket: &Path| {
            forwarder::configuration(Mode::Adaptive, 1, socket) + GUARDS[0].configuration
        };
        let wattline = lab.start(text);
        add_virtual_router(&lab.topology);
        let case = Case {
            link: Link::Station(VIRTUAL_MAC),
            ..Case::new(SOURCE.v4, FAR4, Payload::Udp(WEB))
        };
        for _ in 0..3 {
            let frames = [(1, case.frame(SOURCE, LEFT, 1))];
            assert!(lab.forwarded(false, &frames).is_empty());
        }
        let reports = || wattline.log().matches("virtual7 is on top of left").count();
        wattline_needs::until_or(|| reports() > 0, || wattline.log());
        let stats = wattline.stats().unwrap();
        assert_eq!(stats["ports"][0]["verdicts"]["station_dropped"], 3, "{stats:#}");
        local_packets_arrive(&lab, "virtual7");
        assert_eq!(reports(), 1, "once");
    });
}

/// A station on top of a guarded port, and hosts behind a bridge.
const INNER_MAC: [u8; 6] = [2, 0xcc, 0, 0, 0, 1];
/// Ethernet address of the group of all hosts.
const ALL_HOSTS: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
const INNER4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 77);
const INNER6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0x77);

/// Sends frames for a host behind an interface on top of the port; only frames for a group arrive.
fn nothing_reaches(inner: &Namespace, lab: &Lab, of: &str) {
    let stations =
        [INNER_MAC, LEFT.mac, [0xff; 6], [1, 0, 0x5e, 0, 0, 5], [0x33, 0x33, 0, 0, 0, 1]];
    let mut cases = Vec::new();
    for station in stations {
        for hops in [64, 1, 0] {
            for (source, destination) in
                [(IpAddr::from(SOURCE.v4), IpAddr::from(INNER4)), (SOURCE.v6.into(), INNER6.into())]
            {
                let case = Case::new(source, destination, Payload::Udp(WEB));
                cases.push(Case { link: Link::Station(station), hops, ..case });
            }
        }
    }
    let count = cases.len() as u32;
    // A neighbour's multicast goes to everything on the link.
    let group = Case::new(SOURCE.v4, Ipv4Addr::new(224, 0, 0, 1), Payload::Udp(WEB));
    cases.push(Case { link: Link::Station(ALL_HOSTS), hops: 1, ..group });
    let sniffer = Sniffer::start(inner, "inner", |it| number_of(it).is_some()).unwrap();
    let socket = RawSocket::open(&lab.topology.source, SOURCE.interface).unwrap();
    for (number, case) in cases.iter().enumerate() {
        assert!(socket.send(&case.frame(SOURCE, LEFT, number as u32)).unwrap());
    }
    let begun = std::time::Instant::now();
    while sniffer.count() == 0 && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(250));
    let received = sniffer.finish();
    let numbers: Vec<u32> = received.iter().filter_map(|it| number_of(&it.frame)).collect();
    let leaks: Vec<&Case> =
        numbers.iter().filter(|it| **it != count).map(|it| &cases[*it as usize]).collect();
    assert!(leaks.is_empty(), "{of}: {leaks:#?}");
    assert_eq!(numbers, [count], "{of}");
}

/// A TTL of 1, or a frame for all stations of the link, is enough to reach it without a router.
#[test]
fn host_on_top_of_a_guarded_port_is_reached_by_no_frame_of_its_own() {
    let test = "host_on_top_of_a_guarded_port_is_reached_by_no_frame_of_its_own";
    quiet(test, || {
        let options = Options { static_neighbours: true, ..Options::default() };
        let lab = Lab { topology: Topology::build(options).unwrap() };
        let text = |socket: &Path| {
            forwarder::configuration(Mode::Adaptive, 1, socket) + GUARDS[0].configuration
        };
        let router = &lab.topology.router;
        let [container, bridged] =
            ["container", "bridged"].map(|role| Namespace::create(role).unwrap());
        let mac = mac_text(INNER_MAC);
        let address = format!("link set inner up\naddress add {INNER4}/24 dev inner");
        router
            .ip(&format!(
                "link add link left name inner address {mac} type macvlan mode bridge\n\
                 link set inner netns {}",
                container.name()
            ))
            .unwrap();
        container.ip(&address).unwrap();
        let wattline = lab.start(text);
        nothing_reaches(&container, &lab, "macvlan");

        container.ip("link del inner").unwrap();
        router
            .ip(&format!(
                "link add bridge type bridge\nlink set bridge up\n\
                 link add outer type veth peer name inner address {mac} netns {}\n\
                 link set outer up\nlink set outer master bridge\nlink set left master bridge",
                bridged.name()
            ))
            .unwrap();
        bridged.ip(&address).unwrap();
        wattline_needs::until_or(
            || wattline.log().contains("left belongs to the bridge bridge"),
            || wattline.log(),
        );
        std::thread::sleep(Duration::from_millis(500));
        nothing_reaches(&bridged, &lab, "bridge");
    });
}
