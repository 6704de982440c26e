//! Cost of misses: cycles and energy per received packet.
//!
//! The cycles of the groups are the paper's. The cost of a miss follows from its breakdown of the
//! copy. Energy per cycle and per line of memory is the power of the paper's second machine divided
//! by the cycles of the first, since no machine in the paper has both. Watts computed here
//! therefore only compare changes; they are not the power of a real machine.

use super::data::{Data, Phase};
use super::layout::PAYLOAD_BYTES;
use super::outcome::Outcome;
use serde::Serialize;
use wattline_units::{BitsPerSecond, Hertz, PacketsPerSecond, Watts};

/// Clock of the first machine as printed (section 3.2).
pub const CLOCK: Hertz = Hertz(2.66e9);
/// Throughput of one core with 4 MB of last-level cache (section 3.2).
pub const ONE_CORE: BitsPerSecond = BitsPerSecond(5.6e9);
/// Cycles of the driver per packet, for any I/O size (section 3.2).
pub const DRIVER_CYCLES: f64 = 1200.0;
/// Cycles of buffer release per packet, for any I/O size (section 3.2).
pub const RELEASE_CYCLES: f64 = 1100.0;
/// Share of the copy in all cycles at large I/O (section 1: "up to").
pub const COPY_SHARE: f64 = 0.34;
/// Shares of last-level misses, level-1 misses and instructions in the copy's cycles (section
/// 3.3.2).
pub const COPY_PARTS: [f64; 3] = [0.50, 0.27, 0.20];
/// Last-level misses per packet in the copy (section 3.3.2).
pub const COPY_MISSES: f64 = 3.5;
/// Cycles of an access to a register of the card (section 3.3.1).
pub const REGISTER_CYCLES: f64 = 2500.0;
/// Bytes of a full frame on Ethernet, with preamble and gap.
const WIRE_BYTES: f64 = 1538.0;

/// Returns the goodput of a link of this rate with full frames: 1460 of 1538 bytes.
pub fn line_rate(link: BitsPerSecond) -> BitsPerSecond {
    link * (f64::from(PAYLOAD_BYTES) / WIRE_BYTES)
}

/// Returns the full frames per second at a goodput.
pub fn packets(goodput: BitsPerSecond) -> PacketsPerSecond {
    PacketsPerSecond(goodput.0 / 8.0 / f64::from(PAYLOAD_BYTES))
}

/// Returns the cycles per packet of one core at its throughput.
pub fn total_cycles() -> f64 {
    CLOCK.0 / packets(ONE_CORE).0
}

/// Returns the cycles of the copy at large I/O.
pub fn copy_cycles() -> f64 {
    COPY_SHARE * total_cycles()
}

/// Returns the cycles of a last-level miss, derived: half of the copy divided by its 3.5 misses.
pub fn miss_cycles() -> f64 {
    COPY_PARTS[0] * copy_cycles() / COPY_MISSES
}

/// Returns the number of cores for a goodput.
pub fn cores(goodput: BitsPerSecond) -> f64 {
    (goodput / ONE_CORE).ceil()
}

/// Cycles per packet by group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cycles {
    /// Cycles of the driver.
    pub driver: f64,
    /// Cycles of copying the payload to the application.
    pub copy: f64,
    /// Cycles of returning buffers to the allocator.
    pub release: f64,
    /// Cycles of IP, TCP, system calls, application and other parts, which the text does not split.
    pub rest: f64,
}

impl Cycles {
    /// Returns the cycles of the paper's packet at large I/O.
    pub fn published() -> Self {
        let (driver, copy, release) = (DRIVER_CYCLES, copy_cycles(), RELEASE_CYCLES);
        Self { driver, copy, release, rest: total_cycles() - driver - copy - release }
    }

    /// Returns the sum of all groups.
    pub fn total(&self) -> f64 {
        self.driver + self.copy + self.release + self.rest
    }

    /// Returns the cycles of the published packet with the stalls of `changed` instead of `base`. A
    /// copy engine relieves the core of all copying.
    pub fn with(base: &Outcome, changed: &Outcome, engine: bool) -> Self {
        let published = Self::published();
        let less = |phases: &[Phase]| -> f64 {
            let of = |outcome: &Outcome| -> f64 {
                phases.iter().map(|phase| outcome.stall_cycles(*phase)).sum()
            };
            of(base) - of(changed)
        };
        let driver = published.driver - less(&[Phase::Conversion, Phase::Refill]);
        let copy = if engine { 0.0 } else { published.copy - less(&[Phase::Copy]) };
        let release = published.release - less(&[Phase::Release]);
        Self {
            driver: driver.max(0.0),
            copy: copy.max(0.0),
            release: release.max(0.0),
            rest: (published.rest - less(&[Phase::Protocol])).max(0.0),
        }
    }
}

/// Energy per cycle and per line of memory: dynamic power of receiving at line rate divided by the
/// work done. Derived from two machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Energy {
    /// Joules per cycle.
    pub joules_per_cycle: f64,
    /// Joules per line to or from memory.
    pub joules_per_line: f64,
    /// Packets per second at line rate.
    pub rate: PacketsPerSecond,
}

impl Energy {
    /// Computes the energy from the power of processors and memory at a goodput, and the lines per
    /// packet in `base`.
    pub fn from(cpu: Watts, memory: Watts, goodput: BitsPerSecond, base: &Outcome) -> Self {
        let rate = packets(goodput);
        Self {
            joules_per_cycle: cpu.0 / rate.0 / total_cycles(),
            joules_per_line: memory.0 / rate.0 / base.memory_lines(),
            rate,
        }
    }

    /// Returns the power of the processors for packets with this many cycles.
    pub fn cpu(&self, cycles: f64) -> Watts {
        Watts(self.joules_per_cycle * cycles * self.rate.0)
    }

    /// Returns the power of the memory for packets with this many lines.
    pub fn memory(&self, lines: f64) -> Watts {
        Watts(self.joules_per_line * lines * self.rate.0)
    }
}

/// Returns the slowdown of a packet on a core that executes instructions `factor` times slower,
/// with unchanged memory.
pub fn small_core_slowdown(outcome: &Outcome, factor: f64) -> f64 {
    let stalls: f64 = Phase::ALL.iter().map(|phase| outcome.stall_cycles(*phase)).sum();
    let stalls = stalls.min(total_cycles());
    ((total_cycles() - stalls) * factor + stalls) / total_cycles()
}

/// Returns the stall cycles of the driver on SKBs per packet.
pub fn skb_stalls(outcome: &Outcome) -> f64 {
    outcome.misses(Phase::Conversion, Data::Skb) * miss_cycles()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_packet_has_the_cycles_of_its_throughput() {
        assert!((total_cycles() - 5548.0).abs() < 1.0, "{}", total_cycles());
        assert!((Cycles::published().total() - total_cycles()).abs() < 1e-9);
        assert!((miss_cycles() - 269.5).abs() < 1.0, "{}", miss_cycles());
        assert!((line_rate(BitsPerSecond(10e9)).0 / 1e9 - 9.493).abs() < 1e-3);
        assert_eq!(cores(line_rate(BitsPerSecond(10e9))), 2.0);
    }
}
