//! What the kernel is asked to do.

use super::socket::{Received, Socket, error_of};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
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

/// Gives a link an address of this host alone: nothing is sent from it, and no prefix comes with it.
///
/// # Errors
/// When the kernel refuses.
pub fn add_host_address(link: u32, address: Ipv4Addr) -> io::Result<()> {
    let mut socket = Socket::open(Duration::from_secs(1))?;
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = 32;
    message.header.index = link;
    message.header.scope = AddressScope::Host;
    message.attributes.push(AddressAttribute::Local(address.into()));
    let request = RouteNetlinkMessage::NewAddress(message);
    socket.send(request, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK)?;
    let mut answer = Ok(());
    socket.receive(|received| {
        if let Received::Message(message) = received
            && let NetlinkPayload::Error(error) = &message.payload
            && error.code.is_some()
        {
            answer = Err(error.to_io());
        }
    })?;
    answer
}
