//! `icmp4-error` and `icmp6-error`: tell the source why its packet is dropped, then drop it.
//!
//! The message depends on the packet's drop reason. None is sent where the RFCs forbid it
//! ([`Family::ends`]) or to an address that names no single host; to a directed broadcast address,
//! Linux does send errors. Each kind of message ([`Kind`]) has its own rate limit, so that a flood
//! of one kind leaves room for the others, and each limit keeps a part for every group of senders
//! ([`FairLimit`]). A message is routed like any other packet.
//!
//! If only the kernel reaches the sender, the kernel forwards the message of IPv6. One of IPv4 carries the
//! kernel's own address as source, which it would take for forged: it gets the packet and sends the error.
//!
//! - next: `drop` (the reason that the packet came with), `ip4-lookup` or `ip6-lookup` (the
//!   message), `punt`

use super::fair_limit::FairLimit;
use super::generated;
use crate::drop_reason::DropReason;
use crate::forwarding::{Hop, HopKind, Table};
use crate::graph::{Context, Edge, Node};
use crate::packet::{Packet, Protection};
use crate::source_addresses::PortInterface;
use crate::token_bucket::TokenBucket;
use std::marker::PhantomData;
use std::net::IpAddr;

pub(super) const DROP: Edge = 0;
pub(super) const LOOKUP: Edge = 1;
pub(super) const PUNT: Edge = 2;
/// TTL of a generated packet before `ip4-rewrite` or `ip6-rewrite` decrements it to 64.
pub(super) const TTL: u8 = 65;

/// Differences between ICMP and ICMPv6.
pub trait Family: Send {
    /// Name of the node.
    const NAME: &'static str;
    /// Names of the nodes to which the edges lead.
    const NEXT: &'static [&'static str];
    /// EtherType of the messages.
    const ETHER_TYPE: u16;
    /// Whether packets *to* an address that names no single host may be answered.
    const OF_SHARED_DESTINATIONS: bool;
    /// Whether the kernel forwards a message that carries its own address as source.
    const KERNEL_FORWARDS: bool;
    /// Type and code of a message, with their parameters.
    type Message: Copy;

    /// Message about a packet dropped for this reason; `None` if there is none. `mtu` is that of
    /// the egress interface in bytes, 0 if the interface has gone.
    fn message(reason: DropReason, mtu: u16) -> Option<Self::Message>;

    /// MTU in bytes to name to the sender of a packet of `length` bytes, as Linux does.
    fn mtu(hop: &Hop, length: usize) -> u16;

    /// Source and destination of the packet that begins at `about`; `None` if its own headers
    /// forbid a message about it.
    fn ends(about: &[u8], message: Self::Message) -> Option<Ends>;

    /// Source address of a message to `to`, as the kernel chooses it: `ingress` is the interface by which
    /// the packet came in, `back` the next hop towards `to`.
    fn source(table: &Table, ingress: PortInterface, to: IpAddr, back: &Hop) -> Option<IpAddr>;

    /// Writes the message about a packet, from its network header on, and returns the length.
    /// `None` if `source` is of the other family or the buffer is too small.
    fn write(
        buffer: &mut [u8],
        message: Self::Message,
        source: IpAddr,
        about: &[u8],
    ) -> Option<usize>;
}

/// Source and destination of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// Source of the packet, which receives the message.
    pub source: IpAddr,
    /// Destination of the packet.
    pub destination: IpAddr,
}

/// Messages that share a rate limit. Anyone can provoke thousands of "no route" messages per
/// second, and these must not block the messages that a sender needs to learn the path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// Path MTU messages; connections hang without them (RFC 1191, RFC 8201).
    TooBig,
    /// Time exceeded messages, which traceroute needs.
    Expired,
    /// Unreachable messages of all codes.
    Unreachable,
}

impl Kind {
    const COUNT: usize = 3;

    fn from_reason(reason: DropReason) -> Self {
        match reason {
            DropReason::TooBig => Self::TooBig,
            DropReason::TtlExpired => Self::Expired,
            _ => Self::Unreachable,
        }
    }
}

