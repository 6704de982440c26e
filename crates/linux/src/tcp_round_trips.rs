//! Round trips of TCP connections, as the kernel measures them for its own retransmissions: by
//! `NETLINK_SOCK_DIAG` (sock_diag(7)), `struct tcp_info` of linux/tcp.h.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_INFO: u16 = 2;
/// As a bit of `idiag_ext`.
const WANT_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
const TCP_ESTABLISHED: u32 = 1;
/// Bytes of `struct nlmsghdr`, `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// Of `idiag_sport` and `idiag_cookie` in a request, and of the cookie in a message.
const REQUEST_PORT: usize = 8;
const REQUEST_COOKIE: usize = REQUEST_PORT + 40;
const MESSAGE_COOKIE: usize = 4 + 40;
/// Of `tcpi_rtt` and `tcpi_delivered` in `struct tcp_info`; the latter since Linux 4.18.
const RTT: usize = 68;
const DELIVERED: usize = 192;

/// What is known of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Names the connection as long as it lives.
    pub cookie: u64,
    /// Smoothed round trip in microseconds (RFC 6298, SRTT: each sample counts an eighth); 0
    /// before the first.
    pub smoothed_micros: u32,
    /// Segments that the other end has acknowledged.
    pub delivered: u32,
}

/// Asks for them.
pub struct TcpRoundTrips {
    socket: Socket,
    sequence: u32,
}

impl TcpRoundTrips {
    /// Of this thread's network namespace.
    ///
    /// # Errors
    /// From the kernel: EPROTONOSUPPORT where it has no `inet_diag`.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let receive = rustix::net::sockopt::Timeout::Recv;
        let patience = Some(Duration::from_secs(1));
        rustix::net::sockopt::set_socket_timeout(socket.as_fd(), receive, patience)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Adds the established connections to this local port, over IPv4 and IPv6, at most so many.
    ///
    /// # Errors
    /// From the kernel.
    pub fn add_to(&mut self, port: u16, most: usize, found: &mut Vec<RoundTrip>) -> io::Result<()> {
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            self.sequence = self.sequence.wrapping_add(1);
            self.socket.send(&request(family, port, self.sequence), 0)?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                let length = match self.socket.recv(&mut &mut buffer[..], 0) {
                    Err(failure) if failure.kind() == io::ErrorKind::Interrupted => continue,
                    other => other?.min(buffer.len()),
                };
                // What is beyond the limit is read all the same: the kernel sends it.
                match take(&buffer[..length], self.sequence, most, found) {
                    Some(0) => break,
                    Some(code) => return Err(io::Error::from_raw_os_error(code)),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn request(family: u8, port: u16, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&DUMP.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[family, libc::IPPROTO_TCP as u8, WANT_INFO, 0]);
    bytes.extend_from_slice(&(1_u32 << TCP_ESTABLISHED).to_ne_bytes());
    bytes.resize(HEADER + REQUEST, 0);
    bytes[HEADER + REQUEST_PORT..][..2].copy_from_slice(&port.to_be_bytes());
    // `INET_DIAG_NOCOOKIE`.
    bytes[HEADER + REQUEST_COOKIE..].fill(0xff);
    bytes
}

/// Takes the messages of a datagram that answer `sequence`; gives the error number when the list
/// ends, 0 for none.
fn take(mut bytes: &[u8], sequence: u32, most: usize, found: &mut Vec<RoundTrip>) -> Option<i32> {
    loop {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let message = bytes.get(..length).filter(|_| length >= HEADER)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        if u32::from_ne_bytes(*message.get(8..)?.first_chunk()?) != sequence {
            continue;
        }
        if matches!(kind, NLMSG_ERROR | NLMSG_DONE) {
            let code = message.get(HEADER..).and_then(<[u8]>::first_chunk);
            let code = code.map_or(0, |code| i32::from_ne_bytes(*code));
            return Some(code.checked_neg().unwrap_or(libc::EPROTO));
        }
        if found.len() < most
            && let Some(one) = message.get(HEADER..).and_then(connection)
        {
            found.push(one);
        }
    }
}

fn connection(message: &[u8]) -> Option<RoundTrip> {
    let cookie = u64::from_ne_bytes(*message.get(MESSAGE_COOKIE..)?.first_chunk()?);
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?);
        let value = attributes.get(4..length)?;
        if kind == INET_DIAG_INFO {
            let number = |at: usize| Some(u32::from_ne_bytes(*value.get(at..)?.first_chunk()?));
            let (smoothed_micros, delivered) = (number(RTT)?, number(DELIVERED)?);
            return Some(RoundTrip { cookie, smoothed_micros, delivered });
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Over the loopback, of sockets of our own.
    #[test]
    fn connections_to_a_port_are_found_with_what_was_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut asked = match TcpRoundTrips::open() {
            Ok(asked) => asked,
            Err(error) => {
                println!("SKIPPED: no inet_diag: {error}");
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
                println!("SKIPPED: no inet_diag for TCP: {error}");
                return;
            }
        };
        // Of the two ends, the one whose own port it is.
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
        // The last segments may be on their way on a busy machine.
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
            take(&bytes, 0, most, &mut found);
            connection(&bytes);
            prop_assert!(found.len() <= most);
        }
    }
}
