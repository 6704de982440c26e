//! Settings of single NAPI instances, which poll a queue's interrupt, by the generic netlink
//! family `netdev` (Documentation/netlink/specs/netdev.yaml; Documentation/networking/napi.rst).
//!
//! An instance is identified by interface and receive queue: its number changes whenever the
//! interface goes down and up. Settings need Linux 6.13 or newer, the rest 6.8.

use crate::netlink::frame::{error, number};
use crate::netlink::generic::Family;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Documentation/netlink/specs/netdev.yaml. Linux 6.3 or newer.
const FAMILY: &str = "netdev";
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const RECEIVE: u32 = 0;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_PID: u16 = 4;

/// A setting of a NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Napi {
    /// Number of successive empty polls after which the interrupt is enabled again.
    DeferHardIrqs,
    /// Nanoseconds after which a deferred instance is polled by a timer.
    GroFlushTimeout,
    /// Nanoseconds for which an application that polls keeps the interrupt off.
    IrqSuspendTimeout,
}

impl Napi {
    /// All settings.
    pub const ALL: [Self; 3] =
        [Self::DeferHardIrqs, Self::GroFlushTimeout, Self::IrqSuspendTimeout];

    /// Returns the attribute of the setting, `NETDEV_A_NAPI_*`.
    fn attribute(self) -> u16 {
        match self {
            Self::DeferHardIrqs => 5,
            Self::GroFlushTimeout => 6,
            Self::IrqSuspendTimeout => 7,
        }
    }
}

/// A NAPI instance of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Number, unique on the machine.
    pub id: u32,
    /// Receive queues that it serves.
    pub queues: Vec<u32>,
    /// Interrupt, if the driver links it to one.
    pub interrupt: Option<u32>,
    /// The kernel thread that polls it, if it has one (`/sys/class/net/*/threaded`).
    pub thread: Option<u32>,
}

/// Lists the NAPI instances of an interface, by number; none while it is down.
///
/// # Errors
/// ENODEV without such an interface, EOPNOTSUPP before Linux 6.8.
pub fn instances(interface: &str) -> io::Result<Vec<Instance>> {
    let mut family = Family::open(FAMILY)?;
    let index = family.interface_index(interface)?;
    let numbered = |answer: &[u8], kind| u32::try_from(number(answer, kind)?).ok();
    let queues = family.list(NETDEV_CMD_QUEUE_GET, &[(NETDEV_A_QUEUE_IFINDEX, index)])?;
    let receiving: Vec<(Option<u32>, Option<u32>)> = queues
        .iter()
        .filter(|answer| numbered(answer, NETDEV_A_QUEUE_TYPE) == Some(RECEIVE))
        .map(|it| (numbered(it, NETDEV_A_QUEUE_NAPI_ID), numbered(it, NETDEV_A_QUEUE_ID)))
        .collect();
    let listed = family.list(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_IFINDEX, index)])?;
    let instance = |answer: &Vec<u8>| {
        let id = numbered(answer, NETDEV_A_NAPI_ID)?;
        let own = receiving.iter().filter(|(napi, _)| *napi == Some(id));
        Some(Instance {
            id,
            queues: own.filter_map(|(_, queue)| *queue).collect(),
            interrupt: numbered(answer, NETDEV_A_NAPI_IRQ),
            thread: numbered(answer, NETDEV_A_NAPI_PID).filter(|thread| *thread != 0),
        })
    };
    let mut instances: Vec<Instance> = listed.iter().filter_map(instance).collect();
    instances.sort_unstable_by_key(|instance| instance.id);
    // As in `unlinked`.
    let linked = receiving.iter().any(|(napi, _)| napi.is_some());
    if !linked && instances.len() == receiving.len() {
        for (instance, queue) in instances.iter_mut().zip(0..) {
            instance.queues = vec![queue];
        }
    }
    Ok(instances)
}

/// Returns one setting of the NAPI instance that serves a receive queue.
///
/// # Errors
/// ENODEV without such an interface, ENOENT if the queue has no instance now (the interface is
/// down), EOPNOTSUPP if the kernel or the driver does not report it.
pub fn get(interface: &str, queue: u32, setting: Napi) -> io::Result<u64> {
    ask(interface, queue, setting.attribute())
}