/// Node for ICMP errors of one IP version; see the module.
pub struct IcmpError<F> {
    /// Rate limits, indexed by [`Kind`].
    limits: [FairLimit; Kind::COUNT],
    family: PhantomData<F>,
}

impl<F: Family> IcmpError<F> {
    /// Makes the node; each kind of message gets the limit of `bucket`.
    pub fn new(bucket: TokenBucket) -> Self {
        Self { limits: std::array::from_fn(|_| FairLimit::new(&bucket)), family: PhantomData }
    }

    /// Makes the message about a packet and counts it as generated; `None` if none may be sent.
    /// `mtu` is that of the packet's egress interface in bytes.
    pub fn report(&mut self, context: &mut Context, packet: &Packet, mtu: u16) -> Option<Packet> {
        let message = F::message(packet.reason, mtu)?;
        let ends = Self::allowed(context, packet, message)?;
        let (_, back) = context.routes.resolve(ends.source, 0);
        self.make(context, packet, message, ends, &back)
    }

    /// Ends of a packet if a message about it is allowed; otherwise counts the refusal.
    fn allowed(context: &mut Context, packet: &Packet, message: F::Message) -> Option<Ends> {
        let own = context.routes.table().own();
        let ends = F::ends(packet.network_bytes(context.pool.memory()), message).filter(|ends| {
            let single = F::OF_SHARED_DESTINATIONS || !own.is_shared(ends.destination);
            single && !own.is_shared(ends.source)
        });
        if ends.is_none() {
            context.counters.totals.icmp_not_allowed.add(1);
        }
        ends
    }

    /// Makes the message within the rate limit; `back` is the next hop towards the sender.
    fn make(
        &mut self,
        context: &mut Context,
        packet: &Packet,
        message: F::Message,
        ends: Ends,
        back: &Hop,
    ) -> Option<Packet> {
        let sender = context.routes.table().sender(ends.source);
        if !self.limits[Kind::from_reason(packet.reason) as usize].take(context.now, sender) {
            context.counters.totals.icmp_rate_limited.add(1);
            return None;
        }
        let source = Self::source(context.routes.table(), packet, ends, back);
        let made = source.and_then(|source| {
            generated::packet(&mut context.pool, packet, F::ETHER_TYPE, |about, buffer| {
                F::write(buffer, message, source, about)
            })
        });
        let totals = &context.counters.totals;
        let counter = if made.is_some() { &totals.generated } else { &totals.icmp_impossible };
        counter.add(1);
        made.map(|made| Packet { protection: made.protection.for_quotation(), ..made })
    }

    /// Source address of a message. For a packet that came through a tunnel, an address in the receiver's
    /// network is preferred, since an answer may return through the tunnel only from the network at this
    /// end.
    fn source(table: &Table, packet: &Packet, ends: Ends, back: &Hop) -> Option<IpAddr> {
        let tunnelled = packet.protection == Protection::Decrypted;
        let near = tunnelled.then(|| table.sources().beside(ends.destination)).flatten();
        let ingress = (packet.frame.port_in, packet.vlan_in);
        near.or_else(|| F::source(table, ingress, ends.source, back))
    }
}

