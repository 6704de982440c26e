//! Encoder and decoder nodes on packets in frames.

use super::decode_node::{DecodeNode, DecodeSection};
use super::encode_node::{EncodeNode, EncodeSection};
use super::link_tests::settings;
use super::select::Selection;
use super::select::tests::noise;
use super::*;
use std::sync::Arc;
use wattline_dataplane::counters::Counter;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::graph::{CONSUMED, Edge, Node};
use wattline_dataplane::packet::Packet;
use wattline_dataplane::testing::{Bench, MAC_A, fix_checksum, frame4, frame6};
use wattline_packet::Family;
use wattline_units::Span;

const CACHE: usize = 1 << 20;

fn rules() -> Rules {
    Rules { port: None, prefixes: vec![], except: vec![], protocol: 253, bypass_ports: vec![443] }
}

struct Ends {
    bench: Bench,
    family: Family,
    encode: EncodeNode,
    /// Another encoder with the same cache, for packets that the node does not encode.
    encoder: Encoder,
    encoded: Arc<EncodeCounters>,
    decode: DecodeNode,
    decoded: Arc<DecodeCounters>,
    misses: Arc<DecoderCache>,
}

impl Ends {
    fn new(family: Family) -> Self {
        let settings = settings(Selection::Maxp, CACHE);
        let near = Arc::new(EncoderCache::new(&settings));
        near.decoder_is_alive(CACHE as u64, 1, true);
        let far = Arc::new(DecoderCache::new(CACHE, 1));
        let (encoded, decoded) = (Arc::default(), Arc::default());
        let encoder = Encoder::new(&settings, near.clone());
        let encode = EncodeSection { rules: rules(), encoder, counters: Arc::clone(&encoded) };
        let decoder = Decoder::new(settings.stream, settings.key, far.clone());
        let decode = DecodeSection { rules: rules(), decoder, counters: Arc::clone(&decoded) };
        Self {
            bench: Bench::new(),
            family,
            encoder: Encoder::new(&settings, near),
            encode: EncodeNode::new(family, vec![encode]),
            encoded,
            decode: DecodeNode::new(family, vec![decode]),
            decoded,
            misses: far,
        }
    }

    fn frame(&self, payload: &[u8]) -> Vec<u8> {
        match self.family {
            Family::V4 => frame4(MAC_A, 64, payload),
            Family::V6 => frame6(MAC_A, 64, payload),
        }
    }

    fn encode(&mut self, frame: &[u8], mtu: u16) -> Vec<u8> {
        let packet = self.bench.packet_via(frame, &Bench::forward_mtu(1, mtu));
        let (edge, packet) = self.bench.process(&mut self.encode, packet);
        assert_eq!(edge, 0);
        let bytes = self.bench.bytes(&packet);
        self.bench.context.pool.free(packet.frame.offset);
        assert!(bytes.len() <= frame.len(), "a packet got longer");
        bytes
    }

    fn decode(&mut self, frame: &[u8]) -> (Edge, Packet, Vec<u8>) {
        let packet = self.bench.packet(frame);
        let (edge, packet) = self.bench.process(&mut self.decode, packet);
        let bytes = self.bench.bytes(&packet);
        if edge != CONSUMED {
            self.bench.context.pool.free(packet.frame.offset);
        }
        (edge, packet, bytes)
    }

    fn tick(&mut self, millis: u64) -> Vec<(Edge, Packet)> {
        self.bench.context.now += Span::from_millis(millis);
        self.decode.tick(&mut self.bench.context);
        self.bench.spawned()
    }
}

fn fix_checksum_of(family: Family, frame: &mut [u8]) {
    if family == Family::V4 {
        fix_checksum(frame);
    }
}

fn payload(own: u64, content: u64) -> Vec<u8> {
    [noise(own, 40), noise(content, 1300)].concat()
}

