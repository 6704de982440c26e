//! Round-trip times of TCP connections, as the kernel measures them for retransmissions:
//! `NETLINK_SOCK_DIAG` (sock_diag(7)), `struct tcp_info` of linux/tcp.h.

use crate::netlink::exchange::Exchange;
use crate::netlink::frame::{Request, attribute};
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::io;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// `INET_DIAG_INFO` as a bit of `idiag_ext`.
const WANT_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
const TCP_ESTABLISHED: u32 = 1;
const TCP_LISTEN: u32 = 10;
/// Bytes of `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// Offsets of `idiag_sport` and `idiag_cookie` in a request, and of the cookie in a message.
const REQUEST_PORT: usize = 8;
const REQUEST_COOKIE: usize = REQUEST_PORT + 40;
const MESSAGE_COOKIE: usize = 4 + 40;
/// The kernel puts at most 32 KiB into one datagram of a dump.
const BUFFER_BYTES: usize = 64 << 10;
/// Offsets of `tcpi_rtt` and `tcpi_delivered` in `struct tcp_info`; the latter since Linux 4.18.
const RTT: usize = 68;
const DELIVERED: usize = 192;

/// Round trip of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Identifies the connection as long as it lives.
    pub cookie: u64,
    /// Smoothed round trip in microseconds (RFC 6298, SRTT: each sample counts an eighth); 0
    /// before the first.
    pub smoothed_micros: u32,
    /// Segments that the other end has acknowledged.
    pub delivered: u32,
}

/// Query of round trips.
pub struct TcpRoundTrips(Exchange);

impl TcpRoundTrips {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// Errors of the kernel: EPROTONOSUPPORT if it has no `inet_diag`.
    pub fn open() -> io::Result<Self> {
        Exchange::open(NETLINK_SOCK_DIAG).map(Self)
    }

    /// Adds the established connections to this local port, over IPv4 and IPv6, at most `most`.
    ///
    /// # Errors
    /// From the kernel.
    pub fn add_to(&mut self, port: u16, most: usize, found: &mut Vec<RoundTrip>) -> io::Result<()> {
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            // Connections beyond the limit are read nevertheless: the kernel sends them.
            let request = request(family, port, TCP_ESTABLISHED);
            self.0.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
                take(frame.payload, most, found);
            })?;
        }
        Ok(())
    }

    /// Returns true if a socket listens on this local port, over IPv4 or IPv6.
    ///
    /// # Errors
    /// From the kernel.
    pub fn listens(&mut self, port: u16) -> io::Result<bool> {
        let mut listens = false;
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            let request = request(family, port, TCP_LISTEN);
            self.0.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
                listens |= frame.payload.len() >= MESSAGE;
            })?;
        }
        Ok(listens)
    }
}

/// Asks for the sockets of a local port in one state.
fn request(family: u8, port: u16, state: u32) -> Request {
    let mut body = [0; REQUEST];
    body[..4].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, WANT_INFO, 0]);
    body[4..8].copy_from_slice(&(1_u32 << state).to_ne_bytes());
    body[REQUEST_PORT..][..2].copy_from_slice(&port.to_be_bytes());
    // `INET_DIAG_NOCOOKIE`.
    body[REQUEST_COOKIE..].fill(0xff);
    let mut request = Request::new(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
    request.put(&body);
    request
}

/// Adds the connection of a message, if it has one and there is room.
fn take(message: &[u8], most: usize, found: &mut Vec<RoundTrip>) {
    if found.len() < most {
        found.extend(connection(message));
    }
}

fn connection(message: &[u8]) -> Option<RoundTrip> {
    let cookie = u64::from_ne_bytes(*message.get(MESSAGE_COOKIE..)?.first_chunk()?);
    let value = attribute(message.get(MESSAGE..)?, INET_DIAG_INFO)?;
    let number = |at: usize| Some(u32::from_ne_bytes(*value.get(at..)?.first_chunk()?));
    let (smoothed_micros, delivered) = (number(RTT)?, number(DELIVERED)?);
    Some(RoundTrip { cookie, smoothed_micros, delivered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::frame::frames;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// Uses this test's own sockets over the loopback.
    #[test]
    fn connections_to_a_port_are_found_with_acknowledged_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut asked = match TcpRoundTrips::open() {
            Ok(asked) => asked,
            Err(error) => {
                wattline_needs::machine(format_args!("no inet_diag: {error}"));
                return;
            }
        };
        let mut look = || {
            let mut found = Vec::new();
            asked.add_to(port, 100, &mut found).map(|()| found)
        };
        let before = match look() {
            Ok(before) => before,
            Err(error) => {
                wattline_needs::machine(format_args!("no inet_diag for TCP: {error}"));
                return;
            }
        };
        // The end that has the port as its own.
        let [before] = before[..] else { panic!("{before:?}") };
        for _ in 0..10 {
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            client.write_all(b"more").unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
        }
        let after = look().unwrap()[0];
        assert_eq!(after.cookie, before.cookie);
        assert!(after.delivered >= before.delivered + 9, "{before:?} {after:?}");
        assert!((1..1_000_000).contains(&after.smoothed_micros), "{after:?}");
        drop((client, server));
        // On a busy machine, the last segments may still be under way.
        let begun = std::time::Instant::now();
        while !look().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", look());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes: Vec<u8>, most in 0usize..4) {
            let mut found = Vec::new();
            frames(&bytes).for_each(|frame| take(frame.payload, most, &mut found));
            take(&bytes, most, &mut found);
            prop_assert!(found.len() <= most);
        }
    }
}
