//! Policies, limits, lengths and headers one by one, and workers that share SAs.

use super::*;
use wattline_packet::ipv4::Ipv4Packet;

#[test]
fn packets_after_the_last_sequence_number_are_counted() {
    let mut pair = Pair::new(Options { last: u64::from(u32::MAX) - 3, ..Options::PLAIN });
    let frames = vec![frame4(MAC_A, 64, b"payload."); 10];
    let sealed = pair.encrypt(&frames);
    assert_eq!(sealed.len(), 3);
    assert_eq!(sealed[2][38..42], [0xff; 4]);
    let counted = pair.near.settle();
    assert_eq!(counted.dropped["esp-sequence-exhausted"], 7);
    assert_eq!(pair.outbound.common.counters.dropped().next().unwrap().1, 7);
    assert_eq!(pair.decrypt(&sealed).0.len(), 3);
}

#[test]
fn associations_end_by_packets_by_bytes_and_by_command() {
    let frames = vec![frame4(MAC_A, 64, b"payload."); 1];
    for hard in
        [Limits { packets: 2, ..Limits::default() }, Limits { bytes: 40, ..Limits::default() }]
    {
        let mut pair = Pair::new(Options { hard, ..Options::PLAIN });
        let sent: usize = (0..5).map(|_| pair.encrypt(&frames).len()).sum();
        assert_eq!(sent, 2);
        assert_eq!(pair.near.settle().dropped["esp-expired"], 3);
    }
    let mut pair = Pair::new(Options::PLAIN);
    let sealed = pair.encrypt(&[frames.clone(), frames.clone()].concat());
    assert_eq!(pair.decrypt(&sealed[..1]).0.len(), 1);
    pair.inbound.common.end();
    assert_eq!(pair.decrypt(&sealed[1..]).1.dropped["esp-expired"], 1);
}

#[test]
fn protected_packets_pass_only_through_the_tunnel() {
    let publisher = Publisher::new();
    let contents = |outbound, decision| Contents {
        outbound,
        policies: policies(decision),
        ..Contents::default()
    };
    // Without an SA nothing leaves.
    publisher.publish(contents(vec![None], Decision::Protect(0)));
    let mut router = Router::with_features(crate::esp::features(&publisher, 1000, 50));
    let frame = frame4(MAC_A, 64, b"payload.");
    router.ports[0].send(&frame);
    assert_eq!(router.settle().dropped["ipsec-no-association"], 1);
    // Discarded in both directions, then bypassed.
    publisher.publish(contents(vec![], Decision::Discard));
    router.ports[0].send(&frame);
    assert_eq!(router.settle().dropped["ipsec-policy"], 1);
    publisher.publish(contents(vec![], Decision::Bypass));
    router.ports[0].send(&frame);
    assert_eq!(router.settle().forwarded, 1);
    // A packet that should have come through the tunnel came in clear: addresses swapped.
    publisher.publish(contents(vec![None], Decision::Protect(0)));
    let mut back = frame.clone();
    back.copy_within(14 + 12..14 + 16, 14 + 4);
    let (source, destination) = ([203, 0, 113, 5], [192, 0, 2, 9]);
    back[14 + 12..14 + 16].copy_from_slice(&source);
    back[14 + 16..14 + 20].copy_from_slice(&destination);
    back[14 + 4..14 + 8].copy_from_slice(&[0; 4]);
    fix_checksum(&mut back);
    back[..6].copy_from_slice(&MAC_B);
    router.ports[1].send(&back);
    assert_eq!(router.settle().dropped["ipsec-policy"], 2);
    assert_eq!(router.ports[0].sent().len(), 0);
}

#[test]
fn inner_packets_outside_the_selectors_are_dropped() {
    let mut pair = Pair::new(Options::PLAIN);
    let publisher = Publisher::new();
    let mut policies = policies(Decision::Protect(0));
    policies[0].prefixes.source = net("0.0.0.0/0");
    publisher.publish(Contents {
        outbound: vec![Some(pair.outbound.clone())],
        policies,
        ..Contents::default()
    });
    let features = crate::esp::features(&publisher, 1000, 50);
    pair.near = Router::with_features(features);
    let egress = wattline_dataplane::testing::Bench::forward(1);
    pair.near.routes.route(net("198.51.100.0/24"), &egress).unwrap();
    pair.near.routes.publish().unwrap();
    let mut frame = frame4(MAC_A, 64, b"payload.");
    frame[14 + 12] = 10;
    fix_checksum(&mut frame);
    let sealed = pair.encrypt(&[frame]);
    assert_eq!(sealed.len(), 1);
    assert_eq!(pair.decrypt(&sealed).1.dropped["ipsec-policy"], 1);
}

