//! A netlink socket: sends requests, receives messages and splits them.

use super::frame::{Request, frames};
use super::{netconf, nexthop};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket as RawSocket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel fills dumps into buffers of up to 32 KiB (netlink_dump()); one message of a
/// multipath route can be longer than that.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) type Message = NetlinkMessage<RouteNetlinkMessage>;

/// An rtnetlink socket with its receive buffer.
pub(super) struct Socket {
    socket: RawSocket,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Socket {
    /// Opens a socket without subscriptions. A read that would wait longer than `timeout` fails
    /// with [`io::ErrorKind::WouldBlock`].
    pub fn open(timeout: std::time::Duration) -> io::Result<Self> {
        let mut socket = RawSocket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let socket = Self { socket, buffer: vec![0; BUFFER_BYTES], sequence: 0 };
        let receive = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(socket.descriptor(), receive, Some(timeout))?;
        Ok(socket)
    }

    /// Subscribes to the notifications of `groups` (RTNLGRP_*), and makes the socket non-blocking.
    pub fn subscribe(&mut self, groups: &[u32], buffer_bytes: usize) -> io::Result<()> {
        // Beyond net.core.rmem_max only with CAP_NET_ADMIN; without it, overruns come sooner.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(self.descriptor(), buffer_bytes)
            .is_err()
        {
            rustix::net::sockopt::set_socket_recv_buffer_size(self.descriptor(), buffer_bytes)?;
        }
        for group in groups {
            self.socket.add_membership(*group)?;
        }
        self.socket.set_non_blocking(true)
    }

    /// Makes the kernel check requests strictly, and so honour filters of dumps.
    pub fn check_strictly(&mut self) -> io::Result<()> {
        self.socket.set_netlink_get_strict_chk(true)
    }

    /// Returns the descriptor for poll(2).
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request with the given flags; returns its sequence number.
    pub fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        self.send_all(std::iter::once(request), flags)
    }

    /// Sends requests with the given flags in one datagram. Returns the sequence number of the
    /// first; the others follow.
    pub fn send_all(
        &mut self,
        requests: impl Iterator<Item = RouteNetlinkMessage>,
        flags: u16,
    ) -> io::Result<u32> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            let mut message = NetlinkMessage::from(request);
            message.header.flags = flags;
            message.header.sequence_number = self.sequence;
            message.finalize();
            let start = bytes.len();
            // Each message begins at a multiple of four bytes (NLMSG_ALIGN).
            bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(&mut bytes[start..]);
        }
        // The kernel refuses an empty message.
        if !bytes.is_empty() {
            self.socket.send(&bytes, 0)?;
        }
        Ok(first)
    }

    /// Sends a request that the decoding library does not know: a message of this type with this
    /// body.
    pub fn ask(&mut self, kind: u16, body: &[u8], flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Request::new(kind, flags);
        request.put(body);
        self.socket.send(&request.finish(self.sequence), 0)?;
        Ok(())
    }

    /// Receives one datagram and calls `each` for its messages.
    pub fn receive(&mut self, mut each: impl FnMut(Received)) -> io::Result<()> {
        let length = loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        for frame in frames(&self.buffer[..length.min(self.buffer.len())]) {
            if nexthop::is_about(frame.kind) {
                each(match nexthop::change(frame.whole) {
                    Some(change) => Received::Nexthop { change, flags: frame.flags },
                    None => Received::Unreadable("a next hop without a number".to_owned()),
                });
                continue;
            }
            if netconf::is_about(frame.kind) {
                match netconf::read(frame.payload) {
                    Some(parameters) => each(Received::Netconf(parameters)),
                    None => each(Received::Unreadable("parameters of no link".to_owned())),
                }
                continue;
            }
            match Message::deserialize(frame.whole) {
                Ok(message) => each(Received::Message(message)),
                Err(error) => each(Received::Unreadable(error.to_string())),
            }
        }
        Ok(())
    }
}

