//! The program forwards crafted frames by the routes of a namespace, run by the kernel itself
//! (needs privileges). Frames of such runs come from the loopback interface.

use super::XdpForward;
use crate::bpf::BpfError;
use crate::copies::Copies;
use crate::flows::FlowLookup;
use crate::loaded::Loaded;
use crate::tests::{MAC, frame};
use crate::{Leaves, LocalAddress, Verdict, XdpMode, XdpProgram};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use wattline_linux::namespace::{Namespace, interface_index};
use wattline_linux::xdp_features::{Transmits, XdpFeatures};
use wattline_packet::checksum::Sum;

const OUT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
pub(super) const SLOT: u32 = 3;

/// Creates a router's namespace: routes lead out of `w0`, to a known and an unknown next hop, and
/// some are blackholes.
pub(super) fn namespace() -> Option<Namespace> {
    let namespace = Namespace::for_test(&[]).map_err(wattline_needs::rights).ok()?;
    for family in ["ipv4", "ipv6"] {
        namespace.sysctl(&format!("net.{family}.conf.all.forwarding"), "1").unwrap();
    }
    for command in [
        "link set lo up",
        "link add w0 address 02:00:00:00:00:0a type veth peer name w1",
        "link add other type veth peer name other1",
        "link set w0 up",
        "link set w1 up",
        "link set other up",
        "link set other1 up",
        "addr add 192.0.2.1/24 dev w0",
        "addr add 2001:db8:9::1/64 dev w0 nodad",
        "addr add 198.18.0.1/24 dev other",
        "neigh add 192.0.2.9 lladdr 02:00:00:00:00:0b dev w0",
        "neigh add 2001:db8:9::9 lladdr 02:00:00:00:00:0b dev w0",
        "neigh add 198.18.0.9 lladdr 02:00:00:00:00:0c dev other",
        "route add 203.0.113.0/25 via 192.0.2.9",
        "route add 203.0.113.128/26 via 192.0.2.9 mtu lock 600",
        "route add 203.0.113.192/28 via 192.0.2.10",
        "route add blackhole 203.0.113.208/28",
        "route add unreachable 203.0.113.224/28",
        "route add 203.0.113.240/28 via 198.18.0.9",
        "route add 2001:db8:2::/64 via 2001:db8:9::9",
        "route add 2001:db8:3::/64 via 2001:db8:9::9 mtu lock 1300",
        "route add 2001:db8:4::/64 via 2001:db8:9::a",
        "route add blackhole 2001:db8:5::/64",
    ] {
        namespace.ip(command).unwrap();
    }
    namespace.run("ethtool", &["-K", "w1", "gro", "on"]).unwrap();
    Some(namespace)
}

pub(super) struct Fixture {
    pub copies: Arc<Copies>,
    forward: XdpForward,
    pub program: XdpProgram,
    out: u32,
}

impl Fixture {
    /// Creates it in the namespace of this thread, with egress by `w0` open.
    pub fn new() -> Self {
        let copies = Arc::new(Copies::new().unwrap());
        let forward = XdpForward::new(&copies).unwrap();
        let out = interface_index("w0").unwrap();
        assert!(forward.open(out, true).is_err());
        forward.add(out, SLOT).unwrap();
        forward.open(out, true).unwrap();
        let loaded = Loaded::new(MAC, Some(forward.ports())).unwrap();
        let program = XdpProgram { loaded, link: None, mode: XdpMode::Native, refused: None };
        for address in ["192.0.2.1", "192.0.2.0", "192.0.2.255", "198.18.0.1", "2001:db8:9::1"] {
            program.add_local(address.parse().unwrap(), LocalAddress::Host).unwrap();
        }
        Self { copies, forward, program, out }
    }

    fn forwarded(&self) -> u64 {
        self.program.counters().unwrap().get(Verdict::Forwarded)
    }

    /// Runs the program on a frame. Returns the sent frame, or `None` if it is left unchanged to a
    /// socket (to the kernel, since there is no socket).
    pub fn run(&self, name: &str, frame: &[u8]) -> Option<Vec<u8>> {
        let before = self.forwarded();
        let run = self
            .program
            .loaded
            .program
            .test_run(frame)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        match self.forwarded() - before {
            0 => {
                assert_eq!(run.result, 2, "{name}: XDP_PASS");
                assert_eq!(run.packet, frame, "{name}: the frame stays as it is");
                None
            }
            _ => {
                assert_eq!(run.result, 4, "{name}: XDP_REDIRECT");
                Some(run.packet)
            }
        }
    }
}

