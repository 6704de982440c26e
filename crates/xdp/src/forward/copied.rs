//! Copies of forwarded frames (needs privileges).

use super::tests::{Fixture, SLOT, ipv4, ipv6, namespace};
use crate::Verdict;
use crate::copies::{Copied, CopyReader};

/// A copy that has been read.
struct Seen {
    received: Vec<u8>,
    sent: Vec<u8>,
    lengths: [u32; 2],
    next_hop: Vec<u8>,
}

/// Returns a fixture whose program copies; `None` if the kernel's verifier refuses that (Linux
/// 6.1).
fn copying() -> Option<Fixture> {
    let fixture = Fixture::new();
    if fixture.copies.is_refused() {
        wattline_needs::machine("a kernel that takes programs that copy");
        return None;
    }
    Some(fixture)
}

fn seen(reader: &mut CopyReader) -> Vec<Seen> {
    let mut all = Vec::new();
    reader.read(|copied: &Copied<'_>| {
        let mut sent = Vec::new();
        copied.sent_into(&mut sent);
        assert_eq!((copied.verdict, copied.slot_out), (Verdict::Forwarded, SLOT));
        assert!(copied.nanos > 0);
        all.push(Seen {
            received: copied.received.to_vec(),
            sent,
            lengths: [copied.received_length, copied.sent_length],
            next_hop: copied.next_hop.to_vec(),
        });
    });
    all
}

/// Returns frames of both families: short, padded, long and in pieces.
fn frames() -> Vec<Vec<u8>> {
    let near = [203, 0, 113, 5];
    let mut frames = Vec::new();
    for payload in [0, 8, 29, 30, 31, 100, 102, 103, 700, 1480, 1638, 1639, 3000, 8980] {
        frames.push(ipv4(near, payload, |_| ()));
        frames.push(ipv6("2001:db8:2::5", payload.min(8960), |_| ()));
    }
    frames.push([&ipv4(near, 8, |_| ())[..], &[0xaa; 18]].concat());
    frames.push([&ipv6("2001:db8:2::5", 0, |p| p[6] = 59)[..], &[0xbb; 300]].concat());
    frames
}

#[test]
fn copies_hold_the_frame_as_received_and_as_sent() {
    let Some(namespace) = namespace() else { return };
    for link in ["w0", "w1"] {
        namespace.ip(&format!("link set {link} mtu 9000")).unwrap();
    }
    namespace
        .enter(|| {
            let Some(fixture) = copying() else { return };
            let mut reader = fixture.copies.begin(0xffff).unwrap();
            for frame in frames() {
                let name = format!("{} bytes", frame.len());
                let sent = fixture.run(&name, &frame).expect(&name);
                let copies = seen(&mut reader);
                let [copy] = &copies[..] else { panic!("{name}: {} copies", copies.len()) };
                assert_eq!(copy.received, frame, "{name}");
                assert_eq!(copy.sent, sent, "{name}");
                assert_eq!(copy.lengths, [frame.len() as u32, sent.len() as u32], "{name}");
                let next_hop: std::net::IpAddr = match frame[12] {
                    8 => "192.0.2.9",
                    _ => "2001:db8:9::9",
                }
                .parse()
                .unwrap();
                let next_hop = match next_hop {
                    std::net::IpAddr::V4(address) => address.octets().to_vec(),
                    std::net::IpAddr::V6(address) => address.octets().to_vec(),
                };
                assert_eq!(copy.next_hop, next_hop, "{name}");
            }
            // Frames that are not forwarded are not copied.
            assert_eq!(fixture.run("TTL 1", &ipv4([203, 0, 113, 5], 30, |p| p[8] = 1)), None);
            assert_eq!(fixture.run("no route", &ipv4([8, 8, 8, 8], 30, |_| ())), None);
            assert_eq!(seen(&mut reader).len(), 0);
            assert_eq!(fixture.copies.uncopied().unwrap(), 0);
        })
        .unwrap();
}