/// A received message.
pub(super) enum Received {
    /// A message that was understood.
    Message(Message),
    /// A change of a next-hop object, and the flags of the header.
    Nexthop { change: nexthop::Change, flags: u16 },
    /// Parameters of links.
    Netconf(netconf::Netconf),
    /// Message that the decoding library does not know.
    Unreadable(String),
}

/// Returns the error that a message carries, if any.
pub(super) fn error_of(message: &Message) -> Option<io::Error> {
    match &message.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Some(error.to_io()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::super::model::{Event, Placement};
    use super::*;
    use netlink_packet_route::AddressFamily;
    use netlink_packet_route::address::{AddressAttribute, AddressMessage};
    use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
    use netlink_packet_route::neighbour::{
        NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
    };
    use netlink_packet_route::route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
        RouteType,
    };
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// Messages as the kernel sends them, one after the other.
    fn honest() -> Vec<u8> {
        let address: RouteAddress = RouteAddress::Inet([192, 0, 2, 2].into());
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.kind = RouteType::Unicast;
        route.header.destination_prefix_length = 24;
        let way = |index| {
            let mut way = RouteNextHop::default();
            way.interface_index = index;
            way.attributes = vec![RouteAttribute::Gateway(address.clone())];
            way
        };
        route.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet([203, 0, 113, 0].into())),
            RouteAttribute::Priority(7),
            RouteAttribute::Metrics(vec![RouteMetric::Mtu(1300)]),
            RouteAttribute::MultiPath(vec![way(1), way(2)]),
        ];
        let mut link = LinkMessage::default();
        link.header.index = 1;
        link.header.link_layer_type = LinkLayerType::Ether;
        link.attributes = vec![
            LinkAttribute::IfName("eth0".to_owned()),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]),
            LinkAttribute::Mtu(1500),
        ];
        let mut neighbour = NeighbourMessage::default();
        neighbour.header.family = AddressFamily::Inet;
        neighbour.header.ifindex = 1;
        neighbour.header.state = NeighbourState::Reachable;
        neighbour.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet([192, 0, 2, 2].into())),
            NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 2]),
        ];
        let mut own = AddressMessage::default();
        own.header.family = AddressFamily::Inet;
        own.header.prefix_len = 24;
        own.attributes = vec![AddressAttribute::Local(IpAddr::from([192, 0, 2, 1]))];
        let mut bytes = Vec::new();
        for message in [
            RouteNetlinkMessage::NewRoute(route),
            RouteNetlinkMessage::NewLink(link),
            RouteNetlinkMessage::NewNeighbour(neighbour),
            RouteNetlinkMessage::NewAddress(own),
        ] {
            let mut message = NetlinkMessage::from(message);
            message.finalize();
            let start = bytes.len();
            bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(&mut bytes[start..]);
        }
        bytes
    }

    fn events(bytes: &[u8]) -> Vec<Event> {
        let event = |whole: &[u8]| match Message::deserialize(whole).ok()?.payload {
            NetlinkPayload::InnerMessage(inner) => decode::event(&inner, Placement::Last),
            _ => None,
        };
        frames(bytes).filter_map(|frame| event(frame.whole)).collect()
    }

    #[test]
    fn honest_messages_are_understood() {
        let events = events(&honest());
        let [Event::Route { route, .. }, Event::Link(_), Event::Neighbour(_), Event::Address(_)] =
            events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!(route.prefix, "203.0.113.0/24".parse().unwrap());
        assert!(route.hops.iter().all(|hop| hop.mtu == Some(1300)) && route.hops.len() == 2);
    }

    proptest! {
        #[test]
        fn changed_messages_are_understood_or_passed_over(
            changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = honest();
            for (at, value) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            let whole = bytes.len();
            for event in events(&bytes).into_iter().chain(events(&bytes[..cut.index(whole)])) {
                if let Event::Route { route, .. } = event {
                    prop_assert_eq!(route.prefix, route.prefix.trunc());
                    prop_assert!(route.hops.iter().all(|hop| hop.mtu != Some(0)));
                }
            }
        }

        /// Arbitrary bytes must not cause a panic.
        #[test]
        fn any_bytes_are_understood_or_passed_over(bytes: Vec<u8>) {
            events(&bytes);
        }
    }
}