/// Returns a packet with `payload` bytes of UDP, changed before its checksum is computed.
pub(super) fn ipv4(to: [u8; 4], payload: u16, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = vec![0; 20 + usize::from(payload)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(20 + payload).to_be_bytes());
    (packet[8], packet[9]) = (64, 17);
    packet[12..16].copy_from_slice(&[198, 51, 100, 1]);
    packet[16..20].copy_from_slice(&to);
    change(&mut packet);
    let sum = Sum::new().bytes(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    frame(0x0800, &packet)
}

pub(super) fn ipv6(to: &str, payload: u16, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = vec![0; 40 + usize::from(payload)];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    (packet[6], packet[7]) = (17, 64);
    packet[8..24].copy_from_slice(&"2001:db8:1::5".parse::<Ipv6Addr>().unwrap().octets());
    packet[24..40].copy_from_slice(&to.parse::<Ipv6Addr>().unwrap().octets());
    change(&mut packet);
    frame(0x86dd, &packet)
}

/// Returns the frame as a router forwards it.
fn sent(frame: &[u8], length: usize) -> Vec<u8> {
    let mut sent = frame[..length].to_vec();
    sent[..6].copy_from_slice(&NEXT_MAC);
    sent[6..12].copy_from_slice(&OUT_MAC);
    if sent[12] == 8 {
        sent[22] -= 1;
        sent[24..26].fill(0);
        let sum = Sum::new().bytes(&sent[14..34]).checksum();
        sent[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        sent[21] -= 1;
    }
    sent
}

#[test]
fn plain_frames_are_forwarded_and_others_left_unchanged() {
    let Some(namespace) = namespace() else { return };
    let near = [203, 0, 113, 5];
    let forwarded = [
        ("IPv4", ipv4(near, 100, |_| ())),
        ("no payload", ipv4(near, 0, |_| ())),
        ("smallest TTL", ipv4(near, 30, |p| p[8] = 2)),
        ("largest TTL", ipv4(near, 30, |p| p[8] = 255)),
        ("TCP", ipv4(near, 30, |p| p[9] = 6)),
        ("another protocol", ipv4(near, 30, |p| p[9] = 132)),
        ("first fragment", ipv4(near, 32, |p| p[6] = 0x20)),
        ("last fragment", ipv4(near, 32, |p| p[7] = 4)),
        ("DF", ipv4(near, 1480, |p| p[6] = 0x40)),
        ("as long as the MTU", ipv4(near, 1480, |_| ())),
        ("as long as the route's MTU", ipv4([203, 0, 113, 130], 580, |_| ())),
        ("type of service", ipv4(near, 30, |p| p[1] = 0xb8)),
        ("IPv6", ipv6("2001:db8:2::5", 100, |_| ())),
        ("IPv6, no payload", ipv6("2001:db8:2::5", 0, |p| p[6] = 59)),
        ("IPv6, flow label", ipv6("2001:db8:2::5", 30, |p| p[1..4].fill(0xff))),
        ("IPv6, smallest hop limit", ipv6("2001:db8:2::5", 30, |p| p[7] = 2)),
        ("IPv6, TCP", ipv6("2001:db8:2::5", 30, |p| p[6] = 6)),
        ("IPv6, fragment", ipv6("2001:db8:2::5", 30, |p| p[6] = 44)),
        ("IPv6, as long as the MTU", ipv6("2001:db8:3::5", 1260, |_| ())),
    ];
    let broken = |at: usize, frame: Vec<u8>| {
        let mut frame = frame;
        frame[at] ^= 1;
        frame
    };
    let cut = |frame: Vec<u8>| frame[..frame.len() - 1].to_vec();
    let own = |p: &mut [u8]| p[12..16].copy_from_slice(&[192, 0, 2, 1]);
    let left = [
        ("wrong checksum", broken(24, ipv4(near, 30, |_| ()))),
        ("length below the header's", ipv4(near, 30, |p| p[3] = 19)),
        ("cut", cut(ipv4(near, 100, |_| ()))),
        ("own address as source", ipv4(near, 30, own)),
        ("broadcast address as source", ipv4(near, 30, |p| p[12..16].fill(0xff))),
        ("beyond the MTU", ipv4(near, 1481, |_| ())),
        ("beyond the route's MTU", ipv4([203, 0, 113, 130], 581, |_| ())),
        ("neighbour unknown", ipv4([203, 0, 113, 193], 30, |_| ())),
        ("blackhole", ipv4([203, 0, 113, 209], 30, |_| ())),
        ("unreachable", ipv4([203, 0, 113, 225], 30, |_| ())),
        ("an interface that is not a port", ipv4([203, 0, 113, 241], 30, |_| ())),
        ("no route", ipv4([8, 8, 8, 8], 30, |_| ())),
        ("TTL 1", ipv4(near, 30, |p| p[8] = 1)),
        ("to us", ipv4([192, 0, 2, 1], 30, |_| ())),
        ("directed broadcast", ipv4([192, 0, 2, 255], 30, |_| ())),
        ("IPv6, cut", cut(ipv6("2001:db8:2::5", 100, |_| ()))),
        ("IPv6, beyond the MTU", ipv6("2001:db8:3::5", 1261, |_| ())),
        ("IPv6, neighbour unknown", ipv6("2001:db8:4::5", 30, |_| ())),
        ("IPv6, blackhole", ipv6("2001:db8:5::5", 30, |_| ())),
        ("IPv6, no route", ipv6("2001:db8:ffff::5", 30, |_| ())),
        ("IPv6, longest payload", ipv6("2001:db8:2::5", 30, |p| p[4..6].fill(0xff))),
    ];
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            let mut bytes = 0;
            for (name, frame) in &forwarded {
                let expected = sent(frame, frame.len());
                assert_eq!(fixture.run(name, frame).as_ref(), Some(&expected), "{name}");
                bytes += frame.len() as u64;
            }
            for (name, frame) in &left {
                assert_eq!(fixture.run(name, frame), None, "{name}");
            }
            let counted = fixture.program.sent(SLOT).unwrap();
            assert_eq!(counted.packets, forwarded.len() as u64);
            assert_eq!(counted.bytes, bytes);
            assert_eq!(fixture.program.sent(SLOT + 1).unwrap().packets, 0);
            assert_eq!(fixture.forward.refused(SLOT).unwrap(), 0);
            // Padding is cut off, as the kernel does.
            for packet in [ipv4(near, 8, |_| ()), ipv6("2001:db8:2::5", 0, |p| p[6] = 59)] {
                let padded = [&packet[..], &[0xaa; 18]].concat();
                let expected = sent(&packet, packet.len());
                assert_eq!(fixture.run("padded", &padded), Some(expected));
            }
            let tagged = [&forwarded[0].1[..12], &[0x81, 0, 0, 7], &forwarded[0].1[12..]].concat();
            fixture.program.set_vlan(7, true).unwrap();
            assert_eq!(fixture.run("tagged", &tagged), None);
        })
        .unwrap();
}