#[test]
fn long_packet_is_fragmented_before_encryption_or_its_sender_notified() {
    let options = Options { mtu: 1400, ..Options::PLAIN };
    let mut pair = Pair::new(options);
    let inner = pair.outbound.common.inner_mtu(1400);
    // 20 of IP, 8 of ESP, 8 of IV, 16 of ICV, 2 of trailer.
    assert_eq!(inner, 1400 - 54);
    // The longest packet that fits, and one byte more, which may be fragmented.
    let whole = frame4(MAC_A, 64, &vec![1; inner - 20]);
    let sealed = pair.encrypt(&[whole]);
    assert_eq!(sealed.len(), 1);
    assert_eq!(sealed[0].len(), 14 + 1400);
    assert_eq!(sealed[0][20] & 0x40, 0, "the outer header copies the inner flag");
    let long = frame4(MAC_A, 64, &(0..inner - 19).map(|n| n as u8).collect::<Vec<_>>());
    let sealed = pair.encrypt(std::slice::from_ref(&long));
    assert_eq!(sealed.len(), 2);
    let (out, _) = pair.decrypt(&sealed);
    let joined: Vec<u8> = out
        .iter()
        .flat_map(|frame| Ipv4Packet::parse(&frame[14..]).unwrap().payload.to_vec())
        .collect();
    assert_eq!(joined, long[34..]);
    // A packet that must not be fragmented: ICMP with the MTU of the tunnel, both versions.
    for (frame, kind, at) in [
        (unfragmentable(long.clone()), [3, 4], 14 + 26),
        (frame6(MAC_A, 64, &vec![1; inner - 39]), [2, 0], 14 + 46),
    ] {
        assert!(pair.encrypt(&[frame]).is_empty());
        let counted = pair.near.settle();
        let answer = pair.near.ports[0].sent();
        assert_eq!(answer.len(), 1, "{counted:?}");
        let start = at - 6;
        assert_eq!(answer[0][start..start + 2], kind);
        assert_eq!(answer[0][at..at + 2], (inner as u16).to_be_bytes());
    }
    assert_eq!(pair.near.settle().dropped["too-big"], 2);

    // If the outer packet may be fragmented, it is.
    let mut pair = Pair::new(Options { dont_fragment: DontFragment::Clear, ..options });
    let sealed = pair.encrypt(&[unfragmentable(long)]);
    assert_eq!((sealed.len(), sealed[0][20] & 0x40), (1, 0));
}

