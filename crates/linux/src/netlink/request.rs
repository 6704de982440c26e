//! Requests to the kernel.

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

/// Room for the kernel's answers to a batch of requests, each about 1 KiB.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Sends requests to the kernel.
pub struct Requester {
    socket: Socket,
}

impl Requester {
    /// Opens a socket.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::open(Duration::from_secs(1))?;
        // Without groups: this only makes reading answers non-blocking.
        socket.subscribe(&[], RECEIVE_BUFFER_BYTES)?;
        Ok(Self { socket })
    }

    /// Reports to the kernel that neighbours, given as link and address, are in use (NTF_USE). The
    /// kernel resolves unknown ones by ARP or neighbour discovery, and confirms those from which it
    /// has not heard for a while. It would otherwise forget the neighbours, since packets that are
    /// forwarded here never pass the kernel. The answers come as events.
    ///
    /// Returns the indexes of the neighbours for which the kernel's table has no room
    /// (`gc_thresh3`).
    ///
    /// # Errors
    /// When the requests cannot be sent. Their success shows in the events.
    pub fn use_neighbours(&mut self, neighbours: &[(u32, IpAddr)]) -> io::Result<Vec<usize>> {
        let requests = neighbours.iter().map(|(link, address)| {
            let mut message = neighbour(*link, *address);
            message.header.flags = NeighbourFlags::Use;
            RouteNetlinkMessage::NewNeighbour(message)
        });
        let first = self.socket.send_all(requests, NLM_F_REQUEST | NLM_F_CREATE)?;
        let mut without_room = Vec::new();
        self.refusals(|sequence, error| {
            let place = sequence.wrapping_sub(first) as usize;
            if error.raw_os_error() == Some(libc::ENOBUFS) && place < neighbours.len() {
                without_room.push(place);
            } else {
                tracing::debug!("the kernel refused to resolve a neighbour: {error}");
            }
        });
        Ok(without_room)
    }

    /// Has the kernel forget neighbours.
    ///
    /// # Errors
    /// When the requests cannot be sent.
    pub fn forget_neighbours(&mut self, neighbours: &[(u32, IpAddr)]) -> io::Result<()> {
        let requests = neighbours
            .iter()
            .map(|(link, address)| RouteNetlinkMessage::DelNeighbour(neighbour(*link, *address)));
        self.socket.send_all(requests, NLM_F_REQUEST)?;
        // Neighbours that are gone already are refused.
        self.refusals(|_, _| {});
        Ok(())
    }

    /// Reads the kernel's answers, with the sequence numbers of the requests. The kernel answers
    /// before `send` returns, and only requests that it refuses.
    fn refusals(&mut self, mut each: impl FnMut(u32, io::Error)) {
        loop {
            let received = self.socket.receive(|received| {
                if let Received::Message(message) = received
                    && let Some(error) = error_of(&message)
                {
                    each(message.header.sequence_number, error);
                }
            });
            match received {
                Ok(()) => {}
                // Some answers were lost; others follow.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

fn neighbour(link: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = link;
    message.header.state = NeighbourState::None;
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
    message
}

/// Adds an address with the scope of this host to a link: nothing is sent from it, and it adds no
/// prefix.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_list_of_neighbours_is_no_request() {
        let mut requester = Requester::new().unwrap();
        assert!(requester.use_neighbours(&[]).unwrap().is_empty());
        requester.forget_neighbours(&[]).unwrap();
    }
}
