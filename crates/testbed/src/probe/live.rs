//! Shared state of both ends while they run.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// UDP port on which the receiver listens (discard, RFC 863).
pub const PORT: u16 = 9;

/// Counts of both ends while they run, for observers.
#[derive(Debug, Default)]
pub struct Live {
    /// Packets sent so far.
    pub sent: AtomicU64,
    /// Packets received so far.
    pub received: AtomicU64,
    pub(super) stop_sending: AtomicBool,
    pub(super) all_sent: AtomicBool,
}