/// Returns the interrupt of the NAPI instance that serves a receive queue.
///
/// # Errors
/// As [`get`]; Linux 6.8 or newer, and a driver that links instances to interrupts.
pub fn interrupt(interface: &str, queue: u32) -> io::Result<u32> {
    let interrupt = ask(interface, queue, NETDEV_A_NAPI_IRQ)?;
    u32::try_from(interrupt).map_err(|_| error(libc::EPROTO))
}

/// Returns the kernel thread that polls the NAPI instance of a receive queue, if there is one
/// (`/sys/class/net/*/threaded`).
///
/// # Errors
/// As [`get`]; Linux 6.8 or newer. EOPNOTSUPP if interrupts poll it.
pub fn thread(interface: &str, queue: u32) -> io::Result<u32> {
    let thread = ask(interface, queue, NETDEV_A_NAPI_PID)?;
    u32::try_from(thread).map_err(|_| error(libc::EPROTO))
}

/// Changes one setting and keeps the others.
///
/// # Errors
/// As [`get`], EPERM without CAP_NET_ADMIN, ERANGE for a value that the kernel refuses.
pub fn set(interface: &str, queue: u32, setting: Napi, value: u64) -> io::Result<()> {
    let value = u32::try_from(value).map_err(|_| error(libc::ERANGE))?;
    let mut family = Family::open(FAMILY)?;
    let id = instance(&mut family, interface, queue)?;
    let attributes = [(NETDEV_A_NAPI_ID, id), (setting.attribute(), value)];
    family.ask_by_numbers(NETDEV_CMD_NAPI_SET, &attributes).map(|_| ())
}

/// Returns an attribute of the instance that serves a receive queue.
fn ask(interface: &str, queue: u32, attribute: u16) -> io::Result<u64> {
    let mut family = Family::open(FAMILY)?;
    let id = instance(&mut family, interface, queue)?;
    let answer = family.ask_by_numbers(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_ID, id)])?;
    number(&answer, attribute).ok_or_else(|| error(libc::EOPNOTSUPP))
}

/// Returns the number of the instance that serves a receive queue.
fn instance(family: &mut Family, interface: &str, queue: u32) -> io::Result<u32> {
    let index = family.interface_index(interface)?;
    let attributes = [
        (NETDEV_A_QUEUE_ID, queue),
        (NETDEV_A_QUEUE_IFINDEX, index),
        (NETDEV_A_QUEUE_TYPE, RECEIVE),
    ];
    let answer = family.ask_by_numbers(NETDEV_CMD_QUEUE_GET, &attributes)?;
    match number(&answer, NETDEV_A_QUEUE_NAPI_ID) {
        Some(id) => u32::try_from(id).map_err(|_| error(libc::EPROTO)),
        None => unlinked(family, index, queue),
    }
}

/// Returns that number for drivers that link no instance to a queue, such as veth: instances are
/// numbered as they are made, in the order of the queues. If there are fewer than receive queues
/// (veth has them only with GRO or an XDP program), they cannot be assigned.
fn unlinked(family: &mut Family, index: u32, queue: u32) -> io::Result<u32> {
    let queues = family.list(NETDEV_CMD_QUEUE_GET, &[(NETDEV_A_QUEUE_IFINDEX, index)])?;
    let receives =
        |answer: &&Vec<u8>| number(answer, NETDEV_A_QUEUE_TYPE) == Some(u64::from(RECEIVE));
    let count = queues.iter().filter(receives).count();
    let instances = family.list(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_IFINDEX, index)])?;
    let ids = instances.iter().filter_map(|answer| number(answer, NETDEV_A_NAPI_ID));
    let mut ids: Vec<u32> = ids.filter_map(|id| u32::try_from(id).ok()).collect();
    ids.sort_unstable();
    let own = ids.get(queue as usize).filter(|_| ids.len() == count);
    own.copied().ok_or_else(|| error(libc::ENOENT))
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

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = get("no-such-if", 0, Napi::DeferHardIrqs).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)), "{error}");
    }
}
