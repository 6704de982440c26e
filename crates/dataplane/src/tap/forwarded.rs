//! A packet that an XDP program has forwarded, as its copy shows it.

use wattline_units::Time;

/// The packet at one port.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Number of the port.
    pub port: u16,
    /// Length of the frame.
    pub length: usize,
    /// The frame's first bytes.
    pub bytes: &'a [u8],
}

impl<'a> End<'a> {
    /// Makes a whole frame at a port.
    pub(super) fn whole(port: u16, bytes: &'a [u8]) -> Self {
        Self { port, length: bytes.len(), bytes }
    }
}

/// A packet that was forwarded.
#[derive(Debug, Clone, Copy)]
pub struct Forwarded<'a> {
    /// Time of the reader.
    pub now: Time,
    /// Nanoseconds since 1970.
    pub wall_nanos: u64,
    /// The packet as received.
    pub received: End<'a>,
    /// The packet as sent, or the number of its drop reason.
    pub sent: Result<End<'a>, u8>,
    /// Address of the next hop: 4 or 16 bytes, or none if unknown.
    pub next_hop: &'a [u8],
}
