//! XDP program of an interface.

use super::exchange::Exchange;
use super::frame::{Request, attribute};
use super::value::number;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
const HEADER: usize = 16;
const IFLA_XDP: u16 = 43;
/// Program's number if only one is attached; several modes at once have other attributes.
const IFLA_XDP_PROG_ID: u16 = 4;
const BUFFER_BYTES: usize = 64 << 10;

/// Returns the kernel's number of the XDP program of an interface, given by its index in this
/// thread's network namespace; `None` if there is none.
///
/// # Errors
/// ENODEV if there is no such interface.
pub fn attached_program(interface: u32) -> io::Result<Option<u32>> {
    let mut header = [0; HEADER];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let mut request = Request::new(RTM_GETLINK, 0);
    request.put(&header);
    let mut program = None;
    Exchange::open(NETLINK_ROUTE)?.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
        let attributes = frame.payload.get(HEADER..).unwrap_or_default();
        program = attribute(attributes, IFLA_XDP)
            .and_then(|xdp| number(attribute(xdp, IFLA_XDP_PROG_ID)?));
    })?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::interface_index;

    #[test]
    fn loopback_has_none_and_no_interface_is_an_error() {
        assert_eq!(attached_program(interface_index("lo").unwrap()).unwrap(), None);
        let error = attached_program(i32::MAX as u32).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
