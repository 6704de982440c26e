//! What the kernel is asked to do.

use super::socket::{Received, Socket, error_of};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REQUEST};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Sends requests to the kernel.
pub struct Requester {
    socket: Socket,
}

impl Requester {
    /// Opens a socket for them.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::open(Duration::from_secs(1))?;
        // Without groups: only so that reading answers does not block.
        socket.subscribe(&[], 1 << 16)?;
        Ok(Self { socket })
    }

    /// Tells the kernel that a neighbour is being used (NTF_USE): one that it does not know it
    /// resolves by ARP or neighbour discovery, one that it has not heard of for a while it
    /// asks again. Since packets that are forwarded here never pass the kernel, it would
    /// otherwise forget the neighbour. The answer comes as an event.
    ///
    /// # Errors
    /// When the request cannot be sent; whether it is followed shows in the events.
    pub fn use_neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.ifindex = link;
        message.header.state = NeighbourState::None;
        message.header.flags = NeighbourFlags::Use;
        let destination = match address {
            IpAddr::V4(address) => {
                message.header.family = AddressFamily::Inet;
                NeighbourAddress::Inet(address)
            }
            IpAddr::V6(address) => {
                message.header.family = AddressFamily::Inet6;
                NeighbourAddress::Inet6(address)
            }
        };
        message.attributes.push(NeighbourAttribute::Destination(destination));
        let request = RouteNetlinkMessage::NewNeighbour(message);
        self.socket.send(request, NLM_F_REQUEST | NLM_F_CREATE)?;
        self.log_refusals();
        Ok(())
    }

    /// The kernel answers only what it refuses (the link is down, the table is full).
    fn log_refusals(&mut self) {
        let log = |received: Received| {
            if let Received::Message(message) = received
                && let Some(error) = error_of(&message)
            {
                tracing::debug!("the kernel refused to resolve a neighbour: {error}");
            }
        };
        while self.socket.receive(log).is_ok() {}
    }
}
