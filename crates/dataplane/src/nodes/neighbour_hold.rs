//! `neighbour-hold`: holds packets until the MAC address of their neighbour is known.
//!
//! It keeps the first few packets for each neighbour on each port, and asks the control plane once
//! a second to resolve the address. When routes change so that the packets can leave (to this or
//! another next hop), they are looked up again. After three seconds without an answer they are
//! reported as unreachable (RFC 1812 section 5.2.7.1).
//!
//! - next: `ip4-lookup`, `ip6-lookup`, `icmp4-error`, `icmp6-error` (`neighbour-timeout`),
//!   `drop` (`neighbour-queue-full`)

use super::{ip4_lookup, ip6_lookup};
use crate::drop_reason::DropReason;
use crate::forwarding::HopKind;
use crate::frame::ChunkMemory;
use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;
use crate::port::PortId;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;
use wattline_units::{Span, Time};

const LOOKUP4: Edge = 0;
const LOOKUP6: Edge = 1;
const ERROR4: Edge = 2;
const ERROR6: Edge = 3;
const DROP: Edge = 4;

/// Largest number of unresolved neighbours; limits the memory that a network scan can use.
const NEIGHBOURS: usize = 256;
/// Largest number of packets held per neighbour.
const PACKETS: usize = 8;
/// At most one chunk in this many is held.
const SHARE: usize = 4;
const TIMEOUT: Span = Span::from_millis(3_000);
const ASK_AGAIN: Span = Span::from_millis(1_000);

/// A request to resolve the MAC address of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NeighbourRequest {
    /// Port on which the neighbour is.
    pub port: PortId,
    /// VLAN id of the subinterface on which it is, 0 for the port itself.
    pub vlan: u16,
    /// IP address of the neighbour.
    pub address: IpAddr,
}

struct Waiting {
    packets: Vec<Packet>,
    since: Time,
    asked: Time,
}

/// Node `neighbour-hold`; see the module.
pub struct NeighbourHold {
    requests: SyncSender<NeighbourRequest>,
    waiting: HashMap<NeighbourRequest, Waiting>,
    /// Empty queues for reuse, so that nothing is allocated per packet.
    spare: Vec<Vec<Packet>>,
    generation: u64,
}

impl NeighbourHold {
    /// Makes the node; it sends requests over `requests` and repeats those that do not fit.
    pub fn new(requests: SyncSender<NeighbourRequest>) -> Self {
        Self {
            requests,
            waiting: HashMap::with_capacity(NEIGHBOURS),
            spare: (0..NEIGHBOURS).map(|_| Vec::with_capacity(PACKETS)).collect(),
            generation: 0,
        }
    }

    fn ask(&self, context: &Context, request: NeighbourRequest) {
        if self.requests.try_send(request).is_err() {
            context.counters.totals.neighbour_requests_lost.add(1);
        }
    }

    /// Holds a packet; false if there is no room for it.
    fn hold(&mut self, context: &Context, request: NeighbourRequest, packet: Packet) -> bool {
        let held = &context.counters.totals.held;
        if held.get() as usize >= context.pool.chunks() as usize / SHARE {
            return false;
        }
        if !self.waiting.contains_key(&request) {
            let Some(packets) = self.spare.pop() else { return false };
            let waiting = Waiting { packets, since: context.now, asked: context.now };
            self.waiting.insert(request, waiting);
            self.ask(context, request);
        }
        match self.waiting.get_mut(&request) {
            Some(waiting) if waiting.packets.len() < PACKETS => {
                waiting.packets.push(packet);
                held.add(1);
                true
            }
            _ => false,
        }
    }

    /// Releases all packets of a neighbour along an edge that depends on the IP version.
    fn let_go(&mut self, context: &mut Context, request: NeighbourRequest, timeout: bool) {
        let Some(mut waiting) = self.waiting.remove(&request) else { return };
        let held = &context.counters.totals.held;
        held.set(held.get() - waiting.packets.len() as u64);
        for mut packet in waiting.packets.drain(..) {
            let edge = match (is_ip6(&packet, context.pool.memory()), timeout) {
                (false, false) => LOOKUP4,
                (true, false) => LOOKUP6,
                (false, true) => ERROR4,
                (true, true) => ERROR6,
            };
            packet.reason = DropReason::NeighbourTimeout;
            context.spawn(edge, packet);
        }
        self.spare.push(waiting.packets);
    }
}