#[test]
fn frames_are_cut_at_the_limit_and_not_copied_before_and_after() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let Some(fixture) = copying() else { return };
            let frame = ipv4([203, 0, 113, 5], 1000, |_| ());
            fixture.run("before", &frame).unwrap();
            let mut reader = fixture.copies.begin(40).unwrap();
            assert_eq!(seen(&mut reader).len(), 0);
            let sent = fixture.run("cut", &frame).unwrap();
            fixture.copies.set_snap(100).unwrap();
            fixture.run("longer", &frame).unwrap();
            let copies = seen(&mut reader);
            assert_eq!(copies.len(), 2);
            for (copy, snap) in copies.iter().zip([40, 100]) {
                assert_eq!(copy.received, frame[..snap]);
                assert_eq!(copy.sent, sent[..snap]);
                assert_eq!(copy.lengths, [frame.len() as u32; 2]);
            }
            fixture.copies.end().unwrap();
            fixture.run("after", &frame).unwrap();
            assert_eq!(seen(&mut reader).len(), 0);
            // A new ring can replace one that is still open.
            let mut next = fixture.copies.begin(100).unwrap();
            fixture.run("again", &frame).unwrap();
            assert_eq!((seen(&mut reader).len(), seen(&mut next).len()), (0, 1));
        })
        .unwrap();
}

/// Every packet is copied or counted, and forwarded in any case.
#[test]
fn full_ring_loses_copies_and_counts_them() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let Some(fixture) = copying() else { return };
            let mut reader = fixture.copies.begin(0xffff).unwrap();
            let frame = ipv4([203, 0, 113, 5], 1400, |_| ());
            let run = |count| {
                for _ in 0..count {
                    fixture.run("flood", &frame).unwrap();
                }
            };
            // More than the ring holds, twice, so that it wraps around.
            let mut copied = 0;
            for _ in 0..2 {
                run(6000);
                loop {
                    let read = seen(&mut reader);
                    if read.is_empty() {
                        break;
                    }
                    assert!(read.iter().all(|it| it.received == frame));
                    copied += read.len() as u64;
                }
            }
            let uncopied = fixture.copies.uncopied().unwrap();
            assert!(copied > 4000 && uncopied > 1000, "{copied} and {uncopied}");
            assert_eq!(copied + uncopied, 12_000);
            run(1);
            assert_eq!(seen(&mut reader).len(), 1);
        })
        .unwrap();
}

/// Prints the time of a program per packet without and with copies, and of the reader.
#[test]
#[ignore = "measures"]
fn cost_of_a_copy() {
    let Some(namespace) = namespace() else { return };
    namespace
        .enter(|| {
            let Some(fixture) = copying() else { return };
            // Each run gets the frame of the previous one, which is to the next hop.
            let next_hop = [2, 0, 0, 0, 0, 0xb];
            fixture.program.set_mac(next_hop).unwrap();
            for payload in [46, 1480] {
                let mut frame = ipv4([203, 0, 113, 5], payload, |p| p[8] = 255);
                frame[..6].copy_from_slice(&next_hop);
                let nanos = |fixture: &Fixture| {
                    let run = fixture.program.loaded.program.test_runs(&frame, 250).unwrap();
                    run.duration.as_nanos()
                };
                let median = |mut all: Vec<u128>| {
                    all.sort_unstable();
                    all[all.len() / 2]
                };
                let (mut off, mut on, mut read) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..400 {
                    off.push(nanos(&fixture));
                    let mut reader = fixture.copies.begin(0xffff).unwrap();
                    on.push(nanos(&fixture));
                    let began = std::time::Instant::now();
                    let mut sent = Vec::new();
                    let count = reader.read(|copied| copied.sent_into(&mut sent));
                    assert_eq!(count, 250);
                    read.push(began.elapsed().as_nanos() / 250);
                    fixture.copies.end().unwrap();
                }
                let [off, on, read] = [off, on, read].map(median);
                println!("{} bytes: {off} ns, with a copy {on} ns, read {read} ns", frame.len());
            }
        })
        .unwrap();
}