impl<F: Family> Node for IcmpError<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn next(&self) -> &'static [&'static str] {
        F::NEXT
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        edges.fill(DROP);
        for (packet, edge) in packets.iter().zip(edges) {
            let mtu = F::mtu(context.routes.table().hop(packet.next_hop), packet.network_length());
            let Some(message) = F::message(packet.reason, mtu) else { continue };
            let Some(ends) = Self::allowed(context, packet, message) else { continue };
            let (_, back) = context.routes.resolve(ends.source, 0);
            let table = context.routes.table();
            // What has no route here may have a way there: a tunnel.
            let kernel_reports = !F::KERNEL_FORWARDS
                || packet.reason == DropReason::NoRoute
                || table.own().is_own(ends.source);
            // A packet from a tunnel stays here, since the kernel would quote it in clear.
            if back.kind == HopKind::Punt && packet.protection == Protection::None && kernel_reports
            {
                *edge = PUNT;
            } else if let Some(made) = self.make(context, packet, message, ends, &back) {
                context.spawn(LOOKUP, made);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::NextHop;
    use crate::nodes::{Icmp4Error, Icmp6Error};
    use crate::testing::{Bench, MAC_A, fix_checksum, frame4, frame6, net};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wattline_packet::ipv4::Ipv4Packet;

    fn expired(bench: &mut Bench, bytes: &[u8]) -> Packet {
        Packet { reason: DropReason::TtlExpired, ..bench.packet(bytes) }
    }

    #[test]
    fn rate_and_chunks_are_limits_that_are_counted() {
        let mut bench = Bench::new();
        let mut node = Icmp4Error::new(TokenBucket::new(1, 2));
        let bytes = frame4(MAC_A, 64, &[7; 100]);
        for _ in 0..5 {
            let packet = expired(&mut bench, &bytes);
            assert_eq!(bench.process(&mut node, packet).0, DROP);
        }
        assert_eq!(bench.spawned().len(), 2);
        let mut node = Icmp4Error::new(TokenBucket::new(1, 2));
        let packet = expired(&mut bench, &bytes);
        while bench.context.pool.take_chunk().is_some() {}
        bench.process(&mut node, packet);
        let counted = bench.context.counters.snapshot();
        assert_eq!((counted.icmp_rate_limited, counted.icmp_impossible), (3, 1));
        assert_eq!(counted.generated, 2);
    }

    /// A flood of packets without a route must not suppress the messages for path-MTU discovery and
    /// traceroute, and these two must not suppress each other.
    #[test]
    fn errors_of_one_kind_do_not_use_up_what_others_may_say() {
        fn check<F: Family>(bytes: &[u8]) {
            let kinds = [DropReason::NoRoute, DropReason::TtlExpired, DropReason::TooBig];
            for flood in kinds {
                let mut bench = Bench::new();
                let mut node = IcmpError::<F>::new(TokenBucket::new(1, 2));
                let packet = bench.packet_via(bytes, &Bench::forward_mtu(1, 1400));
                let mut said = |reason| {
                    bench.process(&mut node, Packet { reason, ..packet });
                    bench.spawned().len()
                };
                let of_flood: usize = (0..100).map(|_| said(flood)).sum();
                assert_eq!(of_flood, 2, "{flood:?}");
                for other in kinds.into_iter().filter(|kind| *kind != flood) {
                    assert_eq!(
                        [said(other), said(other), said(other)],
                        [1, 1, 0],
                        "{flood:?} {other:?}"
                    );
                }
            }
        }
        check::<crate::nodes::icmp4_error::Icmp4>(&frame4(MAC_A, 64, &[7; 100]));
        check::<crate::nodes::icmp6_error::Icmp6>(&frame6(MAC_A, 64, &[7; 100]));
    }

    #[test]
    fn no_mtu_is_told_of_a_way_that_has_closed() {
        let mut bench = Bench::new();
        for (bytes, node) in [
            (
                frame4(MAC_A, 64, &[7; 100]),
                &mut Icmp4Error::new(TokenBucket::new(1000, 50)) as &mut dyn Node,
            ),
            (frame6(MAC_A, 64, &[7; 100]), &mut Icmp6Error::new(TokenBucket::new(1000, 50))),
        ] {
            let packet = bench.packet_via(&bytes, &Bench::forward_mtu(1, 1400));
            let packet = Packet { reason: DropReason::TooBig, ..packet };
            bench.process(node, packet);
            assert_eq!(bench.spawned().len(), 1);
            bench.routes.set(packet.next_hop, &NextHop::Blackhole).unwrap();
            bench.routes.publish().unwrap();
            bench.process(node, packet);
            assert!(bench.spawned().is_empty());
        }
    }

    #[test]
    fn no_error_is_sent_to_a_whole_network() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses([net("192.0.2.1/24"), net("198.51.100.1/24")]);
        bench.routes.publish().unwrap();
        let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
        let far = [203, 0, 113, 5];
        for (source, destination, answered) in [
            ([192, 0, 2, 255], far, false),
            ([192, 0, 2, 0], far, false),
            ([198, 51, 100, 255], far, false),
            ([192, 0, 2, 254], far, true),
            ([203, 0, 113, 255], far, true),
            ([192, 0, 2, 9], [198, 51, 100, 255], false),
        ] {
            let mut bytes = frame4(MAC_A, 1, &[7; 100]);
            bytes[26..30].copy_from_slice(&source);
            bytes[30..34].copy_from_slice(&destination);
            fix_checksum(&mut bytes);
            let packet = expired(&mut bench, &bytes);
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            assert_eq!(!bench.spawned().is_empty(), answered, "{source:?} to {destination:?}");
        }
        let counted = bench.context.counters.snapshot();
        assert_eq!((counted.icmp_not_allowed, counted.generated), (4, 2));
    }

    #[test]
    fn nothing_is_said_to_a_subnet_router_anycast_address() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses([net("2001:db8:1::1/64"), net("2001:db8:2::1/64")]);
        bench.routes.publish().unwrap();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        let far = "2001:db8:3::5";
        for (source, destination, answered) in [
            ("2001:db8:1::", far, false),
            ("2001:db8:2::", far, false),
            ("2001:db8:1::9", far, true),
            ("2001:db8:9::", far, true),
            ("2001:db8:1::9", "2001:db8:2::", true),
        ] {
            let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
            let mut bytes = frame6(MAC_A, 1, &[7; 100]);
            bytes[22..38].copy_from_slice(&octets(source));
            bytes[38..54].copy_from_slice(&octets(destination));
            let packet = expired(&mut bench, &bytes);
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            assert_eq!(!bench.spawned().is_empty(), answered, "{source} to {destination}");
        }
        assert_eq!(bench.context.counters.snapshot().icmp_not_allowed, 2);
    }

