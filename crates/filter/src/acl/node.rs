//! `acl4`, `acl6`, `acl-punted`: drop packets that the access list of their port does not permit.
//!
//! The nodes judge each received packet before the lookup, also packets from a tunnel: the list of
//! the port on which the outer packet arrived applies to them. Packets to the router's own
//! addresses pass, as they are not forwarded. Packets that the kernel may forward and that bypass
//! the first two nodes are judged by `acl-punted` before the kernel gets them; it drops packets to
//! which no rule can be applied ([`Punted`]).
//!
//! - next: `drop` (`acl-denied`, `acl-unreadable`, `unjudged`), and the next node at its place

use super::lists::Lists;
use arc_swap::{ArcSwap, Cache};
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::{Feature, NEXT, Place};
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::own_addresses::OwnAddresses;
use wattline_dataplane::packet::{Packet, Protection};
use wattline_dataplane::punted::Punted;

const PASS: Edge = 0;
const DROP: Edge = 1;

/// Packets that a node judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ipv4,
    Ipv6,
    Punted,
}

struct AclNode {
    kind: Kind,
    lists: Cache<Arc<ArcSwap<Lists>>, Arc<Lists>>,
    worker: u16,
}

/// Returns the nodes of a worker.
pub(super) fn features(lists: &Arc<ArcSwap<Lists>>, worker: u16) -> Vec<Feature> {
    let node = |kind| -> Box<dyn Node> {
        Box::new(AclNode { kind, lists: Cache::new(lists.clone()), worker })
    };
    vec![
        Feature {
            place: Place::Received,
            ipv4: Some("acl4"),
            ipv6: Some("acl6"),
            nodes: vec![node(Kind::Ipv4), node(Kind::Ipv6)],
        },
        Feature {
            place: Place::Punted,
            ipv4: Some("acl-punted"),
            ipv6: None,
            nodes: vec![node(Kind::Punted)],
        },
    ]
}

impl Node for AclNode {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ipv4 => "acl4",
            Kind::Ipv6 => "acl6",
            Kind::Punted => "acl-punted",
        }
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT, "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let lists: &Lists = self.lists.load();
        let memory = &*context.pool.memory();
        let own = context.routes.table().own();
        edges.fill(PASS);
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let port = usize::from(packet.frame.port_in.0);
            if !lists.has(port) {
                continue;
            }
            let bytes = packet.network_bytes(memory);
            let judged = match self.kind {
                Kind::Ipv4 => Ok((!is_own4(bytes, own)).then_some(bytes)),
                Kind::Ipv6 => Ok((!is_own6(bytes, own)).then_some(bytes)),
                Kind::Punted => match Punted::classify(packet, memory, own) {
                    Punted::Transit(transit) => Ok(transit.is_unseen.then_some(transit.bytes)),
                    Punted::Local => Ok(None),
                    // Packets that this router sends did not arrive on the port.
                    Punted::Opaque if packet.protection == Protection::Encrypted => Ok(None),
                    Punted::Opaque => Err((DropReason::Unjudged, 0)),
                },
            };
            let length = u64::from(packet.frame.length);
            let result = judged.and_then(|bytes| match bytes {
                Some(bytes) => lists.judge(port, bytes, length, self.worker),
                None => Ok(()),
            });
            if let Err((reason, rule)) = result {
                packet.deny(reason, rule);
                *edge = DROP;
            }
        }
    }
}

#[inline]
fn is_own4(bytes: &[u8], own: &OwnAddresses) -> bool {
    let destination = bytes.get(16..).and_then(|rest| rest.first_chunk::<4>());
    let destination = destination.map_or(0, |bytes| u32::from_be_bytes(*bytes));
    own.may_hold(destination) && own.holds(destination)
}

