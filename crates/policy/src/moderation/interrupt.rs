//! Input of a moderation rule.

use wattline_units::Time;

/// Packets and bytes handled by one interrupt of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Time at which it was handled.
    pub at: Time,
    /// Packets received.
    pub received: u32,
    /// Their bytes.
    pub received_bytes: u32,
    /// Completed transmissions.
    pub sent: u32,
    /// Their bytes.
    pub sent_bytes: u32,
}