    /// A sender that provokes errors without end does not use up those of the others: the path-MTU
    /// messages least of all.
    #[test]
    fn one_sender_does_not_use_up_the_messages_of_others() {
        for reason in [DropReason::TooBig, DropReason::NoRoute, DropReason::TtlExpired] {
            let mut bench = Bench::new();
            let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
            let mut answered = |bench: &mut Bench, host: u8| {
                let mut bytes = frame4(MAC_A, 1, &[7; 100]);
                bytes[29] = host;
                fix_checksum(&mut bytes);
                let packet = bench.packet_via(&bytes, &Bench::forward_mtu(1, 1400));
                bench.process(&mut node, Packet { reason, ..packet });
                bench.context.pool.free(packet.frame.offset);
                let made = bench.spawned();
                made.iter().for_each(|(_, made)| bench.context.pool.free(made.frame.offset));
                made.len()
            };
            let flood: usize = (0..1000).map(|_| answered(&mut bench, 9)).sum();
            assert!((26..40).contains(&flood), "{reason:?} {flood}");
            let others: usize = (20..60).map(|host| answered(&mut bench, host)).sum();
            // Some may be of the flood's group.
            assert!(others >= 36, "{reason:?} {others} of 40");
        }
    }

    /// Source address of the message to a sender whose packets arrive on port 0.
    fn speaker(bench: &mut Bench, sender: [u8; 4]) -> (Edge, Option<Ipv4Addr>) {
        let mut bytes = frame4(MAC_A, 1, &[7; 100]);
        bytes[26..30].copy_from_slice(&sender);
        fix_checksum(&mut bytes);
        let packet = expired(bench, &bytes);
        let (edge, _) = bench.process(&mut Icmp4Error::new(TokenBucket::new(1000, 50)), packet);
        let made = bench.spawned().first().map(|(_, made)| *made);
        let bytes = bench.context.pool.memory();
        let source =
            made.map(|it| Ipv4Packet::parse(it.network_bytes(bytes)).unwrap().header.source.get());
        (edge, source.map(Ipv4Addr::from))
    }

