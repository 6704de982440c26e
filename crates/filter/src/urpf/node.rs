//! `urpf4`, `urpf6`, `urpf-punted`: drop packets from sources without a suitable route back.
//!
//! The nodes look up the sources of a batch together, before the lookup of destinations. Packets
//! that the kernel may forward and that bypass the first two are checked by `urpf-punted` before
//! the kernel gets them; it drops packets in which it finds no source ([`Punted`]).
//!
//! - next: `drop` (`reverse-path`, `unjudged`), and the next node at its place

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use wattline_dataplane::counters::Counter;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::{Feature, NEXT, Place};
use wattline_dataplane::forwarding::{HopKind, Table};
use wattline_dataplane::frame::BATCH_MAX;
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::packet::{Packet, Protection};
use wattline_dataplane::punted::Punted;
use wattline_fib::NextHopId;
use wattline_router::application::SourceCheck;

const PASS: Edge = 0;
const DROP: Edge = 1;

/// Check of each port, by port number; also of ports that may be added.
#[derive(Clone)]
pub(super) struct Checks(Arc<[AtomicU8]>);

const NO_CHECK: u8 = 0;
const LOOSE: u8 = 1;
const STRICT: u8 = 2;

impl Checks {
    /// Room for this number of ports, without checks.
    pub fn none(ports: usize) -> Self {
        Self((0..ports).map(|_| AtomicU8::new(NO_CHECK)).collect())
    }

    /// Checks of these ports.
    pub fn of(checks: &[Option<SourceCheck>]) -> Self {
        let all = Self::none(checks.len());
        checks.iter().enumerate().for_each(|(port, check)| all.set(port, *check));
        all
    }

    /// Returns the number of ports with room.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub fn get(&self, port: usize) -> Option<SourceCheck> {
        match self.0.get(port)?.load(Ordering::Relaxed) {
            LOOSE => Some(SourceCheck::Loose),
            STRICT => Some(SourceCheck::Strict),
            _ => None,
        }
    }

    /// Sets a check, in force with a worker's next packet.
    pub fn set(&self, port: usize, check: Option<SourceCheck>) {
        let value = match check {
            None => NO_CHECK,
            Some(SourceCheck::Loose) => LOOSE,
            Some(SourceCheck::Strict) => STRICT,
        };
        if let Some(cell) = self.0.get(port) {
            cell.store(value, Ordering::Relaxed);
        }
    }
}

/// Packets that a worker dropped, by port number.
pub(super) type Dropped = Arc<[Counter]>;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Ipv4,
    Ipv6,
    Punted,
}

struct UrpfNode {
    kind: Kind,
    checks: Checks,
    dropped: Dropped,
}

/// Returns the nodes of a worker.
pub(super) fn features(checks: &Checks, dropped: &Dropped) -> Vec<Feature> {
    let node = |kind| -> Box<dyn Node> {
        Box::new(UrpfNode { kind, checks: checks.clone(), dropped: dropped.clone() })
    };
    vec![
        Feature {
            place: Place::Received,
            ipv4: Some("urpf4"),
            ipv6: Some("urpf6"),
            nodes: vec![node(Kind::Ipv4), node(Kind::Ipv6)],
        },
        Feature {
            place: Place::Punted,
            ipv4: Some("urpf-punted"),
            ipv6: None,
            nodes: vec![node(Kind::Punted)],
        },
    ]
}

impl UrpfNode {
    #[inline]
    fn check(&self, packet: &Packet) -> Option<SourceCheck> {
        let check = self.checks.get(usize::from(packet.frame.port_in.0));
        check.filter(|_| packet.protection == Protection::None)
    }

    /// Drops a packet unless its source, with the route `back`, may be behind the port.
    #[inline]
    fn judge(
        &self,
        (packet, source): (&mut Packet, Option<IpAddr>),
        check: SourceCheck,
        back: NextHopId,
        table: &Table,
    ) -> Edge {
        // An address that names no single host is no valid source, whatever the routes (RFC 1812,
        // 5.3.7).
        let is_host = !source.is_some_and(|source| table.own().is_shared(source));
        if is_host && leads_back(table, back, check, packet) {
            return PASS;
        }
        if let Some(dropped) = self.dropped.get(usize::from(packet.frame.port_in.0)) {
            dropped.add(1);
        }
        packet.reason = DropReason::ReversePath;
        DROP
    }
}