#[test]
fn packets_shrink_and_come_back_as_they_were() {
    for family in Family::ALL {
        let mut ends = Ends::new(family);
        for own in 0..100 {
            let frame = ends.frame(&payload(own + 100, own % 5));
            let wire = ends.encode(&frame, 1500);
            assert_eq!(wire.len() < 200, own >= 5, "{own}: {}", wire.len());
            let (edge, _, bytes) = ends.decode(&wire);
            assert_eq!((edge, bytes), (0, frame));
        }
        assert_eq!(
            (ends.encoded.encoded_packets.get(), ends.decoded.decoded_packets.get()),
            (95, 95)
        );
        assert_eq!(ends.decoded.remembered_packets.get(), 5);
        assert_eq!(ends.encoded.without_gain_packets.get(), 5);
    }
}

#[test]
fn excluded_packets_are_not_encoded() {
    let mut ends = Ends::new(Family::V4);
    let frame = ends.frame(&payload(1, 1));
    ends.encode(&frame, 1500);
    let mut unchanged = |frame: &[u8], mtu, counter: fn(&EncodeCounters) -> &Counter| {
        let before = counter(&ends.encoded).get();
        assert_eq!(ends.encode(frame, mtu), frame);
        assert_eq!(counter(&ends.encoded).get(), before + 1, "{:?}", ends.encoded);
    };
    let patched = |at: usize, bytes: &[u8]| {
        let mut frame = frame.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        fix_checksum(&mut frame);
        frame
    };
    unchanged(&frame, 1300, |it| &it.bypassed_unfit_packets);
    unchanged(&patched(22, &[1]), 1500, |it| &it.bypassed_unfit_packets);
    unchanged(&patched(20, &[0x20, 0]), 1500, |it| &it.bypassed_unfit_packets);
    unchanged(&patched(20, &[0, 9]), 1500, |it| &it.bypassed_unfit_packets);
    unchanged(&patched(30, &[198, 51, 100, 7]), 1500, |it| &it.bypassed_local_packets);
    unchanged(&patched(34, &[1, 187]), 1500, |it| &it.bypassed_encrypted_packets);
    unchanged(&patched(23, &[50]), 1500, |it| &it.bypassed_encrypted_packets);
    unchanged(&patched(23, &[253]), 1500, |it| &it.bypassed_encrypted_packets);
    unchanged(&frame4(MAC_A, 64, &[0; 63]), 1500, |it| &it.bypassed_length_packets);
    assert!(ends.encode(&frame, 1500).len() < 200, "and otherwise it is");
}

#[test]
fn a_packet_that_came_too_early_waits() {
    let mut ends = Ends::new(Family::V4);
    let frames = [1, 2].map(|own| ends.frame(&payload(own, 7)));
    let wires = frames.each_ref().map(|frame| ends.encode(frame, 1500));
    assert_eq!(ends.decode(&wires[1]).0, CONSUMED);
    assert_eq!(ends.bench.context.counters.totals.held.get(), 1);
    assert!(ends.tick(1).is_empty());
    assert_eq!(ends.decode(&wires[0]).0, 0);
    let released = ends.tick(1);
    assert_eq!((released.len(), released[0].0), (1, 0));
    assert_eq!(ends.bench.bytes(&released[0].1), frames[1]);
    assert_eq!((ends.decoded.late_packets.get(), ends.decoded.missed_packets.get()), (1, 0));
    assert_eq!(ends.bench.context.counters.totals.held.get(), 0);
}

