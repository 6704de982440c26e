//! Captures and traces of the whole router between two test ports.

use super::filter::Filter;
use super::record::{Kind, Record, Records};
use super::slots::{SLOTS, TapSlots};
use super::tap::{Tap, TapCounters, TapOptions};
use crate::drop_reason::DropReason;
use crate::next_hop::NextHop;
use crate::port::PortId;
use crate::testing::{Bench, MAC_A, Router, frame4, frame4_vlan, frame6, net};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wattline_units::Span;

struct Watched {
    router: Router,
    slots: TapSlots,
    records: Records,
    counters: Arc<TapCounters>,
    names: Vec<&'static str>,
}

impl Watched {
    fn by(router: Router, filter: &str, nodes: bool, snap: u16, rate: u32) -> Self {
        let filter = Filter::parse(filter, &|name| name.parse().ok()).unwrap();
        let (tap, records, counters) = Tap::new(TapOptions { filter, nodes, snap, rate }, 64);
        let slots = router.worker.tap_slots();
        slots.put(0, tap);
        let names = router.worker.graph().names();
        Self { router, slots, records, counters, names }
    }

    fn traced(filter: &str) -> Self {
        Self::by(Router::new(), filter, true, u16::MAX, u32::MAX)
    }

    fn captured(filter: &str) -> Self {
        Self::by(Router::new(), filter, false, u16::MAX, u32::MAX)
    }

    fn read(&mut self) -> Vec<Record> {
        std::iter::from_fn(|| self.records.read()).collect()
    }

    /// Events as words, without the ends of rounds.
    fn events(&mut self) -> Vec<String> {
        let names = self.names.clone();
        let node = |number: u8| names[usize::from(number)];
        let event = |record: &Record| {
            let Record { packet, port, .. } = record;
            Some(match record.kind {
                Kind::Received => format!("{packet} received by {port}"),
                Kind::Made(by) => format!("{packet} made by {}", node(by)),
                Kind::Visits(at) => format!("{packet} {}", node(at)),
                Kind::Sent => format!("{packet} sent by {port}"),
                Kind::Dropped(why) => {
                    format!("{packet} dropped {}", DropReason::ALL[usize::from(why)].name())
                }
                Kind::LeftToKernel => format!("{packet} to kernel"),
                Kind::Held(by) => format!("{packet} held by {}", node(by)),
                Kind::Consumed(by) => format!("{packet} consumed by {}", node(by)),
                Kind::NextHop | Kind::Round => return None,
            })
        };
        self.read().iter().filter_map(event).collect()
    }
}

#[test]
fn a_trace_names_every_node_on_the_way_and_the_end() {
    let mut watched = Watched::traced("ip");
    watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    watched.router.ports[0].send(&frame6(MAC_A, 64, b"payload"));
    watched.router.settle();
    let expected = [
        "1 received by 0",
        "1 ethernet-input",
        "1 ip4-input",
        "1 ip4-lookup",
        "1 ip4-rewrite",
        "1 output",
        "1 sent by 1",
    ];
    assert_eq!(watched.events(), expected);
}

#[test]
fn an_expired_packet_is_traced_to_its_drop_and_so_is_the_answer_to_it() {
    let mut watched = Watched::traced("all");
    watched.router.ports[0].send(&frame4(MAC_A, 1, b"payload"));
    watched.router.settle();
    let events = watched.events();
    assert_eq!(events[..3], ["1 received by 0", "1 ethernet-input", "1 ip4-input"]);
    for event in ["1 dropped ttl-expired", "2 made by icmp4-error", "2 sent by 0"] {
        assert!(events.iter().any(|it| it == event), "{event}: {events:?}");
    }
}

#[test]
fn a_packet_that_waits_for_its_neighbour_is_followed_through_the_wait() {
    let mut watched = Watched::traced("all");
    let resolve = NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None };
    watched.router.routes.route(net("203.0.113.0/24"), &resolve).unwrap();
    watched.router.routes.publish().unwrap();
    watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    watched.router.settle();
    let events = watched.events();
    assert_eq!(events.last().unwrap(), "1 held by neighbour-hold", "{events:?}");
    watched.router.routes.route(net("203.0.113.5/32"), &Bench::forward(1)).unwrap();
    watched.router.routes.publish().unwrap();
    watched.router.settle();
    let events = watched.events();
    assert_eq!(events.first().unwrap(), "1 ip4-lookup", "{events:?}");
    assert_eq!(events.last().unwrap(), "1 sent by 1", "{events:?}");
}

#[test]
fn packet_refused_by_a_transmit_ring_ends_as_that() {
    let router = Router::with_transmit_limit(Some(1));
    let mut watched = Watched::by(router, "all", false, u16::MAX, u32::MAX);
    for _ in 0..2 {
        watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    }
    watched.router.settle();
    let events = watched.events();
    assert_eq!(events[2..], ["1 sent by 1", "2 sent by 1", "2 dropped transmit-ring-full"]);
}