/// The path is narrower than the least MTU that IP requires of a link, plus ESP's overhead.
#[test]
fn tunnels_narrower_than_ip_allows_fragment_outside_or_drop_whole() {
    let way = |pair: &mut Pair, mtu| {
        let narrow = wattline_dataplane::testing::Bench::forward_mtu(1, mtu);
        for prefix in ["198.51.100.0/24", "2001:db8:2::/64"] {
            pair.near.routes.route(net(prefix), &narrow).unwrap();
        }
        pair.near.routes.publish().unwrap();
    };
    let joined = |sealed: &[Vec<u8>], mtu: usize| {
        assert!(sealed.len() > 1 && sealed.iter().all(|frame| frame.len() <= 14 + mtu));
        let mut whole = sealed[0][..34].to_vec();
        for frame in sealed {
            whole.extend_from_slice(Ipv4Packet::parse(&frame[14..]).unwrap().payload);
        }
        let length = (whole.len() - 14) as u16;
        whole[16..18].copy_from_slice(&length.to_be_bytes());
        whole[20..22].fill(0);
        fix_checksum(&mut whole);
        whole
    };
    let small = frame4(MAC_A, 64, &[7; 80]);
    let least6 = frame6(MAC_A, 64, &[7; 1240]);
    // An inner MTU of less than 68, and of less than 1280.
    for (frame, mtu, least) in [(&small, 68, 68), (&least6, 1280, 1280)] {
        let mut pair = Pair::new(Options::PLAIN);
        assert!(pair.outbound.common.inner_mtu(mtu.into()) < least);
        way(&mut pair, mtu);
        let sealed = pair.encrypt(std::slice::from_ref(frame));
        let whole = joined(&sealed, mtu.into());
        assert_eq!(pair.decrypt(&[whole]).0, [hops_less(frame.clone())]);
    }
    // One byte more than every IPv6 link must carry: the reported MTU is no smaller than that.
    let mut pair = Pair::new(Options::PLAIN);
    way(&mut pair, 1280);
    assert!(pair.encrypt(&[frame6(MAC_A, 64, &[7; 1241])]).is_empty());
    let answer = pair.near.ports[0].sent();
    assert_eq!((answer.len(), &answer[0][14 + 44..14 + 48]), (1, &[0, 0, 5, 0][..]));
    // If the outer packet must not be fragmented either, nothing is sent in part, and a sender that
    // allowed fragmentation gets no error.
    let set = Options { dont_fragment: DontFragment::Set, ..Options::PLAIN };
    for (options, mtu) in [(set, 68), (Options { outer_ipv4: false, ..Options::PLAIN }, 130)] {
        let mut pair = Pair::new(options);
        way(&mut pair, mtu);
        assert!(pair.encrypt(std::slice::from_ref(&small)).is_empty());
        let counted = pair.near.settle();
        assert_eq!((counted.dropped["too-big"], counted.generated), (1, 0), "{options:?}");
    }
    // Just wide enough for IPv4: fragmented before encryption.
    for mtu in [124, 130, 576] {
        let mut pair = Pair::new(Options::PLAIN);
        way(&mut pair, mtu);
        let inner = pair.outbound.common.inner_mtu(mtu.into());
        let long = frame4(MAC_A, 64, &[7; 1400]);
        let sealed = pair.encrypt(std::slice::from_ref(&long));
        assert_eq!(sealed.len(), 1400_usize.div_ceil((inner - 20) & !7), "{mtu}");
        assert_eq!(pair.decrypt(&sealed).0.len(), sealed.len());
    }
}

#[test]
fn outer_headers_take_dscp_and_ecn_from_inner_ones() {
    for (dscp, expected) in [(Dscp::Copy, 0xb9), (Dscp::Set(8), 0x21)] {
        let mut pair = Pair::new(Options { dscp, ..Options::PLAIN });
        let mut frame = frame4(MAC_A, 64, b"payload.");
        frame[15] = 0xb9;
        fix_checksum(&mut frame);
        let mut sealed = pair.encrypt(&[frame]);
        assert_eq!((sealed[0][15], sealed[0][22]), (expected, 64));
        // A router on the path has met congestion.
        sealed[0][15] |= 3;
        fix_checksum(&mut sealed[0]);
        assert_eq!(pair.decrypt(&sealed).0[0][15], 0xbb);
    }
}

#[test]
fn expired_packets_are_answered_and_never_encrypted() {
    let mut pair = Pair::new(Options::PLAIN);
    assert!(
        pair.encrypt(&[frame4(MAC_A, 1, b"payload."), frame6(MAC_A, 1, b"payload.")]).is_empty()
    );
    assert_eq!(pair.near.ports[0].sent().len(), 2);
    assert_eq!(pair.near.settle().dropped["ttl-expired"], 2);
}

/// A packet expires at the far gateway. The answer quotes it, so it must return through a tunnel or
/// not at all. There is no tunnel here.
#[test]
fn answers_about_decrypted_packets_do_not_leave_in_clear() {
    let mut pair = Pair::new(Options::PLAIN);
    let sealed = pair.encrypt(&[frame4(MAC_A, 2, b"payload."), frame6(MAC_A, 2, b"payload.")]);
    let (out, counted) = pair.decrypt(&sealed);
    assert!(out.is_empty() && pair.far.ports[0].sent().is_empty());
    assert_eq!((counted.dropped["ttl-expired"], counted.dropped["ipsec-policy"]), (2, 2));
}

#[test]
fn ike_and_keepalives_are_left_to_the_kernel() {
    let mut pair = Pair::new(Options { udp: true, ..Options::PLAIN });
    let sealed = pair.encrypt(&[frame4(MAC_A, 64, b"payload.")]).remove(0);
    assert_eq!(sealed[34..40], [0x11, 0x94, 0x11, 0x94, 0, (sealed.len() - 34) as u8]);
    let with = |payload: &[u8]| {
        let mut frame = sealed[..42].to_vec();
        frame.extend(payload);
        let length = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&length.to_be_bytes());
        frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
        fix_checksum(&mut frame);
        frame
    };
    let (_, counted) = pair.decrypt(&[with(&[0; 28]), with(&[0xff]), with(&[1, 2])]);
    assert_eq!((counted.punted, counted.dropped["esp-malformed"]), (2, 1));
    // Without UDP it does not match what was negotiated.
    let mut bare = Pair::new(Options::PLAIN);
    let frame = bare.encrypt(&[frame4(MAC_A, 64, b"payload.")]);
    assert_eq!(pair.decrypt(&frame).1.dropped["ipsec-policy"], 1);
}

