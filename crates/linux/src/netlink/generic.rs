//! Families of generic netlink (Documentation/userspace-api/netlink/intro.rst): `netdev`, `ethtool`.

use super::exchange::Exchange;
use super::frame::{Request, error, number};
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_GENERIC;
use std::io;

/// `GENL_ID_CTRL`: the family that assigns the numbers of the others.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`: command, version, two reserved.
const HEADER: usize = 4;
/// Answers of the families are shorter.
const BUFFER_BYTES: usize = 8192;
/// The kernel fills datagrams of a list up to 32 KiB.
const LIST_BUFFER_BYTES: usize = 64 << 10;

/// A socket, and the number of the family in this kernel.
pub(crate) struct Family {
    exchange: Exchange,
    number: u16,
}

impl Family {
    /// Opens the family of this name.
    ///
    /// # Errors
    /// EOPNOTSUPP if the kernel does not have it, as it is older or was built without.
    pub fn open(name: &str) -> io::Result<Self> {
        let exchange = Exchange::open(NETLINK_GENERIC)?;
        let mut family = Self { exchange, number: CONTROL };
        let answer = family
            .ask(CTRL_CMD_GETFAMILY, |request| {
                request.attribute(CTRL_ATTR_FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
            })
            .map_err(|failure| match failure.raw_os_error() {
                Some(libc::ENOENT) => error(libc::EOPNOTSUPP),
                _ => failure,
            })?;
        let number = number(&answer, CTRL_ATTR_FAMILY_ID);
        let number = number.and_then(|number| u16::try_from(number).ok());
        family.number = number.ok_or_else(|| error(libc::EPROTO))?;
        Ok(family)
    }

    /// Returns the index of an interface in the network namespace in which this was opened.
    pub fn interface_index(&self, interface: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(self.exchange.descriptor(), interface)?)
    }

    /// Sends a command with the attributes that `fill` appends. Returns the raw attributes of the
    /// answer; none for a bare acknowledgement.
    pub fn ask(&mut self, command: u8, fill: impl FnOnce(&mut Request)) -> io::Result<Vec<u8>> {
        let mut request = Request::new(self.number, 0);
        request.put(&[command, 1, 0, 0]);
        fill(&mut request);
        let mut answer = Vec::new();
        self.exchange.ask(request, &mut [0; BUFFER_BYTES], |frame| {
            answer.clear();
            answer.extend_from_slice(frame.payload.get(HEADER..).unwrap_or_default());
        })?;
        Ok(answer)
    }

    /// As [`Self::ask`], with attributes of 32 bits.
    pub fn ask_by_numbers(
        &mut self,
        command: u8,
        attributes: &[(u16, u32)],
    ) -> io::Result<Vec<u8>> {
        self.ask(command, |request| put_numbers(request, attributes))
    }

    /// Requests a list; returns the raw attributes of each answer.
    pub fn list(&mut self, command: u8, attributes: &[(u16, u32)]) -> io::Result<Vec<Vec<u8>>> {
        let mut request = Request::new(self.number, NLM_F_DUMP);
        request.put(&[command, 1, 0, 0]);
        put_numbers(&mut request, attributes);
        let mut answers = Vec::new();
        self.exchange.ask(request, &mut vec![0; LIST_BUFFER_BYTES], |frame| {
            answers.push(frame.payload.get(HEADER..).unwrap_or_default().to_vec());
        })?;
        Ok(answers)
    }
}

/// Appends attributes of 32 bits.
fn put_numbers(request: &mut Request, attributes: &[(u16, u32)]) {
    attributes.iter().for_each(|(kind, value)| request.attribute(*kind, &value.to_ne_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_no_kernel_has_is_not_supported() {
        let error = Family::open("no-such-family").map(|_| ()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}
