//! Lookup of an interface by name or alternative name (ip-link(8), altname).

use super::exchange::Exchange;
use super::frame::{Request, attribute};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
const HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_ALT_IFNAME: u16 = 53;
const BUFFER_BYTES: usize = 64 << 10;

/// Returns the name of the interface that has this name or alternative name in this thread's network
/// namespace.
///
/// # Errors
/// ENODEV if there is none.
pub fn interface_name(name: &str) -> io::Result<String> {
    let mut request = Request::new(RTM_GETLINK, 0);
    request.put(&[0; HEADER]);
    request.attribute(IFLA_ALT_IFNAME, &[name.as_bytes(), &[0]].concat());
    let mut found = None;
    Exchange::open(NETLINK_ROUTE)?.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
        let attributes = frame.payload.get(HEADER..).unwrap_or_default();
        found = attribute(attributes, IFLA_IFNAME).and_then(|name| {
            Some(std::str::from_utf8(name.split(|it| *it == 0).next()?).ok()?.to_owned())
        });
    })?;
    found.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use std::process::Command;

    #[test]
    fn interface_is_found_by_each_of_its_names() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let ip = |arguments: &str| {
            let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
            assert!(status.success(), "ip {arguments}");
        };
        namespace
            .enter(|| {
                ip("link add short type veth peer name far");
                let names = ["other", "a-name-of-more-than-fifteen-bytes"];
                for name in names {
                    ip(&format!("link property add dev short altname {name}"));
                }
                for name in names.into_iter().chain(["short"]) {
                    assert_eq!(interface_name(name).unwrap(), "short");
                }
                let error = interface_name("missing").unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
            })
            .unwrap();
    }
}
