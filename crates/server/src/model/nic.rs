//! The network cards of a server.

use super::processor::micros;
use crate::input::Section;
use serde::Serialize;
use wattline_units::{BitsPerSecond, Span};

/// Bytes that a frame occupies on an Ethernet link beyond its own: preamble, start of frame
/// delimiter and inter-packet gap (IEEE 802.3).
pub const ETHERNET_OVERHEAD_BYTES: u32 = 20;

/// The network ports of a server, all of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nic {
    /// Number of ports.
    pub ports: usize,
    /// Bit rate of each port's link.
    pub link: BitsPerSecond,
    /// Receive queues per port.
    pub queues_per_port: usize,
    /// Entries of the indirection table that spreads flows over queues.
    pub redirect_table_entries: usize,
    /// Descriptors per receive ring; `None` for an unbounded ring.
    pub rx_ring: Option<usize>,
    /// Descriptors per transmit ring; `None` for an unbounded ring.
    pub tx_ring: Option<usize>,
    /// Possible settings of interrupt moderation; `None` if the card has none.
    pub moderation: Option<Moderation>,
    /// Time that every packet spends in cards and buses, outside queue and core.
    pub pass_through: Span,
}

/// Settings of interrupt moderation: the least time between two interrupts of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moderation {
    /// Shortest period.
    pub shortest: Span,
    /// Longest period.
    pub longest: Span,
    /// Difference between neighbouring periods.
    pub step: Span,
}

impl Moderation {
    /// Returns the setting nearest to the requested period.
    pub fn nearest(&self, period: Span) -> Span {
        let clamped = period.max(self.shortest).min(self.longest);
        let above = (clamped - self.shortest).as_picos();
        let step = self.step.as_picos().max(1);
        let steps = (above + step / 2) / step;
        (self.shortest + self.step * steps).min(self.longest)
    }

    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let shortest = section.number("shortest_us", 0.0..=1e6);
        let longest = section.number("longest_us", 0.0..=1e6);
        let step = section.number("step_us", 0.001..=1e6);
        let (shortest, longest, step) = (shortest?, longest?, step?);
        if shortest > longest {
            let why = format!("the longest period is shorter than the shortest, {shortest} us");
            section.contradiction("longest_us", why);
            return None;
        }
        let steps = (longest - shortest) / step;
        if (steps - steps.round()).abs() > 1e-6 {
            let why =
                format!("{shortest} to {longest} us is not a whole number of steps of {step} us");
            section.contradiction("step_us", why);
            return None;
        }
        Some(Self { shortest: micros(shortest), longest: micros(longest), step: micros(step) })
    }
}

impl Nic {
    /// Returns the highest rate of frames of this size on one link, per second.
    pub fn frames_per_second_of_link(&self, frame_bytes: u32) -> f64 {
        self.link.0 / (8.0 * f64::from(frame_bytes + ETHERNET_OVERHEAD_BYTES))
    }

    pub(crate) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let ports = section.count("ports", 1..=1024);
        let link = section.number("link_gbps", 0.001..=10_000.0);
        let queues = section.count("queues_per_port", 1..=4096);
        let entries = section.count("redirect_table_entries", 1..=65_536);
        let rx_ring = ring(section, "rx_ring_descriptors");
        let tx_ring = ring(section, "tx_ring_descriptors");
        let pass_through = section.number_or("pass_through_us", 0.0, 0.0..=1e6);
        let moderated = section.has("moderation");
        let moderation = section.section("moderation", Moderation::read);
        if let Some(entries) = entries
            && !entries.is_power_of_two()
        {
            section.contradiction(
                "redirect_table_entries",
                format!("{entries} is not a power of two, but the hash's low bits index the table"),
            );
        }
        if let (Some(queues), Some(entries)) = (queues, entries)
            && queues > entries
        {
            section.contradiction(
                "queues_per_port",
                format!("an indirection table of {entries} entries cannot reach {queues} queues"),
            );
        }
        if moderated && moderation.is_none() {
            return None;
        }
        Some(Self {
            ports: ports? as usize,
            link: BitsPerSecond(link? * 1e9),
            queues_per_port: queues? as usize,
            redirect_table_entries: entries? as usize,
            rx_ring: rx_ring?,
            tx_ring: tx_ring?,
            moderation,
            pass_through: micros(pass_through?),
        })
    }
}

/// Reads a ring's size, or `Some(None)` for the word `unbounded`.
fn ring(section: &Section<'_, '_>, key: &'static str) -> Option<Option<usize>> {
    if section.is_word(key, "unbounded") {
        return Some(None);
    }
    section.count(key, 1..=1_048_576).map(|descriptors| Some(descriptors as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moderation_rounds_to_a_setting() {
        let moderation = Moderation {
            shortest: Span::from_micros(6),
            longest: Span::from_micros(1022),
            step: Span::from_micros(2),
        };
        assert_eq!(moderation.nearest(Span::ZERO), Span::from_micros(6));
        assert_eq!(moderation.nearest(Span::from_nanos(9_100)), Span::from_micros(10));
        assert_eq!(moderation.nearest(Span::from_millis(5)), Span::from_micros(1022));
    }
}
