//! Dumps of any kind of netlink, message by message.

use super::super::socket::parts;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// As much as the kernel puts into one datagram of a dump, and some.
const BUFFER_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(2);
/// Datagrams of a dump at most: a kernel that goes on for ever is not followed.
const MOST_DATAGRAMS: usize = 1 << 14;

/// Asks for everything by a request of type `kind` with this body; calls `each` for the bodies of
/// the answers.
///
/// # Errors
/// What the kernel answers, or that it does not.
pub(super) fn dump(
    protocol: isize,
    kind: u16,
    body: &[u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let receive = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(socket.as_fd(), receive, Some(PATIENCE))?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    socket.send(&request, 0)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    for _ in 0..MOST_DATAGRAMS {
        let length = match socket.recv(&mut &mut buffer[..], 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer"));
            }
            other => other?,
        };
        for message in parts(buffer.get(..length).unwrap_or(&buffer)) {
            let kind =
                message.get(4..).and_then(<[u8]>::first_chunk).map(|it| u16::from_ne_bytes(*it));
            let code = message.get(HEADER..).and_then(<[u8]>::first_chunk);
            let code = code.map_or(0, |it| i32::from_ne_bytes(*it));
            match kind {
                Some(NLMSG_ERROR | NLMSG_DONE) if code < 0 => {
                    return Err(io::Error::from_raw_os_error(-code));
                }
                Some(NLMSG_ERROR | NLMSG_DONE) => return Ok(()),
                _ => each(message.get(HEADER..).unwrap_or_default()),
            }
        }
    }
    Err(io::Error::other("the kernel's answer has no end"))
}
