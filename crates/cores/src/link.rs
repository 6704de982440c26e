//! Pacing: what a link carries, and when.

use wattline_server::{ETHERNET_OVERHEAD_BYTES, Nic as NicModel};

/// Longest time that the sender's side of a link holds packets back; what would come later
/// is not sent: the link carries no more.
const LONGEST_HOLD: u64 = 1_000_000_000;

/// Fixed point with 16 bits after the point, in picoseconds per byte on the link.
const POINT: u32 = 16;

/// A link, on which frames follow each other no faster than it carries them.
#[derive(Debug, Clone)]
pub struct Link {
    /// When it is free again.
    free: u64,
    picos_per_byte: u64,
}

impl Link {
    /// A link of a card.
    pub fn new(model: &NicModel) -> Self {
        let picos_per_byte = 8e12 / model.link.0 * f64::from(1u32 << POINT);
        Self { free: 0, picos_per_byte: picos_per_byte as u64 }
    }

    /// When a packet of so many bytes that is sent at `time` has arrived, in picoseconds;
    /// `None` when the link carries no more.
    #[inline]
    pub fn carry(&mut self, time: u64, bytes: u16) -> Option<u64> {
        // Times beyond any run are the largest there is.
        let arrival = time.max(self.free.saturating_add(self.busy(bytes)));
        if arrival - time > LONGEST_HOLD {
            return None;
        }
        self.free = arrival;
        Some(arrival)
    }

    /// How long a packet of so many bytes occupies it, in picoseconds.
    #[inline]
    pub fn busy(&self, bytes: u16) -> u64 {
        let bytes = u64::from(bytes) + u64::from(ETHERNET_OVERHEAD_BYTES);
        (bytes * self.picos_per_byte) >> POINT
    }
}