#[test]
fn every_checksum_is_right_afterwards() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            for id in (0..=u16::MAX).step_by(257).chain([0xfeff, 0xfffe]) {
                let change = |p: &mut [u8]| p[4..6].copy_from_slice(&id.to_be_bytes());
                let frame = ipv4([203, 0, 113, 7], 30, change);
                assert_eq!(fixture.run("any", &frame), Some(sent(&frame, frame.len())), "{id}");
            }
        })
        .unwrap();
}

/// Every frame is forwarded correctly, or left unchanged.
#[test]
fn mangled_frames_are_forwarded_correctly_or_not_at_all() {
    let Some(namespace) = namespace() else { return };
    let originals = [
        ipv4([203, 0, 113, 5], 60, |_| ()),
        ipv6("2001:db8:2::5", 60, |_| ()),
        [ipv4([203, 0, 113, 5], 8, |_| ()), vec![0; 18]].concat(),
    ];
    // Bytes of special addresses, TTLs and protocols are more frequent.
    let at = prop_oneof![0_usize..60, prop::sample::select(&[22, 23, 26, 30][..])];
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&[0, 1, 6, 127, 169, 224][..])];
    let changes = proptest::collection::vec((at, byte), 0..4);
    let cases = (0..originals.len(), changes, any::<bool>(), 14_usize..100);
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            fixture.program.set_leaves(Leaves::Unfinished, true).unwrap();
            // With copies enabled the program does not take its fast path.
            let judge = |frame: &[u8], snap| {
                fixture.copies.set_snap(snap).unwrap();
                let before = fixture.program.counters().unwrap();
                let run = fixture.program.loaded.program.test_run(frame).unwrap();
                let after = fixture.program.counters().unwrap();
                let verdict = Verdict::ALL.into_iter().find(|it| after.get(*it) > before.get(*it));
                (verdict, run.result, run.packet)
            };
            TestRunner::new(Config::with_cases(2000))
                .run(&cases, |(which, changes, mends, length)| {
                    let mut frame = originals[which].clone();
                    changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
                    if mends && frame[12] == 8 {
                        frame[24..26].fill(0);
                        let sum = Sum::new().bytes(&frame[14..34]).checksum();
                        frame[24..26].copy_from_slice(&sum.to_be_bytes());
                    }
                    if changes.len() == 3 {
                        frame.truncate(length);
                    }
                    let judged = judge(&frame, 0);
                    prop_assert_eq!(&judged, &judge(&frame, 1), "the short way, and the long one");
                    let (verdict, _, after) = judged;
                    if verdict != Some(Verdict::Forwarded) {
                        prop_assert_eq!(&after, &frame);
                        return Ok(());
                    }
                    let packet = &frame[14..];
                    let field =
                        |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
                    let (whole, lives) = match frame[12..14] {
                        [8, 0] => {
                            prop_assert_eq!(Sum::new().bytes(&packet[..20]).checksum(), 0);
                            (field(2), packet[8])
                        }
                        _ => (field(4) + 40, packet[7]),
                    };
                    prop_assert!(lives > 1 && whole <= packet.len(), "{:?}", frame);
                    prop_assert_eq!(after, sent(&frame, whole + 14));
                    Ok(())
                })
                .unwrap();
            assert!(fixture.forwarded() > 100, "{}", fixture.forwarded());
        })
        .unwrap();
}

