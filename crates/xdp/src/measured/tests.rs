//! Both programs, without an interface and over a link.

use super::*;
use crate::bpf::BpfError;
use wattline_linux::namespace::{Namespace, interface_index};

const PASS: u32 = 2;
const DROP: u32 = 1;
const UDP_BYTES: usize = 8;

fn flow(ipv6: bool, port: u8) -> FlowHeaders {
    let mut bytes = vec![0; if ipv6 { 62 } else { 42 }];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let udp = bytes.len() - UDP_BYTES;
    if ipv6 {
        bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        bytes[20..22].copy_from_slice(&[17, 64]);
        (22..54).for_each(|at| bytes[at] = at as u8);
    } else {
        bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes[26..34].copy_from_slice(&[198, 18, 0, 2, 198, 19, 0, 2]);
    }
    bytes[udp..udp + 4].copy_from_slice(&[4, port, 0, 9]);
    let addresses = if ipv6 { 22..54 } else { 26..34 };
    // Folded to 16 bits.
    let ip_sum = sum(&bytes[14..34], 0) as u16;
    let udp_sum = sum(&bytes[udp..udp + 4], 17 + sum(&bytes[addresses], 0)) as u16;
    FlowHeaders { bytes, ip_sum, udp_sum }
}

/// Returns a sender of stream 1 of trial 7; `None` without the capabilities.
fn sender(ipv6: bool, flows: &[FlowHeaders], lengths: &[u32]) -> Option<MeasuredSender> {
    let load = MeasuredLoad {
        ifindex: 1,
        ipv6,
        flows,
        lengths,
        stamp: 0x57a7_0701,
        segments: &[],
        start_nanos: None,
        lasts_nanos: 0,
    };
    match MeasuredSender::new(&load) {
        Ok(sender) => Some(sender),
        Err(error @ BpfError::MissingCapability { .. }) => {
            wattline_needs::rights(&error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the sum of all 16-bit words with end-around carry: all ones if the checksum among them
/// is right.
fn sum(bytes: &[u8], more: u64) -> u64 {
    let pairs = bytes.chunks(2);
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    (0..4).fold(pairs.map(word).sum::<u64>() + more, |sum, _| (sum >> 16) + (sum & 0xffff))
}

#[test]
fn packets_have_the_headers_lengths_and_checksums_of_their_flow() {
    for ipv6 in [false, true] {
        let flows: Vec<_> = (0..3).map(|port| flow(ipv6, port)).collect();
        let lengths = [1514, 100, 594, 601];
        let Some(sender) = sender(ipv6, &flows, &lengths) else { return };
        for number in 0..24 {
            let frame = sender.frame();
            let udp = if ipv6 { 54 } else { 34 };
            let length = lengths[(number / 3 + number % 3) % 4] as usize;
            assert_eq!(frame.len(), length, "{number}");
            assert_eq!(frame[udp..udp + 4], [4, (number % 3) as u8, 0, 9]);
            let datagram = (length - udp) as u16;
            assert_eq!(frame[udp + 4..udp + 6], datagram.to_be_bytes());
            if ipv6 {
                assert_eq!(frame[18..20], datagram.to_be_bytes());
            } else {
                assert_eq!(frame[16..18], (length as u16 - 14).to_be_bytes());
                assert_eq!(sum(&frame[14..34], 0), 0xffff, "{number}");
            }
            let addresses = if ipv6 { 22..54 } else { 26..34 };
            let pseudo = sum(&frame[addresses], 17 + u64::from(datagram));
            assert_eq!(sum(&frame[udp..], pseudo), 0xffff, "{number}");
            let stamp = &frame[udp + 8..udp + 26];
            assert_eq!(stamp[..9], [0x57, 0xa7, 7, 1, 0, 0, 0, 0, number as u8]);
        }
        assert_eq!(sender.total().unwrap().sent, 24);
    }
}

#[test]
fn classes_of_latencies_are_narrow_and_in_order() {
    let all: Vec<_> = (0..33 << 10).map(class_nanos).collect();
    assert!(all.windows(2).all(|two| two[0] < two[1]));
    assert!(all.windows(2).all(|two| (two[1] - two[0]) * 1000 <= two[1].max(1000)));
    assert_eq!((all[2047], all[2048], all[2049]), (2047, 2048, 2050));
}

/// Returns a namespace with an interface for the receiver; `None` without the capabilities.
fn link() -> Option<Namespace> {
    let namespace = Namespace::for_test(&[]).map_err(wattline_needs::rights).ok()?;
    namespace.ip("link add x0 type veth peer name x1").unwrap();
    namespace.ip("link set x0 up").unwrap();
    namespace.ip("link set x1 up").unwrap();
    Some(namespace)
}

#[test]
fn received_packets_are_counted_exactly() {
    let Some(namespace) = link() else { return };
    let flows: Vec<_> = (0..4).map(|port| flow(false, port)).collect();
    let Some(sender) = sender(false, &flows, &[60]) else { return };
    namespace
        .enter(|| {
            let mut receiver = MeasuredReceiver::attach(interface_index("x1").unwrap(), 1).unwrap();
            let frames: Vec<_> = (0..64).map(|_| sender.frame()).collect();
            assert_eq!(receiver.look_at(&frames[0]), DROP);
            assert_eq!(receiver.totals().unwrap()[0].stale, 1);
            // Stream 1 of two has flows 1, 3, 5, 7 of eight.
            let trial = MeasuredTrial { run: 7, streams: 2, flows: 8, packets: 63 };
            receiver.begin(&trial).unwrap();
            // 8 and 9 are lost, 20 arrives twice, and 12 after 16, 24 and 28 of its flow.
            let order = (0..64).filter(|at| ![8, 9, 12].contains(at)).flat_map(|at| match at {
                20 => vec![20, 20],
                28 => vec![28, 12],
                at => vec![at],
            });
            for at in order {
                assert_eq!(receiver.look_at(&frames[at]), DROP);
            }
            let mut damaged = frames[8].clone();
            damaged[50] ^= 1;
            assert_eq!(receiver.look_at(&damaged), DROP);
            let mut other = frames[8].clone();
            other[42] = 0;
            assert_eq!(receiver.look_at(&other), PASS);
            assert_eq!(receiver.look_at(&[0xff; 60]), PASS);
            // An IPv4 header that claims to be longer than the frame.
            let mut long = frames[8].clone();
            long[14] = 0x4f;
            assert_eq!(receiver.look_at(&long), PASS);
            let total = receiver.totals().unwrap()[0];
            // 62 of 64 came, and packet 63 fits in the last word.
            assert_eq!((total.received, total.duplicated, total.reordered), (62, 1, 1));
            assert_eq!((total.corrupt, total.stale), (1, 0));
            // In addition to packets that the kernel sends by itself over a new link.
            assert!(total.foreign >= 2, "{total:?}");
            assert_eq!((total.distance_max, total.bytes), (5, 62 * 60));
            let flows = &receiver.flows().unwrap()[0];
            let received: Vec<_> = flows.iter().map(|flow| flow.received).collect();
            assert_eq!(received, [0, 15, 0, 15, 0, 16, 0, 16]);
            assert_eq!((flows[1].duplicated, flows[1].reordered), (1, 1));
            let latencies = &receiver.latencies().unwrap()[0];
            assert_eq!(latencies.iter().sum::<u64>(), 62);
        })
        .unwrap();
}

#[test]
fn load_without_a_start_begins_when_the_kernel_generates_frames() {
    let Some(namespace) = link() else { return };
    namespace
        .enter(|| {
            let index = |name: &str| interface_index(name).unwrap();
            let _receiver = MeasuredReceiver::attach(index("x1"), 1).unwrap();
            let segment = Segment {
                first_nanos: 0,
                gap_nanos: 10_000.0,
                patience_nanos: u64::MAX,
                packets: 100,
            };
            let load = MeasuredLoad {
                ifindex: index("x0"),
                flows: &[flow(false, 0)],
                segments: &[segment],
                lasts_nanos: 5_000_000_000,
                ..MeasuredLoad::nothing(0)
            };
            let sender = MeasuredSender::new(&load).unwrap();
            assert_eq!(sender.total().unwrap(), SenderTotal::default());
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            let total = sender.send().unwrap();
            assert_eq!((total.sent, total.left_out), (100, 0));
            assert!(total.start_nanos >= now, "{total:?} {now}");
            assert!(total.last_nanos >= total.start_nanos + 990_000, "{total:?}");
        })
        .unwrap();
}

#[test]
fn load_arrives_as_paced() {
    const PACKETS: u64 = 4_000;
    let Some(namespace) = link() else { return };
    namespace
        .enter(|| {
            let index = |name: &str| interface_index(name).unwrap();
            let mut receiver = MeasuredReceiver::attach(index("x1"), 1).unwrap();
            let trial = MeasuredTrial { run: 7, streams: 1, flows: 3, packets: PACKETS };
            receiver.begin(&trial).unwrap();
            let flows: Vec<_> = (0..3).map(|port| flow(false, port)).collect();
            let lengths = [60, 590, 1514];
            // The load began ten seconds ago. The first segment is late by that, and is sent at
            // once; the second is too late; the third is sent as fast as possible.
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            let late = Segment {
                first_nanos: 0,
                gap_nanos: 2_000.0,
                patience_nanos: u64::MAX,
                packets: PACKETS - 500,
            };
            let too_late =
                Segment { first_nanos: 1_000_000_000, patience_nanos: 0, packets: 77, ..late };
            let soon = Segment {
                first_nanos: 10_050_000_000,
                gap_nanos: 100_000.0,
                patience_nanos: u64::MAX,
                packets: 500,
            };
            let load = MeasuredLoad {
                ifindex: index("x0"),
                ipv6: false,
                flows: &flows,
                lengths: &lengths,
                stamp: 0x57a7_0700,
                segments: &[late, too_late, soon],
                start_nanos: Some(now - 10_000_000_000),
                lasts_nanos: 15_000_000_000,
            };
            let sender = MeasuredSender::new(&load).unwrap();
            let began = std::time::Instant::now();
            let total = sender.send().unwrap();
            assert_eq!((total.sent, total.left_out), (PACKETS, 77));
            // The last packet was due 99.9 ms from then.
            assert!(total.last_nanos >= now + 99_900_000, "{total:?} {now}");
            sender.stop().unwrap();
            assert_eq!(sender.send().unwrap(), total);
            let deadline = began + std::time::Duration::from_secs(20);
            let received = || receiver.totals().unwrap()[0];
            while received().received < PACKETS && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            let total = received();
            assert_eq!((total.received, total.reordered, total.duplicated), (PACKETS, 0, 0));
            assert_eq!(
                total.bytes,
                (0..PACKETS)
                    .map(|at| u64::from(lengths[((at / 3 + at % 3) % 3) as usize]))
                    .sum::<u64>()
            );
        })
        .unwrap();
}