#[test]
fn packet_with_missing_payload_is_dropped_and_reported() {
    let mut ends = Ends::new(Family::V6);
    let frames = [1, 2].map(|own| ends.frame(&payload(own, 7)));
    let wires = frames.each_ref().map(|frame| ends.encode(frame, 1500));
    for _ in 0..20 {
        let (edge, packet, _) = ends.decode(&wires[1]);
        // At most an eighth of the pool may wait.
        let full = ends.bench.context.counters.totals.held.get() == 8;
        assert!(edge == CONSUMED || (full && packet.reason == DropReason::RedundancyMissing));
    }
    let dropped = ends.tick(3);
    assert_eq!(dropped.len(), 8);
    for (edge, packet) in dropped {
        assert_eq!((edge, packet.reason), (1, DropReason::RedundancyMissing));
        ends.bench.context.pool.free(packet.frame.offset);
    }
    assert_eq!(ends.decoded.missed_packets.get(), 20);
    assert_eq!(ends.misses.misses.fetch().len(), 2, "the missing packet, and the packet itself");
    ends.decode(&wires[1]);
    ends.decode.shut_down(&mut ends.bench.context);
    assert_eq!(ends.bench.context.pool.free_chunks(), 64);
    assert_eq!(ends.bench.context.counters.totals.held.get(), 0);
}

#[test]
fn damaged_and_too_long_packets_are_dropped() {
    let mut ends = Ends::new(Family::V4);
    let frames = [1, 2].map(|own| ends.frame(&payload(own, 7)));
    let wires = frames.each_ref().map(|frame| ends.encode(frame, 1500));
    ends.decode(&wires[0]);
    let mut damaged = wires[1].clone();
    *damaged.last_mut().unwrap() ^= 1;
    let (edge, packet, _) = ends.decode(&damaged);
    assert_eq!((edge, packet.reason), (1, DropReason::RedundancyDamaged));
    let mut older = damaged;
    older[34] = 0x10;
    assert_eq!(ends.decode(&older).0, 1);
    let mut forged = wires[1].clone();
    forged[34 + 20] ^= 1;
    let (edge, packet, _) = ends.decode(&forged);
    assert_eq!((edge, packet.reason), (1, DropReason::RedundancyForged));
    let mut fragment = wires[1].clone();
    fragment[20] = 0x20;
    assert_eq!(ends.decode(&fragment).0, 1);
    let mut foreign = wires[1].clone();
    foreign[35] = 9;
    let (edge, _, bytes) = ends.decode(&foreign);
    assert_eq!((edge, bytes), (0, foreign));
    // The same packet near the end of its chunk.
    let mut packet = ends.bench.packet(&wires[1]);
    let bytes = ends.bench.bytes(&packet);
    packet.frame.offset += 1000;
    ends.bench.context.pool.frame_bytes(&packet.frame).copy_from_slice(&bytes);
    let (edge, packet) = ends.bench.process(&mut ends.decode, packet);
    assert_eq!((edge, packet.reason), (1, DropReason::RedundancyDamaged));
    let counted = ends.decoded.map(Counter::get);
    let counted = [
        counted.integrity_failures,
        counted.malformed_packets,
        counted.foreign_packets,
        counted.too_long_packets,
        counted.other_version_packets,
        counted.forged_packets,
    ];
    assert_eq!(counted, [1; 6]);
}

/// Inputs send such packets to the kernel, and an encoder does not encode them.
#[test]
fn packets_that_inputs_would_not_forward_do_not_come_out() {
    for (family, protocols) in [(Family::V4, vec![50, 51, 253]), (Family::V6, vec![0, 43, 44, 253])]
    {
        for protocol in protocols {
            let mut ends = Ends::new(family);
            let content = payload(1, 7);
            let plain = ends.frame(&content);
            let wire = ends.encode(&plain, 1500);
            ends.decode(&wire);
            let mut out = vec![0; 2000];
            let encoded = ends.encoder.encode(protocol, 0, &payload(2, 7), &mut out);
            let Encoded::Shorter { length, .. } = encoded else { panic!("{encoded:?}") };
            let mut frame = ends.frame(&out[..length]);
            match family {
                Family::V4 => frame[23] = 253,
                Family::V6 => frame[20] = 253,
            }
            fix_checksum_of(family, &mut frame);
            let (edge, packet, _) = ends.decode(&frame);
            assert_eq!((edge, packet.reason), (1, DropReason::RedundancyDamaged), "{protocol}");
            assert_eq!(ends.decoded.malformed_packets.get(), 1);
        }
    }
}