/// The program sees only the first piece of a jumbo frame, which may be too long for sockets.
#[test]
fn frames_in_fragments_are_forwarded_to_interfaces_that_take_them() {
    let Some(namespace) = namespace() else { return };
    for link in ["w0", "w1"] {
        namespace.ip(&format!("link set {link} mtu 9000")).unwrap();
    }
    let near = [203, 0, 113, 5];
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            fixture.program.set_longest(1500).unwrap();
            let too_long = || fixture.program.counters().unwrap().get(Verdict::TooLong);
            let longest = ipv4(near, 8980, |_| ());
            let frames = [
                // Too long for sockets, and still in one piece.
                ipv4(near, 1481, |_| ()),
                longest.clone(),
                ipv6("2001:db8:2::5", 8960, |_| ()),
            ];
            let mut bytes = 0;
            for frame in &frames {
                let name = format!("{} bytes", frame.len());
                assert_eq!(fixture.run(&name, frame), Some(sent(frame, frame.len())), "{name}");
                bytes += frame.len() as u64;
            }
            assert_eq!(fixture.program.sent(SLOT).unwrap().bytes, bytes);
            // Padding is cut off, also across pieces.
            for payload in [30, 5000] {
                let packet = ipv4(near, payload, |_| ());
                let padded = [&packet[..], &vec![0xaa; 3800]].concat();
                assert_eq!(fixture.run("padded", &padded), Some(sent(&packet, packet.len())));
            }
            assert_eq!(too_long(), 0);
            // Left to the kernel: truncated, beyond the MTU, and for this machine.
            assert_eq!(fixture.run("cut", &longest[..longest.len() - 1]), None);
            assert_eq!(fixture.run("beyond the MTU", &ipv4(near, 8981, |_| ())), None);
            assert_eq!(too_long(), 2);
            assert_eq!(fixture.run("to us", &ipv4([192, 0, 2, 1], 8980, |_| ())), None);
            assert_eq!(too_long(), 2);
            // An interface that takes only frames in one piece.
            fixture.forward.open(fixture.out, false).unwrap();
            assert!(fixture.run("in one piece", &frames[0]).is_some());
            assert_eq!(fixture.run("in fragments", &longest), None);
            assert_eq!(too_long(), 3);
        })
        .unwrap();
}

#[test]
fn closed_egress_port_is_not_used() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            let frame = ipv4([203, 0, 113, 7], 30, |_| ());
            assert!(fixture.run("open", &frame).is_some());
            fixture.forward.close(fixture.out).unwrap();
            fixture.forward.close(fixture.out).unwrap();
            assert!(!fixture.forward.is_open(fixture.out).unwrap());
            assert!(fixture.run("closed", &frame).is_none());
            fixture.forward.open(fixture.out, true).unwrap();
            assert!(fixture.run("open again", &frame).is_some());
            assert!(fixture.forward.add(u32::MAX >> 1, SLOT).is_err());
            let out_of_range = crate::FORWARD_PORTS_MAX;
            assert_eq!(fixture.forward.refused(out_of_range).unwrap(), 0);
            let one = IpAddr::from([203, 0, 113, 7]);
            fixture.program.add_local(one, LocalAddress::Host).unwrap();
            assert!(fixture.run("ours now", &frame).is_none());
        })
        .unwrap();
}

