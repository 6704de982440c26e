//! The packets of a case, counted slot by slot.

use crate::case::Case;
use crate::error::LeagueError;
use wattline_cores::Link;
use wattline_traffic::Block;
use wattline_units::Span;

/// Packets that arrive at the rings in each slot of the time that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// Length of a slot in picoseconds; the last one may be shorter.
    pub slot: u64,
    /// Length of all slots in picoseconds.
    pub duration: u64,
    /// Packets by slot.
    pub packets: Vec<u32>,
    /// Bytes by slot.
    pub bytes: Vec<u64>,
    /// Length of the shortest frame, in bytes; 64 without a packet.
    pub shortest: u16,
    /// Length of the longest frame, in bytes; 64 without a packet.
    pub longest: u16,
}

impl Arrivals {
    /// Counts the packets of a case after its warm-up, at the time the links deliver them, as the
    /// simulator's cards do.
    ///
    /// # Errors
    /// When the packets cannot be generated or read.
    pub fn of(case: &Case<'_>, slot: Span) -> Result<Self, LeagueError> {
        let slot = slot.as_picos().max(1);
        let (from, duration) = (case.warmup.as_picos(), case.duration.as_picos());
        let slots = duration.div_ceil(slot) as usize;
        let mut found = Self {
            slot,
            duration,
            packets: vec![0; slots],
            bytes: vec![0; slots],
            shortest: u16::MAX,
            longest: 0,
        };
        let nic = &case.server.nic;
        let mut links = vec![Link::new(nic); nic.ports];
        let mut source = case.traffic.build(case.seed)?;
        let mut block = Block::new();
        loop {
            source.next_block(&mut block)?;
            // A link delivers later than the source sends, never earlier.
            if block.first().is_none_or(|first| first.picos >= from + duration) {
                break;
            }
            for packet in block.iter() {
                let link = &mut links[usize::from(packet.port) % nic.ports];
                let Some(at) = link.carry(packet.picos, packet.length) else { continue };
                if at < from || at >= from + duration {
                    continue;
                }
                let slot = ((at - from) / slot) as usize;
                found.packets[slot] += 1;
                found.bytes[slot] += u64::from(packet.length);
                found.shortest = found.shortest.min(packet.length);
                found.longest = found.longest.max(packet.length);
            }
        }
        if found.longest == 0 {
            (found.shortest, found.longest) = (64, 64);
        }
        Ok(found)
    }

    /// Returns the number of packets.
    pub fn total(&self) -> u64 {
        self.packets.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the number of slots that a span covers in full.
    pub(crate) fn slots_within(&self, seconds: f64) -> usize {
        (seconds * 1e12 / self.slot as f64).floor().max(0.0) as usize
    }

    /// Returns the number of slots that a span touches at most if it begins with a slot.
    pub(crate) fn slots_around(&self, seconds: f64) -> usize {
        (seconds * 1e12 / self.slot as f64).ceil().max(1.0) as usize
    }

    /// Returns the length of slot number `index`, in seconds.
    pub(crate) fn seconds(&self, index: usize) -> f64 {
        let from = self.slot * index as u64;
        (self.duration - from).min(self.slot) as f64 * 1e-12
    }

    /// Returns the number of packets in the whole slots of the last `seconds`.
    pub fn in_last(&self, seconds: f64) -> u64 {
        let slots = self.slots_within(seconds).min(self.packets.len());
        self.packets[self.packets.len() - slots..].iter().map(|count| u64::from(*count)).sum()
    }
}
