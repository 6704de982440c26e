//! The kernel's own routing decision for a packet (RTM_GETROUTE with an ingress interface).

use super::exchange::Exchange;
use super::frame::{Request, attributes};
use super::value::number;
use ipnet::IpNet;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;
use std::net::IpAddr;

const RTM_GETROUTE: u16 = 26;
/// Length of `struct rtmsg`, and the offset of the route's type.
const HEADER: usize = 12;
const TYPE: usize = 7;
const RTN_UNICAST: u8 = 1;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
/// RTM_F_FIB_MATCH: the answer is the route with all its next hops.
const FIB_MATCH: u32 = 0x2000;
/// Length of `struct rtnexthop`.
const RTNEXTHOP: usize = 8;
const RTNH_F_DEAD: u8 = 1;

const BUFFER_BYTES: usize = 32 << 10;

/// The kernel's treatment of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Sent out of a link, to a gateway or to the destination itself.
    Forward {
        /// The link.
        link: u32,
        /// The gateway; `None` if the destination is the neighbour.
        gateway: Option<IpAddr>,
    },
    /// Delivered to this machine, or to one of its groups.
    Local,
    /// Not forwarded, with the error number of the route: `EINVAL` for a blackhole, `EACCES` for a
    /// prohibition, `EHOSTUNREACH` and `ENETUNREACH` without a route.
    Refused(i32),
}

/// A route of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRoute {
    /// Its prefix.
    pub prefix: IpNet,
    /// Its usable next hops, as link and gateway.
    pub hops: Vec<(u32, Option<IpAddr>)>,
}

/// Asks the kernel for its decisions.
pub struct DecisionQuery {
    exchange: Exchange,
    buffer: Vec<u8>,
}

impl DecisionQuery {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        Ok(Self { exchange: Exchange::open(NETLINK_ROUTE)?, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Returns the decision for a packet that arrives on the link `ingress`.
    ///
    /// # Errors
    /// When the socket fails, or the addresses have different families.
    pub fn ask(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        ingress: u32,
    ) -> io::Result<Decision> {
        let mut decision = None;
        let answer =
            self.exchange(source, destination, ingress, 0, |payload| decision = read(payload));
        match (answer, decision) {
            (Ok(()), Some(decision)) => Ok(decision),
            (Ok(()), None) => Err(io::ErrorKind::InvalidData.into()),
            (Err(error), _) => match error.raw_os_error() {
                Some(
                    code @ (libc::EINVAL
                    | libc::EACCES
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH
                    | libc::EXDEV),
                ) => Ok(Decision::Refused(code)),
                _ => Err(error),
            },
        }
    }

    /// Returns the route that decides about such a packet; `None` without one.
    ///
    /// # Errors
    /// When the socket fails, or the addresses have different families.
    pub fn route(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        ingress: u32,
    ) -> io::Result<Option<MatchedRoute>> {
        let mut route = None;
        let answer = self.exchange(source, destination, ingress, FIB_MATCH, |payload| {
            route = read_route(payload, destination);
        });
        match answer {
            Err(error) if error.raw_os_error().is_none() => Err(error),
            _ => Ok(route),
        }
    }

    fn exchange(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        ingress: u32,
        flags: u32,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut header = [0; HEADER];
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut request = Request::new(RTM_GETROUTE, 0);
        let addresses: [Vec<u8>; 2] = match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                header[0] = libc::AF_INET as u8;
                [from, to].map(|address| address.octets().to_vec())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                header[0] = libc::AF_INET6 as u8;
                [from, to].map(|address| address.octets().to_vec())
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        // The lengths of destination and source.
        (header[1], header[2]) = (addresses[1].len() as u8 * 8, addresses[0].len() as u8 * 8);
        request.put(&header);
        request.attribute(RTA_DST, &addresses[1]);
        request.attribute(RTA_SRC, &addresses[0]);
        request.attribute(RTA_IIF, &ingress.to_ne_bytes());
        self.exchange.ask(request, &mut self.buffer, |frame| each(frame.payload))
    }
}

fn read(payload: &[u8]) -> Option<Decision> {
    if *payload.get(TYPE)? != RTN_UNICAST {
        return Some(Decision::Local);
    }
    let (mut link, mut gateway) = (None, None);
    for (kind, content) in attributes(payload.get(HEADER..)?) {
        match kind {
            RTA_OIF => link = number(content),
            RTA_GATEWAY => gateway = address(content),
            // After the family of the address.
            RTA_VIA => gateway = address(content.get(2..)?),
            _ => {}
        }
    }
    Some(Decision::Forward { link: link?, gateway })
}

fn read_route(payload: &[u8], destination: IpAddr) -> Option<MatchedRoute> {
    // The kernel omits the destination of a default route.
    let mut network = if destination.is_ipv4() { [0; 4].into() } else { IpAddr::from([0; 16]) };
    let mut hops = Vec::new();
    let (mut link, mut gateway) = (None, None);
    for (kind, content) in attributes(payload.get(HEADER..)?) {
        match kind {
            RTA_DST => network = address(content)?,
            RTA_OIF => link = number(content),
            RTA_GATEWAY => gateway = address(content),
            RTA_VIA => gateway = address(content.get(2..)?),
            RTA_MULTIPATH => hops = read_hops(content)?,
            _ => {}
        }
    }
    if hops.is_empty() {
        hops.extend(link.map(|link| (link, gateway)));
    }
    let prefix = IpNet::new(network, *payload.get(1)?).ok()?.trunc();
    Some(MatchedRoute { prefix, hops })
}

/// Reads an array of `struct rtnexthop`, each followed by its attributes. Next hops that the kernel
/// does not use are omitted.
fn read_hops(mut content: &[u8]) -> Option<Vec<(u32, Option<IpAddr>)>> {
    let mut hops = Vec::new();
    while content.len() >= RTNEXTHOP {
        let length = usize::from(u16::from_ne_bytes(*content.first_chunk()?)).max(RTNEXTHOP);
        let (flags, link) = (content[2], number(content.get(4..)?)?);
        let mut gateway = None;
        for (kind, value) in attributes(content.get(RTNEXTHOP..length)?) {
            match kind {
                RTA_GATEWAY => gateway = address(value),
                RTA_VIA => gateway = address(value.get(2..)?),
                _ => {}
            }
        }
        if flags & RTNH_F_DEAD == 0 {
            hops.push((link, gateway));
        }
        content = content.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(hops)
}

fn address(content: &[u8]) -> Option<IpAddr> {
    match content.len() {
        4 => content.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => content.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::interface_index;

    #[test]
    fn martian_source_is_refused() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let loopback = interface_index("lo").unwrap();
        let decision = DecisionQuery::new().unwrap().ask(own, own, loopback).unwrap();
        assert_eq!(decision, Decision::Refused(libc::EINVAL));
    }
}