/// Interfaces whose indices share a place: each is found exactly while it is open.
#[test]
fn egress_ports_that_share_a_place_open_and_close_separately() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let Fixture { forward, program, out, .. } = &Fixture::new();
            let far = out + 1024;
            for command in [
                &format!("link add far index {far} type veth peer name far1"),
                "link set far up",
                "link set far1 up",
                "addr add 198.19.0.1/24 dev far",
                "neigh add 198.19.0.9 lladdr 02:00:00:00:00:0d dev far",
            ] {
                namespace.ip(command).unwrap();
            }
            forward.add(far, SLOT + 1).unwrap();
            let set = |index, open: bool| match open {
                true => forward.open(index, false).unwrap(),
                false => forward.close(index).unwrap(),
            };
            let taken = |network: u8, slot| {
                let before = program.sent(slot).unwrap().packets;
                let to = if network == 19 { [198, 19, 0, 9] } else { [203, 0, 113, 7] };
                program.loaded.program.test_run(&ipv4(to, 30, |_| ())).unwrap();
                program.sent(slot).unwrap().packets - before == 1
            };
            // The first has the place, then the other, then none.
            for (near, other) in [
                (true, false),
                (true, true),
                (false, true),
                (true, true),
                (false, true),
                (false, false),
            ] {
                set(*out, near);
                set(far, other);
                assert_eq!((taken(113, SLOT), taken(19, SLOT + 1)), (near, other));
                assert_eq!(forward.is_open(*out).unwrap(), near);
            }
        })
        .unwrap();
}

/// A driver that reports an error closes its egress port, and the error is known. A driver that
/// reports none and takes only part of a batch does not.
#[test]
fn egress_port_closes_with_the_error_of_its_driver() {
    let Some(namespace) = namespace() else { return };
    let gro = |state| namespace.run("ethtool", &["-K", "w1", "gro", state]).unwrap();
    namespace
        .enter(|| {
            let fixture = Fixture::new();
            let Fixture { forward, out, .. } = &fixture;
            // Losses are counted only between ports, and live frames come from loopback.
            forward.add(interface_index("lo").unwrap(), SLOT + 1).unwrap();
            let send = |payload| {
                let frame = ipv4([203, 0, 113, 7], payload, |_| ());
                fixture.program.loaded.program.run_live(&frame, 1, 1).unwrap();
                let open = forward.is_open(*out).unwrap();
                (open, forward.cause(SLOT).unwrap(), forward.refused(SLOT).unwrap())
            };
            assert_eq!(send(30), (true, None, 0));
            // Too long for the far end, which this side cannot know: no error, and not sent.
            namespace.ip("link set w1 mtu 300").unwrap();
            assert_eq!(send(1000), (true, None, 1));
            assert_eq!(send(30), (true, None, 1));
            // Refused by the kernel, by a flag since Linux 6.3, or otherwise by the driver.
            let refusal = || {
                let flag = XdpFeatures::open().and_then(|mut it| it.transmits(*out));
                let known = flag.is_ok_and(|it| it == Transmits::Nothing);
                if known { Errno::OPNOTSUPP } else { Errno::NXIO }
            };
            // The far end stops running NAPI. A change while it is down updates the flag on some
            // kernels (Debian's 6.12.117) and not on others (6.18).
            namespace.ip("link set w1 down").unwrap();
            gro("off");
            namespace.ip("link set w1 up").unwrap();
            assert_eq!(send(30), (false, Some(refusal()), 2));
            // Closed: neither sent nor lost.
            assert_eq!(send(30), (false, Some(refusal()), 2));
            forward.open(*out, true).unwrap();
            assert_eq!(forward.cause(SLOT).unwrap(), None);
            assert_eq!(send(30), (false, Some(refusal()), 3));
            gro("on");
            forward.open(*out, true).unwrap();
            assert_eq!(send(30), (true, None, 3));
            // While it is up, on all kernels that have the flag.
            gro("off");
            let known = XdpFeatures::open().is_ok();
            let cause = if known { Errno::OPNOTSUPP } else { Errno::NXIO };
            assert_eq!(send(30), (false, Some(cause), 4));
        })
        .unwrap();
}

#[test]
fn program_of_flows_is_accepted_if_kernel_has_function() {
    let forward = match Copies::new().and_then(|it| XdpForward::new(&it.into())) {
        Ok(forward) => forward,
        Err(error) => return wattline_needs::rights(&error),
    };
    let lookup = match FlowLookup::open() {
        Ok(lookup) => lookup,
        Err(error @ BpfError::MissingFeature { .. }) => return wattline_needs::machine(error),
        Err(error) => panic!("{error}"),
    };
    Loaded::flow_program([0; 6], forward.ports(), &lookup)
        .unwrap_or_else(|error| panic!("{error}"));
}
