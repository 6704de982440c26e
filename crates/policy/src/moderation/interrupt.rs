//! Input of a moderation rule.

use wattline_units::Time;

/// Packets and bytes that one interrupt of a queue brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// When it was handled.
    pub at: Time,
    /// Packets received.
    pub received: u32,
    /// Their bytes.
    pub received_bytes: u32,
    /// Transmissions that were completed.
    pub sent: u32,
    /// Their bytes.
    pub sent_bytes: u32,
}
