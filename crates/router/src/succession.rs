//! Replacement of a router by another on the same interfaces, without losing packets.
//!
//! The kernel has all routes and forwards every frame that no program takes. Only the change itself
//! can lose packets: frames in rings that are no longer emptied, and frames in queues that a driver
//! recreates when the last program is detached from an interface or the first one attached. So the
//! old router replaces its programs by programs that pass all frames, waits until no processor runs
//! the old ones, empties its rings, and leaves the attachments with the service manager. The new
//! router replaces these programs by its own.

use std::time::Duration;
use wattline_daemon::notify::Notifier;
use wattline_linux::handed_over;
use wattline_linux::netlink::attached_program;
use wattline_xdp::KeptLink;

/// Longest time for the service manager to read a message.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wait if the kernel cannot be asked: far longer than a processor takes to see a change.
const SEEN_BY_ALL: Duration = Duration::from_millis(50);

/// Attachments of the previous router, until they are used or given up.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    links: Vec<KeptLink>,
    /// True if the manager's store contains attachments of ours.
    stored: bool,
}

impl Inherited {
    /// Takes the attachments that the service manager passes on.
    pub fn take() -> Self {
        let handed = handed_over::take().into_iter();
        let links: Vec<_> =
            handed.filter_map(|(name, descriptor)| KeptLink::adopt(&name, descriptor)).collect();
        Self { stored: !links.is_empty(), links }
    }

    /// Takes the attachment of an interface, by its number in this network namespace.
    pub fn take_for(&mut self, interface: u32) -> Option<KeptLink> {
        let place = self.links.iter().position(|link| joins(link, interface))?;
        Some(self.links.swap_remove(place))
    }

    /// Gives up the other attachments, once all ports are attached: their interfaces are no longer
    /// ports.
    pub fn give_up_rest(&mut self) {
        self.links.clear();
    }

    /// Has the manager close its descriptors of the attachments: otherwise the programs would
    /// outlive a killed router.
    pub fn settle(&mut self, notifier: &Notifier) {
        if std::mem::take(&mut self.stored) {
            KeptLink::NAMES.iter().for_each(|name| notifier.forget(name));
        }
    }
}

/// Returns true if an attachment belongs to an interface. Its interface may have been moved to
/// another namespace, and the number given to another interface.
fn joins(link: &KeptLink, interface: u32) -> bool {
    let Some(attached) = link.attached() else { return false };
    attached.interface == Some(interface)
        && attached_program(interface).is_ok_and(|program| program == Some(attached.program))
}

/// Waits until no processor runs a replaced program or has yet to flush its frames: programs run in
/// RCU read-side sections, and this waits for a grace period.
pub(super) fn await_programs() {
    use rustix::thread::{MembarrierCommand, membarrier};
    if let Err(error) = membarrier(MembarrierCommand::Global) {
        tracing::debug!("membarrier(2): {error}");
        std::thread::sleep(SEEN_BY_ALL);
    }
}

/// Leaves attachments with the service manager, for the next router. They end here if no manager
/// keeps them, and with the service if it is stopped and not started again.
pub(super) fn leave(links: Vec<KeptLink>, notifier: &Notifier) {
    use std::os::fd::AsFd;
    for name in KeptLink::NAMES {
        let of = links.iter().filter(|link| link.name() == name);
        let descriptors: Vec<_> = of.map(AsFd::as_fd).collect();
        if descriptors.is_empty() {
            continue;
        }
        let left = notifier
            .store(name, &descriptors)
            .and_then(|sent| Ok(!sent || notifier.wait_until_read(PATIENCE)?));
        match left {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "the service manager does not read notifications: a restart may recreate the \
                 queues of ports"
            ),
            Err(error) => tracing::warn!(
                "the attachments of ports cannot be left with the service manager: {error}; a \
                 restart may recreate their queues"
            ),
        }
    }
}
