//! `neighbour-hold`: holds packets until the MAC address of their neighbour is known.
//!
//! The node asks the control plane to resolve each address at once and again every second, and
//! keeps the packets in the order of their arrival. When routes change so that a packet can leave
//! (to this or another next hop), it is looked up again. After three seconds without an answer it
//! is reported as unreachable (RFC 1812 section 5.2.7.1).
//!
//! Without room for another packet the oldest one is dropped, because a neighbour that answers
//! usually does so at once. A scan of an on-link prefix (RFC 6583) therefore shortens the time that
//! packets are held, but every neighbour is still asked for.
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
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;
use wattline_units::{Span, Time};

const LOOKUP4: Edge = 0;
const LOOKUP6: Edge = 1;
const ERROR4: Edge = 2;
const ERROR6: Edge = 3;
const DROP: Edge = 4;

/// Largest number of held packets; limits the memory that a network scan can use.
const HELD: usize = 4096;
/// At most one chunk in this many is held.
const SHARE: usize = 4;
/// Largest number of packets held per neighbour, about as many as in the kernel (`unres_qlen`).
const PER_NEIGHBOUR: u32 = 101;
/// Largest number of packets that time out in one tick, each with an ICMP error.
const TIMEOUTS: usize = 64;
const TIMEOUT: Span = Span::from_millis(3_000);
/// Interval at which a neighbour is asked for if no new packet is for it.
const ASK_AGAIN: Span = Span::from_millis(1_000);
/// Shortest interval between two requests caused by packets to the same neighbour.
const ASK_FOR_PACKET: Span = Span::from_millis(50);
/// Interval between two searches for neighbours to ask for again.
const SEARCH: Span = Span::from_millis(250);

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

/// A packet that waits for its neighbour.
struct Held {
    neighbour: NeighbourRequest,
    packet: Packet,
    since: Time,
}

/// An unresolved neighbour with packets.
#[derive(Default)]
struct Unresolved {
    packets: u32,
    /// Time of the last request that the control plane accepted.
    asked: Option<Time>,
}

/// Node `neighbour-hold`; see the module.
pub struct NeighbourHold {
    requests: SyncSender<NeighbourRequest>,
    /// Oldest packet first.
    held: VecDeque<Held>,
    unresolved: HashMap<NeighbourRequest, Unresolved>,
    generation: u64,
    next_search: Time,
}

impl NeighbourHold {
    /// Makes the node; it sends requests over `requests` and repeats those that do not fit.
    pub fn new(requests: SyncSender<NeighbourRequest>) -> Self {
        Self {
            requests,
            held: VecDeque::with_capacity(HELD),
            // Twice the room: a hash table that is at most half full needs no memory when entries
            // come and go.
            unresolved: HashMap::with_capacity(2 * HELD),
            generation: 0,
            next_search: Time::ZERO,
        }
    }

    /// Holds a packet; false if too many wait for its neighbour.
    fn hold(&mut self, context: &mut Context, neighbour: NeighbourRequest, packet: Packet) -> bool {
        let known = self.unresolved.get(&neighbour);
        let has_room = known.is_none_or(|known| known.packets < PER_NEIGHBOUR);
        if has_room {
            self.make_room(context);
        }
        let unresolved = self.unresolved.entry(neighbour).or_default();
        if unresolved.asked.is_none_or(|asked| context.now.since(asked) >= ASK_FOR_PACKET) {
            ask(&self.requests, context, neighbour, unresolved);
        }
        if has_room {
            unresolved.packets += 1;
            self.held.push_back(Held { neighbour, packet, since: context.now });
        }
        has_room
    }

    /// Drops the oldest packet if there is no room for another one.
    fn make_room(&mut self, context: &mut Context) {
        let most = HELD.min(context.pool.chunks() as usize / SHARE);
        if self.held.len() >= most
            && let Some(Held { neighbour, mut packet, .. }) = self.held.pop_front()
        {
            forget(&mut self.unresolved, &neighbour);
            packet.reason = DropReason::NeighbourQueueFull;
            context.spawn(DROP, packet);
        }
    }

    /// Releases the packets that can leave, in the order of their arrival.
    fn release(&mut self, context: &mut Context) {
        let Self { held, unresolved, .. } = self;
        held.retain(|held| {
            let Some(edge) = next_edge(context, &held.packet) else { return true };
            context.spawn(edge, held.packet);
            forget(unresolved, &held.neighbour);
            false
        });
    }

    /// Gives up the packets that have waited for too long.
    fn time_out(&mut self, context: &mut Context) {
        for _ in 0..TIMEOUTS {
            let due = |held: &Held| context.now.since(held.since) >= TIMEOUT;
            if !self.held.front().is_some_and(due) {
                break;
            }
            let Some(Held { neighbour, mut packet, .. }) = self.held.pop_front() else { break };
            forget(&mut self.unresolved, &neighbour);
            packet.reason = DropReason::NeighbourTimeout;
            let edge = if is_ip6(&packet, context.pool.memory()) { ERROR6 } else { ERROR4 };
            context.spawn(edge, packet);
        }
    }

    fn ask_again(&mut self, context: &Context) {
        if context.now < self.next_search {
            return;
        }
        self.next_search = context.now + SEARCH;
        let due = |asked: Time| context.now.since(asked) >= ASK_AGAIN;
        for (neighbour, unresolved) in &mut self.unresolved {
            if unresolved.asked.is_none_or(due) {
                ask(&self.requests, context, *neighbour, unresolved);
            }
        }
    }
}