/// Several gateways share one SA in each direction, and packets arrive at any of them. Each is
/// accepted once, though all are sent to two gateways.
#[test]
fn workers_share_associations_while_packets_move_between_them() {
    const WORKERS: usize = 4;
    let options = Options { window: 4096, ..Options::PLAIN };
    let (outbound, inbound) = (options.outbound(), options.inbound());
    let (near, far) = (Publisher::new(), Publisher::new());
    near.publish(Contents {
        outbound: vec![Some(outbound.clone())],
        policies: policies(Decision::Protect(0)),
        ..Contents::default()
    });
    far.publish(Contents { inbound: vec![inbound.clone()], ..Contents::default() });
    let sealed: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let near = &near;
                scope.spawn(move || {
                    let mut router = Router::with_features(crate::esp::features(near, 1000, 50));
                    router
                        .routes
                        .route(
                            net("198.51.100.0/24"),
                            &wattline_dataplane::testing::Bench::forward(1),
                        )
                        .unwrap();
                    router.routes.publish().unwrap();
                    let mut sent = Vec::new();
                    for number in 0..250u16 {
                        let payload =
                            [&[worker as u8][..], &number.to_be_bytes(), &[0; 9]].concat();
                        router.ports[0].send(&frame4(MAC_A, 64, &payload));
                        router.settle();
                        sent.extend(router.ports[1].sent());
                    }
                    sent
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((sealed.len(), outbound.sequence.last()), (WORKERS * 250, (WORKERS * 250) as u64));
    let mut out: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (far, sealed) = (&far, &sealed);
                scope.spawn(move || {
                    let mut router = Router::with_features(crate::esp::features(far, 1000, 50));
                    for (number, frame) in sealed.iter().enumerate() {
                        if number % WORKERS == worker || (number + 1) % WORKERS == worker {
                            let mut frame = frame.clone();
                            frame[..6].copy_from_slice(&MAC_A);
                            router.ports[0].send(&frame);
                        }
                        if number % 16 == 0 {
                            router.settle();
                        }
                    }
                    router.settle();
                    router.ports[1].sent()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let total = out.len();
    out.sort();
    out.dedup();
    assert_eq!((total, out.len()), (WORKERS * 250, WORKERS * 250));
    let replayed: u64 = inbound.common.counters.dropped().map(|(_, count)| count).sum();
    assert_eq!(replayed, (WORKERS * 250) as u64);
}

/// Returns a frame of either IP version with options, and its payload.
fn with_options(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[12..14] == [8, 0] {
        return with_option(frame, [148, 4, 0, 0]);
    }
    frame.splice(54..54, [frame[20], 0, 5, 2, 0, 0, 1, 0]);
    frame[20] = 0;
    let length = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Returns the frame with source and destination swapped.
fn turned(mut frame: Vec<u8>) -> Vec<u8> {
    let (at, length) = if frame[12..14] == [8, 0] { (26, 4) } else { (22, 16) };
    let source = frame[at..at + length].to_vec();
    frame.copy_within(at + length..at + 2 * length, at);
    frame[at + length..at + 2 * length].copy_from_slice(&source);
    frame
}

fn both_families() -> [Vec<u8>; 2] {
    [frame4(MAC_A, 64, b"payload."), frame6(MAC_A, 64, b"payload.")]
}

#[test]
fn options_go_through_the_tunnel_with_their_packet() {
    let mut pair = Pair::new(Options::PLAIN);
    let frames = both_families().map(|frame| with_options(&frame));
    let sealed = pair.encrypt(&frames);
    assert_eq!(sealed.len(), 2);
    assert_eq!(pair.near.settle().punted, 0);
    // The far gateway forwards them itself, since the kernel might quote them in clear.
    let (out, counted) = pair.decrypt(&sealed);
    assert_eq!((out.len(), counted.punted), (2, 0));
    for (out, frame) in out.iter().zip(&frames) {
        assert_eq!(out[14..15], frame[14..15]);
        assert!(out.ends_with(b"payload."));
    }
}

#[test]
fn packets_for_the_kernel_are_checked_against_the_policies() {
    let mut pair = Pair::new(Options::PLAIN);
    for frame in both_families() {
        let mut dropped = 0;
        // A packet that should have come through the tunnel, and one that no policy knows.
        let back = with_options(&turned(frame.clone()));
        let mut elsewhere = with_options(&frame);
        let other = if frame[12..14] == [8, 0] { 14 + 16 } else { 14 + 24 };
        elsewhere[other] ^= 1;
        if frame[12..14] == [8, 0] {
            fix_checksum(&mut elsewhere);
        }
        for (frame, drops, punts) in [(&back, 1, 0), (&elsewhere, 0, 1)] {
            let before = pair.near.settle();
            assert!(pair.encrypt(std::slice::from_ref(frame)).is_empty());
            let after = pair.near.settle();
            dropped += drops;
            let policy = |counted: &Snapshot| counted.dropped.get("ipsec-policy").copied();
            let refused = policy(&after).unwrap_or(0) - policy(&before).unwrap_or(0);
            assert_eq!((refused, after.punted - before.punted), (drops, punts));
        }
        assert_eq!(dropped, 1);
    }
    // After a tag that is not routed here, only the kernel would find the packet. The same holds if
    // its egress interface is no port.
    for tag in [[0x81, 0, 0, 0], [0x81, 0, 0, 9]] {
        for mut frame in both_families() {
            frame.splice(12..12, tag);
            let before = pair.near.settle();
            assert!(pair.encrypt(&[frame]).is_empty());
            assert_eq!(pair.near.settle().punted, before.punted, "{tag:?}");
        }
    }
    // Frames of an unrouted VLAN may belong to an interface of the kernel, and cannot be judged.
    let dropped = pair.near.settle().dropped;
    assert_eq!((dropped["ipsec-policy"], dropped["unjudged"]), (2 + 2, 2));
    for prefix in ["203.0.113.0/24", "2001:db8:3::/48"] {
        pair.near.routes.route(net(prefix), &wattline_dataplane::next_hop::NextHop::Punt).unwrap();
    }
    pair.near.routes.publish().unwrap();
    let before = pair.near.settle().punted;
    assert_eq!(pair.encrypt(&both_families()).len(), 2);
    assert_eq!(pair.near.settle().punted, before);
}

/// The sender is behind an interface that is no port. The kernel sends the ICMP errors about its
/// packet, so the packet goes to the kernel.
#[test]
fn only_expired_packets_are_left_to_the_kernel() {
    let mut pair = Pair::new(Options::PLAIN);
    for prefix in ["192.0.2.0/24", "2001:db8:1::/64"] {
        pair.near.routes.route(net(prefix), &wattline_dataplane::next_hop::NextHop::Punt).unwrap();
    }
    pair.near.routes.publish().unwrap();
    let expired = [frame4(MAC_A, 1, b"payload."), frame6(MAC_A, 1, b"payload.")];
    assert!(pair.encrypt(&expired).is_empty());
    assert_eq!(pair.near.settle().punted, 2);
    for prefix in ["203.0.113.0/24", "2001:db8:3::/48"] {
        pair.near.routes.remove(net(prefix));
    }
    pair.near.routes.publish().unwrap();
    assert_eq!(pair.encrypt(&both_families()).len(), 2, "the tunnel is the way");
    assert_eq!(pair.near.settle().punted, 2);
}

#[test]
fn expired_packet_from_a_tunnel_is_not_shown_to_the_kernel() {
    let mut pair = Pair::new(Options::PLAIN);
    for prefix in ["203.0.113.0/24", "2001:db8:3::/48"] {
        pair.far.routes.route(net(prefix), &wattline_dataplane::next_hop::NextHop::Punt).unwrap();
    }
    pair.far.routes.publish().unwrap();
    // The encrypting gateway takes one hop.
    for (hops, punted) in [(2, 0), (3, 1)] {
        for frame in [frame4(MAC_A, hops, b"payload."), frame6(MAC_A, hops, b"payload.")] {
            let before = pair.far.settle().punted;
            let sealed = pair.encrypt(&[frame]);
            assert_eq!(sealed.len(), 1);
            let (out, counted) = pair.decrypt(&sealed);
            assert!(out.is_empty());
            assert_eq!(counted.punted - before, punted, "{hops} hops");
        }
    }
}