impl Node for UrpfNode {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ipv4 => "urpf4",
            Kind::Ipv6 => "urpf6",
            Kind::Punted => "urpf-punted",
        }
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT, "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        edges.fill(PASS);
        // All packets of a batch usually come from one port.
        if !packets.iter().any(|packet| self.check(packet).is_some()) {
            return;
        }
        let memory = &*context.pool.memory();
        match self.kind {
            Kind::Ipv4 => {
                let source = |packet: &Packet| {
                    let bytes = memory.array::<4>(packet.network_offset() + 12);
                    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
                };
                let fib = &context.routes.fib4;
                fib.lookup_records(packets, source, |packet| &mut packet.next_hop);
            }
            Kind::Ipv6 => {
                let (mut sources, mut ways) = ([0; BATCH_MAX], [NextHopId::NONE; BATCH_MAX]);
                for (source, packet) in sources.iter_mut().zip(&*packets) {
                    let bytes = memory.array::<16>(packet.network_offset() + 8);
                    *source = bytes.map_or(0, |bytes| u128::from_be_bytes(*bytes));
                }
                let count = packets.len().min(BATCH_MAX);
                context.routes.fib6.lookup_batch(&sources[..count], &mut ways[..count]);
                for (packet, back) in packets.iter_mut().zip(&ways) {
                    packet.next_hop = *back;
                }
            }
            Kind::Punted => {
                for (packet, edge) in packets.iter_mut().zip(edges) {
                    let Some(check) = self.check(packet) else { continue };
                    let own = context.routes.table().own();
                    let source = match Punted::classify(packet, memory, own) {
                        Punted::Transit(it) if it.is_unseen => source_of(it.bytes),
                        Punted::Transit(_) | Punted::Local => continue,
                        Punted::Opaque => None,
                    };
                    let Some(source) = source else {
                        packet.reason = DropReason::Unjudged;
                        *edge = DROP;
                        continue;
                    };
                    let back = match source {
                        IpAddr::V4(address) => context.routes.fib4.lookup(address.into()),
                        IpAddr::V6(address) => context.routes.fib6.lookup(address.into()),
                    };
                    *edge = self.judge((packet, Some(source)), check, back, context.routes.table());
                }
                return;
            }
        }
        // After the lookups, as always.
        let table = context.routes.table();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let back = std::mem::replace(&mut packet.next_hop, NextHopId::NONE);
            if let Some(check) = self.check(packet) {
                // Only if the route leads to the kernel, as routes to addresses that name no host
                // do.
                let source = (table.hop(back).kind == HopKind::Punt)
                    .then(|| source_of(packet.network_bytes(memory)))
                    .flatten();
                *edge = self.judge((packet, source), check, back, table);
            }
        }
    }
}

/// Returns true if a route leads back to the origin of a packet.
#[inline]
fn leads_back(table: &Table, back: NextHopId, check: SourceCheck, packet: &Packet) -> bool {
    let hop = table.hop(back);
    let is_here = |id: &NextHopId| {
        let hop = table.hop(*id);
        let leads_out = matches!(hop.kind, HopKind::Forward | HopKind::Resolve);
        leads_out && hop.port == packet.frame.port_in && hop.vlan == packet.vlan_in
    };
    match (hop.kind, check) {
        // Through the kernel's interfaces that are no ports.
        (HopKind::Punt, check) => check == SourceCheck::Loose,
        (HopKind::Forward | HopKind::Resolve | HopKind::Group, SourceCheck::Loose) => true,
        (HopKind::Forward | HopKind::Resolve, SourceCheck::Strict) => is_here(&back),
        (HopKind::Group, SourceCheck::Strict) => table.members(hop).any(|id| is_here(&id)),
        _ => false,
    }
}

