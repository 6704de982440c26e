//! One router after another on the same interfaces, without a packet lost between them.
//!
//! The kernel has all routes and forwards whatever no program takes, so that nothing but the change
//! itself can lose packets: frames that programs have sent to rings which nobody empties any more, and
//! queues that a driver makes anew when the last program leaves an interface or the first one comes.
//! So the one that ends puts programs in its own programs' place that pass all frames, waits until
//! no processor runs the old ones, empties its rings, and leaves the attachments with the service
//! manager; the one that begins puts its programs in their place.

use std::time::Duration;
use wattline_daemon::notify::Notifier;
use wattline_linux::handed_over;
use wattline_linux::netlink::attached_program;
use wattline_xdp::KeptLink;

/// Longest time for the service manager to read a message.
const PATIENCE: Duration = Duration::from_secs(2);
/// Far longer than a processor takes to see a change, where the kernel cannot be asked.
const SEEN_BY_ALL: Duration = Duration::from_millis(50);

/// Attachments that the last router has left, until they are used or given up.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    links: Vec<KeptLink>,
    /// True if the manager's store has something of ours.
    stored: bool,
}

impl Inherited {
    /// Takes the attachments that the service manager hands over.
    pub fn take() -> Self {
        let handed = handed_over::take().into_iter();
        let links: Vec<_> =
            handed.filter_map(|(name, descriptor)| KeptLink::adopt(&name, descriptor)).collect();
        Self { stored: !links.is_empty(), links }
    }

    /// The attachment of an interface, by its number in this network namespace.
    pub fn of(&mut self, interface: u32) -> Option<KeptLink> {
        let place = self.links.iter().position(|link| joins(link, interface))?;
        Some(self.links.swap_remove(place))
    }

    /// Gives up what is left, once all ports are attached: interfaces that are no ports any more.
    pub fn give_up_rest(&mut self) {
        self.links.clear();
    }

    /// Has the manager give up its own descriptors of what was taken over: else the programs would
    /// outlive a router that is killed.
    pub fn settle(&mut self, notifier: &Notifier) {
        if std::mem::take(&mut self.stored) {
            KeptLink::NAMES.iter().for_each(|name| notifier.forget(name));
        }
    }
}

/// Whether an attachment is that of an interface, which may have been moved to another namespace
/// meanwhile, and its number been given to another.
fn joins(link: &KeptLink, interface: u32) -> bool {
    let Some(attached) = link.attached() else { return false };
    attached.interface == Some(interface)
        && attached_program(interface).is_ok_and(|program| program == Some(attached.program))
}

/// Waits until no processor runs a program, or is about to flush what one has sent, that was replaced
/// before: programs run in sections that the kernel's RCU waits for, as this does.
pub(super) fn await_programs() {
    use rustix::thread::{MembarrierCommand, membarrier};
    if let Err(error) = membarrier(MembarrierCommand::Global) {
        tracing::debug!("membarrier(2): {error}");
        std::thread::sleep(SEEN_BY_ALL);
    }
}

/// Leaves attachments with the service manager, for the next router. They end here where there is no
/// manager, or none that keeps them; and with the service, where it is stopped and not started again.
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
            .and_then(|told| Ok(!told || notifier.wait_until_read(PATIENCE)?));
        match left {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "the service manager does not read what it is told: a restart may make the queues of \
                 ports anew"
            ),
            Err(error) => tracing::warn!(
                "the attachments of ports cannot be left with the service manager: {error}; a \
                 restart may make their queues anew"
            ),
        }
    }
}
