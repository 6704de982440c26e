//! Address of a queue.

use wattline_dataplane::port::PortId;

/// A queue of an interface, and the port that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueAddress {
    /// The port that its frames will come from.
    pub port: PortId,
    /// Name of the interface, for messages.
    pub interface: String,
    /// Index of the interface in this thread's network namespace.
    pub ifindex: u32,
    /// Number of the queue, from 0.
    pub queue: u32,
    /// MTU of the interface in bytes.
    pub mtu: u32,
    /// True if frames are to be copied even if its driver offers zero copy.
    pub copies: bool,
}
