//! The kernel's own routing decision for a packet (RTM_GETROUTE with an ingress interface).

use super::exchange::Exchange;
use super::frame::{Request, attributes};
use super::value::number;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;
use std::net::IpAddr;

const RTM_GETROUTE: u16 = 26;
/// Length of `struct rtmsg`, and the place of the route's type in it.
const HEADER: usize = 12;
const TYPE: usize = 7;
const RTN_UNICAST: u8 = 1;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;

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
    /// prohibition, `EHOSTUNREACH` and `ENETUNREACH` where there is no route.
    Refused(i32),
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

    /// Returns the decision for a packet that enters by the link `ingress`.
    ///
    /// # Errors
    /// When the socket fails, or the addresses are of two families.
    pub fn ask(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        ingress: u32,
    ) -> io::Result<Decision> {
        let mut header = [0; HEADER];
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
        let mut decision = None;
        let answer = self.exchange.ask(request, &mut self.buffer, |frame| {
            decision = read(frame.payload);
        });
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
            // Behind the family of the address.
            RTA_VIA => gateway = address(content.get(2..)?),
            _ => {}
        }
    }
    Some(Decision::Forward { link: link?, gateway })
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