/// Asks the control plane for a neighbour.
fn ask(
    requests: &SyncSender<NeighbourRequest>,
    context: &Context,
    neighbour: NeighbourRequest,
    unresolved: &mut Unresolved,
) {
    if requests.try_send(neighbour).is_ok() {
        unresolved.asked = Some(context.now);
    } else {
        context.counters.totals.neighbour_requests_lost.add(1);
    }
}

/// Counts down the packets of a neighbour; forgets the neighbour with its last packet.
fn forget(unresolved: &mut HashMap<NeighbourRequest, Unresolved>, neighbour: &NeighbourRequest) {
    if let Some(entry) = unresolved.get_mut(neighbour) {
        entry.packets -= 1;
        if entry.packets == 0 {
            unresolved.remove(neighbour);
        }
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
        context.counters.totals.held.set(self.held.len() as u64);
    }

    fn tick(&mut self, context: &mut Context) {
        if self.held.is_empty() {
            return;
        }
        let generation = context.routes.generation();
        if generation != self.generation {
            self.generation = generation;
            self.release(context);
        }
        self.time_out(context);
        self.ask_again(context);
        context.counters.totals.held.set(self.held.len() as u64);
    }

    fn shut_down(&mut self, context: &mut Context) {
        self.unresolved.clear();
        for held in self.held.drain(..) {
            context.pool.free(held.packet.frame.offset);
            context.counters.dropped(DropReason::Shutdown, 1);
        }
        context.counters.totals.held.set(0);
    }
}

/// Returns the edge of a packet whose next hop is resolved now; `None` if it must still wait.
fn next_edge(context: &mut Context, packet: &Packet) -> Option<Edge> {
    let memory = &*context.pool.memory();
    let ip6 = is_ip6(packet, memory);
    let (bytes, flow_hash) = (packet.network_bytes(memory), *context.routes.table().flow_hash());
    let (hash, edge) = if ip6 {
        (flow_hash.hash_ipv6(bytes), LOOKUP6)
    } else {
        (flow_hash.hash_ipv4(bytes), LOOKUP4)
    };
    let can_leave = destination(packet, memory, ip6)
        .is_none_or(|it| context.routes.resolve(it, hash).1.kind != HopKind::Resolve);
    can_leave.then_some(edge)
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

    const GATEWAY: NextHop =
        NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None };

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
    fn packets_are_held_until_routes_resolve() {
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

    /// The same link-local address can exist on each of a port's links: neighbours are resolved,
    /// and packets held, per link.
    #[test]
    fn neighbours_on_several_vlans_of_a_port_are_distinguished() {
        let mut held = Held::new();
        let gateway = Some("fe80::1".parse().unwrap());
        for vlan in [Some(7), Some(8), None] {
            let next_hop = NextHop::Resolve { port: PortId(1), gateway, source: None, vlan };
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

    fn to_host(host: u8) -> Vec<u8> {
        let mut bytes = frame4(MAC_A, 64, b"x");
        bytes[14 + 19] = host;
        bytes
    }

    /// A quarter of the 64 chunks is held.
    #[test]
    fn oldest_packet_gives_way_and_nothing_leaks() {
        let mut held = Held::new();
        let chunks = held.bench.context.pool.free_chunks();
        for host in 6..22 {
            assert_eq!(held.hold(&to_host(host)), CONSUMED);
            assert!(held.bench.spawned().is_empty());
            assert_eq!(held.requests.try_iter().count(), 1);
        }
        for host in 22..30 {
            assert_eq!(held.hold(&to_host(host)), CONSUMED);
            let given_up = held.bench.spawned();
            let [(DROP, oldest)] = &given_up[..] else { panic!("{given_up:?}") };
            assert_eq!(oldest.reason, DropReason::NeighbourQueueFull);
            let memory = held.bench.context.pool.memory();
            assert_eq!(oldest.network_bytes(memory)[19], host - 16);
            held.bench.context.pool.free(oldest.frame.offset);
            assert_eq!(held.requests.try_iter().count(), 1, "a new neighbour is asked for at once");
        }
        assert_eq!(held.bench.context.counters.snapshot().held, 16);
        assert_eq!((held.node.held.len(), held.node.unresolved.len()), (16, 16));
        held.node.shut_down(&mut held.bench.context);
        assert_eq!(held.bench.context.pool.free_chunks(), chunks);
        assert_eq!(held.bench.context.counters.snapshot().held, 0);
    }

    #[test]
    fn request_that_does_not_fit_is_repeated_soon() {
        let mut held = Held::new();
        held.bench.routes.route(crate::testing::net("203.0.113.0/24"), &GATEWAY).unwrap();
        held.bench.routes.publish().unwrap();
        (6..11).for_each(|host| assert_eq!(held.hold(&to_host(host)), CONSUMED));
        assert_eq!(held.bench.context.counters.snapshot().neighbour_requests_lost, 1);
        assert_eq!(held.requests.try_iter().count(), 4);
        held.bench.context.now += SEARCH;
        assert!(held.tick().is_empty());
        assert_eq!(held.requests.try_iter().count(), 1);
    }

    #[test]
    fn packets_of_one_neighbour_cause_few_requests() {
        let mut held = Held::new();
        for _ in 0..10 {
            held.hold(&to_host(6));
            held.bench.context.now += Span::from_millis(10);
        }
        assert_eq!(held.requests.try_iter().count(), 2);
    }
}