#[test]
fn a_capture_has_the_bytes_as_they_come_and_as_they_go() {
    let mut watched = Watched::captured("udp");
    let frames = [frame4_vlan(MAC_A, 7), frame4(MAC_A, 64, b"x"), frame6(MAC_A, 1, b"x")];
    for frame in &frames {
        watched.router.ports[0].send(frame);
    }
    watched.router.settle();
    let records = watched.read();
    let of = |kind: Kind| -> Vec<Vec<u8>> {
        records.iter().filter(|it| it.kind == kind).map(|it| it.bytes.clone()).collect()
    };
    assert_eq!(of(Kind::Received), frames);
    assert_eq!(of(Kind::Sent), watched.router.ports[1].sent());
    // The answer to the expired packet is ICMP, which the filter does not take.
    assert!(!records.iter().any(|it| matches!(it.kind, Kind::Made(_))));
    assert_eq!(records.last().unwrap().kind, Kind::Round);
    assert!(records.iter().all(|it| it.time_nanos > 1 << 60), "{records:?}");
}

#[test]
fn interface_filter_matches_packets_that_leave() {
    let mut watched = Watched::captured("interface 1");
    watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    watched.router.settle();
    assert_eq!(watched.events(), ["1 sent by 1"]);
}

#[test]
fn frames_are_cut_and_a_flood_is_sampled_and_counted() {
    let mut watched = Watched::by(Router::new(), "all", false, 20, 10);
    for _ in 0..50 {
        watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    }
    watched.router.settle();
    let records = watched.read();
    let received: Vec<_> = records.iter().filter(|it| it.kind == Kind::Received).collect();
    let sent = records.iter().filter(|it| it.kind == Kind::Sent).count();
    assert_eq!((received.len(), sent), (1, 1), "the burst is a tenth of a second's packets");
    assert_eq!((received[0].bytes.len(), received[0].length), (20, 41));
    let counted = [&watched.counters.matched, &watched.counters.missed];
    assert_eq!(counted.map(|it| it.load(Ordering::Relaxed)), [50, 49]);
}

/// Without a reader, the worker continues and counts the missed packets.
#[test]
fn a_full_ring_costs_records_and_nothing_else() {
    let mut watched = Watched::captured("all");
    let sent = 60_000;
    for _ in 0..sent / 50 {
        for _ in 0..50 {
            watched.router.ports[0].send(&frame4(MAC_A, 64, &[7; 64]));
        }
        watched.router.settle();
        watched.router.ports[1].sent();
    }
    let missed = watched.counters.missed.load(Ordering::Relaxed);
    assert!(missed > 0 && missed < sent, "{missed}");
    let records = watched.read();
    let of = |kind: Kind| records.iter().filter(|it| it.kind == kind).count() as u64;
    assert_eq!((of(Kind::Received), of(Kind::Sent)), (sent - missed, sent - missed));
}

#[test]
fn several_taps_come_and_go_and_leave_nothing() {
    let mut watched = Watched::captured("all");
    let filter = Filter::parse("tcp", &|_| None).unwrap();
    let options = TapOptions { filter, nodes: true, snap: 64, rate: 1 };
    let (other, mut others, _) = Tap::new(options, 64);
    watched.slots.put(SLOTS - 1, other);
    watched.slots.put(
        SLOTS,
        Tap::new(
            TapOptions {
                filter: Filter::parse("", &|_| None).unwrap(),
                nodes: true,
                snap: 0,
                rate: 1,
            },
            64,
        )
        .0,
    );
    let send = |watched: &mut Watched| {
        watched.router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
        watched.router.settle();
        watched.events().len()
    };
    assert_eq!(send(&mut watched), 2);
    watched.slots.take(SLOTS - 1);
    assert_eq!(send(&mut watched), 2);
    watched.slots.take(0);
    assert_eq!(send(&mut watched), 0);
    assert_eq!(others.read(), None);
    watched.router.now += Span::from_millis(1);
}

proptest! {
    /// In a trace of everything, each packet that arrives is received once and ends once.
    #[test]
    fn every_packet_that_begins_ends(frames in proptest::collection::vec(
        prop_oneof![
            (0_u8..4, proptest::collection::vec(any::<u8>(), 0..60)).prop_map(|(ttl, payload)| frame4(MAC_A, ttl, &payload)),
            (0_u8..4).prop_map(|limit| frame6(MAC_A, limit, b"x")),
            (0_u8..9).prop_map(|vlan| frame4_vlan(MAC_A, vlan)),
            proptest::collection::vec(any::<u8>(), 0..80),
        ],
        0..80,
    )) {
        let mut watched = Watched::traced("all");
        for frame in &frames {
            watched.router.ports[0].send(frame);
        }
        let counted = watched.router.settle();
        let records = watched.read();
        let count = |test: &dyn Fn(Kind) -> bool| records.iter().filter(|it| test(it.kind)).count() as u64;
        prop_assert_eq!(count(&|it| it == Kind::Received), counted.received);
        prop_assert_eq!(count(&|it| matches!(it, Kind::Made(_))), counted.generated);
        prop_assert_eq!(count(&|it| it == Kind::Sent), counted.forwarded);
        prop_assert_eq!(count(&|it| it == Kind::LeftToKernel), counted.punted);
        prop_assert_eq!(count(&|it| matches!(it, Kind::Dropped(_))), counted.dropped_total());
        prop_assert_eq!(count(&|it| matches!(it, Kind::Held(_))), counted.held);
    }
}
