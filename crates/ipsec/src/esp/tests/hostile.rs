//! Packets survive a tunnel unchanged; forged, repeated and truncated ones do not pass.

use super::*;
use proptest::prelude::*;
use wattline_units::Span;

fn any_options() -> impl Strategy<Value = Options> {
    (prop::sample::select(Algorithm::ALL.to_vec()), any::<[bool; 3]>(), 0u64..1 << 31).prop_map(
        |(algorithm, [extended, outer_ipv4, udp], last)| {
            // Just before the low half wraps, if there is a high half to carry to.
            let last = if extended { u64::from(u32::MAX) - last % 4 } else { last };
            Options { algorithm, extended, outer_ipv4, udp, last, ..Options::PLAIN }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For all algorithms, both IP versions inside and outside and any length: the output equals
    /// the input, and the input is not visible in between.
    #[test]
    fn tunnels_bring_packets_to_the_other_end(
        options in any_options(),
        lengths in prop::collection::vec((any::<bool>(), 16usize..1350), 1..40),
    ) {
        let mut pair = Pair::new(options);
        let frames: Vec<_> = lengths
            .iter()
            .map(|(four, length)| {
                let payload = vec![0xa5; *length];
                if *four { frame4(MAC_A, 64, &payload) } else { frame6(MAC_A, 64, &payload) }
            })
            .collect();
        let sealed = pair.encrypt(&frames);
        prop_assert_eq!(sealed.len(), frames.len());
        for frame in &sealed {
            prop_assert!(!frame.windows(8).any(|window| window == [0xa5; 8]));
            prop_assert!(frame.len() <= 1514);
        }
        let (mut out, counted) = pair.decrypt(&sealed);
        prop_assert_eq!(counted.dropped_total(), 0, "{:?}", counted.dropped);
        let mut expected: Vec<_> = frames.into_iter().map(hops_less).collect();
        // IPv4 and IPv6 packets of one batch may overtake each other.
        out.sort();
        expected.sort();
        prop_assert_eq!(out, expected);
        let bytes: usize = lengths.iter().map(|(four, length)| length + if *four { 20 } else { 40 }).sum();
        for counters in [&pair.outbound.common.counters, &pair.inbound.common.counters] {
            prop_assert_eq!(counters.packets(), lengths.len() as u64);
            prop_assert_eq!(counters.bytes(), bytes as u64);
        }
        // The same packets a second time: none passes.
        let (out, counted) = pair.decrypt(&sealed);
        prop_assert_eq!((out.len(), counted.dropped["esp-replayed"]), (0, sealed.len() as u64));
    }

    /// With any bit flipped or any byte cut off, nothing passes, and everything is counted.
    #[test]
    fn nothing_forged_comes_through(
        options in any_options(),
        bit: prop::sample::Index,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut pair = Pair::new(options);
        let mut frame = pair.encrypt(&[frame4(MAC_A, 64, &[7; 99])]).remove(0);
        match cut {
            Some(cut) => frame.truncate(cut.index(frame.len())),
            None => {
                // From the ESP header on, since the headers before it are not authenticated.
                let start = 14 + if options.outer_ipv4 { 20 } else { 40 } + if options.udp { 8 } else { 0 };
                let bit = bit.index((frame.len() - start) * 8);
                frame[start + bit / 8] ^= 1 << (bit % 8);
            }
        }
        let (out, counted) = pair.decrypt(&[frame]);
        prop_assert!(out.is_empty());
        prop_assert_eq!(counted.dropped_total() + counted.punted, 1);
        prop_assert_eq!(pair.inbound.common.counters.packets(), 0);
    }
}

#[test]
fn wrong_spis_are_counted() {
    let mut pair = Pair::new(Options::PLAIN);
    let mut frame = pair.encrypt(&[frame4(MAC_A, 64, b"payload.")]).remove(0);
    frame[14 + 20] = 9;
    let (_, counted) = pair.decrypt(&[frame]);
    assert_eq!(counted.dropped["esp-unknown-association"], 1);
}

/// Random bytes after an outer header: no panic, and every frame is accounted for.
#[test]
fn fuzz_esp_packets() {
    bolero::check!().with_type::<Vec<(bool, bool, Vec<u8>)>>().for_each(|packets| {
        let mut pair = Pair::new(Options::PLAIN);
        for (six, udp, bytes) in packets.iter().filter(|packet| packet.2.len() <= 1400) {
            let head = if *udp {
                vec![0x11, 0x94, 0x11, 0x94, 0, bytes.len() as u8, 0, 0]
            } else {
                vec![0, 0, 0x10, 1]
            };
            let payload = [head, bytes.clone()].concat();
            let mut frame = match six {
                true => frame6(MAC_A, 64, &payload),
                false => frame4(MAC_A, 64, &payload),
            };
            let protocol = if *udp { 17 } else { 50 };
            if *six {
                frame[14 + 6] = protocol;
            } else {
                frame[14 + 9] = protocol;
                frame[14 + 16..14 + 20].copy_from_slice(&[198, 51, 100, 2]);
                fix_checksum(&mut frame);
            }
            pair.far.ports[0].send(&frame);
        }
        pair.far.now += Span::from_millis(1);
        pair.far.settle();
    });
}
