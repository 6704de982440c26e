//! Results of a simulated receive path.

use super::arrivals::MEMORY_CYCLES;
use super::data::{AllCounts, Counts, Data, Distance, Memory, Phase};
use serde::Serialize;
use wattline_units::named;

named! {
    /// The nine steps between card and processor (Figure 2 of the paper).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Step {
        /// 1: the card reads ready descriptors.
        FetchDescriptors = "fetch-descriptors",
        /// 2: a frame arrives.
        Frame = "frame",
        /// 3: the frame is transferred into its buffer.
        Transfer = "transfer",
        /// 4: the descriptor is marked used.
        WriteBackDescriptor = "write-back-descriptor",
        /// 5: the card interrupts.
        Interrupt = "interrupt",
        /// 6: the driver reads the cause of the interrupt.
        ReadCause = "read-cause",
        /// 7: the driver maps descriptors to SKBs.
        Convert = "convert",
        /// 8: the driver refills the ring.
        Refill = "refill",
        /// 9: the driver enables the interrupt again.
        EnableInterrupt = "enable-interrupt",
    }
}

/// Counts of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Packets received and copied.
    pub packets: u64,
    pub(super) counts: AllCounts,
    pub(super) memory: [Memory; Data::COUNT],
    /// Bytes of data over PCI Express, without its own headers.
    pub pcie_bytes: u64,
    /// Distance between two uses of an SKB's line, at conversion.
    pub skb_distance: Distance,
    /// Distance between two uses of a page structure's line, at release.
    pub page_distance: Distance,
    /// Distinct steps of the first batch, in order.
    pub steps: Vec<Step>,
}

impl Outcome {
    /// Returns the counts of a kind of data in a phase.
    pub fn counts(&self, phase: Phase, data: Data) -> Counts {
        self.counts[phase as usize][data as usize]
    }

    /// Returns the demand misses of the last-level cache per packet.
    pub fn misses(&self, phase: Phase, data: Data) -> f64 {
        self.per_packet(self.counts(phase, data).llc_misses)
    }

    /// Returns the demand misses of the last-level cache per packet in a whole phase.
    pub fn phase_misses(&self, phase: Phase) -> f64 {
        Data::ALL.iter().map(|data| self.misses(phase, *data)).sum()
    }

    /// Returns the cycles per packet for which the accesses of a phase wait for memory.
    pub fn stall_cycles(&self, phase: Phase) -> f64 {
        let stalls = |counts: &Counts| counts.llc_misses * MEMORY_CYCLES + counts.waited_cycles;
        self.per_packet(self.counts[phase as usize].iter().map(stalls).sum())
    }

    /// Returns the misses per packet due to buffer management: on SKBs and page structures, in all
    /// phases.
    pub fn management_misses(&self) -> f64 {
        let both = [Data::Skb, Data::Page];
        Phase::ALL.iter().flat_map(|phase| both.map(|data| self.misses(*phase, data))).sum()
    }

    /// Returns the transfers of a kind of data to and from memory.
    pub fn memory(&self, data: Data) -> Memory {
        self.memory[data as usize]
    }

    /// Returns the lines of all data to and from memory per packet.
    pub fn memory_lines(&self) -> f64 {
        self.per_packet(self.memory.iter().map(Memory::total).sum())
    }

    /// Returns a count divided by the number of packets.
    pub fn per_packet(&self, count: u64) -> f64 {
        count as f64 / self.packets.max(1) as f64
    }
}