    #[test]
    fn an_ipv4_message_comes_from_the_interface_that_it_leaves_by() {
        let mut bench = Bench::new();
        bench.routes.route(net("10.1.0.0/16"), &Bench::forward(1)).unwrap();
        bench.routes.route(net("10.2.0.0/16"), &Bench::forward_vlan(0, 7)).unwrap();
        bench.routes.publish().unwrap();
        for (sender, own) in [
            ([192, 0, 2, 9], [192, 0, 2, 1]),
            ([10, 1, 2, 3], [198, 51, 100, 1]),
            ([10, 2, 2, 3], [192, 0, 7, 1]),
            // There is no route back, so the ingress interface gives the address.
            ([10, 3, 2, 3], [192, 0, 2, 1]),
        ] {
            assert_eq!(speaker(&mut bench, sender), (DROP, Some(own.into())), "{sender:?}");
        }
    }

    #[test]
    fn an_ipv6_message_comes_from_the_interface_that_the_packet_came_in_by() {
        let mut bench = Bench::new();
        bench.routes.route(net("2001:db8:9::/48"), &Bench::forward(1)).unwrap();
        bench.routes.publish().unwrap();
        let mut bytes = frame6(MAC_A, 1, &[7; 100]);
        bytes[22..38].copy_from_slice(&"2001:db8:9::9".parse::<Ipv6Addr>().unwrap().octets());
        let packet = expired(&mut bench, &bytes);
        bench.process(&mut Icmp6Error::new(TokenBucket::new(1000, 50)), packet);
        let made = bench.spawned()[0].1;
        let bytes = made.network_bytes(bench.context.pool.memory());
        assert_eq!(bytes[8..24], "2001:db8:1::1".parse::<Ipv6Addr>().unwrap().octets());
    }

    /// The kernel itself would choose an address for the device by which it gets the packet.
    #[test]
    fn an_ipv6_message_to_a_sender_whom_only_the_kernel_reaches_is_made_here() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses([net("2001:db8:1::1/64")]);
        for prefix in ["2001:db8:9::/48", "2001:db8:1::1/128"] {
            bench.routes.route(net(prefix), &NextHop::Punt).unwrap();
        }
        bench.routes.publish().unwrap();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        for (sender, edge, made) in [("2001:db8:9::9", DROP, 1), ("2001:db8:1::1", PUNT, 0)] {
            let mut bytes = frame6(MAC_A, 1, &[7; 100]);
            bytes[22..38].copy_from_slice(&sender.parse::<Ipv6Addr>().unwrap().octets());
            let packet = expired(&mut bench, &bytes);
            assert_eq!(bench.process(&mut node, packet).0, edge, "{sender}");
            assert_eq!(bench.spawned().len(), made, "{sender}");
        }
    }

    #[test]
    fn a_sender_whom_only_the_kernel_reaches_is_the_kernels_to_tell() {
        let mut bench = Bench::new();
        bench.routes.route(net("10.1.0.0/16"), &NextHop::Punt).unwrap();
        bench.routes.publish().unwrap();
        assert_eq!(speaker(&mut bench, [10, 1, 2, 3]), (PUNT, None));
        assert_eq!(bench.context.counters.snapshot().generated, 0);
        // A packet that came encrypted is not punted.
        let mut bytes = frame4(MAC_A, 1, &[7; 100]);
        bytes[26..30].copy_from_slice(&[10, 1, 2, 3]);
        fix_checksum(&mut bytes);
        let packet = expired(&mut bench, &bytes);
        let packet = Packet { protection: Protection::Decrypted, ..packet };
        let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
        assert_eq!(bench.process(&mut node, packet).0, DROP);
        assert_eq!(bench.spawned()[0].1.protection, Protection::Confidential);
    }
}