/// Returns the source of an IP packet.
fn source_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.first()? >> 4 {
        4 => Some(IpAddr::from(*bytes.get(12..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::next_hop::NextHop;
    use wattline_dataplane::port::PortId;
    use wattline_dataplane::testing::{
        Bench, MAC_A, Router, fix_checksum, frame4, frame4_vlan, frame6, net, with_option,
    };

    const PAYLOAD: &[u8] = &[0, 7, 0, 53, 0, 8, 0, 0];

    fn router(check: SourceCheck) -> (Router, Dropped) {
        let dropped: Dropped = (0..2).map(|_| Counter::default()).collect();
        let checks = Checks::of(&[Some(check), None]);
        (Router::with_features(features(&checks, &dropped)), dropped)
    }

    fn from4(source: [u8; 4]) -> Vec<u8> {
        let mut bytes = frame4(MAC_A, 64, PAYLOAD);
        bytes[26..30].copy_from_slice(&source);
        fix_checksum(&mut bytes);
        bytes
    }

    /// Returns true if a packet from a source with this route, if any, is forwarded; checks both
    /// versions of IP.
    fn passes(check: SourceCheck, route: impl Fn(&mut Router) -> Option<NextHop>) -> bool {
        let (mut router, dropped) = router(check);
        if let Some(route) = route(&mut router) {
            router.routes.route(net("10.7.0.0/16"), &route).unwrap();
            router.routes.route(net("2001:db8:7::/48"), &route).unwrap();
        }
        router.routes.publish().unwrap();
        let mut six = frame6(MAC_A, 64, PAYLOAD);
        let source: std::net::Ipv6Addr = "2001:db8:7::1".parse().unwrap();
        six[22..38].copy_from_slice(&source.octets());
        router.ports[0].send(&from4([10, 7, 1, 1]));
        router.ports[0].send(&six);
        let snapshot = router.settle();
        assert!(matches!(snapshot.forwarded, 0 | 2), "one version of IP only: {snapshot:?}");
        let lost = snapshot.dropped.get("reverse-path").copied().unwrap_or(0);
        assert_eq!((lost + snapshot.forwarded, dropped[0].get()), (2, lost));
        snapshot.forwarded == 2
    }

    #[test]
    fn routes_decide() {
        use SourceCheck::{Loose, Strict};
        let resolve =
            |port, vlan| NextHop::Resolve { port: PortId(port), gateway: None, source: None, vlan };
        for (route, strict, loose) in [
            (None, false, false),
            (Some(Bench::forward(0)), true, true),
            (Some(resolve(0, None)), true, true),
            (Some(Bench::forward(1)), false, true),
            (Some(Bench::forward_vlan(0, 7)), false, true),
            (Some(resolve(0, Some(7))), false, true),
            (Some(NextHop::Punt), false, true),
            (Some(NextHop::Blackhole), false, false),
            (Some(NextHop::Unreachable), false, false),
            (Some(NextHop::Prohibit), false, false),
        ] {
            let passed = [Strict, Loose].map(|check| passes(check, |_| route.clone()));
            assert_eq!(passed, [strict, loose], "{route:?}");
        }
    }

    /// Tests the broadcast address of an own network, whose route leads to the kernel.
    #[test]
    fn source_that_names_no_host_has_no_way_back() {
        let (mut router, dropped) = router(SourceCheck::Loose);
        router.routes.set_own_addresses([net("192.0.2.1/24")]);
        for prefix in ["192.0.2.255/32", "192.0.2.254/32"] {
            router.routes.route(net(prefix), &NextHop::Punt).unwrap();
        }
        router.routes.publish().unwrap();
        for source in [[192, 0, 2, 255], [192, 0, 2, 254]] {
            router.ports[0].send(&from4(source));
        }
        assert_eq!((router.settle().forwarded, dropped[0].get()), (1, 1));
    }

    #[test]
    fn one_of_several_next_hops_has_to_lead_back() {
        let group = |ports: [u16; 2]| {
            move |router: &mut Router| {
                let members =
                    ports.map(|port| router.routes.acquire(&Bench::forward_mtu(port, 1400)));
                Some(NextHop::Group(members.map(|member| (member.unwrap(), 1)).to_vec()))
            }
        };
        assert!(passes(SourceCheck::Strict, group([1, 0])));
        assert!(!passes(SourceCheck::Strict, group([1, 1])));
        assert!(passes(SourceCheck::Loose, group([1, 1])));
    }

    #[test]
    fn vlan_is_a_separate_link() {
        let (mut router, _) = router(SourceCheck::Strict);
        router.ports[0].send(&frame4_vlan(MAC_A, 7));
        assert_eq!(router.settle().dropped["reverse-path"], 1);
        router.routes.route(net("192.0.2.0/24"), &Bench::forward_vlan(0, 7)).unwrap();
        router.routes.publish().unwrap();
        router.ports[0].send(&frame4_vlan(MAC_A, 7));
        assert_eq!(router.settle().forwarded, 1);
    }

    #[test]
    fn packets_with_options_do_not_slip_past_through_the_kernel() {
        let (mut router, _) = router(SourceCheck::Strict);
        for source in [[192, 0, 2, 9], [10, 7, 1, 1]] {
            router.ports[0].send(&with_option(from4(source), [1; 4]));
        }
        let snapshot = router.settle();
        assert_eq!((snapshot.punted, snapshot.dropped["reverse-path"]), (1, 1));
    }

    #[test]
    fn other_ports_and_tunnels_pass() {
        let (mut router, _) = router(SourceCheck::Strict);
        router.routes.route(net("203.0.113.0/24"), &Bench::forward(0)).unwrap();
        router.routes.publish().unwrap();
        let mut bytes = from4([10, 7, 1, 1]);
        bytes[..6].copy_from_slice(&wattline_dataplane::testing::MAC_B);
        router.ports[1].send(&bytes);
        assert_eq!(router.settle().forwarded, 1);
        let mut bench = Bench::new();
        let dropped: Dropped = [Counter::default()].into();
        let checks = Checks::of(&[Some(SourceCheck::Strict)]);
        let mut node = UrpfNode { kind: Kind::Ipv4, checks, dropped };
        let packet = bench.packet(&from4([10, 7, 1, 1]));
        assert_eq!(bench.process(&mut node, packet).0, DROP);
        let packet = Packet { protection: Protection::Decrypted, ..packet };
        assert_eq!(bench.process(&mut node, packet).0, PASS);
    }
}