#[inline]
fn is_own6(bytes: &[u8], own: &OwnAddresses) -> bool {
    let destination = bytes.get(24..).and_then(|rest| rest.first_chunk::<16>());
    destination.is_some_and(|bytes| own.is_own(IpAddr::from(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Action, Rule};
    use super::*;
    use wattline_dataplane::testing::{
        MAC_A, Router, fix_checksum, frame4, frame6, net, with_option,
    };

    fn deny_udp() -> Rule {
        Rule {
            name: "no-dns".to_owned(),
            on: vec![0],
            action: Action::Deny,
            sources: Vec::new(),
            destinations: vec![net("203.0.113.0/24"), net("2001:db8:3::/48")],
            protocols: vec![17],
            source_ports: Vec::new(),
            destination_ports: vec![53..=53],
        }
    }

    fn permit_all() -> Rule {
        let name = "rest".to_owned();
        let none = Vec::new;
        Rule {
            name,
            action: Action::Permit,
            destinations: Vec::new(),
            protocols: none(),
            destination_ports: Vec::new(),
            ..deny_udp()
        }
    }

    fn router(rules: &[Rule]) -> (Router, Arc<ArcSwap<Lists>>) {
        let lists = Arc::new(ArcSwap::from_pointee(Lists::new(rules, 2, 1, None)));
        let mut router = Router::with_features(features(&lists, 0));
        router.routes.set_own_addresses([net("192.0.2.1/24"), net("2001:db8:1::1/64")]);
        router.routes.publish().unwrap();
        (router, lists)
    }

    const DNS: [u8; 8] = [0, 7, 0, 53, 0, 8, 0, 0];
    const WEB: [u8; 8] = [0, 7, 0, 80, 0, 8, 0, 0];

    #[test]
    fn the_first_rule_that_matches_decides_for_both_versions_of_ip() {
        let (mut router, lists) = router(&[deny_udp(), permit_all()]);
        for frame in [frame4(MAC_A, 64, &DNS), frame4(MAC_A, 64, &WEB)] {
            router.ports[0].send(&frame);
        }
        for frame in [frame6(MAC_A, 64, &DNS), frame6(MAC_A, 64, &WEB)] {
            router.ports[0].send(&frame);
        }
        let snapshot = router.settle();
        assert_eq!((snapshot.forwarded, snapshot.dropped["acl-denied"]), (2, 2));
        let lists = lists.load();
        assert_eq!(lists.rules[0].counts.total().0, 2);
        assert_eq!(lists.rules[1].counts.total().0, 2);
        assert_eq!(
            lists.rules[0].counts.total().1,
            2 * (14 + 8) + 20 + 40,
            "bytes with link header"
        );
    }

    #[test]
    fn another_list_takes_effect_while_packets_flow() {
        let (mut router, lists) = router(&[deny_udp(), permit_all()]);
        router.ports[0].send(&frame4(MAC_A, 64, &DNS));
        assert_eq!(router.settle().forwarded, 0);
        let next = Lists::new(&[permit_all()], 2, 1, Some(&lists.load()));
        lists.store(Arc::new(next));
        router.ports[0].send(&frame4(MAC_A, 64, &DNS));
        assert_eq!(router.settle().forwarded, 1);
    }

    #[test]
    fn packets_with_options_do_not_slip_past_through_the_kernel() {
        let (mut router, _) = router(&[deny_udp(), permit_all()]);
        for payload in [DNS, WEB] {
            router.ports[0].send(&with_option(frame4(MAC_A, 64, &payload), [1; 4]));
        }
        let snapshot = router.settle();
        assert_eq!((snapshot.punted, snapshot.dropped["acl-denied"]), (1, 1));
    }

    #[test]
    fn a_priority_tag_hides_nothing() {
        let (mut router, _) = router(&[deny_udp(), permit_all()]);
        for payload in [&DNS, &WEB] {
            let mut frame = frame4(MAC_A, 64, payload);
            frame.splice(12..12, [0x81, 0, 0xe0, 0]);
            router.ports[0].send(&frame);
        }
        let snapshot = router.settle();
        assert_eq!((snapshot.punted, snapshot.dropped["acl-denied"]), (1, 1));
    }

    #[test]
    fn packets_to_the_router_itself_are_left_to_the_kernel() {
        let mut all = deny_udp();
        (all.destinations, all.protocols, all.destination_ports) = Default::default();
        let (mut router, lists) = router(&[all]);
        for prefix in ["192.0.2.1/32", "2001:db8:1::1/128"] {
            router.routes.route(net(prefix), &wattline_dataplane::next_hop::NextHop::Punt).unwrap();
        }
        router.routes.publish().unwrap();
        let mut to_router = frame4(MAC_A, 64, &DNS);
        to_router[30..34].copy_from_slice(&[192, 0, 2, 1]);
        fix_checksum(&mut to_router);
        router.ports[0].send(&to_router);
        let mut to_router = frame6(MAC_A, 64, &DNS);
        to_router[38..54]
            .copy_from_slice(&"2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        router.ports[0].send(&to_router);
        router.ports[0].send(&frame4(MAC_A, 64, &WEB));
        let snapshot = router.settle();
        assert_eq!((snapshot.punted, snapshot.dropped["acl-denied"]), (2, 1));
        assert_eq!(lists.load().rules[0].counts.total().0, 1);
    }
}
