//! IPsec state of the kernel (include/uapi/linux/xfrm.h): associations and policies of an IKE
//! daemon.
//!
//! Their messages hold keys, so they are decoded here into memory that is zeroed, not by a library
//! that would keep copies.

mod block;
mod decode;
mod model;
mod report;

pub use block::{Block, BlockOwner, Blocked, Only};
pub use model::{
    Association, Current, Key, Policy, PolicyAction, PolicyDirection, Snapshot, Template,
};
pub use report::Report;

use super::exchange::Exchange;
use super::frame::Request;
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::{Socket, protocols::NETLINK_XFRM};
use std::io;
use zeroize::Zeroizing;

/// XFRMNLGRP_EXPIRE, SA, POLICY.
const GROUPS: [u32; 3] = [2, 3, POLICY];
const POLICY: u32 = 4;
const XFRM_MSG_GETSA: u16 = 0x12;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
/// XFRM_USERPOLICY_ACCEPT; 0 is none, as in kernels without defaults.
const ACCEPT: u8 = 2;
/// More than the kernel puts into one datagram of a dump.
const BUFFER_BYTES: usize = 64 << 10;

/// Follows the kernel's associations and policies.
pub struct XfrmFollower {
    notifications: Socket,
    /// True if nothing has changed since the last complete list.
    dumped: bool,
}

impl XfrmFollower {
    /// Subscribes to changes; the first [`Self::poll`] returns everything.
    ///
    /// # Errors
    /// When the kernel has no XFRM or refuses the socket.
    pub fn new() -> io::Result<Self> {
        Self::with_groups(&GROUPS)
    }

    /// Subscribes to changes of policies alone, for [`Self::has_changed`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn policies() -> io::Result<Self> {
        Self::with_groups(&[POLICY])
    }

    fn with_groups(groups: &[u32]) -> io::Result<Self> {
        let mut notifications = Socket::new(NETLINK_XFRM)?;
        notifications.bind_auto()?;
        for group in groups {
            notifications.add_membership(*group)?;
        }
        notifications.set_non_blocking(true)?;
        Ok(Self { notifications, dumped: false })
    }

    /// Returns true if anything has changed since the last call, or notifications were lost.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn has_changed(&mut self) -> io::Result<bool> {
        self.listen(&mut Zeroizing::new(vec![0; BUFFER_BYTES]))?;
        Ok(!std::mem::replace(&mut self.dumped, true))
    }

    fn listen(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            match self.notifications.recv(&mut &mut buffer[..], 0) {
                // Until the list is complete: if the kernel does not answer now, it is asked again.
                Ok(_) => self.dumped = false,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Notifications were lost, so anything may have changed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.dumped = false,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns everything if anything has changed since the last call. The contents of
    /// notifications are not used, so that none can be missed.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn poll(&mut self) -> io::Result<Option<Snapshot>> {
        let mut buffer = Zeroizing::new(vec![0; BUFFER_BYTES]);
        self.listen(&mut buffer)?;
        if self.dumped {
            return Ok(None);
        }
        let mut snapshot = Snapshot::default();
        // No selection, as iproute2 asks. For a dump, the kernel takes an empty `struct
        // xfrm_usersa_id` for attributes, and complains in its log each time (xfrm_dump_sa).
        dump(XFRM_MSG_GETSA, 0, &mut buffer, |body| match decode::association(body) {
            Some(association) => snapshot.associations.push(association),
            None => snapshot.unreadable += 1,
        })?;
        // An empty `struct xfrm_userpolicy_id`: policies of any type.
        dump(XFRM_MSG_GETPOLICY, 64, &mut buffer, |body| match decode::policy(body) {
            Some(policy) if decode::is_ours(body) => snapshot.ours.push(policy),
            Some(policy) => snapshot.policies.push(policy),
            None => snapshot.unreadable += u64::from(!decode::is_of_socket(body)),
        })?;
        self.dumped = true;
        Ok(Some(snapshot))
    }
}

/// Lists the directions in which forwarded packets without a policy are dropped (`ip xfrm policy
/// setdefault`, Linux 5.15).
///
/// # Errors
/// Only from the kernel; `EINVAL` before Linux 5.15.
pub(super) fn blocked_by_default() -> io::Result<Vec<&'static str>> {
    let mut request = Request::new(XFRM_MSG_GETDEFAULT, 0);
    request.put(&[0; 4]);
    let mut blocked = Vec::new();
    Exchange::open(NETLINK_XFRM)?.ask(request, &mut vec![0; BUFFER_BYTES], |frame| {
        // `struct xfrm_userpolicy_default`: in, fwd, out.
        for (value, name) in frame.payload.iter().skip(1).zip(["fwd", "out"]) {
            if ![0, ACCEPT].contains(value) {
                blocked.push(name);
            }
        }
    })?;
    Ok(blocked)
}

/// Requests everything of a kind; `body` is the length of the structure that selects, if any.
fn dump(
    request: u16,
    body: usize,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut request = Request::new(request, NLM_F_DUMP);
    request.put(&vec![0; body]);
    // The only messages are of the requested kind: NEWSA, NEWPOLICY.
    Exchange::open(NETLINK_XFRM)?.ask(request, buffer, |frame| each(frame.payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses only features that every kernel has: policies need no built-in protocol.
    #[test]
    fn policies_of_the_kernel_are_followed() {
        let made = crate::namespace::Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let add = "xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 7 \
                   tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 5 mode tunnel";
        let followed = namespace.enter(|| {
            let mut follower = match XfrmFollower::new() {
                Ok(follower) => follower,
                Err(error) => {
                    return wattline_needs::machine(format_args!(
                        "the kernel has no XFRM ({error})"
                    ));
                }
            };
            assert!(follower.poll().unwrap().unwrap().policies.is_empty());
            assert!(follower.poll().unwrap().is_none());
            if let Err(error) = namespace.ip(add) {
                return wattline_needs::rights(&error);
            }
            let snapshot = follower.poll().unwrap().unwrap();
            assert_eq!((snapshot.policies.len(), snapshot.unreadable), (1, 0));
            let policy = &snapshot.policies[0];
            assert_eq!(policy.source.to_string(), "10.1.0.0/16");
            assert_eq!(policy.destination.to_string(), "10.2.0.0/16");
            assert_eq!((policy.priority, policy.direction), (7, PolicyDirection::Out));
            assert_eq!(policy.templates[0].reqid, 5);
            assert!(policy.templates[0].tunnel);
        });
        followed.unwrap();
    }
}
