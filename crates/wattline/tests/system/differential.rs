//! The same frames through a kernel router and through Wattline give the same packets.
//!
//! Compared is what the router sends to either side, as a multiset of whole frames: order
//! between flows is not promised by any router. Two things in packets that the router makes
//! itself are left out, because RFC 791 and RFC 6437 leave them to the sender's choice:
//! whether an IPv4 packet may be fragmented, with its identification (RFC 6864 section 4.1: of
//! no meaning where it may not) and the checksum over both; and the flow label of an IPv6
//! packet.

use crate::crafted;
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, captures, privileged};
use std::collections::BTreeMap;
use std::path::PathBuf;
use wattline_lab::forwarder::Forwarder;
use wattline_lab::raw::Received;
use wattline_lab::replay::{Crossing, cross, load};
use wattline_lab::topology::{LEFT, Options, RIGHT};

/// Slow enough that no ring on the way ever fills up: a lost frame is a difference.
pub const RATE_PPS: f64 = 10_000.0;

/// In the seventh byte of an IPv4 header.
const DONT_FRAGMENT: u8 = 0x40;

/// How often each frame came.
pub type Multiset = BTreeMap<Vec<u8>, usize>;

/// The output of a router for one set of frames: towards the sink, towards the source.
pub type Output = [Multiset; 2];

fn sets_of_frames(test: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let of_capture = |path: PathBuf| {
        let frames = load(&path).unwrap_or_else(|error| panic!("{error}"));
        (path.display().to_string(), frames)
    };
    let mut sets: Vec<_> = captures(test).into_iter().map(of_capture).collect();
    sets.push(("crafted IPv4".to_owned(), crafted::ipv4()));
    sets.push(("crafted IPv6".to_owned(), crafted::ipv6()));
    sets
}

fn outputs(forwarder: Forwarder, sets: &[(String, Vec<Vec<u8>>)]) -> Vec<Output> {
    let options = Options { static_neighbours: true, ..Options::default() };
    let bench = Bench::start(options, forwarder);
    let outputs = sets
        .iter()
        .map(|(_, frames)| {
            let Crossing { to_sink, to_source, .. } =
                cross(&bench.topology, frames, RATE_PPS).unwrap();
            [multiset(&to_sink), multiset(&to_source)]
        })
        .collect();
    bench.finish();
    outputs
}

pub fn multiset(frames: &[Received]) -> Multiset {
    let mut set = Multiset::new();
    for received in frames {
        *set.entry(comparable(&received.frame)).or_default() += 1;
    }
    set
}

/// The frame without what its maker may choose freely.
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

pub fn differences(name: &str, ours: &Output, reference: &Output) -> Vec<String> {
    let mut found = Vec::new();
    for (side, (ours, reference)) in ["sink", "source"].iter().zip(ours.iter().zip(reference)) {
        for frame in ours.keys().chain(reference.keys().filter(|frame| !ours.contains_key(*frame)))
        {
            let count = |set: &Multiset| set.get(frame).copied().unwrap_or(0);
            if count(ours) != count(reference) {
                found.push(format!(
                    "{name}: to the {side}, {} times instead of {}: {}",
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

fn compare(test: &str, ours: Forwarder) {
    let sets = sets_of_frames(test);
    let reference = outputs(KERNEL, &sets);
    let ours = outputs(ours, &sets);
    let mut found = Vec::new();
    let mut packets = 0;
    for ((name, _), (ours, reference)) in sets.iter().zip(ours.iter().zip(&reference)) {
        packets += reference.iter().flat_map(BTreeMap::values).sum::<usize>();
        found.extend(differences(name, ours, reference));
    }
    assert!(packets > 0, "the reference forwarded nothing");
    println!("{packets} packets of {} sets compared", sets.len());
    assert!(
        found.is_empty(),
        "{} differences, of which the first:\n{}",
        found.len(),
        found.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
    );
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
    let count = |ours: Output| differences("set", &ours, &reference).len();
    assert_eq!(count([set(&[&[2; 60], &[1; 60]]), set(&[])]), 0, "order is free");
    assert_eq!(count([set(&[&[2; 60]]), set(&[])]), 1, "lost");
    assert_eq!(count([set(&[&[2; 60], &[1; 60], &[1; 60]]), set(&[])]), 1, "doubled");
    assert_eq!(count([set(&[&[2; 60], &[3; 60]]), set(&[])]), 2, "changed");
    assert_eq!(count([set(&[&[2; 60]]), set(&[&[1; 60]])]), 2, "to the wrong side");
}