impl Node for NeighbourHold {
    fn name(&self) -> &'static str {
        "neighbour-hold"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-lookup", "ip6-lookup", "icmp4-error", "icmp6-error", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let memory = &*context.pool.memory();
            let ip6 = is_ip6(packet, memory);
            let destination = destination(packet, memory, ip6);
            let table = context.routes.table();
            let hop = *table.hop(packet.next_hop);
            if hop.kind != HopKind::Resolve {
                // The address was resolved between the lookup and here.
                *edge = if ip6 { LOOKUP6 } else { LOOKUP4 };
                continue;
            }
            let address = table.gateway(&hop).or(destination);
            let of = |address| NeighbourRequest { port: hop.port, vlan: hop.vlan, address };
            let request = address.map(of);
            *edge = match request {
                Some(request) if self.hold(context, request, *packet) => CONSUMED,
                _ => {
                    packet.reason = DropReason::NeighbourQueueFull;
                    DROP
                }
            };
        }
    }

    fn tick(&mut self, context: &mut Context) {
        if self.waiting.is_empty() {
            return;
        }
        let changed = context.routes.generation() != self.generation;
        self.generation = context.routes.generation();
        // Handles a few at a time, without allocation; the rest follows at the next tick.
        let mut done = [None; 16];
        let mut count = 0;
        for (request, waiting) in &mut self.waiting {
            if count == done.len() {
                self.generation = 0; // The next tick handles the rest.
                break;
            }
            let timeout = context.now.since(waiting.since) >= TIMEOUT;
            if timeout || (changed && can_leave(context, waiting)) {
                done[count] = Some((*request, timeout));
                count += 1;
            } else if context.now.since(waiting.asked) >= ASK_AGAIN {
                waiting.asked = context.now;
                if self.requests.try_send(*request).is_err() {
                    context.counters.totals.neighbour_requests_lost.add(1);
                }
            }
        }
        for (request, timeout) in done.into_iter().flatten() {
            self.let_go(context, request, timeout);
        }
    }

    fn shut_down(&mut self, context: &mut Context) {
        for (_, waiting) in self.waiting.drain() {
            for packet in waiting.packets {
                context.pool.free(packet.frame.offset);
                context.counters.dropped(DropReason::Shutdown, 1);
            }
        }
        context.counters.totals.held.set(0);
    }
}

/// True when the routes lead the first packet to a next hop for which it need not wait.
fn can_leave(context: &mut Context, waiting: &Waiting) -> bool {
    let Some(packet) = waiting.packets.first() else { return true };
    let memory = &*context.pool.memory();
    let ip6 = is_ip6(packet, memory);
    let hash = if ip6 {
        ip6_lookup::flow_hash(packet, memory)
    } else {
        ip4_lookup::flow_hash(packet, memory)
    };
    let Some(destination) = destination(packet, memory, ip6) else { return true };
    context.routes.resolve(destination, hash).1.kind != HopKind::Resolve
}

fn is_ip6(packet: &Packet, memory: &ChunkMemory) -> bool {
    packet.network_bytes(memory).first().is_some_and(|byte| byte >> 4 == 6)
}

