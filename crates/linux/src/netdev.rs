//! The generic netlink family `netdev`, which knows network cards beyond what rtnetlink tells
//! (Documentation/netlink/specs/netdev.yaml). Linux 6.3 or newer.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// `GENL_ID_CTRL`: the family that knows the numbers of the others.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// `NLM_F_ROOT | NLM_F_MATCH`.
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// More answers than any interface has queues: a list that does not end is not read for ever.
const MOST_ANSWERS: usize = 16_384;
/// Bytes of `struct nlmsghdr`, and of that with `struct genlmsghdr`.
const HEADER: usize = 16;
const HEADERS: usize = 20;

/// A socket, and the number that the family has in this kernel.
pub(crate) struct Family {
    socket: Socket,
    number: u16,
    sequence: u32,
}

impl Family {
    /// Opens the family.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let receive = rustix::net::sockopt::Timeout::Recv;
        let patience = Some(Duration::from_secs(1));
        rustix::net::sockopt::set_socket_timeout(socket.as_fd(), receive, patience)?;
        let mut family = Self { socket, number: CONTROL, sequence: 0 };
        let mut name = Vec::new();
        put(&mut name, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answer = family.exchange(CTRL_CMD_GETFAMILY, &name).map_err(|failure| {
            // No such family: the kernel is older than 6.3.
            if failure.raw_os_error() == Some(libc::ENOENT) {
                error(libc::EOPNOTSUPP)
            } else {
                failure
            }
        })?;
        let number = attribute(&answer, CTRL_ATTR_FAMILY_ID).and_then(|bytes| bytes.first_chunk());
        family.number = u16::from_ne_bytes(*number.ok_or_else(|| error(libc::EPROTO))?);
        Ok(family)
    }

    /// The number of an interface of this thread's network namespace.
    pub(crate) fn interface_index(&self, interface: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.socket, interface)?)
    }

    /// Sends a request with attributes of 32 bits and gives those of the answer, as they came.
    pub(crate) fn ask(&mut self, command: u8, attributes: &[(u16, u32)]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        attributes.iter().for_each(|(kind, value)| put(&mut bytes, *kind, &value.to_ne_bytes()));
        self.exchange(command, &bytes)
    }

    /// Asks for a list, and gives the attributes of each answer.
    pub(crate) fn list(
        &mut self,
        command: u8,
        attributes: &[(u16, u32)],
    ) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        attributes.iter().for_each(|(kind, value)| put(&mut bytes, *kind, &value.to_ne_bytes()));
        self.send(command, NLM_F_REQUEST | NLM_F_DUMP, &bytes)?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 32 << 10];
        loop {
            let length = self.receive(&mut buffer)?;
            match parts(&buffer[..length], self.sequence, &mut answers) {
                Some(0) => return Ok(answers),
                Some(code) => return Err(error(code)),
                None if answers.len() > MOST_ANSWERS => return Err(error(libc::EPROTO)),
                None => {}
            }
        }
    }

    /// Sends a request with its attributes and gives those of the answer, none for a bare
    /// acknowledgement.
    fn exchange(&mut self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        self.send(command, NLM_F_REQUEST | NLM_F_ACK, attributes)?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0; 8192];
            let length = self.receive(&mut buffer)?;
            match part(&buffer[..length], self.sequence, &mut answer) {
                Some(0) => return Ok(answer),
                Some(code) => return Err(error(code)),
                None => {}
            }
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.recv(&mut &mut *buffer, 0) {
                Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
                other => return Ok(other?.min(buffer.len())),
            }
        }
    }

    fn send(&mut self, command: u8, flags: u16, attributes: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let mut request = Vec::with_capacity(HEADERS + attributes.len());
        request.extend_from_slice(&((HEADERS + attributes.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&self.number.to_ne_bytes());
        request.extend_from_slice(&flags.to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(&[command, 1, 0, 0]);
        request.extend_from_slice(attributes);
        self.socket.send(&request, 0).map(|_| ())
    }
}

/// Takes the messages of a datagram that answer `sequence`; gives the error number when the
/// acknowledgement is among them, 0 for none.
fn part(mut bytes: &[u8], sequence: u32, answer: &mut Vec<u8>) -> Option<i32> {
    loop {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let message = bytes.get(..length).filter(|_| length >= HEADER)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        if u32::from_ne_bytes(*message.get(8..)?.first_chunk()?) != sequence {
            continue;
        }
        if kind == NLMSG_ERROR {
            let code = i32::from_ne_bytes(*message.get(HEADER..)?.first_chunk()?);
            return Some(code.checked_neg().unwrap_or(libc::EPROTO));
        }
        answer.clear();
        answer.extend_from_slice(message.get(HEADERS..).unwrap_or_default());
    }
}

/// Takes the messages of a datagram that answer the question for a list `sequence`; gives the error
/// number when the list ends, 0 for none.
fn parts(mut bytes: &[u8], sequence: u32, answers: &mut Vec<Vec<u8>>) -> Option<i32> {
    loop {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let message = bytes.get(..length).filter(|_| length >= HEADER)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        if u32::from_ne_bytes(*message.get(8..)?.first_chunk()?) != sequence {
            continue;
        }
        match kind {
            NLMSG_ERROR | NLMSG_DONE => {
                let code = i32::from_ne_bytes(*message.get(HEADER..)?.first_chunk()?);
                return Some(code.checked_neg().unwrap_or(libc::EPROTO));
            }
            _ => answers.push(message.get(HEADERS..).unwrap_or_default().to_vec()),
        }
    }
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The value of an attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// An attribute that is a number of 4 or 8 bytes, as the kernel sends `uint`.
pub(crate) fn number(bytes: &[u8], wanted: u16) -> Option<u64> {
    let value = attribute(bytes, wanted)?;
    match value.len() {
        4 => Some(u64::from(u32::from_ne_bytes(*value.first_chunk()?))),
        8 => Some(u64::from_ne_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

/// The error of this number.
pub(crate) fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_found_behind_padding() {
        let mut bytes = Vec::new();
        put(&mut bytes, 2, b"abc");
        put(&mut bytes, 5, &7u32.to_ne_bytes());
        put(&mut bytes, 6, &8u64.to_ne_bytes());
        assert_eq!((number(&bytes, 5), number(&bytes, 6)), (Some(7), Some(8)));
        assert_eq!((number(&bytes, 2), number(&bytes, 9)), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_end_or_panic(bytes: Vec<u8>, kind: u16) {
            let mut answer = Vec::new();
            part(&bytes, 0, &mut answer);
            parts(&bytes, 0, &mut Vec::new());
            number(&answer, kind);
            number(&bytes, kind);
        }
    }
}
