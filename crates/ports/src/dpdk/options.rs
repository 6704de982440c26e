//! Options of a device.

/// Options of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Receive and transmit queues, one pair for each worker.
    pub queues: u16,
    /// Largest IP packet in bytes; `None` for the device's own setting.
    pub mtu: Option<u16>,
    /// Whether it takes frames to other Ethernet addresses.
    pub promiscuous: bool,
}
