//! Addresses of other machines for which the kernel answers neighbour discovery.

use super::exchange::Exchange;
use super::frame::{Request, attribute};
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;
use std::net::Ipv6Addr;

const RTM_GETNEIGH: u16 = 30;
/// Length of `struct ndmsg`.
const HEADER: usize = 12;
/// Offset of its flags.
const FLAGS: usize = 10;
const NTF_PROXY: u8 = 1 << 3;
const NDA_DST: u16 = 1;
const BUFFER_BYTES: usize = 64 << 10;

/// Returns IPv6 addresses of other machines for which the kernel answers (`ip neighbour add
/// proxy`), with the index of the link, in this thread's network namespace. Empty unless
/// `net.ipv6.conf.all.proxy_ndp` is set, since the kernel forwards solicitations then.
///
/// # Errors
/// Errors of the socket.
pub fn proxied_addresses() -> io::Result<Vec<(u32, Ipv6Addr)>> {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/proxy_ndp");
    if setting.map_or(true, |text| text.trim() == "0") {
        return Ok(Vec::new());
    }
    let mut header = [0; HEADER];
    header[0] = libc::AF_INET6 as u8;
    header[FLAGS] = NTF_PROXY;
    let mut request = Request::new(RTM_GETNEIGH, NLM_F_DUMP);
    request.put(&header);
    let mut found = Vec::new();
    Exchange::open(NETLINK_ROUTE)?.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
        let Some((header, attributes)) = frame.payload.split_at_checked(HEADER) else { return };
        let link = header.get(4..).and_then(|rest| rest.first_chunk());
        let address = attribute(attributes, NDA_DST).and_then(|it| <[u8; 16]>::try_from(it).ok());
        if let (Some(link), Some(address)) = (link, address)
            && header[FLAGS] & NTF_PROXY != 0
        {
            found.push((u32::from_ne_bytes(*link), Ipv6Addr::from(address)));
        }
    })?;
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Namespace, interface_index};

    #[test]
    fn proxies_are_those_of_the_namespace_while_they_answer() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        namespace.ip("link add d0 type veth peer name d1").unwrap();
        namespace.ip("link set d0 up").unwrap();
        namespace.ip("neighbour add proxy 2001:db8::9 dev d0").unwrap();
        let found = || namespace.enter(|| proxied_addresses().unwrap()).unwrap();
        assert_eq!(found(), []);
        namespace.sysctl("net.ipv6.conf.all.proxy_ndp", "1").unwrap();
        let link = namespace.enter(|| interface_index("d0").unwrap()).unwrap();
        assert_eq!(found(), [(link, "2001:db8::9".parse().unwrap())]);
    }
}
