//! Where a queue is.

use wattline_dataplane::port::PortId;

/// Which queue of which interface is to be opened, and as which port.
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
}
