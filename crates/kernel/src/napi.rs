//! Settings of single NAPI instances, which poll a queue's interrupt, by the generic netlink
//! family `netdev` (Documentation/netlink/specs/netdev.yaml; Documentation/networking/napi.rst).
//!
//! An instance is asked for by interface and receive queue: its number changes whenever the
//! interface goes down and up. Linux 6.13 or newer.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::Duration;

/// `GENL_ID_CTRL`: the family that knows the numbers of the others.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const RECEIVE: u32 = 0;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`, and of that with `struct genlmsghdr`.
const HEADER: usize = 16;
const HEADERS: usize = 20;

/// A setting of a NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Napi {
    /// Polls in a row that may find nothing before the interrupt is enabled again.
    DeferHardIrqs,
    /// Nanoseconds after which a deferred instance is polled by a timer.
    GroFlushTimeout,
    /// Nanoseconds for which an application that polls keeps the interrupt off.
    IrqSuspendTimeout,
}

impl Napi {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::DeferHardIrqs, Self::GroFlushTimeout, Self::IrqSuspendTimeout];

    /// Its attribute, `NETDEV_A_NAPI_*`.
    fn attribute(self) -> u16 {
        match self {
            Self::DeferHardIrqs => 5,
            Self::GroFlushTimeout => 6,
            Self::IrqSuspendTimeout => 7,
        }
    }
}

/// One setting of the NAPI instance that serves a receive queue.
///
/// # Errors
/// ENODEV without such an interface, ENOENT where the queue has no instance now (the interface
/// is down), EOPNOTSUPP where the kernel or the driver does not say.
pub fn get(interface: &str, queue: u32, setting: Napi) -> io::Result<u64> {
    let mut family = Family::open()?;
    let id = family.instance(interface, queue)?;
    let answer = family.ask(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_ID, id)])?;
    number(&answer, setting.attribute()).ok_or_else(|| error(libc::EOPNOTSUPP))
}

/// The interrupt of the NAPI instance that serves a receive queue.
///
/// # Errors
/// As [`get`]; Linux 6.8 or newer, and a driver that links instances to interrupts.
pub fn interrupt(interface: &str, queue: u32) -> io::Result<u32> {
    let mut family = Family::open()?;
    let id = family.instance(interface, queue)?;
    let answer = family.ask(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_ID, id)])?;
    let interrupt = number(&answer, NETDEV_A_NAPI_IRQ).ok_or_else(|| error(libc::EOPNOTSUPP))?;
    u32::try_from(interrupt).map_err(|_| error(libc::EPROTO))
}

/// Changes one setting and leaves the others as they are.
///
/// # Errors
/// As [`get`], EPERM without CAP_NET_ADMIN, ERANGE for a value that the kernel refuses.
pub fn set(interface: &str, queue: u32, setting: Napi, value: u64) -> io::Result<()> {
    let value = u32::try_from(value).map_err(|_| error(libc::ERANGE))?;
    let mut family = Family::open()?;
    let id = family.instance(interface, queue)?;
    let attributes = [(NETDEV_A_NAPI_ID, id), (setting.attribute(), value)];
    family.ask(NETDEV_CMD_NAPI_SET, &attributes).map(|_| ())
}

/// A socket, and the number that the family has in this kernel.
struct Family {
    socket: Socket,
    number: u16,
    sequence: u32,
}

impl Family {
    fn open() -> io::Result<Self> {
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
            // No such family: the kernel is older than 6.6.
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

    /// The number of the instance that serves a receive queue.
    fn instance(&mut self, interface: &str, queue: u32) -> io::Result<u32> {
        let index = rustix::net::netdevice::name_to_index(&self.socket, interface)?;
        let attributes = [
            (NETDEV_A_QUEUE_ID, queue),
            (NETDEV_A_QUEUE_IFINDEX, index),
            (NETDEV_A_QUEUE_TYPE, RECEIVE),
        ];
        let answer = self.ask(NETDEV_CMD_QUEUE_GET, &attributes)?;
        let id = number(&answer, NETDEV_A_QUEUE_NAPI_ID).ok_or_else(|| error(libc::ENOENT))?;
        u32::try_from(id).map_err(|_| error(libc::EPROTO))
    }

    fn ask(&mut self, command: u8, attributes: &[(u16, u32)]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        attributes.iter().for_each(|(kind, value)| put(&mut bytes, *kind, &value.to_ne_bytes()));
        self.exchange(command, &bytes)
    }

    /// Sends a request with its attributes and gives those of the answer, none for a bare
    /// acknowledgement.
    fn exchange(&mut self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let mut request = Vec::with_capacity(HEADERS + attributes.len());
        request.extend_from_slice(&((HEADERS + attributes.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&self.number.to_ne_bytes());
        request.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(&[command, 1, 0, 0]);
        request.extend_from_slice(attributes);
        self.socket.send(&request, 0)?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0; 8192];
            let length = match self.socket.recv(&mut &mut buffer[..], 0) {
                Err(failure) if failure.kind() == io::ErrorKind::Interrupted => continue,
                other => other?.min(buffer.len()),
            };
            match part(&buffer[..length], self.sequence, &mut answer) {
                Some(0) => return Ok(answer),
                Some(code) => return Err(error(code)),
                None => {}
            }
        }
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
fn number(bytes: &[u8], wanted: u16) -> Option<u64> {
    let value = attribute(bytes, wanted)?;
    match value.len() {
        4 => Some(u64::from(u32::from_ne_bytes(*value.first_chunk()?))),
        8 => Some(u64::from_ne_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl fmt::Display for Napi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeferHardIrqs => "defer-hard-irqs",
            Self::GroFlushTimeout => "gro-flush-timeout",
            Self::IrqSuspendTimeout => "irq-suspend-timeout",
        })
    }
}

impl FromStr for Napi {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|setting| setting.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = get("no-such-if", 0, Napi::DeferHardIrqs).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)), "{error}");
    }

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
            number(&answer, kind);
            number(&bytes, kind);
        }
    }
}
