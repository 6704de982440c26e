//! Errors of opening AF_XDP sockets.

use super::layout::Layout;
use super::options::Options;
use rustix::io::Errno;

/// Reason why a worker's queues could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No queue was requested.
    #[error("a worker needs at least one queue")]
    NoQueues,
    /// The ring size cannot be used.
    #[error(
        "ring size {0} is not allowed: it must be a power of two from {min} to {max}",
        min = Options::RING_MIN,
        max = Options::RING_MAX
    )]
    RingSize(u32),
    /// The interface's frames do not fit into the largest chunk, which is smaller before Linux 6.6.
    #[error(
        "the MTU {mtu} of {interface} is too large: AF_XDP sockets take an MTU of at most {limit} \
         here ({page} before Linux 6.6); lower it with `ip link set {interface} mtu {limit}`",
        page = Layout::PAGE.largest_mtu(0)
    )]
    MtuTooLarge {
        /// Name of the interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// Largest MTU in bytes that fits.
        limit: u32,
    },
    /// The process may not open such sockets.
    #[error("opening AF_XDP sockets needs the capability {capability}, which this process lacks")]
    MissingCapability {
        /// Its name, such as `CAP_NET_RAW`.
        capability: &'static str,
    },
    /// The kernel was built without AF_XDP or lacks a requested feature.
    #[error("this kernel lacks {feature} ({source})")]
    MissingFeature {
        /// The missing feature.
        feature: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
    /// Another process has a socket on this queue.
    #[error("queue {queue} of {interface} is in use by another process (another instance?)")]
    InUse {
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u32,
    },
    /// The interface has fewer queues.
    #[error(
        "{interface} has no queue {queue}: `ethtool -l {interface}` shows how many it has; \
         `ethtool -L {interface} combined N` changes that, or `ethtool -L {interface} rx N tx N` \
         if they are counted separately, as for a veth"
    )]
    NoSuchQueue {
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u32,
    },
    /// The interface is administratively down.
    #[error("{interface} is down: `ip link set {interface} up` before it is opened")]
    Down {
        /// Name of the interface.
        interface: String,
    },
    /// Zero-copy is required, but the driver does not support it.
    #[error("the driver of {interface} has no zero-copy AF_XDP on queue {queue} ({source})")]
    NoZeroCopy {
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u32,
        /// The kernel's error.
        source: Errno,
    },
    /// The memory exceeds the limit on locked memory.
    #[error(
        "{bytes} bytes of frame memory exceed the limit on locked memory (`ulimit -l`); raise it, \
         or give the process CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// Size of the frame memory.
        bytes: usize,
    },
    /// Frame memory could not be allocated.
    #[error("{action}: {source}")]
    Memory {
        /// Operation that failed.
        action: &'static str,
        /// The kernel's error.
        source: Errno,
    },
    /// Any other error.
    #[error("{action} for queue {queue} of {interface}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u32,
        /// The kernel's error.
        source: Errno,
    },
}

impl OpenError {
    /// Returns the interface of the failed queue; `None` for an error that all queues would have.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::MtuTooLarge { interface, .. }
            | Self::InUse { interface, .. }
            | Self::NoSuchQueue { interface, .. }
            | Self::Down { interface }
            | Self::NoZeroCopy { interface, .. }
            | Self::System { interface, .. } => Some(interface),
            Self::NoQueues
            | Self::RingSize(_)
            | Self::MissingCapability { .. }
            | Self::MissingFeature { .. }
            | Self::LockedMemory { .. }
            | Self::Memory { .. } => None,
        }
    }
}
