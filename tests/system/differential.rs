//! The same frames through a kernel router and through Wattline give the same packets.
//!
//! The test compares the router's output on either side as a multiset of whole frames: no router
//! promises an order between flows. Two parts of packets that the router makes itself are left out,
//! because RFC 791 and RFC 6437 leave them to the sender: the Don't Fragment flag of IPv4 with the
//! identification (RFC 6864 section 4.1: meaningless in packets that may not be fragmented) and the
//! checksum over both, and the flow label of IPv6.

use crate::crafted;
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, captures, privileged};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::raw::Received;
use wattline_testbed::replay::{Crossing, cross, load};
use wattline_testbed::topology::{LEFT, Options, RIGHT};

/// Slow enough that no ring on the path fills up, even if the router does not run for some tenths
/// of a second: a lost frame is a difference.
pub const RATE_PPS: f64 = 5_000.0;

/// In the seventh byte of an IPv4 header.
const DONT_FRAGMENT: u8 = 0x40;

/// Frames, with the number of copies of each.
pub type Multiset = BTreeMap<Vec<u8>, usize>;

/// The output of a router: towards the sink, towards the source.
pub type Output = [Multiset; 2];

/// Returns the frames of the captures, and all crafted packets.
pub fn frames(test: &str) -> Vec<Vec<u8>> {
    let of_capture = |path: PathBuf| load(&path).unwrap_or_else(|error| panic!("{error}"));
    let captured = captures(test).into_iter().flat_map(of_capture);
    captured.chain(crafted::ipv4()).chain(crafted::ipv6()).collect()
}

fn output(forwarder: Forwarder, frames: &[Vec<u8>]) -> Output {
    let options = Options { static_neighbours: true, unlimited_errors: true, ..Options::default() };
    let bench = Bench::start(options, forwarder);
    let Crossing { to_sink, to_source, .. } = cross(&bench.topology, frames, RATE_PPS).unwrap();
    bench.finish();
    [multiset(&to_sink), multiset(&to_source)]
}

/// Returns the kernel's output for all frames; made once, for all tests that compare with it.
fn reference(frames: &[Vec<u8>]) -> &'static Output {
    static REFERENCE: OnceLock<Output> = OnceLock::new();
    REFERENCE.get_or_init(|| output(KERNEL, frames))
}

pub fn multiset(frames: &[Received]) -> Multiset {
    let mut set = Multiset::new();
    for received in frames {
        *set.entry(comparable(&received.frame)).or_default() += 1;
    }
    set
}

/// Returns the frame without the fields that its sender may choose freely.
fn comparable(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let sent_by_router = |source: &[u8]| {
        [LEFT, RIGHT].iter().any(|port| source == port.v4.octets() || source == port.v6.octets())
    };
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.get(26..30).is_some_and(sent_by_router) => {
            frame[18..20].fill(0);
            frame[20] &= !DONT_FRAGMENT;
            frame[24..26].fill(0);
        }
        Some([0x86, 0xdd]) if frame.get(22..38).is_some_and(sent_by_router) => {
            frame[15] &= 0xf0;
            frame[16..18].fill(0);
        }
        _ => {}
    }
    frame
}

fn differences(ours: &Output, reference: &Output) -> Vec<String> {
    let mut found = Vec::new();
    for (side, (ours, reference)) in ["sink", "source"].iter().zip(ours.iter().zip(reference)) {
        for frame in ours.keys().chain(reference.keys().filter(|frame| !ours.contains_key(*frame)))
        {
            let count = |set: &Multiset| set.get(frame).copied().unwrap_or(0);
            if count(ours) != count(reference) {
                found.push(format!(
                    "to the {side}, {} times instead of {}: {}",
                    count(ours),
                    count(reference),
                    hex(frame)
                ));
            }
        }
    }
    found
}

fn hex(frame: &[u8]) -> String {
    let shown = &frame[..frame.len().min(96)];
    let text: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{text} ({} bytes)", frame.len())
}

/// Asserts that there are no differences, and prints the number of packets.
pub fn assert_equal(ours: &Output, reference: &Output) {
    let packets: usize = reference.iter().flat_map(BTreeMap::values).sum();
    assert!(packets > 0, "the reference forwarded nothing");
    println!("{packets} packets compared");
    let found = differences(ours, reference);
    assert!(
        found.is_empty(),
        "{} differences, of which the first:\n{}",
        found.len(),
        found.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
    );
}

fn compare(test: &str, ours: Forwarder) {
    let frames = frames(test);
    let reference = reference(&frames);
    assert_equal(&output(ours, &frames), reference);
}

#[test]
fn the_kernel_agrees_with_itself() {
    privileged("the_kernel_agrees_with_itself", || {
        compare("the_kernel_agrees_with_itself", KERNEL);
    });
}

#[test]
fn wattline_agrees_with_the_kernel() {
    privileged("wattline_agrees_with_the_kernel", || {
        compare("wattline_agrees_with_the_kernel", ADAPTIVE);
    });
}

#[test]
fn xdp_programs_agree_with_the_kernel() {
    privileged("xdp_programs_agree_with_the_kernel", || {
        compare("xdp_programs_agree_with_the_kernel", XDP);
    });
}

#[test]
fn a_changed_byte_a_lost_and_a_doubled_packet_are_differences() {
    let received = |bytes: &[u8]| Received { nanos: 0, frame: bytes.to_vec() };
    let set = |frames: &[&[u8]]| {
        multiset(&frames.iter().map(|frame| received(frame)).collect::<Vec<_>>())
    };
    let reference = [set(&[&[1; 60], &[2; 60]]), set(&[])];
    let count = |ours: Output| differences(&ours, &reference).len();
    assert_eq!(count([set(&[&[2; 60], &[1; 60]]), set(&[])]), 0, "order is free");
    assert_eq!(count([set(&[&[2; 60]]), set(&[])]), 1, "lost");
    assert_eq!(count([set(&[&[2; 60], &[1; 60], &[1; 60]]), set(&[])]), 1, "doubled");
    assert_eq!(count([set(&[&[2; 60], &[3; 60]]), set(&[])]), 2, "changed");
    assert_eq!(count([set(&[&[2; 60]]), set(&[&[1; 60]])]), 2, "to the wrong side");
}
