//! Tests of the nodes within a whole router.

use super::*;
use std::collections::HashMap;
use wattline_dataplane::testing::{MAC_A, Router, fix_checksum, frame4, frame6};
use wattline_dataplane::worker::Command;
use wattline_units::Span;

fn udp(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    frame4(MAC_A, 64, &[high, low, 0, 53, 0, 8, 0, 0])
}

/// Collects all records and checks that all packets are accounted for.
fn collect(records: &mut Records) -> Vec<Record> {
    let mut all = Vec::new();
    records.take(usize::MAX, |record| all.push(*record));
    records.take_rest(|record| all.push(*record));
    all
}

#[test]
fn packets_of_both_families_are_counted_in_their_flows() {
    let (feature, mut records) = worker(&Settings::default());
    let mut router = Router::with_features(vec![feature]);
    for _ in 0..3 {
        router.ports[0].send(&udp(7));
        router.ports[0].send(&udp(8));
        router.ports[0].send(&frame6(MAC_A, 64, &[0, 9, 0, 53, 0, 8, 0, 0]));
    }
    let counted = router.settle();
    assert_eq!(counted.forwarded, 9);
    assert_eq!(records.totals().map(|it| it.flows_live), [2, 1]);
    router.worker.shut_down();
    let mut all = collect(&mut records);
    all.sort_by_key(|record| record.source_port);
    let seen: Vec<_> = all.iter().map(|it| (it.source_port, it.packets, it.bytes)).collect();
    assert_eq!(seen, [(7, 3, 84), (8, 3, 84), (9, 3, 144)]);
    assert!(all.iter().all(|it| (it.port_in.0, it.port_out) == (0, Some(wattline_dataplane::port::PortId(1)))));
    assert!(all.iter().all(|it| it.end == EndReason::Forced));
}

#[test]
fn idle_flows_are_handed_over_while_the_router_runs() {
    let (feature, mut records) = worker(&Settings::default());
    let mut router = Router::with_features(vec![feature]);
    router.ports[0].send(&udp(7));
    router.settle();
    for _ in 0..20 {
        router.now += Span::from_seconds(1.0);
        router.settle();
    }
    let all = collect(&mut records);
    assert_eq!((all.len(), all[0].end, all[0].packets), (1, EndReason::Idle, 1));
    assert_eq!(records.totals()[0].flows_live, 0);
}

#[test]
fn ports_and_sampling_choose_packets() {
    let settings = Settings { ports: vec![false, true], ..Settings::default() };
    let (feature, records) = worker(&settings);
    let mut router = Router::with_features(vec![feature]);
    router.ports[0].send(&udp(7));
    router.settle();
    assert_eq!((records.totals()[0].packets, records.totals()[0].passed_by), (0, 1));

    let settings = Settings { sampling_interval: 10, ..Settings::default() };
    let (feature, records) = worker(&settings);
    let mut router = Router::with_features(vec![feature]);
    for _ in 0..100 {
        router.ports[0].send(&udp(7));
    }
    router.settle();
    assert_eq!((records.totals()[0].packets, records.totals()[0].passed_by), (10, 90));
}

/// A flow of such packets only would name an egress port that none of them used.
#[test]
fn packet_answered_by_an_error_is_in_no_flow() {
    let long4 = || {
        let mut bytes = frame4(MAC_A, 64, &[7; 1600]);
        bytes[20] = 0x40;
        fix_checksum(&mut bytes);
        bytes
    };
    for (place, counted) in [(Place::Routed, 0), (Place::Received, 2)] {
        let (feature, mut records) = worker(&Settings { place, ..Settings::default() });
        let mut router = Router::with_features(vec![feature]);
        for bytes in
            [frame4(MAC_A, 1, b"x"), long4(), frame6(MAC_A, 1, b"x"), frame6(MAC_A, 64, &[7; 1600])]
        {
            router.ports[0].send(&bytes);
        }
        let sum = router.settle();
        assert_eq!(sum.dropped.get("ttl-expired"), Some(&2), "{:?}", sum.dropped);
        assert_eq!(sum.dropped.get("too-big"), Some(&2), "{:?}", sum.dropped);
        let totals = records.totals();
        // ICMP errors of the router pass here, too, once they are routed.
        let of_others = totals.map(|it| it.refused);
        assert_eq!(of_others, [2 - counted; 2], "{place:?}: {totals:?}");
        router.worker.shut_down();
        let all = collect(&mut records);
        let of_them = all.iter().filter(|record| record.protocol == 17).count();
        assert_eq!(of_them > 0, counted > 0, "{place:?}: {all:?}");
    }
    // Packets that may be fragmented are sent.
    let (feature, records) = worker(&Settings::default());
    let mut router = Router::with_features(vec![feature]);
    router.ports[0].send(&frame4(MAC_A, 64, &[7; 1600]));
    router.settle();
    assert_eq!(records.totals()[0].refused, 0);
    assert!(records.totals()[0].packets >= 1);
}

#[test]
fn a_flow_that_moves_between_workers_keeps_its_sums() {
    let settings = Settings::default();
    let mut workers: Vec<_> = (0..2)
        .map(|_| {
            let (feature, records) = worker(&settings);
            (Router::with_features(vec![feature]), records)
        })
        .collect();
    for packet in 0..100 {
        // As when an entry of the indirection table is changed and later changed back.
        let (router, _) = &mut workers[usize::from((30..70).contains(&packet))];
        router.ports[0].send(&udp(7));
        router.settle();
    }
    let mut sums: HashMap<u16, (u64, u64)> = HashMap::new();
    for (router, records) in &mut workers {
        router.worker.control().command(Command::Stop);
        router.worker.shut_down();
        for record in collect(records) {
            let sum = sums.entry(record.source_port).or_default();
            *sum = (sum.0 + record.packets, sum.1 + record.bytes);
        }
    }
    assert_eq!(sums[&7], (100, 2800));
}

#[test]
fn a_full_ring_costs_records_but_no_packet_and_sums_hold() {
    let settings = Settings { flows: 16, ring: 8, ..Settings::default() };
    let (feature, mut records) = worker(&settings);
    let mut router = Router::with_features(vec![feature]);
    for number in 0..1000 {
        router.ports[0].send(&udp(number));
        assert_eq!(router.settle().forwarded, u64::from(number) + 1);
    }
    let totals = records.totals()[0];
    assert_eq!((totals.records_evicted, totals.lost_records, totals.flows_live), (8, 976, 16));
    router.worker.shut_down();
    let packets: u64 = collect(&mut records).iter().map(|record| record.packets).sum();
    let totals = records.totals()[0];
    assert_eq!((packets, totals.record_packets), (24, 24));
    assert_eq!(totals.packets, totals.record_packets + totals.lost_packets);
    assert_eq!(totals.bytes, totals.record_bytes + totals.lost_bytes);
}
