//! Pacing of packets by a link.

use wattline_server::{ETHERNET_OVERHEAD_BYTES, Nic as NicModel};

/// Longest time in picoseconds for which the sender's side of a link holds a packet back. Later
/// packets are not sent: the link is saturated.
const LONGEST_HOLD: u64 = 1_000_000_000;

/// Fraction bits of the fixed-point time per byte on the link, in picoseconds.
const POINT: u32 = 16;

/// A link: frames follow each other no faster than it can carry them.
#[derive(Debug, Clone)]
pub struct Link {
    /// Time at which the link becomes free, in picoseconds.
    free: u64,
    picos_per_byte: u64,
}

impl Link {
    /// A link of a card.
    pub fn new(model: &NicModel) -> Self {
        let picos_per_byte = 8e12 / model.link.0 * f64::from(1u32 << POINT);
        Self { free: 0, picos_per_byte: picos_per_byte as u64 }
    }

    /// Arrival time in picoseconds of a packet of this length that is sent at `time`; `None` if the
    /// link is saturated.
    #[inline]
    pub fn carry(&mut self, time: u64, bytes: u16) -> Option<u64> {
        // A time beyond the end of any run saturates at the largest value.
        let arrival = time.max(self.free.saturating_add(self.busy(bytes)));
        if arrival - time > LONGEST_HOLD {
            return None;
        }
        self.free = arrival;
        Some(arrival)
    }

    /// Time in picoseconds for which a packet of this length occupies the link.
    #[inline]
    pub fn busy(&self, bytes: u16) -> u64 {
        let bytes = u64::from(bytes) + u64::from(ETHERNET_OVERHEAD_BYTES);
        (bytes * self.picos_per_byte) >> POINT
    }
}