fn destination(packet: &Packet, memory: &ChunkMemory, ip6: bool) -> Option<IpAddr> {
    if ip6 {
        ip6_lookup::destination_of(packet, memory).map(IpAddr::V6)
    } else {
        ip4_lookup::destination_of(packet, memory).map(IpAddr::V4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::NextHop;
    use crate::testing::{Bench, MAC_A, frame4, frame6};
    use std::sync::mpsc::{Receiver, sync_channel};

    struct Held {
        bench: Bench,
        node: NeighbourHold,
        requests: Receiver<NeighbourRequest>,
    }

    const GATEWAY: NextHop = NextHop::Resolve { port: PortId(1), gateway: None, vlan: None };

    impl Held {
        fn new() -> Self {
            let (sender, requests) = sync_channel(4);
            Self { bench: Bench::new(), node: NeighbourHold::new(sender), requests }
        }

        fn hold(&mut self, bytes: &[u8]) -> Edge {
            let packet = self.bench.packet_via(bytes, &GATEWAY);
            self.bench.process(&mut self.node, packet).0
        }

        fn tick(&mut self) -> Vec<Edge> {
            self.node.tick(&mut self.bench.context);
            self.bench.spawned().iter().map(|(edge, _)| *edge).collect()
        }
    }

    #[test]
    fn holds_asks_and_lets_go_once_routes_say_so() {
        let mut held = Held::new();
        let bytes = frame4(MAC_A, 64, b"x");
        held.bench.routes.route(crate::testing::net("203.0.113.0/24"), &GATEWAY).unwrap();
        held.bench.routes.publish().unwrap();
        assert_eq!((held.hold(&bytes), held.hold(&bytes)), (CONSUMED, CONSUMED));
        let address = "203.0.113.5".parse().unwrap();
        let request = NeighbourRequest { port: PortId(1), vlan: 0, address };
        assert_eq!(held.requests.try_iter().collect::<Vec<_>>(), [request], "asked once");
        assert_eq!(held.bench.context.counters.snapshot().held, 2);
        assert!(held.tick().is_empty());
        let route = crate::testing::net("203.0.113.5/32");
        held.bench.routes.route(route, &Bench::forward(1)).unwrap();
        held.bench.routes.publish().unwrap();
        assert_eq!(held.tick(), [LOOKUP4, LOOKUP4]);
        assert_eq!(held.bench.context.counters.snapshot().held, 0);
    }

    /// The same link-local address can be on each of a port's links: they are asked for, and waited
    /// for, one by one.
    #[test]
    fn neighbours_on_several_vlans_of_a_port_are_told_apart() {
        let mut held = Held::new();
        let gateway = Some("fe80::1".parse().unwrap());
        for vlan in [Some(7), Some(8), None] {
            let next_hop = NextHop::Resolve { port: PortId(1), gateway, vlan };
            let packet = held.bench.packet_via(&frame6(MAC_A, 64, b"x"), &next_hop);
            assert_eq!(held.bench.process(&mut held.node, packet).0, CONSUMED);
        }
        let asked: Vec<u16> = held.requests.try_iter().map(|request| request.vlan).collect();
        assert_eq!(asked, [7, 8, 0]);
    }

    #[test]
    fn asks_again_and_gives_up() {
        let mut held = Held::new();
        held.bench.routes.route(crate::testing::net("2001:db8:3::/48"), &GATEWAY).unwrap();
        held.bench.routes.publish().unwrap();
        held.hold(&frame6(MAC_A, 64, b"x"));
        for (after, asked) in [(0, 1), (500, 0), (500, 1), (1000, 1)] {
            held.bench.context.now += Span::from_millis(after);
            assert!(held.tick().is_empty());
            assert_eq!(held.requests.try_iter().count(), asked);
        }
        held.bench.context.now += Span::from_millis(1000);
        assert_eq!(held.tick(), [ERROR6]);
    }

    #[test]
    fn bounded_per_neighbour_and_in_all_and_nothing_leaks() {
        let mut held = Held::new();
        let chunks = held.bench.context.pool.free_chunks();
        let bytes = frame4(MAC_A, 64, b"x");
        for _ in 0..PACKETS {
            assert_eq!(held.hold(&bytes), CONSUMED);
        }
        assert_eq!(held.hold(&bytes), DROP);
        let mut last = CONSUMED;
        for host in 6..60 {
            let mut bytes = bytes.clone();
            bytes[14 + 19] = host;
            last = held.hold(&bytes);
        }
        assert_eq!(last, DROP, "a quarter of the chunks is the most");
        let counted = held.bench.context.counters.snapshot();
        assert_eq!(counted.held, 16);
        assert!(counted.neighbour_requests_lost > 0, "the channel holds four");
        let taken_by_tests = chunks - held.bench.context.pool.free_chunks() - 16;
        held.node.shut_down(&mut held.bench.context);
        assert_eq!(held.bench.context.pool.free_chunks(), chunks - taken_by_tests);
        assert_eq!(held.bench.context.counters.snapshot().held, 0);
    }
}
