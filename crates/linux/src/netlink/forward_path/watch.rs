//! Notifications of changes of the forward path.

use netlink_sys::Socket;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE, NETLINK_XFRM};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// RTNLGRP_LINK, TC, IPV4_RULE, IPV6_IFADDR, IPV6_IFINFO, IPV6_RULE, IPV4_NETCONF, IPV6_NETCONF. If
/// IPv6 is disabled on a link, only lost addresses are announced.
const ROUTE: [u32; 8] = [1, 4, 8, 9, 12, 19, 24, 25];
/// NFNLGRP_NFTABLES.
const NETFILTER: [u32; 1] = [7];
/// XFRMNLGRP_POLICY.
const XFRM: [u32; 1] = [4];

/// Subscription to the kernel's notifications, as far as it has them: tables of the old iptables
/// and some settings (sysctl) change without.
pub struct Watch {
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Subscribes. Features that the kernel lacks do not change, either.
    pub fn new() -> Self {
        let listen = |protocol: isize, groups: &[u32]| -> io::Result<Socket> {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            for group in groups {
                socket.add_membership(*group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let sources =
            [(NETLINK_ROUTE, &ROUTE[..]), (NETLINK_NETFILTER, &NETFILTER), (NETLINK_XFRM, &XFRM)];
        let mut sockets = Vec::new();
        for (protocol, groups) in sources {
            match listen(protocol, groups) {
                Ok(socket) => sockets.push(socket),
                Err(error) => tracing::debug!("cannot subscribe to netlink {protocol}: {error}"),
            }
        }
        Self { sockets, buffer: vec![0; 32 << 10] }
    }

    /// Lists descriptors that a change makes readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Returns true if anything may have changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        let Self { sockets, buffer } = self;
        let mut changed = false;
        for socket in sockets {
            loop {
                match socket.recv(&mut &mut buffer[..], 0) {
                    Ok(_) => changed = true,
                    // Some notifications were lost.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
        changed
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}
